# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose is a node of the scheduler already, and whose are the words behind a hold that has ended?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from contract.permit.rig import ADOPTED, Controller
from contract.permit.test_another_cluster import BOOTED, leads_to, moves, refused
from contract.permit.test_called_otherwise import There

BUSY = {"state": "ALLOCATED", "reason": "", "by": "", "booted": BOOTED}
FREE = {"state": "IDLE", "reason": "", "by": "", "booted": BOOTED}


def adopted(site: Controller, host: str, node: str, cluster: str = "alpha") -> None:
    there = {"scheduler_node": node, "machine_name": node, "cluster": f"slurm {cluster}", "cluster_host": "ctl1"}
    site.tells(host, "state", "admitted", {**ADOPTED, **there})


# -- a machine that our ledger has admitted never ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["seen", "held", "held and seen"])
@pytest.mark.parametrize("there", ["knows none", "has a silent one"])
def test_j1_a_namesake_elsewhere_permits_nothing_of_a_stranger_either(
    controller: Callable[..., Controller], how: str, there: str
) -> None:
    """It works in alpha, and no run of ours has come so far as to validate it."""
    site = controller("gpu001", known=False)
    site.tells("gpu001", "state", "enrolled")
    if "held" in how:
        site.node(state="UNKNOWN", reason="", by="", booted="None")
        assert site.run("scheduler_node", state="held", why="day0")["changed"]
    site.node(**BUSY)
    site.jobs([{"id": "4711", "node": "gpu001"}])
    if "seen" in how:
        assert site.run("scheduler_node", state="present")["state"] == "allocated"
    leads_to(site, "beta", knows=False)
    if there != "knows none":
        site.node(state="UNKNOWN", reason="", by="", booted="None")
    site.jobs([])
    site.later(100)
    waited = site.run("scheduler_wait", until="drained", timeout=0.0)["verdicts"]["gpu001"]
    assert not waited["ok"] and waited["kind"] == "wrong_machine", waited
    refused(site.run("scheduler_node", state="held", why="day0"))
    refused(site.run("scheduler_node", state="present"))
    assert site.power().get("failed") and site.run("pxe_boot", timeout=60.0).get("failed") and not site.switched()


def test_j1_the_way_that_the_refusal_names_is_one_for_a_stranger(controller: Callable[..., Controller]) -> None:
    site = controller("gpu001", known=False)
    site.tells("gpu001", "state", "enrolled")
    site.node(**BUSY)
    site.run("scheduler_node", state="present")
    leads_to(site, "beta", knows=False)
    assert "-e gpufleet_scheduler=none" in refused(site.run("scheduler_node", state="held"))
    site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    assert site.run("scheduler_node", state="held").get("failed"), "nobody has said so yet"
    assert site.run("scheduler_node", state="present", force_reason="left alpha, ticket 9")["state"] == "absent"
    site.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    assert site.run("scheduler_node", state="held")["state"] == "absent" and site.power()["changed"]


# -- one node, two machines --------------------------------------------------------------------------------------------


@pytest.fixture
def two(controller: Callable[..., Controller]) -> Controller:
    """gpu001 works, and so does gpu002, which is another machine's."""
    site = controller("gpu001", "gpu002", known=False, nodes={"gpu001": BUSY, "gpu002": FREE})
    adopted(site, "gpu001", "gpu001")
    adopted(site, "gpu002", "gpu002")
    return site


def test_r5_no_reason_makes_a_machine_the_node_that_another_one_is(two: Controller) -> None:
    two.hosts["gpu001"]["gpufleet_scheduler_node"] = "gpu002"
    for options in ({"state": "held"}, {"state": "held", "force_reason": "day2"}):
        told = refused(two.run("scheduler_node", **options))
    told = refused(two.run("scheduler_node", state="present", force_reason="day2"))
    assert "gpu002 is gpu002 of slurm alpha" in told
    assert two.power().get("failed") and not two.switched() and two.node("gpu002")["state"] == "IDLE"


