# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pass that a node claims, as the controller writes it down. PRIVATE to the collection.

What stands in a passport is signed, and whoever reads it takes it for the controller's. So of the node's words a pass
keeps what it measured in the cells that were asked for, and in what it stands beside them no more than a line.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Check

#: The longest value of a cell that passed, and the longest version of a tool.
_MEASURED, _VERSION = 120, 100
#: The most arguments of a tool, and the longest.
_ARGUMENTS, _ARGUMENT = 100, 1000


@dataclass(frozen=True)
class Line:
    """How a cell that passed is shown. known: what is measured in it, where a pass leaves no choice."""

    wanted: Any
    source: str = "profile"
    unit: str = ""
    known: Any = None


@dataclass(frozen=True)
class Own:
    """What a gate knows of each pass of a question: its cells, and by what it can have measured them."""

    cells: Mapping[tuple[str, str], Line]
    tools: Collection[str]


def strange(verdict: Mapping[str, Any], own: Own) -> str:
    """What stands beside the cells of a pass and can be no gate's; empty where nothing does."""
    tool, argv = verdict["tool"], verdict["argv"]
    if tool["name"] not in own.tools:
        return f"it was measured by {short(tool['name'], 100)}, and not by {' or '.join(sorted(own.tools))}"
    if max(len(tool["name"]), len(tool["version"])) > _VERSION:
        return "its tool has no such name or version"
    if len(argv) > _ARGUMENTS or any(len(word) > _ARGUMENT for word in argv):
        return "no tool was called like that"
    return _misfit(_rows(verdict), own)


def _rows(verdict: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    return {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}


def _misfit(rows: Mapping[tuple[str, str], Any], own: Own) -> str:
    """A cell that passes with another value than every pass has."""
    for cell, line in own.cells.items():
        if line.known is not None and rows[cell] != line.known:
            return f"it passes {cell[0]} of {cell[1]} with {short(rows[cell], 100)}"
    return ""


def written(verdict: Mapping[str, Any], own: Own) -> dict[str, Any]:
    """The pass with the cells of its question alone. verdict: one that lacks none of them."""
    rows = _rows(verdict)
    checks = [
        Check(id, entity, PASS, _value(rows[id, entity], line), line.wanted, line.unit, line.source).as_dict()
        for (id, entity), line in own.cells.items()
    ]
    return {**verdict, "checks": checks, "findings": []}


def _value(measured: Any, line: Line) -> Any:
    if line.known is not None:
        return line.known
    return measured if measured is None or isinstance(measured, (int, float)) else short(measured, _MEASURED)
