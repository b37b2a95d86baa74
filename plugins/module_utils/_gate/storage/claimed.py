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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.health import (
    ERRORS,
    SPARE,
    WARNING,
    WORN,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.judge import COUNT, DRIVE, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import Section, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

TOOLS = ("fio and nvme", "nvme")
Cell = tuple[str, str]


def _passed(verdict: Mapping[str, Any]) -> dict[Cell, Any]:
    return {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}


def asked(profile: Mapping[str, Any], tests: Sequence[str]) -> dict[str, Any]:
    """The question as it is compared with others: the look at the drives, and each speed."""
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
    drives = [str(passed[DRIVE, entity]) for group in section.drives for entity in group.entities]
    if len(set(drives)) != len(drives):
        return "it passes one drive twice"
    for (name, entity), (least, most) in _limits(section).items():
        value = passed[name, entity]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
            return f"it passes {name} of {entity} outside {least:g} to {most:g}"
    return ""


def _limits(section: Section) -> dict[Cell, tuple[float, float]]:
    """By cell the lowest and the highest figure of a pass."""
    found: dict[Cell, tuple[float, float]] = {}
    for group in section.drives:
        for entity in group.entities:
            found[SPARE, entity] = (1, 100)
            found[WORN, entity] = (0, group.worn)
            found[ERRORS, entity] = (0, group.media_errors)
    for speed in section.speeds:
        found.update({(speed.cell, entity): (speed.minimum, float("inf")) for entity in section.entities(speed)})
    return found


def own(profile: Mapping[str, Any], tests: Sequence[str]) -> Own:
    """What a pass says that lacks nothing."""
    section = section_of(wanted_of(profile), tests)
    known: dict[str, Any] = {ENDED: "exit 0", WARNING: 0}
    return Own(
        {
            (row.id, row.entity): Line(
                row.wanted, row.source, row.unit, row.wanted if row.id == COUNT else known.get(row.id)
            )
            for row in required(section)
        },
        TOOLS,
    )
