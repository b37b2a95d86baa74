# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the cells that its question demands. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.judge import (
    CHECKS,
    CONTROLLERS,
    CORRECTED,
    MEMORY,
    NODES,
    SOCKETS,
    THREADS,
    UNCORRECTED,
    limits,
    required,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import Section, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE, PASS

TOOLS = ("stress-ng", "HPL", "stress-ng and HPL", "kernel")
#: Cells of which a pass has just the value that was wanted.
_SURE = (THREADS, SOCKETS, NODES, CONTROLLERS, UNCORRECTED)
Cell = tuple[str, str]


def _passed(verdict: Mapping[str, Any]) -> dict[Cell, Any]:
    return {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}


def asked(profile: Mapping[str, Any], tests: Sequence[str]) -> dict[str, Any]:
    """The question as it is compared with others: the look at what the kernel counts, and each load."""
    return {"tests": section_of(wanted_of(profile), tests).tests}


def lacking(profile: Mapping[str, Any], tests: Sequence[str], verdict: Mapping[str, Any]) -> str:
    """What a claimed pass lacks; empty where it lacks nothing."""
    try:
        section = section_of(wanted_of(profile), tests)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    passed = _passed(verdict)
    gone = [row for row in required(section) if (row.id, row.entity) not in passed]
    if gone:
        return "required cells are not in it: " + ", ".join(f"{row.id} of {row.entity}" for row in gone[:4])
    for (name, entity), (least, most) in _limits(section).items():
        value = passed[name, entity]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
            return f"it passes {name} of {entity} outside {least:g} to {most:g}"
    return ""


def _limits(section: Section) -> dict[Cell, tuple[float, float]]:
    """By cell the lowest and the highest figure of a pass."""
    machine = section.machine
    found: dict[Cell, tuple[float, float]] = {(MEMORY, NODE): limits(machine)}
    if machine.machine_checks is not None:
        found[CHECKS, NODE] = (0, machine.machine_checks)
    if section.loads or section.solves:
        found.update({(CORRECTED, entity): (0, machine.corrected) for entity in machine.entities})
    for load in section.loads:
        found[load.cell, NODE] = (1e-9 if load.minimum is None else load.minimum, float("inf"))
        if load.memory:
            found[load.filled_cell, NODE] = (max(1e-9, load.least(machine)), float("inf"))
    found.update({(one.cell, NODE): (one.minimum, float("inf")) for one in section.solves})
    return found


def own(profile: Mapping[str, Any], tests: Sequence[str]) -> Own:
    """What a pass says that lacks nothing."""
    section = section_of(wanted_of(profile), tests)
    return Own(
        {
            (row.id, row.entity): Line(
                row.wanted,
                row.source,
                row.unit,
                "exit 0" if row.id == ENDED else row.wanted if row.id in _SURE else None,
            )
            for row in required(section)
        },
        TOOLS,
    )
