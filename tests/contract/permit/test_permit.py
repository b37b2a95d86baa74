# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lets a destructive write pass, task by task, over a real ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id
from contract.permit.rig import Controller

Make = Callable[..., Controller]


# -- what takes a proof back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held_again", [False, True])
def test_j4_a_resume_that_was_killed_after_its_intent_takes_the_proof_back(controller: Make, held_again: bool) -> None:
    """Slurm has taken the node into service, and no event but the intent says so."""
    site = controller()
    site.hold()
    site.kill_after("State=RESUME")
    assert site.run("scheduler_node", state="resumed", force_reason="a test") == {} and site.node()["state"] == "IDLE"
    assert site.events("evidence")[-1] == "drained" and site.events("intent")[-1] == "scheduler_node"
    if held_again:  # by a run that died as well
        site.kill_after("State=DRAIN")
        assert site.run("scheduler_node", state="held") == {} and site.events("intent") == ["scheduler_node"] * 3
    refused = site.power()
    assert refused.get("failed") and refused["error"]["kind"] == "evidence_missing", refused
    assert "resume" in refused["error"]["seen"] and not site.switched()


def test_j4_who_holds_the_node_after_a_resume_has_a_proof_again(controller: Make) -> None:
    site = controller()
    site.hold()
    assert site.run("scheduler_node", state="resumed", force_reason="a test")["state"] == "idle"
    assert site.power()["error"]["kind"] == "evidence_missing"
    site.hold()
    done = site.power()
    assert done["changed"] and done["evidence"].startswith("event:") and site.switched(), done


@pytest.mark.parametrize("seen", ["foreign_hold", "in_service", "not_drained"])
@pytest.mark.parametrize("since", ["still ours", "given back", "somebody else's"])
def test_law4_who_looked_before_our_hold_and_tells_it_after_that_has_not_seen_it(
    controller: Make, seen: str, since: str
) -> None:
    """A report over the whole fleet takes a while; what it tells late is no more than a reason to ask again."""
    site = controller()
    site.tells("gpu001", "state", "discovered")
    site.run("scheduler_node", state="present")
    before = json.loads(site.data("evidence")[-1])
    assert "after_event" in before
    site.hold()
    site.tells("gpu001", "evidence", seen, before)
    if since == "given back":
        site.node(state="IDLE", reason="", by="")
    elif since == "somebody else's":
        site.node(reason="hands inside", by="jane")
    done = site.power()
    assert done.get("failed", False) is (since != "still ours") and bool(site.switched()) is (since == "still ours")
    if since != "still ours":
        assert done["error"]["kind"] in ("evidence_missing", "evidence_old", "not_ours"), done


# -- what is too old is asked for again --------------------------------------------------------------------------------


def test_j2_a_proof_that_is_too_old_is_renewed_for_the_whole_batch_in_one_question(controller: Make) -> None:
    site = controller("gpu001", "gpu002", "gpu003", "gpu004")
    for host in ("gpu001", "gpu002", "gpu003"):
        site.hold(host)
    site.later(600)
    looks = len(site.asked("scontrol", "--all"))
    for host in ("gpu001", "gpu002", "gpu003"):
        done = site.power(host)
        assert done.get("changed") and done["evidence"].startswith("event:"), done
        assert site.events("evidence", host) == ["drained", "drained"]
    asked = [call[-1] for call in site.asked("scontrol", "--all")[looks:] if "node" in call]
    assert asked == ["gpu[001-003]"] or asked == ["gpu001,gpu002,gpu003"], asked
    refused = site.power("gpu004")
    assert refused["error"]["kind"] == "evidence_missing" and not site.switched("gpu004"), "no look, no proof"


_LATER: dict[str, dict[str, Any]] = {
    "in_service": {"state": "IDLE", "reason": "", "by": ""},
    "not_drained": {"state": "ALLOCATED+DRAIN"},
    "foreign_hold": {"reason": "Anna swaps a DIMM", "by": "anna"},
}


