# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How lldpctl is asked, and how its answer is built. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once


def command(lldpctl: str) -> list[str]:
    """The form that stays a list also where there is but one."""
    return [lldpctl, "-f", "json0"]


def interfaces(text: str) -> list[Mapping[str, Any]]:
    """What it heard, a row for each neighbour of a port.

    :raises ValueError: for what is no answer of lldpctl; with a key that stands twice it is none.
    """
    try:
        return list(members(json.loads(text, object_pairs_hook=once)["lldp"], "interface"))
    except (KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc


def members(parts: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """:raises ValueError: where it is no list of mappings."""
    if not isinstance(parts, list):
        raise ValueError(f"{name} is no list")
    for part in parts:
        rows = part.get(name, [])
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise ValueError(f"{name} is no list")
        yield from rows


def value(row: Mapping[str, Any]) -> str:
    told = row.get("value")
    return " ".join(told.split()) if isinstance(told, str) else ""
