# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an order and a release write into a node's record at xCAT. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record, tables


def commented(raw: Mapping[str, str], **changes: Any) -> str:
    words = record.words(raw.get("usercomment", ""))
    return record.Words(**{**vars(words), **changes}).text()


def _order_of(node: NodeState, wanted: Wanted) -> dict[str, str]:
    """What tells this order again, and from when on xCAT's word on the node is about it."""
    identity = wanted.image.identity() if wanted.image is not None else {}
    known = {key: value for key, value in identity.items() if value}
    return {"order": tables.DEPLOY, **known, "since": node.raw.get("statustime", "")}


def ordered(node: NodeState, wanted: Wanted) -> dict[str, str]:
    image = wanted.image
    on_disk = image is not None and image.format == "whole-disk"
    return {
        "usercomment": commented(node.raw, note=_order_of(node, wanted)),
        "addkcmdline": record.command_line(node.raw, image.deploy_id if image is not None else "", on_disk),
        "provmethod": "",
    }


def cleared(node: NodeState) -> NodeState:
    """As the note has left it."""
    return replace(node, raw={**node.raw, "provmethod": ""})


def given(node: NodeState, _wanted: Wanted) -> dict[str, str]:
    note = record.words(node.raw.get("usercomment", "")).note
    return {"usercomment": commented(node.raw, note={**note, tables.GIVEN: "yes"} if note else {})}


def released(node: NodeState, _wanted: Wanted) -> dict[str, str]:
    note = {"order": tables.CLEAR, "since": node.raw.get("statustime", "")}
    return {
        "usercomment": commented(node.raw, note=note),
        "addkcmdline": record.command_line(node.raw, "", persists=False),
        "provmethod": "",
    }


def is_noted(node: NodeState, wanted: Wanted) -> bool:
    """Does the note of this very order stand, and nothing newer? Its image may have been set up since."""
    entry = ordered(node, wanted)
    named = wanted.image.named if wanted.image is not None else ""
    is_free = node.raw.get("provmethod", "") in (entry.pop("provmethod"), named)
    return is_free and all(node.raw.get(key, "") == value for key, value in entry.items())
