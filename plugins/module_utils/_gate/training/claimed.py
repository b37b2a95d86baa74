# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds a pass that a node claims against the cells that its question demands. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Line, Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.judge import DEVICES, required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import RUN, training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import INCONCLUSIVE, NODE, PASS

TOOLS = ("reference training",)
_SETTING = "remediate_config"
_NO_MORE = frozenset({"none", "retest", _SETTING})


def asked(profile: Mapping[str, Any], name: str, *, ran: bool) -> dict[str, Any]:
    """The question as it is compared with others: the training, and whether the gate ran it, which proves more."""
    one = training_of(wanted_of(profile), name)
    return {"tests": sorted([one.name, *([one.name + RUN] if ran else [])])}


def lacking(profile: Mapping[str, Any], name: str, verdict: Mapping[str, Any], *, ran: bool) -> str:
    """What a claimed pass lacks; empty where it lacks nothing. What is slower than its limit is no pass."""
    try:
        wanted = wanted_of(profile)
        one = training_of(wanted, name)
    except ConfigError as exc:
        return f"what was asked of it is not known: {exc}"
    passed = {
        row["id"]: row["measured"] for row in verdict["checks"] if (row["entity"], row["verdict"]) == (NODE, PASS)
    }
    rows = list(required(wanted, one, ran=ran))
    gone = [row.id for row in rows if row.id not in passed]
    if gone:
        return "required cells are not in it: " + ", ".join(gone[:4])
    if one.step_ms is None:
        return f"the profile has no step_ms of {one.name}, without which none passes"
    bad = [row for row in rows if not row.fits(passed[row.id])]
    return f"it passes {bad[0].id} with {short(passed[bad[0].id], 100)}, wanted {bad[0].wanted}" if bad else ""


def of_the_site(verdict: Mapping[str, Any]) -> bool:
    """Is it a setting alone that kept a training from being judged: the program, its options, the profile, a log?

    That fewer GPUs are there than the profile counts is the node's, as is whatever asks for more than another try.
    """
    remedies = {str(row["remedy"]) for row in verdict["findings"]}
    whole = all(row["id"] != DEVICES for row in verdict["findings"])
    return verdict["verdict"] == INCONCLUSIVE and whole and _SETTING in remedies and remedies <= _NO_MORE


def own(profile: Mapping[str, Any], name: str, *, ran: bool) -> Own:
    """What a pass says that lacks nothing."""
    wanted = wanted_of(profile)
    rows = required(wanted, training_of(wanted, name), ran=ran)
    return Own({(row.id, NODE): Line(row.wanted, row.source, row.unit, row.known) for row in rows}, TOOLS)
