# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes a look at their peers has found too slow, as the ledger remembers it. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import OUTLIERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: The kinds of event in which the gate tells of one node, and of each of a fleet.
_KINDS = ("verdict", "measure")
_LONG = 160


def outliers(ledger: Ledger, ids: Sequence[str]) -> dict[str, tuple[int, str]]:
    """By id of the node the event, and what it found worst, where its newest look found an outlier."""
    newest: dict[str, Mapping[str, Any]] = {}
    for kind in _KINDS:
        for node_id, event in ledger.latest(ids, kind, [OUTLIERS]).items():
            if node_id not in newest or newest[node_id]["id"] < event["id"]:
                newest[node_id] = event
    failed = {one: event for one, event in newest.items() if event["data"].get("verdict") == "fail"}
    return {one: (int(event["id"]), _worst(event["data"])) for one, event in failed.items()}


def since(found: tuple[int, str] | None, imaging: Mapping[str, Any] | None) -> str:
    """What is still told of it: what was imaged since is another system, which has to be measured."""
    if found is None or (imaging is not None and imaging["id"] > found[0]):
        return ""
    return found[1]


def _worst(data: Mapping[str, Any]) -> str:
    """Failed cells are told, and nothing of those that could not be judged."""
    failed = {(row.get("id"), row.get("entity")) for row in data.get("checks") or [] if row.get("verdict") == "fail"}
    texts = [str(one.get("text")) for one in data.get("findings") or [] if (one.get("id"), one.get("entity")) in failed]
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"{short(texts[0], _LONG)}{more}" if texts else "slower than its peers"
