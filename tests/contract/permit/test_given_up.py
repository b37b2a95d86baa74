# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row that takes a node out of its scheduler asks nobody whether jobs run on it: a person has to say so first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract.permit.rig import ADOPTED, Controller

BUSY = {"state": "ALLOCATED", "reason": "", "by": "", "booted": "2026-11-20T10:12:58"}


@pytest.fixture
def taken_out(controller: Callable[..., Controller]) -> Controller:
    """gpu001 was adopted as the scheduler's node of that name, and its job runs; its row names no scheduler."""
    site = controller("gpu001", nodes={"gpu001": BUSY}, jobs=[{"id": "4711", "node": "gpu001"}])
    site.tells("gpu001", "state", "admitted", ADOPTED)
    site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    return site


def test_j1_a_row_without_a_scheduler_permits_no_power_under_a_job(taken_out: Controller) -> None:
    for state in ("present", "held", "resumed"):
        refused = taken_out.run("scheduler_node", state=state)
        assert refused.get("failed") and refused["error"]["kind"] == "wrong_machine", refused
        for word in ("gpufleet_scheduler", "gpu001 there", "state=present force_reason="):
            assert word in refused["msg"], refused["msg"]
    waited = taken_out.run("scheduler_wait", until="drained", timeout=0.0)["verdicts"]["gpu001"]
    assert not waited["ok"] and waited["kind"] == "wrong_machine", waited
    assert taken_out.power().get("failed") and not taken_out.switched()
    assert not taken_out.events("evidence"), "no look at nobody is a proof"


def test_j1_a_row_without_a_scheduler_lets_nobody_switch_on_what_a_person_holds(taken_out: Controller) -> None:
    taken_out.tells("gpu001", "evidence", "foreign_hold", {"reason": "hands inside"})
    taken_out.bmcs["gpu001"].machine.reset("ForceOff")
    taken_out.later(100)
    refused = taken_out.run("redfish_power", state="on", timeout=60.0)
    assert refused.get("failed") and "gpu001 there" in refused["msg"] and not taken_out.switched(), refused


def test_j1_a_node_that_was_held_is_asked_for_where_its_row_names_no_scheduler(taken_out: Controller) -> None:
    taken_out.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    taken_out.jobs([])
    taken_out.node(state="IDLE")
    taken_out.hold()
    taken_out.node(state="ALLOCATED", reason="", by="")
    taken_out.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    taken_out.later(100)
    assert taken_out.power().get("failed") and not taken_out.switched()


def test_j1_a_person_says_that_it_was_taken_out_and_back(taken_out: Controller) -> None:
    assert taken_out.run("scheduler_node", state="present", force_reason="left Slurm, ticket 9")["state"] == "absent"
    assert "left Slurm, ticket 9" in taken_out.data("named")[0]
    assert taken_out.run("scheduler_node", state="held")["state"] == "absent"
    assert taken_out.power()["changed"] and taken_out.events("evidence")[-1] == "not_in_scheduler"
    taken_out.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    taken_out.later(100)
    taken_out.bmcs["gpu001"].machine.reset("On")
    refused = taken_out.power()
    assert refused.get("failed") and "4711" in refused["msg"], "where it is back its jobs count"
    assert taken_out.run("scheduler_node", state="held", force_reason="back in Slurm")["changed"]
    taken_out.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    assert taken_out.run("scheduler_node", state="present")["error"]["kind"] == "wrong_machine", "and it is bound anew"


def test_j1_a_machine_that_never_had_a_scheduler_needs_no_word(controller: Callable[..., Controller]) -> None:
    site = controller("gpu001")
    site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    site.tells("gpu001", "state", "admitted", {"adopted": True, "scheduler_node": ""})
    assert site.run("scheduler_node", state="held")["state"] == "absent"
    assert site.power()["changed"]


def test_j1_a_machine_that_was_only_held_there_is_a_node_of_its_scheduler(
    controller: Callable[..., Controller],
) -> None:
    """Day 0 had begun with it, and was broken off."""
    site = controller("gpu001", nodes={"gpu001": BUSY})
    site.tells("gpu001", "state", "validating")
    site.tells("gpu001", "hold", "taken", {"hold_token": "gpufleet:r:w", "scheduler_node": "gpu001"})
    site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    assert site.run("scheduler_node", state="held")["error"]["kind"] == "wrong_machine"
