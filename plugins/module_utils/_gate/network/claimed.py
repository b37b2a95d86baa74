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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network import ber
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.judge import ERRORS, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import Links, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import Speed, speeds_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS


def tool_of(links: Sequence[Links], plan: Mapping[str, str], speeds: Sequence[Speed]) -> str:
    """The name of what looks and measures."""
    beside = [*(["lldpctl"] if plan else []), *([ber.TOOL] if any(map(ber.limits_of, links)) else [])]
    return " and ".join(["kernel", *beside, *sorted({speed.tool for speed in speeds})])


def asked(
    profile: Mapping[str, Any], tests: Sequence[str], plan: Mapping[str, str], speeds: Sequence[str] = ()
) -> dict[str, Any]:
    """The question as it is compared with others: the links, where each port must lead, and what is measured of it."""
    wanted = wanted_of(profile)
    names = [links.name for links in section_of(wanted, tests)]
    measured = [speed.cell for speed in speeds_of(wanted, speeds)]
    return {"tests": sorted(names + measured), "neighbours": dict(sorted(plan.items()))}


def lacking(
    profile: Mapping[str, Any],
    tests: Sequence[str],
    plan: Mapping[str, str],
    verdict: Mapping[str, Any],
    speeds: Sequence[str] = (),
) -> str:
    """What a claimed pass lacks; empty where it lacks nothing."""
    try:
        links, measured = section_of(wanted_of(profile), tests), speeds_of(wanted_of(profile), speeds)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    passed = {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}
    gone = [row for row in required(links, plan, measured) if (row.id, row.entity) not in passed]
    if gone:
        return "required cells are not in it: " + ", ".join(f"{row.id} of {row.entity}" for row in gone[:4])
    for one in links:
        for port in one.ports:
            value = passed[ERRORS, port]
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= one.errors:
                return f"it passes {ERRORS} of {port} outside 0 to {one.errors}"
    return _too_wrong(passed, links) or _too_slow(passed, measured)


def _too_wrong(passed: Mapping[tuple[str, str], Any], links: Sequence[Links]) -> str:
    for one in links:
        for cell, limit in ber.limits_of(one).items():
            for port in one.ports:
                value = passed[cell, port]
                if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= limit:
                    return f"it passes {cell} of {port} outside 0 to {limit:g}"
    return ""


def _too_slow(passed: Mapping[tuple[str, str], Any], measured: Sequence[Speed]) -> str:
    for speed in measured:
        for port in speed.links.ports:
            value = passed[speed.cell, port]
            if (
                not isinstance(value, (int, float))
                or isinstance(value, bool)
                or not speed.minimum <= value < float("inf")
            ):
                return f"it passes {speed.cell} of {port} below {speed.minimum:g}"
    return ""


def own(profile: Mapping[str, Any], tests: Sequence[str], plan: Mapping[str, str], speeds: Sequence[str] = ()) -> Own:
    """What a pass says that lacks nothing. But for errors and speeds it leaves no choice."""
    links, measured = section_of(wanted_of(profile), tests), speeds_of(wanted_of(profile), speeds)
    rows = required(links, plan, measured)
    known = {ENDED: "exit 0", **dict.fromkeys([ERRORS, *ber.KEYS, *(speed.cell for speed in measured)])}
    return Own(
        {(row.id, row.entity): Line(row.wanted, row.source, row.unit, known.get(row.id, row.wanted)) for row in rows},
        (tool_of(links, plan, measured),),
    )
