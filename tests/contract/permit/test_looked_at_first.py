# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever holds a node of ours may have their hands inside: its scheduler is asked before any write to its machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract.permit.rig import Controller

Make = Callable[..., Controller]
BOBS = {"state": "IDLE+DRAIN", "reason": "bob: hands inside, fan swap", "by": "bob"}
LOOK = ("scontrol", "--all", "-o", "show", "node")


def off(site: Controller) -> None:
    site.bmcs["gpu001"].machine.reset("ForceOff")


def switched_on(site: Controller) -> dict[str, Any]:
    return site.run("redfish_power", state="on", timeout=60.0)


@pytest.mark.parametrize("seen", ["never", "long ago, in service"])
def test_j1_a_node_of_ours_that_a_person_has_drained_since_is_not_switched_on(controller: Make, seen: str) -> None:
    """Nobody of us has seen it since, and the ledger's newest look, if there is one, says that nobody holds it."""
    site = controller()
    if seen != "never":
        site.tells("gpu001", "evidence", "in_service")
        site.later(100)
    site.node(**BOBS)
    off(site)
    refused = switched_on(site)
    assert refused.get("failed") and refused["error"]["kind"] == "not_ours", refused
    assert "bob: hands inside" in refused["msg"] and "hands inside" in refused["msg"] and not site.switched()
    assert len(site.asked(*LOOK)) == 1 and site.events("intent") == []


def test_j1_a_node_of_ours_that_nobody_holds_is_switched_on_and_asked_for_once_a_minute(controller: Make) -> None:
    site = controller()
    for turn in (1, 1, 2):
        off(site)
        site.later(100 if turn == 2 else 0)
        done = switched_on(site)
        assert not done.get("failed") and done["changed"], done
        assert len(site.asked(*LOOK)) == turn, "a look that is young enough serves the next write too"


def test_j1_a_node_of_ours_whose_scheduler_is_away_waits_for_it(controller: Make) -> None:
    site = controller()
    off(site)
    site.away()
    refused = switched_on(site)
    assert refused.get("failed") and refused["error"]["kind"] == "unreachable" and not site.switched(), refused
    forced = site.run("redfish_power", state="on", timeout=60.0, force_reason="slurmctld is gone for good")
    assert forced["changed"], forced