def test_r5_a_reason_that_was_given_for_a_hold_renames_no_node(controller: Callable[..., Controller]) -> None:
    """Nor to one that our ledger does not know: it is given to all hosts of a run."""
    site = controller("gpu001", nodes={"gpu001": BUSY, "gpu002": FREE})
    adopted(site, "gpu001", "gpu001")
    site.hosts["gpu001"]["gpufleet_scheduler_node"] = "gpu002"
    assert "state=present" in refused(site.run("scheduler_node", state="held", force_reason="day2"))
    assert site.power().get("failed") and not site.switched() and not site.events("named")


def test_r5_nobody_moves_to_the_cluster_where_another_machine_is_that_node(two: Controller) -> None:
    adopted(two, "gpu002", "gpu001", cluster="beta")
    leads_to(two, "beta")
    two.node("gpu001", **FREE)
    moved = {"moved_to": "slurm beta of ctl1", "force_reason": "moved, ticket 9"}
    assert "gpu002 is gpu001 of slurm beta" in refused(two.run("scheduler_node", state="present", **moved))
    assert not two.events("named")


def test_r5_of_two_that_exchanged_their_names_one_is_taken_out_meanwhile(two: Controller) -> None:
    """As the refusal says it."""
    two.node("gpu001", **FREE)
    two.hosts["gpu001"]["gpufleet_scheduler_node"], two.hosts["gpu002"]["gpufleet_scheduler_node"] = "gpu002", "gpu001"
    said = {"state": "present", "force_reason": "exchanged, ticket 9"}
    assert "-e gpufleet_scheduler=none" in refused(two.run("scheduler_node", **said))
    two.hosts["gpu002"]["gpufleet_scheduler"] = "none"
    assert not two.run("scheduler_node", "gpu002", **said).get("failed")
    two.hosts["gpu002"]["gpufleet_scheduler"] = "slurm"
    for host, node in (("gpu001", "gpu002"), ("gpu002", "gpu001")):
        assert two.run("scheduler_node", host, **said)["scheduler_node"] == node


