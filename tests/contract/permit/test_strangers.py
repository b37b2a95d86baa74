# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is at work, and known to the ledger from no work of ours, is somebody else's, whichever verb is asked."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_node, provisioner_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from contract.permit.rig import Controller
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED, FAILED_TESTING, READY
from maas_server.store import Machine

Make = Callable[..., Controller]
ADOPT = "ansible-playbook gpufleet.baremetal.adopt -i INVENTORY --limit gpu001"
JOB = [{"id": "4711", "node": "gpu001"}]
#: A node whose agent has never registered.
UNUSED = {"state": "DOWN", "reason": "Not responding", "by": "slurm", "booted": "None"}


def refused(result: dict[str, Any], *words: str) -> None:
    assert result.get("failed") and result["error"]["kind"] == "not_adopted" and not result["changed"], result
    for word in (ADOPT, "force_reason", *words):
        assert word in result["msg"], result["msg"]


# -- at the scheduler --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["work", "keep"])
@pytest.mark.parametrize(
    ("node", "jobs"),
    [
        ({"state": "IDLE"}, []),
        ({"state": "MIXED"}, JOB),
        ({"state": "IDLE*"}, []),  # its agent is silent for a moment
        ({"state": "DOWN", "reason": "Not responding", "by": "slurm"}, JOB),
    ],
)
def test_j7_who_serves_and_is_not_ours_is_held_by_no_verb(
    controller: Make, node: dict[str, str], jobs: list[dict[str, str]], kind: str
) -> None:
    site = controller(known=False, jobs=jobs)
    site.node(**node)
    refused(site.run("scheduler_node", state="held", kind=kind), "gpu001", node["state"], *(one["id"] for one in jobs))
    assert site.asked("scontrol", "update") == [] and site.events("intent") == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("UNKNOWN", ""),
        ("UNKNOWN*", ""),
        ("UNKNOWN*", "Not responding"),
        ("DOWN", "Not responding"),
        ("DOWN*", "Not responding"),
    ],
)
def test_j7_what_has_served_is_no_less_somebodys_while_its_scheduler_has_not_heard_of_it(
    controller: Make, state: str, reason: str
) -> None:
    """As after a start of slurmctld, until each node has registered, and after a switch that was away for too long."""
    site = controller(known=False)
    site.node(state=state, reason=reason, by="slurm" if reason else "")
    refused(site.run("scheduler_node", state="held"), state)
    site.bmcs["gpu001"].machine.reset("ForceOff")
    refused(site.run("pxe_boot", power="on", timeout=60.0), state)
    assert site.asked("scontrol", "update") == [] and not site.switched() and site.events("intent") == []


@pytest.mark.parametrize(
    ("state", "booted"),
    [
        *((one, "None") for one in ("DOWN", "DOWN*", "UNKNOWN", "UNKNOWN*", "IDLE+DRAIN")),
        ("IDLE+DRAIN", "2026-11-20T10:12:58"),
    ],
)
def test_j7_what_never_registered_or_its_scheduler_drained_is_nobodys(
    controller: Make, state: str, booted: str
) -> None:
    site = controller(known=False)
    site.node(state=state, reason="Not responding", by="slurm", booted=booted)
    assert site.run("scheduler_node", state="held")["changed"] and site.asked("scontrol", "update")


def test_j7_a_reason_takes_it_on_record(controller: Make) -> None:
    site = controller(known=False)
    assert site.run("scheduler_node", state="held", force_reason="moved here from cluster B")["changed"]
    assert any("moved here from cluster B" in told for told in site.data("intent"))


def test_j7_what_was_ours_once_is_ours_until_it_is_retired(controller: Make) -> None:
    site = controller(known=False)
    site.tells("gpu001", "state", "admitted")
    site.hold()
    site.node(state="IDLE", reason="", by="")
    site.tells("gpu001", "state", "retired")
    refused(site.run("scheduler_node", state="held"))


@pytest.mark.parametrize("state", ["imaging", "validating"])
def test_j7_a_hold_of_ours_that_its_owner_lifted_makes_nobody_ours(controller: Make, state: str) -> None:
    """Only a run that was killed between its resume and its note would have lifted it: it was validating."""
    site = controller(known=False)
    site.node(**UNUSED)
    site.hold()
    site.tells("gpu001", "state", state)
    site.node(state="MIXED", reason="", by="", booted="2026-11-20T10:12:58")
    site.jobs(JOB)
    asked = len(site.asked("scontrol", "update"))
    again = site.run("scheduler_node", state="held")
    if state == "validating":
        assert again["changed"], again
        return
    refused(again, "4711")
    site.later(100)
    refused(site.run("pxe_boot", power="none", timeout=60.0), "MIXED")
    assert len(site.asked("scontrol", "update")) == asked and not site.switched()


