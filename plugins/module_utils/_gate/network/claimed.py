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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.judge import ERRORS, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

TOOLS = ("kernel and lldpctl", "kernel")


def asked(profile: Mapping[str, Any], tests: Sequence[str], plan: Mapping[str, str]) -> dict[str, Any]:
    """The question as it is compared with others: the links, and where each port must lead."""
    names = sorted(links.name for links in section_of(wanted_of(profile), tests))
    return {"tests": names, "neighbours": dict(sorted(plan.items()))}


def lacking(
    profile: Mapping[str, Any], tests: Sequence[str], plan: Mapping[str, str], verdict: Mapping[str, Any]
) -> str:
    """What a claimed pass lacks; empty where it lacks nothing."""
    try:
        links = section_of(wanted_of(profile), tests)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    passed = {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}
    gone = [row for row in required(links, plan) if (row.id, row.entity) not in passed]
    if gone:
        return "required cells are not in it: " + ", ".join(f"{row.id} of {row.entity}" for row in gone[:4])
    for one in links:
        for port in one.ports:
            value = passed[ERRORS, port]
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= one.errors:
                return f"it passes {ERRORS} of {port} outside 0 to {one.errors}"
    return ""


def own(profile: Mapping[str, Any], tests: Sequence[str], plan: Mapping[str, str]) -> Own:
    """What a pass says that lacks nothing. But for the errors it leaves no choice."""
    rows = required(section_of(wanted_of(profile), tests), plan)
    known = {ENDED: "exit 0", ERRORS: None}
    return Own(
        {(row.id, row.entity): Line(row.wanted, row.source, row.unit, known.get(row.id, row.wanted)) for row in rows},
        TOOLS,
    )
