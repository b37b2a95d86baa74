# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node of the scheduler a machine is, its adoption or a hold has fixed: a slip in its row leads to no other."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from contract.permit.rig import ADOPTED, IDLE, Controller

Make = Callable[..., Controller]
#: What the machine calls itself that answers here.
OWN = platform.node()
SERVES = {"state": "ALLOCATED", "reason": "", "by": ""}
UNUSED = {"state": "DOWN", "reason": "Not responding", "by": "slurm", "booted": "None"}


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
    site = controller("gpu001", known=False, nodes={"n7": UNUSED, "n8": UNUSED})
    named(site, "n7")
    assert site.run("scheduler_node", state="held")["changed"]
    named(site, "n8")
    assert site.run("scheduler_node", state="held")["changed"] and site.events("named") == []


@pytest.fixture
def unheld(controller: Make) -> Controller:
    """Our runs have imaged gpu001, which the scheduler did not have then; gpu002 serves somebody else."""
    site = controller("gpu001", known=False, nodes={"gpu001": IDLE, "gpu002": SERVES, OWN: SERVES})
    site.jobs([{"id": "4711", "node": "gpu002"}])
    for state in ("enrolled", "imaging", "validating"):
        site.tells("gpu001", "state", state)
    return site


def test_r5_a_machine_that_was_admitted_and_never_held_is_the_node_that_it_served_as(unheld: Controller) -> None:
    """The scheduler learnt of it after its imaging, and nobody had to lift anything."""
    assert unheld.run("scheduler_node", state="present")["state"] == "idle"
    unheld.tells("gpu001", "state", "admitted")
    named(unheld, "gpu002")
    for state in ("held", "present"):
        refused(unheld.run("scheduler_node", state=state), "gpu002")
    assert unheld.asked("scontrol", "update") == [] and unheld.node("gpu002") == SERVES
    named(unheld, "gpu001")
    assert unheld.run("scheduler_node", state="held")["changed"]


def test_r5_the_first_hold_of_a_machine_takes_no_node_at_work_on_the_inventorys_word(unheld: Controller) -> None:
    named(unheld, "gpu002")
    held = unheld.run("scheduler_node", state="held")
    assert held["error"]["kind"] == "wrong_machine" and "jobs 4711" in held["error"]["seen"], held
    assert not quarantines(held) and "force_reason" in held["error"]["do"]
    assert unheld.asked("scontrol", "update") == [] and unheld.node("gpu002") == SERVES
    named(unheld, OWN)
    assert unheld.run("scheduler_node", state="held").get("failed"), "nothing shows that what answers is the machine"
    unheld.proves()
    assert unheld.run("scheduler_node", state="held")["changed"] and OWN in unheld.data("named")[0]
    assert unheld.asked("scontrol", "update")[0][2] == f"NodeName={OWN}"
    named(unheld, "gpu002")
    refused(unheld.run("scheduler_node", state="held"), OWN)


def test_r5_the_first_hold_of_a_machine_that_a_person_vouches_for_binds_it(unheld: Controller) -> None:
    assert unheld.run("scheduler_node", state="held").get("failed")
    assert unheld.run("scheduler_node", state="held", force_reason="new in slurm.conf, ticket 8")["changed"]
    named(unheld, "gpu002")
    refused(unheld.run("scheduler_node", state="held"), "gpu001")


def taken_by_nobody(site: Controller, *words: str) -> None:
    """Its first hold is refused, and nothing of it stands in the ledger as a proof."""
    before = len(site.asked("scontrol", "update"))
    held = site.run("scheduler_node", state="held")
    assert held.get("failed") and held["error"]["kind"] == "wrong_machine" and not quarantines(held), held
    for word in (*words, "gpufleet_scheduler_node", "force_reason"):
        assert word in held["msg"], held["msg"]
    assert len(site.asked("scontrol", "update")) == before and not site.events("evidence") and not site.events("hold")
    assert site.power().get("failed") and not site.switched()


def test_r5_a_machine_that_was_admitted_and_that_no_scheduler_knew_takes_no_node_that_its_row_names(
    unheld: Controller,
) -> None:
    unheld.tells("gpu001", "state", "admitted")
    named(unheld, "gpu002")
    taken_by_nobody(unheld, "gpu002", "4711")
    assert unheld.run("scheduler_node", state="present")["state"] == "allocated"
    after_that_look = unheld.run("scheduler_node", state="held")
    assert "4711" in after_that_look["error"]["seen"] and unheld.node("gpu002") == SERVES, "it binds it to nothing"
    named(unheld, "gpu001")
    assert unheld.run("scheduler_node", state="held")["changed"], "by its own name it goes on"