@pytest.mark.parametrize("seen", _LATER)
def test_j2_what_the_scheduler_says_now_counts(controller: Make, seen: str) -> None:
    """The proof was good ten minutes ago; a person has been there since."""
    jobs = [{"id": "4711", "node": "gpu001"}] if seen == "not_drained" else []
    site = controller("gpu001", jobs=[])
    site.hold()
    site.node(**_LATER[seen])
    site.jobs(jobs)
    site.later(600)
    refused = site.power()
    assert refused["error"]["kind"] == "evidence_missing" and seen in refused["error"]["seen"], refused
    assert "4711" in refused["msg"] or not jobs
    assert site.events("evidence") == ["drained", seen] and not site.switched()
    assert site.events("intent") == ["scheduler_node"]


def test_j2_a_scheduler_that_is_away_is_no_refusal(controller: Make) -> None:
    """It says nothing of the node; whoever runs it again goes on."""
    site = controller()
    site.hold()
    site.later(600)
    site.away()
    refused = site.power()
    assert refused["error"]["kind"] == "unreachable", refused
    assert site.events("evidence") == ["drained"] and not site.switched()


def test_j2_a_proof_that_nobody_can_renew_is_none(controller: Make) -> None:
    site = controller()
    site.hold()
    site.later(600)
    site.hosts["gpu001"]["gpufleet_scheduler_conf"] = "/nowhere/slurm.conf"
    refused = site.power()
    assert refused["error"]["kind"] == "evidence_missing" and "/nowhere/slurm.conf" in refused["msg"], refused
    assert not site.switched()
    forced = site.power(force_reason="smoke in the rack")
    assert forced["changed"] and forced["evidence"] == "forced:smoke in the rack"


RESUMES = """
import json, sqlite3, time
with sqlite3.connect({ledger!r}) as ledger:
    intent = json.dumps({{"options": {{"state": "resumed"}}}})
    ledger.execute(
        "INSERT INTO events (node_id, run_id, at, kind, name, data)"
        " SELECT node_id, 'another run', ?, 'intent', 'scheduler_node', ? FROM nodes", (time.time(), intent)
    )
"""


def test_j2_what_happened_while_the_scheduler_was_asked_takes_its_answer_back(controller: Make) -> None:
    """The look is older than the intent, and is written down after it."""
    site = controller()
    site.hold()
    site.later(600)
    site.meanwhile("show node", RESUMES.format(ledger=str(site.folder / "ledger.sqlite")))
    refused = site.power()
    assert refused["error"]["kind"] == "evidence_missing" and "another run" in refused["error"]["seen"], refused
    assert site.events("evidence") == ["drained", "drained"] and not site.switched()


def test_j2_a_look_that_took_long_is_as_old_as_its_beginning(controller: Make) -> None:
    """Slurm answered after more than a minute: nobody knows what became of the node since it looked."""
    site = controller()
    site.stands_still()
    site.hold()
    site.meanwhile("show node", site.later(600))
    done = site.power()
    assert done.get("changed") and site.events("evidence") == ["drained"] * 3, done


# -- absence -----------------------------------------------------------------------------------------------------------


def named(site: Controller, **more: Any) -> None:
    """What the inventory says of the node beside its serial."""
    site.hosts["gpu001"].update(more)


_NEAR: dict[str, dict[str, Any]] = {
    "short name": {"gpufleet_scheduler_node": "gpu001.cluster.example.com"},
    "the inventory's name": {"gpufleet_scheduler_node": "gpu0O1"},
    "case": {"gpufleet_scheduler_node": "GPU001"},
    "host name": {"gpufleet_scheduler_node": "rack1-u7"},
    "address": {"gpufleet_scheduler_node": "r1u7", "ansible_host": "10.0.0.7"},
}