def test_j7_while_a_hold_of_ours_stands_the_node_is_ours_to_work_on(controller: Make) -> None:
    site = controller(known=False)
    site.node(**UNUSED)
    site.hold()
    site.node(booted="2026-11-20T10:12:58")
    site.bmcs["gpu001"].machine.reset("ForceOff")
    assert site.run("pxe_boot", power="on", timeout=60.0)["changed"]


def test_j7_the_report_names_the_playbook_that_adopts_it(controller: Make) -> None:
    site = controller(known=False)
    site.run("scheduler_node", state="held")
    with site._node_of("gpu001") as (ledger, node):
        told = status(ledger, {"gpu001": node})["gpu001"]
    assert told["next"] == ADOPT and "IDLE" in told["stopped"] and told["state"] == "discovered", told


# -- at the BMC --------------------------------------------------------------------------------------------------------

BMC_VERBS: list[tuple[str, dict[str, Any]]] = [
    ("redfish_power", {"state": "force_off"}),
    ("redfish_power", {"state": "on"}),
    ("pxe_boot", {"power": "none"}),
    ("pxe_boot", {"power": "on"}),
    ("pxe_boot", {"power": "restart"}),
]


@pytest.mark.parametrize(("verb", "options"), BMC_VERBS)
def test_j7_no_machine_of_a_stranger_is_switched_or_armed(controller: Make, verb: str, options: dict[str, Any]) -> None:
    """A node that a scheduler wakes when it has work for it is off, and in service."""
    site = controller(known=False)
    if options != {"state": "force_off"}:
        site.bmcs["gpu001"].machine.reset("ForceOff")
    refused(site.run(verb, timeout=60.0, **options), "slurm has it as gpu001: IDLE")
    assert not site.switched() and len(site.asked("scontrol", "--all", "-o", "show", "node")) == 1
    assert site.events("evidence") == ["in_service"] and site.events("intent") == []


PERSONS: list[tuple[dict[str, str], list[dict[str, str]]]] = [
    ({"state": "IDLE+DRAIN"}, []),
    ({"state": "MIXED+DRAIN"}, JOB),
    ({"state": "DOWN", "booted": "None"}, []),
]


@pytest.mark.parametrize(("verb", "options"), BMC_VERBS)
@pytest.mark.parametrize(("node", "jobs"), PERSONS)
def test_j7_no_machine_that_a_person_holds_is_switched_or_armed(
    controller: Make, verb: str, options: dict[str, Any], node: dict[str, str], jobs: list[dict[str, str]]
) -> None:
    site = controller(known=False, jobs=jobs)
    site.node(**node, reason="bob: hands inside, fan swap", by="bob")
    if options != {"state": "force_off"}:
        site.bmcs["gpu001"].machine.reset("ForceOff")
    done = site.run(verb, timeout=60.0, **options)
    refused(done, "bob: hands inside", "somebody else", *(one["id"] for one in jobs))
    assert not site.switched() and site.events("intent") == [] and site.events("evidence") == ["foreign_hold"]
    assert ('"serves"' in site.data("evidence")[0]) is bool(jobs)


def test_j7_a_stranger_whom_nobody_uses_is_asked_for_once_a_minute(controller: Make) -> None:
    site = controller(known=False)
    site.stands_still()
    site.node(**UNUSED)
    for _times in range(2):
        site.bmcs["gpu001"].machine.reset("ForceOff")
        assert site.run("redfish_power", state="on", timeout=60.0)["changed"]
        site.later(20)
    assert len(site.asked("scontrol", "--all", "-o", "show", "node")) == 1
    site.later(100)
    site.node(state="IDLE", reason="", by="", booted="2026-11-20T10:12:58")
    site.bmcs["gpu001"].machine.reset("ForceOff")
    refused(site.run("redfish_power", state="on", timeout=60.0))


# -- at the provisioner ------------------------------------------------------------------------------------------------


def machine(maas: MaasServer, site: Controller, status: int, owner: str = "fleet") -> Machine:
    made = Machine(maas.store.new_id(), "gpu001", status=status, owner=owner)
    made.hardware = {"system_serial": "S-gpu001"}
    with maas.store.changing() as machines:
        machines[made.system_id] = made
    key = {"gpufleet_provisioner_api_key": "a:b:c", "gpufleet_provisioner_url": maas.url}
    site.hosts["gpu001"].update(key, gpufleet_provisioner="maas")
    return made


