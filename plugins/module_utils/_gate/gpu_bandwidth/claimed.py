# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the grid that its question demands. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.judge import cell_of, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

TOOLS = ("nvbandwidth",)


def _passed(verdict: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    return {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}


def asked(profile: Mapping[str, Any], cases: Sequence[str]) -> dict[str, Any]:
    """The question as it is compared with others: each case. A pass has all of them, or it is none."""
    return {"tests": sorted(floor.name for floor in floors_of(wanted_of(profile), cases))}


def lacking(profile: Mapping[str, Any], cases: Sequence[str], verdict: Mapping[str, Any]) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. A bandwidth below its floor is no pass."""
    try:
        wanted = wanted_of(profile)
        floors = floors_of(wanted, cases)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    passed = _passed(verdict)
    gone = [row for row in required(wanted, floors) if (row.id, row.entity) not in passed]
    if gone:
        return "required cells are not in it: " + ", ".join(f"{row.id} of {row.entity}" for row in gone[:4])
    for floor in floors:
        for number in range(wanted.gpu_count):
            value = passed[cell_of(floor), f"GPU {number}"]
            if not isinstance(value, (int, float)) or isinstance(value, bool) or value < floor.minimum:
                return f"it passes {floor.name} of GPU {number} with less than {floor.minimum:g} GB/s"
    return ""


def own(profile: Mapping[str, Any], cases: Sequence[str]) -> Own:
    """What a pass says that lacks nothing."""
    wanted = wanted_of(profile)
    known = {"gpu_count": wanted.gpu_count, "device_id": wanted.gpu_count, ENDED: "exit 0"}
    return Own(
        {
            (row.id, row.entity): Line(row.wanted, row.source, row.unit, known.get(row.id))
            for row in required(wanted, floors_of(wanted, cases))
        },
        TOOLS,
    )