def test_r5_a_machine_that_was_exchanged_under_its_rows_name_is_told_as_that(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    site.hosts["gpu001"]["gpufleet_serial"] = "S-NEW"
    site.node("gpu001", state="UNKNOWN", reason="", by="", booted="None")
    told = site.run("scheduler_node", state="held", why="day0")
    assert told.get("failed") and "identity" in told["msg"] and "state=retired" not in told["msg"], told


def test_r5_a_namesake_of_a_ledger_of_before_is_noted_by_a_hold_of_its_own(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001", "other", known=False, nodes={"gpu001": FREE, "n9": FREE})
    site.tells("other", "state", "admitted", {**ADOPTED, "scheduler_node": "n9"})
    site.hosts["other"]["gpufleet_scheduler_node"] = "n9"
    site.node("n9", state="IDLE+DRAIN", reason="gpufleet:r0:x", by="root")
    site.tells("other", "hold", "taken", {"hold_token": "gpufleet:r0:x", "scheduler_node": "n9"})
    site.hosts["gpu001"]["gpufleet_scheduler_node"] = "n9"
    leads_to(site, "beta")
    site.node("n9", **FREE)
    assert "was not noted then" in refused(site.run("scheduler_node", state="held", force_reason="new in beta"))
    leads_to(site, "alpha")
    site.node("n9", state="IDLE+DRAIN", reason="gpufleet:r0:x", by="root")
    assert not site.run("scheduler_node", "other", state="held", why="x").get("failed")
    leads_to(site, "beta")
    site.node("n9", **FREE)
    assert site.run("scheduler_node", state="held", force_reason="new in beta")["changed"]


def test_r5_a_node_whose_machine_left_the_fleet_is_free_for_another_one(two: Controller) -> None:
    two.tells("gpu002", "state", "retired")
    two.hosts["gpu001"]["gpufleet_scheduler_node"] = "gpu002"
    two.node("gpu001", **FREE)
    assert not two.run("scheduler_node", state="present", force_reason="renamed, ticket 9").get("failed")
    assert two.run("scheduler_node", state="held", why="reimage")["changed"]


def test_r5_a_machine_that_was_taken_out_of_its_scheduler_is_held_elsewhere_by_a_word_alone(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001", nodes={"gpu001": FREE})
    adopted(site, "gpu001", "gpu001")
    site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    assert site.run("scheduler_node", state="present", force_reason="left alpha")["state"] == "absent"
    site.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    leads_to(site, "beta")
    site.node("gpu001", state="MIXED", reason="", by="", booted=BOOTED)
    site.jobs([{"id": "4711", "node": "gpu001"}])
    refused(site.run("scheduler_node", state="held"))
    assert site.run("scheduler_node", state="held", force_reason="it is gpu001 in beta")["changed"]


# -- words behind a hold that has ended --------------------------------------------------------------------------------


@pytest.fixture
def ours(controller: Callable[..., Controller]) -> Controller:
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    site.hold()
    return site


def token_of(site: Controller) -> str:
    return str(json.loads(site.data("hold")[0])["hold_token"])


def is_theirs(site: Controller) -> None:
    site.later(100)
    told = site.run("scheduler_node", state="held")
    assert told.get("failed") and told["error"]["kind"] == "not_ours", told
    assert site.run("scheduler_node", state="resumed", force_reason="x").get("failed")
    assert site.power().get("failed") and not site.switched()
    assert site.node()["by"] == "jane"


@pytest.mark.parametrize("words", ["", " hands inside, do not power"])
@pytest.mark.parametrize("since", ["lifted", "another run holds it", "held and lifted by another run"])
def test_h1_who_writes_the_words_of_a_hold_that_has_ended_has_them_from_the_scheduler(
    ours: Controller, words: str, since: str
) -> None:
    token = token_of(ours)
    at = {"cluster": "slurm alpha", "cluster_host": "ctl1", "scheduler_node": "gpu001"}
    if since != "lifted":
        ours.tells("gpu001", "hold", "taken", {**at, "hold_token": "gpufleet:r9:reimage", "hold_author": "root"})
    if "lifted" in since:
        ours.tells("gpu001", "hold", "released", {**at, "hold_token": token})
    ours.node(state="IDLE+DRAIN", reason=f"{token}{words}", by="jane")
    is_theirs(ours)


@pytest.mark.parametrize("how", ["moved", "retired", "given up"])
def test_h1_who_writes_our_words_anew_has_made_them_their_own_wherever_the_machine_went(
    ours: Controller, how: str
) -> None:
    token = token_of(ours)
    ours.node(state="IDLE+DRAIN", reason=token, by="jane")
    if how == "moved":
        leads_to(ours, "beta")
        ours.node(**FREE)
        moves(ours, "beta")
        leads_to(ours, "alpha")
        ours.node(state="IDLE+DRAIN", reason=token, by="jane")
        moves(ours, "alpha")
    elif how == "retired":
        for state in ("retired", "discovered", "enrolled", "imaging", "validating"):
            ours.tells("gpu001", "state", state)
    else:
        ours.hosts["gpu001"]["gpufleet_scheduler"] = "none"
        ours.run("scheduler_node", state="present", force_reason="left it, ticket 9")
        ours.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    is_theirs(ours)


def test_h1_a_hold_whose_run_was_killed_before_it_was_noted_is_ours_still(ours: Controller) -> None:
    at = {"cluster": "slurm alpha", "cluster_host": "ctl1", "scheduler_node": "gpu001"}
    ours.tells("gpu001", "hold", "released", {**at, "hold_token": token_of(ours)})
    ours.node(**FREE)
    ours.kill_after("State=DRAIN")
    assert ours.run("scheduler_node", state="held", why="reimage") == {}
    assert ours.run("scheduler_node", state="present")["owner"] == "ours"


@pytest.mark.parametrize("then", ["it goes on", "a person writes behind it", "a person writes it anew"])
@pytest.mark.parametrize("order", [{"why": "retest"}, {"why": "xid79", "kind": "keep"}])
def test_h1_a_second_hold_of_a_run_that_was_killed_is_known_by_the_words_that_it_announced(
    ours: Controller, order: dict[str, str], then: str
) -> None:
    """The ledger knows another hold of that run, whose words these are not."""
    kill = ours.folder / "bin" / "scontrol"
    good = kill.read_text(encoding="utf-8")
    ours.kill_after("State=DRAIN")
    assert ours.run("scheduler_node", state="held", **order) == {}
    kill.write_text(good, encoding="utf-8")
    words = ours.node()["reason"]
    assert words.endswith(order["why"]) and token_of(ours) != words and ours.events("hold") == ["taken"]
    person = {"over_keep": True} if "kind" in order else {}
    if then == "it goes on":
        assert ours.run("scheduler_node", state="held", **order, **person)["owner"] == "ours"
        assert json.loads(ours.data("hold")[-1])["hold_token"] == words, "the ledger knows it now"
        return
    ours.node(reason=f"{words} hands inside" if "behind" in then else words, by="jane")
    assert ours.run("scheduler_node", state="held", **order, **person)["error"]["kind"] == "not_ours"
    is_theirs(ours)


def test_h1_what_was_held_again_because_it_booted_at_its_resume_is_ours_still(ours: Controller) -> None:
    """That call fails, and tells of no hold."""
    for state in ("enrolled", "imaging", "validating"):
        ours.tells("gpu001", "state", state)
    ours.passport()
    ours.node(booted=BOOTED)
    boots = f"p = {str(ours.slurm)!r}; w = json.load(open(p)); w['nodes']['gpu001']['booted'] = '2099-01-01T00:00:00'"
    ours.meanwhile("State=RESUME", f"import json; {boots}; json.dump(w, open(p, 'w'))")
    failed = ours.run("scheduler_node", state="resumed", timeout=5.0)
    assert failed.get("failed") and ours.node()["reason"].endswith("booted since the last look"), failed
    assert ours.run("scheduler_node", state="present")["owner"] == "ours"
    assert not ours.run("scheduler_node", state="held", why="reimage").get("failed")


def test_h2_a_quarantine_that_slurm_wrote_over_stays_one_whatever_was_held_elsewhere_since(ours: Controller) -> None:
    at = {"cluster": "slurm alpha", "cluster_host": "ctl1", "scheduler_node": "gpu001"}
    ours.tells("gpu001", "hold", "taken", {**at, "hold_token": "gpufleet:r1+quarantine:xid79"})
    leads_to(ours, "beta")
    ours.node(**FREE)
    moves(ours, "beta")
    ours.tells("gpu001", "hold", "taken", {**at, "cluster": "slurm beta", "hold_token": "gpufleet:r2:reimage"})
    leads_to(ours, "alpha")
    ours.node(state="DOWN+DRAIN", reason="Not responding", by="slurm")
    moves(ours, "alpha")
    told = ours.run("scheduler_node", state="held", why="reimage")
    assert told["changed"] is False and told["owner"] == "ours", "which stays what it is"
    ours.later(100)
    assert ours.power().get("failed") and not ours.switched()


@pytest.mark.parametrize("then", ["a person writes behind it", "Slurm writes over it"])
def test_h1_a_look_that_began_before_a_hold_has_not_seen_it_lifted(ours: Controller, then: str) -> None:
    """A person gave the node back; while one run looks at that, a person has us keep it."""
    ours.node(**FREE)
    assert ours.run("scheduler_node", state="present")["owner"] == "free" and ours.events("hold")[-1] == "released"
    seen = json.loads(ours.data("hold")[-1])
    assert "after_event" in seen
    kept(ours)
    taken = json.loads(ours.data("hold")[-1])
    ours.tells("gpu001", "hold", "released", {**seen, "hold_token": "gpufleet:r0:x"})
    if then == "a person writes behind it":
        ours.node(state="IDLE+DRAIN", reason=f"{taken['hold_token']} hands inside", by="jane")
        is_theirs(ours)
    else:
        ours.node(state="DOWN+DRAIN", reason="Not responding", by="slurm")
        ours.later(100)
        assert ours.run("scheduler_node", state="held").get("failed")
        assert ours.power().get("failed") and not ours.switched()


@pytest.mark.parametrize("words", ["", " hands inside"])
def test_h1_a_second_try_through_a_jump_host_makes_nobodys_words_ours(ours: Controller, words: str) -> None:
    """Each call is announced before the node is looked at over there, and what was refused has held nothing."""
    token = token_of(ours)
    ours.node(**FREE)
    assert ours.run("scheduler_node", state="present")["owner"] == "free", "she has lifted it"
    ours.node(state="IDLE+DRAIN", reason=f"{token}{words}", by="jane")
    for _time in range(3):
        assert ours.run("scheduler_node", action=There, state="held").get("failed")
    is_theirs(ours)


def test_law4_a_look_that_is_told_late_takes_no_killed_runs_hold(ours: Controller) -> None:
    ours.node(**FREE)
    ours.run("scheduler_node", state="present")
    seen = json.loads(ours.data("hold")[-1])
    ours.kill_after("State=DRAIN")
    assert ours.run("scheduler_node", state="held", why="reimage") == {}
    ours.tells("gpu001", "hold", "released", seen)
    assert ours.run("scheduler_node", state="present")["owner"] == "ours"


def test_law4_a_hold_after_which_another_cluster_answers_is_ours_where_it_was_taken(ours: Controller) -> None:
    """slurm.conf is changed right after the write: what the next look meets is no proof that nothing was written."""
    at = {"cluster": "slurm alpha", "cluster_host": "ctl1", "scheduler_node": "gpu001"}
    ours.tells("gpu001", "hold", "released", {**at, "hold_token": token_of(ours)})
    ours.node(**FREE)
    script = ours.folder / "bin" / "scontrol"
    good = script.rename(script.with_name("scontrol.good"))
    swap = f"import json; p = {str(ours.slurm)!r}; w = json.load(open(p)); w['config']['ClusterName'] = 'beta'"
    (ours.folder / "swap.py").write_text(f"{swap}; json.dump(w, open(p, 'w'))", encoding="utf-8")
    after = f'case "$*" in *State=DRAIN*) python3 {ours.folder}/swap.py;; esac'
    script.write_text(f'#!/bin/sh\n{good} "$@"; rc=$?\n{after}\nexit $rc\n', encoding="utf-8")
    script.chmod(0o755)
    refused(ours.run("scheduler_node", state="held", why="reimage"))
    leads_to(ours, "alpha")
    assert ours.node()["state"] == "IDLE+DRAIN"
    assert ours.run("scheduler_node", state="present")["owner"] == "ours"
    assert not ours.run("scheduler_node", state="held", why="reimage").get("failed")


# -- what is left behind -----------------------------------------------------------------------------------------------


def kept(site: Controller) -> None:
    site.node(**FREE)
    assert site.run("scheduler_node", state="held", why="hands inside", kind="keep")["changed"]


def test_h2_nobody_takes_a_machine_elsewhere_under_the_hands_of_whoever_keeps_it(ours: Controller) -> None:
    kept(ours)
    ours.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    told = ours.run("scheduler_node", state="present", force_reason="left")
    assert told["error"]["kind"] == "not_ours" and "hands inside" in told["msg"] and "maintenance=off" in told["msg"]
    ours.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    leads_to(ours, "beta")
    ours.node(**FREE)
    moved = {"moved_to": "slurm beta of ctl1", "force_reason": "ticket 9"}
    assert ours.run("scheduler_node", state="present", **moved)["error"]["kind"] == "not_ours"
    assert not ours.events("named")
    assert not ours.run("scheduler_node", state="present", over_keep=True, **moved).get("failed")


def test_h2_what_stays_held_where_a_machine_left_is_said(ours: Controller) -> None:
    leads_to(ours, "beta")
    ours.node(**FREE)
    moved: dict[str, Any] = {"moved_to": "slurm beta of ctl1", "force_reason": "ticket 9"}
    [line] = ours.run("scheduler_node", state="present", **moved)["warnings"]
    assert token_of(ours) in line and "gpu001 of slurm alpha" in line