def provisioned(site: Controller, **options: Any) -> dict[str, Any]:
    return site.run("provisioner_node", action=provisioner_node.ActionModule, **options)


STATES = ["enrolled", "ready", "deployed", "released", "maintenance", "serviceable"]
IMAGE = {"name": "gpu-golden", "version": "1", "url": "http://images/gpu-golden", "named": "custom/gpu-golden"}


@pytest.mark.parametrize("state", STATES)
def test_j7_what_the_same_user_deployed_without_our_note_is_not_taken(
    controller: Make, maas: MaasServer, state: str
) -> None:
    """The scheduler does not serve it: another colleague's machine, by the same key."""
    site = controller(known=False)
    site.node(**UNUSED)
    theirs = machine(maas, site, DEPLOYED)
    before = repr(theirs)
    refused(provisioned(site, state=state, image=IMAGE), "gpu001: Deployed", "owner fleet")
    assert repr(theirs) == before and site.events("intent") == []
    theirs.status, theirs.osystem = FAILED_TESTING, "ubuntu"  # what was deployed, and failed a test since
    tested = provisioned(site, state=state, image=IMAGE)
    assert tested["failed"] and tested["error"]["kind"] == "not_ours" and "owner fleet" in tested["msg"], tested
    assert theirs.status == FAILED_TESTING and site.events("intent") == []
    theirs.status, theirs.osystem = DEPLOYED, ""
    waited = site.run("provisioner_wait", action=provisioner_wait.ActionModule, until="released", timeout=2.0)
    verdict = waited["verdicts"]["gpu001"]
    assert not verdict["ok"] and "no note" in verdict["reason"] and verdict["kind"] == "not_ours", waited
    assert repr(theirs) == before


@pytest.mark.parametrize(("node", "jobs"), PERSONS)
def test_j7_a_record_of_a_machine_that_a_person_holds_is_not_taken_over(
    controller: Make, maas: MaasServer, node: dict[str, str], jobs: list[dict[str, str]]
) -> None:
    site = controller(known=False, jobs=jobs)
    site.node(**node, reason="bob: hands inside, fan swap", by="bob")
    theirs = machine(maas, site, READY, owner="")
    before = repr(theirs)
    refused(provisioned(site, state="maintenance"), "bob: hands inside")
    assert repr(theirs) == before and site.events("intent") == []


def test_j7_a_hold_on_what_somebody_else_deployed_and_nobody_serves_touches_no_machine(
    controller: Make, maas: MaasServer
) -> None:
    """It is a word in the scheduler's books, and asks no provisioner. Whatever would touch the machine is refused, and
    once its owner gives it work the hold is refused as well."""
    site = controller(known=False)
    site.node(**UNUSED)
    theirs = machine(maas, site, DEPLOYED)
    before = repr(theirs)
    url = site.hosts["gpu001"].pop("gpufleet_provisioner_url")
    site.hold()
    [update] = site.asked("scontrol", "update")
    assert {word.partition("=")[0] for word in update[2:]} == {"NodeName", "State", "Reason"}, update
    site.hosts["gpu001"]["gpufleet_provisioner_url"] = url
    for state in ("maintenance", "released"):
        refused(provisioned(site, state=state), "gpu001: Deployed", "owner fleet")
    for verb, options in (("redfish_power", {"state": "force_off"}), ("pxe_boot", {"power": "none"})):
        assert "maas" in site.run(verb, timeout=60.0, **options)["msg"]
    assert repr(theirs) == before and not site.switched()
    site.node(state="IDLE", reason="", by="", booted="2026-11-20T10:12:58")
    refused(site.run("scheduler_node", state="held"), "IDLE")
    assert len(site.asked("scontrol", "update")) == 1


@pytest.mark.parametrize("note", [("intent", "provisioner_node"), ("state", "admitted")])
def test_j7_what_our_ledger_has_a_note_of_is_ours(controller: Make, maas: MaasServer, note: tuple[str, str]) -> None:
    site = controller(known=False)
    ours = machine(maas, site, DEPLOYED)
    site.tells("gpu001", *note, {"options": {"state": "deployed"}, "orders": "deployed"})
    site.node(**UNUSED)
    assert provisioned(site, state="maintenance")["changed"] and "gpufleet:" in ours.description