@pytest.mark.parametrize("how", _NEAR)
def test_j1_a_name_that_the_scheduler_does_not_know_permits_nothing_where_it_has_one_like_it(
    controller: Make, how: str
) -> None:
    node = {"state": "ALLOCATED", "reason": "", "by": "", "address": "10.0.0.7", "host_name": "rack1-u7.example.com"}
    other = {"state": "IDLE", "reason": "", "by": "", "hidden": how == "case"}
    site = controller("gpu001", nodes={"gpu002": other, "gpu001": node}, jobs=[{"id": "4711", "node": "gpu001"}])
    if how in ("host name", "address"):  # and neither is the inventory's
        site.hosts = {"n1": {**site.hosts["gpu001"]}}
        site.bmcs = {"n1": site.bmcs["gpu001"]}
    [host] = site.hosts
    site.hosts[host].update(_NEAR[how])
    for task in (
        site.run("scheduler_node", host, state="held"),
        site.run("scheduler_wait", host, timeout=0.2, interval=0.1),
        site.power(host),
    ):
        told = task.get("msg") or task["verdicts"][host]["reason"]
        assert ("gpu001" in told and "no proof" in told) or "no such event" in told, task
    assert site.run("scheduler_node", host, state="held")["error"]["kind"] == "config"
    assert site.events("evidence", host) == [] and not site.switched(host)


def test_j1_a_node_that_is_like_none_is_absent_until_it_was_admitted(controller: Make) -> None:
    """A new one permits; one that was in service before has a name somewhere, and this is another cluster or a typo."""
    site = controller("gpu001", nodes={"gpu002": {"state": "IDLE", "reason": "", "by": ""}}, known=False)
    named(site, gpufleet_scheduler_node="gpu007", ansible_host="127.0.0.1")
    site.hosts["rack9"] = site.hosts.pop("gpu001")
    site.bmcs = {"rack9": site.bmcs["gpu001"]}
    assert site.run("scheduler_node", "rack9", state="held")["state"] == "absent"
    assert site.events("evidence", "rack9") == ["not_in_scheduler"]
    assert site.power("rack9")["changed"]
    site.tells("rack9", "state", "admitted")
    refused = site.run("scheduler_node", "rack9", state="held")
    assert refused["error"]["kind"] == "config" and "admitted this node before" in refused["msg"], refused
    waited = site.run("scheduler_wait", "rack9", timeout=0.2, interval=0.1)["verdicts"]["rack9"]
    assert not waited["ok"] and "admitted" in waited["reason"]
    site.later(600)
    site.bmcs["rack9"].machine.reset("On")
    assert "admitted this node before" in site.power("rack9")["msg"], "nor is the old proof renewed"
    assert site.events("evidence", "rack9") == ["not_in_scheduler"]
    named_none = {**site.hosts["rack9"], "gpufleet_scheduler": "none"}
    site.hosts["rack9"] = named_none
    assert site.run("scheduler_node", "rack9", state="held")["state"] == "absent"
    site.hosts["rack9"] = {**named_none, "gpufleet_scheduler": "slurm"}
    site.tells("rack9", "state", "retired")
    assert site.run("scheduler_node", "rack9", state="held")["state"] == "absent"


# -- the admitting write -----------------------------------------------------------------------------------------------


def test_j9_a_node_is_given_work_on_a_passport_that_is_newer_than_what_became_of_it(controller: Make) -> None:
    site = controller()
    site.hold()

    def refused() -> str:
        task = site.run("scheduler_node", state="resumed")
        assert task["error"]["kind"] == "evidence_missing" and site.node()["state"] == "IDLE+DRAIN", task
        return str(task["error"]["wanted"])

    site.tells("gpu001", "state", "enrolled")
    assert "one of: " in refused(), "a node that is only enrolled is not validated"
    for state in ("imaging", "validating"):
        site.tells("gpu001", "state", state)
    assert "a passport (" in refused()
    site.passport(expires=-1.0)
    assert "not expired" in refused()
    site.passport()
    for event, word in (("imaging", "imaged"), ("quarantined", "quarantine")):
        site.tells("gpu001", "state", event)
        site.tells("gpu001", "state", "validating")
        assert word in refused()
        site.passport()
    site.tells("gpu001", "state", "quarantined")
    assert "one of: " in refused(), "on whatever passport"
    site.tells("gpu001", "state", "admitted")
    assert "quarantine" in refused(), "whatever its state is called"
    site.passport()
    assert site.run("scheduler_node", state="resumed")["state"] == "idle"