@pytest.fixture
def at_work(controller: Make) -> Controller:
    """Our runs have imaged gpu001, which its scheduler learnt of later, and which works; no other node does."""
    site = controller("gpu001", "gpu002", known=False, nodes=dict.fromkeys(("gpu001", "gpu002", "n7"), UNUSED))
    site.node("gpu001", state="ALLOCATED", reason="", by="", booted="2026-11-20T10:12:58")
    site.jobs([{"id": "4711", "node": "gpu001"}])
    for host in site.hosts:
        site.tells(host, "state", "validating")
    return site


@pytest.mark.parametrize(("name", "why"), [("gpu002", "is gpu001 there"), ("n7", "is gpu001 there")])
def test_r5_the_first_hold_of_a_machine_takes_no_node_that_is_new_or_down_and_another(
    at_work: Controller, name: str, why: str
) -> None:
    named(at_work, name)
    taken_by_nobody(at_work, name, why)


def test_r5_the_first_hold_of_a_machine_takes_none_that_this_run_holds_for_another(at_work: Controller) -> None:
    assert at_work.run("scheduler_node", "gpu002", state="held")["changed"], "day 0 of a machine under its own name"
    named(at_work, "gpu002")
    taken_by_nobody(at_work, "gpu002")


def test_r5_what_its_scheduler_calls_otherwise_is_held_where_the_machine_calls_itself_so(controller: Make) -> None:
    """Or where it reaches it by the machine's address."""
    nodes = {"n7": UNUSED, "n8": {**UNUSED, "address": "192.0.2.8"}}
    site = controller("gpu001", "gpu002", known=False, nodes=nodes)
    site.hosts["gpu002"].update(ansible_host="192.0.2.8", gpufleet_scheduler_node="n8")
    for host in site.hosts:
        site.tells(host, "state", "validating")
    named(site, "n7")
    taken_by_nobody(site, "n7", "under no name or address")
    assert site.run("scheduler_node", "gpu002", state="held")["changed"]
    site.node(OWN, **UNUSED)
    taken_by_nobody(site, "n7", f"is {OWN} there")
    named(site, OWN)
    site.proves()
    assert site.run("scheduler_node", state="held")["changed"]


def test_r5_a_stranger_is_held_as_no_other_node_than_its_own(controller: Make) -> None:
    """Its own works for somebody, and the one that its row names has never served."""
    site = controller("gpu001", known=False, nodes={"gpu001": SERVES, "gpu002": UNUSED})
    named(site, "gpu002")
    taken_by_nobody(site, "gpu002", "is gpu001 there")


def test_r5_a_stranger_is_asked_who_it_is_before_it_is_taken_for_a_node_that_is_down(controller: Make) -> None:
    """Nothing in the inventory is like its own node's name; that one works, and the row's slip has never served."""
    site = controller("gpu001", known=False, nodes={OWN: {**SERVES, "booted": "2026-11-20T10:12:58"}, "n2": UNUSED})
    site.jobs([{"id": "4711", "node": OWN}])
    named(site, "n2")
    taken_by_nobody(site, "n2", f"is {OWN} there")
    named(site, OWN)
    assert site.run("scheduler_node", state="held")["error"]["kind"] == "not_adopted", "its own works for somebody"


@pytest.mark.parametrize("known", [False, True])
def test_r5_what_this_run_holds_for_one_machine_is_no_proof_for_another(neighbours: Controller, known: bool) -> None:
    """Neither a look nor a hold makes it that machine's, and nobody lifts it under its name."""
    for state in ("enrolled", "imaging", "validating", "admitted") if known else ():
        neighbours.tells("gpu001", "state", state)
    neighbours.passport()
    seen = neighbours.run("scheduler_node", state="present")
    assert seen["owner"] == "foreign" and neighbours.events("evidence")[-1] == "foreign_hold", seen
    for state in ("held", "resumed"):
        assert neighbours.run("scheduler_node", state=state).get("failed"), state
    assert neighbours.power().get("failed") and not neighbours.switched()
    assert neighbours.node("n2")["state"] == "IDLE+DRAIN" and len(neighbours.asked("scontrol", "update")) == 1
    told = neighbours.run("scheduler_node", state="held")["error"]
    assert told["kind"] == "wrong_machine" and "for another host" in told["what"], told
    assert neighbours.power("gpu002")["changed"], "the machine that it is held for goes on"