@pytest.mark.parametrize("refused_before", [False, True])
def test_j7_an_order_of_ours_is_a_note_unless_it_was_refused(
    controller: Make, maas: MaasServer, refused_before: bool
) -> None:
    """As a jump host leaves it: the intent stands in the ledger before the verb sees whose the machine is."""
    site = controller(known=False)
    machine(maas, site, DEPLOYED)
    site.node(**UNUSED)
    with site._node_of("gpu001") as (ledger, node):
        told = [Event("intent", "provisioner_node", {"options": {"state": "deployed"}, "orders": "deployed"})]
        told += [Event("outcome", "provisioner_node", {"kind": "not_adopted"})] if refused_before else []
        ledger.append("an earlier run", [(node, event) for event in told])
    again = provisioned(site, state="maintenance")
    assert bool(again.get("failed")) is refused_before, again


def about_to_be_deployed(controller: Make, maas: MaasServer) -> Controller:
    """A machine that nobody uses, held by us, and an order of ours comes next."""
    site = controller(known=False)
    machine(maas, site, READY, owner="")
    site.node(**UNUSED)
    site.hold()
    return site


def deployed_meanwhile(maas: MaasServer, **notes: str) -> None:
    """By a colleague with the same key, or by an order of ours whose answer nobody heard."""
    with maas.store.changing() as machines:
        for one in machines.values():
            one.status, one.owner = DEPLOYED, "fleet"
            one.annotations.update(notes)


class Elsewhere(provisioner_node.ActionModule):
    """Delegated to a jump host."""

    answer: ClassVar[dict[str, Any]] = {}

    def _goes_elsewhere(self) -> bool:
        return True

    def _execute_module(self, *_args: Any, **_more: Any) -> dict[str, Any]:
        if not self.answer:
            os.kill(os.getpid(), signal.SIGKILL)
        return dict(self.answer)


class Away(Elsewhere):
    answer: ClassVar[dict[str, Any]] = {
        "failed": True, "changed": False, "msg": "MAAS does not answer", "error": {"kind": "unreachable"},
    }  # fmt: skip


class Obeyed(Elsewhere):
    answer: ClassVar[dict[str, Any]] = {"changed": True, "asked": ["deploy"], "ordered": "deployed"}


@pytest.mark.parametrize(("there", "noted"), [(Elsewhere, False), (Away, False), (Obeyed, True)])
def test_j7_an_order_that_went_elsewhere_is_a_note_once_its_answer_is_told(
    controller: Make, maas: MaasServer, there: Any, noted: bool
) -> None:
    site = about_to_be_deployed(controller, maas)
    site.run("provisioner_node", action=there, state="deployed", image=IMAGE)
    assert site.events("intent")[-1] == "provisioner_node"
    deployed_meanwhile(maas)
    again = provisioned(site, state="released")
    assert again["changed"] if noted else refused(again, "gpu001: Deployed") is None, again


@pytest.mark.parametrize("ours", [True, False])
def test_j7_what_day_0_was_about_to_deploy_is_ours_where_its_provisioner_tells_that_deployment(
    controller: Make, maas: MaasServer, ours: bool
) -> None:
    """The run ended before it was told what became of its order, which went to another machine."""
    site = about_to_be_deployed(controller, maas)
    site.tells("gpu001", "state", "imaging", {"deploy_id": "d0"})
    site.run("provisioner_node", action=Elsewhere, state="deployed", image=IMAGE, deploy_id="d0")
    deployed_meanwhile(maas, **{"gpufleet-deploy-id": "d0" if ours else "d1"})
    again = provisioned(site, state="released")
    assert again["changed"] if ours else refused(again, "gpu001: Deployed") is None, again


def test_j7_what_we_gave_back_is_whoever_deployed_it_since(controller: Make, maas: MaasServer) -> None:
    site = controller(known=False)
    machine(maas, site, DEPLOYED)
    site.tells("gpu001", "state", "admitted")
    site.node(**UNUSED)
    site.hold()
    assert provisioned(site, state="released")["changed"]
    deployed_meanwhile(maas)
    refused(provisioned(site, state="released"), "gpu001: Deployed")
    site.tells("gpu001", "intent", "provisioner_node", {"options": {"state": "deployed"}, "orders": "deployed"})
    assert provisioned(site, state="released")["changed"]


def test_j7_a_record_that_a_stranger_serves_under_is_not_taken_over(controller: Make, maas: MaasServer) -> None:
    """Imaged by other means, it is ready at the provisioner, and at work in the scheduler."""
    site = controller(known=False)
    machine(maas, site, READY, owner="")
    refused(provisioned(site, state="maintenance"), "slurm has it as gpu001: IDLE")
    assert site.events("intent") == [] and site.events("evidence") == ["in_service"]