def test_c6_a_node_is_given_work_on_a_look_since_its_passport(controller: Make) -> None:
    """A GPU may be lost, and the node booted, while it is issued."""
    site = controller()
    site.hold()
    for state in ("enrolled", "imaging", "validating"):
        site.tells("gpu001", "state", state)
    site.passport(looked=False)
    for seen in (None, "sha256:another"):
        if seen:
            site.look(passport=seen)
        refused = site.run("scheduler_node", state="resumed")
        assert "a last look at the node" in refused["error"]["wanted"] and site.node()["state"] == "IDLE+DRAIN"
    site.look()
    site.later(700)
    assert "a last look at the node" in site.run("scheduler_node", state="resumed")["error"]["wanted"], "too old"
    site.later(300)
    site.node(booted=time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 200)))
    booted = site.run("scheduler_node", state="resumed")
    assert "no gate has seen this boot" in booted["msg"] and site.node()["state"] == "IDLE+DRAIN", booted
    site.node(booted="2026-11-20T10:12:58")
    assert site.run("scheduler_node", state="resumed")["state"] == "idle"


def test_c6_a_node_is_given_work_on_a_passport_of_the_deployment_by_which_it_was_imaged(controller: Make) -> None:
    """Whatever was issued since, on whichever proof."""
    site = controller()
    site.hold()
    site.tells("gpu001", "state", "enrolled")
    site.tells("gpu001", "state", "imaging", {"deploy_id": "this-one"})
    site.tells("gpu001", "state", "validating")
    for named in ("", "an-earlier-one"):
        site.passport(of=named)
        refused = site.run("scheduler_node", state="resumed")
        assert "a passport of the deployment" in refused["error"]["wanted"] and site.node()["state"] == "IDLE+DRAIN"
    site.passport(of="this-one")
    assert site.run("scheduler_node", state="resumed")["state"] == "idle"


class AtNode(scheduler_node.ActionModule):
    """Over the node's own connection, which leads to this machine."""

    def _reaches_node(self) -> bool:
        return True


def test_c6_where_the_schedulers_clock_tells_nothing_the_node_is_asked_for_the_boot_of_its_last_look(
    controller: Make,
) -> None:
    site = controller()
    site.hold()
    site.node(booted="2099-01-01T00:00:00")
    for state in ("enrolled", "imaging", "validating"):
        site.tells("gpu001", "state", state)
    site.passport(looked=False)
    site.look(boot_id="another")
    assert "without delegate_to" in site.run("scheduler_node", state="resumed")["error"]["do"]
    refused = site.run("scheduler_node", action=AtNode, state="resumed")
    assert "no gate has seen this boot" in refused["msg"] and site.node()["state"] == "IDLE+DRAIN", refused
    site.look(boot_id=boot_id())
    assert site.run("scheduler_node", action=AtNode, state="resumed")["state"] == "idle"


def test_j9_a_reason_gives_it_back_and_is_recorded(controller: Make) -> None:
    site = controller()
    site.hold()
    assert site.run("scheduler_node", state="resumed", force_reason="the ledger was lost")["state"] == "idle"
    assert "the ledger was lost" in site.data("intent")[-1]


def test_j9_another_run_has_the_node(controller: Make) -> None:
    """What it does to the node cannot be known: the ledger is asked under our own lease."""
    site = controller()
    site.hold()
    site.tells("gpu001", "state", "validating")
    site.passport()
    site.taken()
    assert site.run("scheduler_node", state="resumed")["error"]["kind"] == "lease_held"
    assert site.node()["state"] == "IDLE+DRAIN"
