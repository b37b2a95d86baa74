# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the grid that its question demands. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.judge import required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import TOOLS, floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE, PASS


def asked(profile: Mapping[str, Any], tests: Sequence[str]) -> dict[str, Any]:
    """The question as it is compared with others: each collective. A pass has all of them, or it is none."""
    return {"tests": sorted(floor.name for floor in floors_of(wanted_of(profile), tests))}


def lacking(profile: Mapping[str, Any], tests: Sequence[str], verdict: Mapping[str, Any]) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. A bandwidth below its floor is no pass."""
    try:
        wanted = wanted_of(profile)
        floors = floors_of(wanted, tests)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    of_node = [row for row in verdict["checks"] if (row["entity"], row["verdict"]) == (NODE, PASS)]
    passed = {row["id"]: row["measured"] for row in of_node}
    gone = [row.id for row in required(wanted, floors) if row.id not in passed]
    if gone:
        return f"required cells are not in it: {', '.join(gone[:4])}"
    for floor in floors:
        value = passed[f"{floor.name}.busbw"]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value < floor.minimum:
            return f"it passes {floor.name} with less than {floor.minimum:g} GB/s"
    return ""


def own(profile: Mapping[str, Any], tests: Sequence[str]) -> Own:
    """What a pass says that lacks nothing."""
    wanted = wanted_of(profile)
    floors = floors_of(wanted, tests)
    return Own(
        {(row.id, NODE): Line(row.wanted, row.source, row.unit, row.known) for row in required(wanted, floors)},
        (TOOLS[floors[0].library],),
    )
