# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node of the scheduler a machine is, its adoption or a hold has fixed: a slip in its row leads to no other."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import pytest
from contract.permit.rig import Controller

Make = Callable[..., Controller]
#: What the machine calls itself that answers here.
OWN = platform.node()
SERVES = {"state": "ALLOCATED", "reason": "", "by": ""}
UNUSED = {"state": "DOWN", "reason": "Not responding", "by": "slurm", "booted": "None"}
ADOPTED = {"adopted": True, "scheduler_node": "gpu001", "machine_name": "gpu001"}


def named(site: Controller, name: str) -> None:
    """Its row names another node of the scheduler from now on."""
    site.hosts["gpu001"]["gpufleet_scheduler_node"] = name


def refused(result: dict[str, Any], *words: str) -> None:
    assert result.get("failed") and result["error"]["kind"] == "wrong_machine" and not result["changed"], result
    for word in ("gpu001", "gpufleet_scheduler_node", "state=present", *words):
        assert word in result["msg"], result["msg"]


@pytest.fixture
def adopted(controller: Make) -> Controller:
    """The job of gpu001 runs; the machine of gpu002 serves somebody who is not in the inventory."""
    nodes = {"gpu001": SERVES, "gpu002": SERVES, OWN: SERVES}
    site = controller("gpu001", nodes=nodes, jobs=[{"id": "4711", "node": "gpu001"}])
    site.tells("gpu001", "state", "admitted", ADOPTED)
    return site


@pytest.mark.parametrize("since", [[], [("hold", "taken"), ("hold", "released")]])
def test_m1_a_row_that_names_another_node_of_the_scheduler_takes_neither(
    adopted: Controller, since: list[tuple[str, str]]
) -> None:
    for kind, name in since:
        adopted.tells("gpu001", kind, name, {"hold_token": "gpufleet:r:w", "scheduler_node": "gpu001"})
    before = len(adopted.events("evidence"))
    named(adopted, "gpu002")
    for state in ("held", "present", "resumed"):
        refused(adopted.run("scheduler_node", state=state), "gpu002")
    waited = adopted.run("scheduler_wait", until="drained", timeout=0.0)["verdicts"]["gpu001"]
    assert not waited["ok"] and waited["kind"] == "wrong_machine" and "gpu001" in waited["reason"], waited
    assert adopted.power().get("failed") and not adopted.switched()
    assert adopted.asked("scontrol", "update") == [] and len(adopted.events("evidence")) == before


def test_m1_a_proof_is_renewed_at_the_node_that_was_held_alone(adopted: Controller) -> None:
    adopted.jobs([])
    adopted.hold()
    adopted.node("gpu002", state="IDLE+DRAIN", reason=adopted.node("gpu001")["reason"], by="root")
    adopted.node("gpu001", state="IDLE", reason="", by="")
    named(adopted, "gpu002")
    adopted.later(100)
    assert "gpu002" in adopted.power()["msg"] and not adopted.switched()


def test_m1_a_node_that_was_renamed_goes_on_where_the_machine_calls_itself_so(adopted: Controller) -> None:
    """The machine that answers was proven by its BMC in this run; one that is not known to be the node names nobody."""
    named(adopted, OWN)
    unknown = adopted.run("scheduler_node", state="held")
    assert unknown.get("failed") and adopted.asked("scontrol", "update") == [], unknown
    adopted.proves()
    held = adopted.run("scheduler_node", state="held")
    assert held["changed"] and adopted.node(OWN)["state"] == "IDLE+DRAIN" and adopted.node()["state"] == "ALLOCATED"
    assert adopted.events("named") == ["scheduler_node"] and OWN in adopted.data("named")[0]
    assert adopted.power()["changed"], "from now on that is its name"
    named(adopted, "gpu001")
    refused(adopted.run("scheduler_node", state="held"), OWN)


def test_m1_a_person_says_so_of_one_that_is_silent_or_has_another_name_itself(adopted: Controller) -> None:
    named(adopted, "gpu002")
    refused(adopted.run("scheduler_node", state="held"))
    assert adopted.run("scheduler_node", state="present", force_reason="renamed, ticket 7")["state"] == "allocated"
    assert "renamed, ticket 7" in adopted.data("named")[0]
    assert adopted.run("scheduler_node", state="held")["changed"] and adopted.events("named") == ["scheduler_node"]


def test_m1_a_slip_in_the_row_of_a_node_that_never_served_is_corrected(controller: Make) -> None:
    site = controller("gpu001", known=False, nodes={"gpu001": UNUSED, "gpu002": UNUSED})
    named(site, "gpu002")
    assert site.run("scheduler_node", state="held")["changed"]
    named(site, "gpu001")
    assert site.run("scheduler_node", state="held")["changed"] and site.events("named") == []
