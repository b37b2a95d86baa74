# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the cells that its question demands. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.judge import SPEED, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import burns_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

TOOLS = ("gpu-burn",)


def asked(profile: Mapping[str, Any], tests: Sequence[str]) -> dict[str, Any]:
    """The question as it is compared with others: each burn."""
    return {"tests": sorted(burn.name for burn in burns_of(wanted_of(profile), tests))}


def lacking(profile: Mapping[str, Any], tests: Sequence[str], verdict: Mapping[str, Any]) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. A speed below its floor is no pass."""
    try:
        wanted = wanted_of(profile)
        burns = burns_of(wanted, tests)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    passed = {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}
    gone = [row for row in required(wanted, burns) if (row.id, row.entity) not in passed]
    if gone:
        return "required cells are not in it: " + ", ".join(f"{row.id} of {row.entity}" for row in gone[:4])
    for burn in burns:
        for number in range(wanted.gpu_count):
            value = passed[burn.cell(SPEED), f"GPU {number}"]
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= burn.minimum:
                return f"it passes {burn.name} of GPU {number} with less than {burn.minimum:g} Gflop/s"
    return ""


def own(profile: Mapping[str, Any], tests: Sequence[str]) -> Own:
    """What a pass says that lacks nothing."""
    wanted = wanted_of(profile)
    rows = required(wanted, burns_of(wanted, tests))
    return Own({(row.id, row.entity): Line(row.wanted, row.source, row.unit, row.known) for row in rows}, TOOLS)
