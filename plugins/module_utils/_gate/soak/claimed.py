# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the grid that its question demands. PRIVATE to the collection.

Runs on the controller, and on nodes by what they import: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak import grid
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.section import NAME, plan_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

TOOLS = ("soak",)


def question(profile: Mapping[str, Any], hours: float, loads: Sequence[str]) -> dict[str, Any]:
    """What was asked, as far as the grid depends on it."""
    gpu = profile["gpu"]
    return {
        "hours": float(hours),
        "loads": [str(name) for name in loads],
        "profile": {
            "schema": profile["schema"],
            "sku": profile["sku"],
            "gpu": {"count": gpu["count"], "device_ids": gpu["device_ids"]},
            NAME: profile[NAME],
        },
    }


def asked(question: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The same as it is compared with other questions: the longer soak with all the loads of a shorter one is the
    stronger one."""
    hours = float(question["hours"])
    return {"level": int(hours) if hours.is_integer() else hours, "tests": sorted(question["loads"])}


def _required(question: Mapping[str, Any]) -> list[grid.Required]:
    wanted = wanted_of(question.get("profile"))
    return list(grid.required(wanted, plan_of(wanted), list(question["loads"]), float(question["hours"])))


def lacking(verdict: Mapping[str, Any], question: Mapping[str, Any]) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. A figure beyond its limit is no pass."""
    try:
        rows = _required(question)
    except (ConfigError, KeyError, TypeError, ValueError) as exc:
        return f"what was asked of it is not known: {exc}"
    passed = {(row["id"], row["entity"]): row["measured"] for row in verdict["checks"] if row["verdict"] == PASS}
    gone = [f"{row.id} of {row.entity}" for row in rows if (row.id, row.entity) not in passed]
    if gone:
        return f"required cells are not in it: {', '.join(gone[:4])}"
    beyond = [f"{row.id} of {row.entity}" for row in rows if not row.keeps(passed[row.id, row.entity])]
    if beyond:
        return f"it passes what does not keep its limit: {', '.join(beyond[:4])}"
    uuids = [str(passed[row.id, row.entity]) for row in rows if row.id == grid.UUID]
    return "its GPUs have not a UUID each" if len(set(uuids)) != len(uuids) else ""


def own(verdict: Mapping[str, Any], question: Mapping[str, Any]) -> Own:
    """What a pass says that lacks nothing."""
    return Own(
        {(row.id, row.entity): Line(row.wanted, row.source, row.unit, row.known) for row in _required(question)}, TOOLS
    )
