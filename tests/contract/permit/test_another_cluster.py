# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row, or a file that it names, leads to another cluster, whose node of this name is free: no permit comes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._served import look
from contract.permit.rig import ADOPTED, Controller

BOOTED = "2026-11-20T10:12:58"


def leads_to(site: Controller, cluster: str, host: str = "ctl1", *, knows: bool = True) -> None:
    """From now on the commands answer for this cluster: its slurm.conf has come to the controller."""
    world = json.loads(site.slurm.read_text(encoding="utf-8"))
    world["config"].update({"ClusterName": cluster, "SlurmctldHost[0]": f"{host}(10.0.0.1)"})
    world["nodes"] = world["nodes"] if knows else {}
    site.slurm.write_text(json.dumps(world), encoding="utf-8")


@pytest.fixture
def held(controller: Callable[..., Controller]) -> Controller:
    """Ours, held as a node of the cluster alpha."""
    site = controller("gpu001")
    site.tells("gpu001", "state", "admitted")
    site.hold()
    assert '"cluster": "slurm alpha"' in site.data("hold")[0]
    return site


def refused(told: dict[str, Any]) -> str:
    assert told.get("failed") and told["error"]["kind"] == "wrong_machine", told
    return str(told["msg"])


def test_j1_another_clusters_free_node_permits_no_power(held: Controller) -> None:
    leads_to(held, "beta")
    held.node(state="IDLE", reason="", by="")
    held.later(100)
    told = held.power()
    assert "gpu001 of slurm beta" in told["msg"] and "gpu001 of slurm alpha" in told["msg"], told
    assert not held.switched() and held.events("evidence")[-1] == "drained", "no look at another one is told"
    for state in ("present", "held", "resumed"):
        assert "slurm beta" in refused(held.run("scheduler_node", state=state))
    waited = held.run("scheduler_wait", until="drained", timeout=0.0)["verdicts"]["gpu001"]
    assert not waited["ok"] and waited["kind"] == "wrong_machine", waited
    leads_to(held, "alpha")
    held.node(state="IDLE+DRAIN", reason=json.loads(held.data("hold")[0])["hold_token"], by="root")
    assert held.power()["changed"]


def test_j1_another_cluster_that_knows_no_such_node_permits_no_power(held: Controller) -> None:
    leads_to(held, "beta", knows=False)
    held.later(100)
    assert "slurm beta" in held.power()["msg"] and not held.switched()


def test_j1_of_a_cluster_that_has_no_such_node_a_person_says_that_the_old_one_was_left(
    controller: Callable[..., Controller],
) -> None:
    """Before day 0 joins it there; it is bound anew by its first hold."""
    site = controller("gpu001", known=False)
    site.tells("gpu001", "state", "validating")
    assert site.run("scheduler_node", state="held", force_reason="it is gpu001 in alpha")["changed"]
    leads_to(site, "beta", knows=False)
    site.later(100)
    moved = {"moved_to": "slurm beta of ctl1", "force_reason": "moved, ticket 9"}
    told = refused(site.run("scheduler_node", state="present", **moved))
    assert "left slurm alpha of ctl1 for good, say so" in told and "-e gpufleet_scheduler=none" in told
    assert len(site.data("named")) == 1 and site.power().get("failed"), "nor is it evidence"
    site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    assert site.run("scheduler_node", state="present", force_reason="left alpha, ticket 9")["state"] == "absent"
    site.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    assert site.run("scheduler_node", state="held")["state"] == "absent"
    site.node(state="IDLE", reason="", by="")
    assert site.run("scheduler_node", state="held", force_reason="it is gpu001 in beta")["changed"]
    assert '"cluster": "slurm beta"' in site.data("hold")[-1]


def test_j1_a_reason_that_was_given_for_something_else_moves_no_machine(held: Controller) -> None:
    leads_to(held, "beta")
    for state in ("present", "held", "resumed"):
        refused(held.run("scheduler_node", state=state, force_reason="it was re-cabled"))
    for wrong in ("slurm alpha of ctl1", "slurm beta", "slurm beta of ctl2"):
        refused(held.run("scheduler_node", state="present", force_reason="x", moved_to=wrong))
    beta = "slurm beta of ctl1"
    for options in ({"state": "held", "force_reason": "x"}, {"state": "present"}):
        told = held.run("scheduler_node", moved_to=beta, **options)
        assert told["error"]["kind"] == "config" and "a call of its own" in told["msg"]


def test_j1_a_new_name_in_the_row_hides_no_other_cluster(controller: Callable[..., Controller]) -> None:
    """The site renamed the node, and the row's slurm.conf is another cluster's, which has one of that name, too."""
    site = controller("gpu001", nodes={"gpu001": {"state": "ALLOCATED", "reason": "", "by": ""}})
    site.tells("gpu001", "state", "admitted", {**ADOPTED, "cluster": "slurm alpha"})
    leads_to(site, "beta", knows=False)
    site.node("g1", state="IDLE", reason="", by="")
    site.hosts["gpu001"]["gpufleet_scheduler_node"] = "g1"
    refused(site.run("scheduler_node", state="present", force_reason="renamed, ticket 4711"))
    assert site.power().get("failed") and not site.data("named")


def test_j1_two_clusters_that_are_called_alike_are_told_apart_by_their_controllers(held: Controller) -> None:
    leads_to(held, "alpha", "ctl2")
    held.node(state="IDLE", reason="", by="")
    assert "slurm alpha of ctl2" in refused(held.run("scheduler_node", state="held"))
    moved = {"moved_to": "Slurm alpha of CTL2", "force_reason": "a new head node"}
    assert held.run("scheduler_node", state="present", **moved)["cluster_host"] == "ctl2"
    held.hold()


def test_j1_a_person_moves_a_machine_to_another_cluster(held: Controller) -> None:
    leads_to(held, "beta")
    held.node(state="IDLE", reason="", by="")
    told = refused(held.run("scheduler_node", state="present"))
    [words] = re.findall(r"moved_to='([^']+)'", told)
    moved = {"moved_to": words, "force_reason": "moved, ticket 9"}
    assert held.run("scheduler_node", state="present", **moved)["cluster"] == "slurm beta"
    (named,) = held.data("named")
    assert "moved, ticket 9" in named and '"was_of": "slurm alpha of ctl1"' in named
    assert held.events("hold") == ["taken"], "ours stands in the old one still"
    held.hold()
    assert held.power()["changed"]
    leads_to(held, "alpha")
    refused(held.run("scheduler_node", state="present"))


def test_j1_what_was_held_before_clusters_were_noted_is_bound_by_the_next_hold(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001")
    site.tells("gpu001", "state", "admitted", ADOPTED)
    leads_to(site, "beta")
    site.hold()
    assert site.power()["changed"]
    leads_to(site, "alpha")
    refused(site.run("scheduler_node", state="present"))


def test_j1_a_look_binds_what_was_bound_before_clusters_were_noted(controller: Callable[..., Controller]) -> None:
    site = controller("gpu001", nodes={"gpu001": {"state": "ALLOCATED", "reason": "", "by": "", "booted": BOOTED}})
    site.tells("gpu001", "state", "admitted", ADOPTED)
    assert site.run("scheduler_node", state="present")["state"] == "allocated"
    leads_to(site, "beta")
    site.node(state="IDLE")
    refused(site.run("scheduler_node", state="held"))
    leads_to(site, "alpha")
    assert not site.run("scheduler_node", state="present").get("failed")


def test_j1_what_was_retired_is_no_node_of_the_old_cluster_any_more(held: Controller) -> None:
    """It comes back for another one, which knows it only when it is to join."""
    leads_to(held, "beta", knows=False)
    for state in ("retired", "discovered", "enrolled", "imaging", "validating"):
        held.tells("gpu001", "state", state)
    assert held.run("scheduler_node", state="held")["state"] == "absent"
    held.node(state="IDLE", reason="", by="")
    assert held.run("scheduler_node", state="held", force_reason="new in beta")["changed"]
    leads_to(held, "alpha")
    refused(held.run("scheduler_node", state="present"))


def test_j1_what_was_adopted_is_a_node_of_the_cluster_that_it_was_seen_in(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001")
    site.tells("gpu001", "state", "admitted", {**ADOPTED, "cluster": "slurm beta"})
    refused(site.run("scheduler_node", state="held"))
    leads_to(site, "beta")
    site.hold()


def test_j1_what_was_admitted_and_never_held_is_a_node_of_the_cluster_that_it_served(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001", known=False)
    seen = {"scheduler": "slurm", "scheduler_node": "gpu001", "cluster": "slurm beta"}
    site.tells("gpu001", "evidence", "in_service", seen)
    site.tells("gpu001", "state", "admitted")
    refused(site.run("scheduler_node", state="held"))


def test_j1_the_status_and_the_next_run_are_told(held: Controller) -> None:
    leads_to(held, "beta")
    with held._node_of("gpu001") as (ledger, node):
        seen = look(ledger, {"gpu001": node}, lambda name, host: held.hosts[host].get(name))
    assert "not the one whose node the machine is" in seen["gpu001"].problem


# -- what is left behind -----------------------------------------------------------------------------------------------


def away_and_back(site: Controller, how: str) -> None:
    """The machine leaves its scheduler by a person's word, as a refusal asks for it, and comes back to it."""
    if how == "given up":
        site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
        site.run("scheduler_node", state="present", force_reason="left it, ticket 9")
        site.hosts["gpu001"]["gpufleet_scheduler"] = "slurm"
    else:
        for state in ("retired", "discovered", "enrolled", "imaging", "validating"):
            site.tells("gpu001", "state", state)


@pytest.mark.parametrize("how", ["given up", "retired"])
def test_h1_a_persons_words_on_our_hold_are_theirs_whatever_was_said_of_the_machine_since(
    held: Controller, how: str
) -> None:
    token = json.loads(held.data("hold")[0])["hold_token"]
    held.node(reason=f"{token} hands inside, do not power", by="jane")
    away_and_back(held, how)
    held.later(100)
    told = held.run("scheduler_node", state="held")
    assert told.get("failed") and told["error"]["kind"] == "not_ours", told
    assert held.power().get("failed") and not held.switched()
    assert held.run("scheduler_node", state="resumed", force_reason="x").get("failed")


def test_h2_a_keep_hold_that_slurm_wrote_over_is_the_persons_still(held: Controller) -> None:
    held.node(state="IDLE", reason="", by="")
    assert held.run("scheduler_node", state="held", why="a fan", kind="keep")["changed"]
    held.node(state="DOWN+DRAIN", reason="Not responding", by="slurm")
    away_and_back(held, "given up")
    held.later(100)
    assert held.run("scheduler_node", state="held").get("failed") and held.power().get("failed")


@pytest.mark.parametrize("how", ["moved", "retired"])
def test_h1_what_slurm_itself_set_elsewhere_is_not_ours_by_an_old_token(held: Controller, how: str) -> None:
    """A job of somebody's runs there, on a node that Slurm drained for what its slurmd told."""
    leads_to(held, "beta")
    if how == "retired":
        for state in ("retired", "discovered"):
            held.tells("gpu001", "state", state)
    held.node(state="MIXED+DRAIN", reason="Low RealMemory", by="slurm", booted=BOOTED)
    held.jobs([{"id": "4711", "node": "gpu001"}])
    if how == "moved":
        moved = {"moved_to": "slurm beta of ctl1", "force_reason": "ticket 9"}
        assert held.run("scheduler_node", state="present", **moved)["owner"] == "scheduler"
        assert held.run("scheduler_node", state="present")["owner"] == "scheduler"
        assert held.events("hold") == ["taken"], "ours stands in the old one still"
    else:
        told = held.run("scheduler_node", state="held")
        assert told.get("failed") and told["error"]["kind"] == "not_adopted", told
    held.jobs([])
    held.node(state="IDLE+DRAIN", reason="Low RealMemory", by="slurm")
    held.later(100)
    assert held.run("scheduler_node", state="present")["owner"] == "scheduler"
    assert held.power().get("failed") and not held.switched()


def test_j1_what_slurmrestd_tells_less_takes_nothing_away(held: Controller) -> None:
    """It names no controller: that of the commands counts on, and another one that is called alike is another one."""
    there = {"scheduler_node": "gpu001", "cluster": "slurm alpha", "scheduler_at": "https://slurm.example.com"}
    held.tells("gpu001", "hold", "released", {**there, "cluster_host": "ctl1", "hold_token": "x"})
    assert held.run("scheduler_node", state="held", why="reimage")["changed"] is False
    leads_to(held, "alpha", "ctl2")
    held.node(state="IDLE", reason="", by="")
    refused(held.run("scheduler_node", state="held"))


def moves(site: Controller, cluster: str, host: str = "ctl1") -> None:
    leads_to(site, cluster, host)
    moved = {"moved_to": f"slurm {cluster} of {host}", "force_reason": "ticket 9"}
    assert not site.run("scheduler_node", state="present", **moved).get("failed")


@pytest.mark.parametrize(("cluster", "host"), [("beta", "ctl1"), ("alpha", "ctl2")])
@pytest.mark.parametrize("there", ["held by another run", "resumed", "held and resumed"])
def test_h1_what_happens_in_another_cluster_hides_no_words_of_a_person_in_the_first(
    held: Controller, there: str, cluster: str, host: str
) -> None:
    """Nor in one that is called alike, whose controller is another."""
    token = json.loads(held.data("hold")[0])["hold_token"]
    words = {"state": "IDLE+DRAIN", "reason": f"{token} hands inside, do not power", "by": "jane"}
    free = {"state": "IDLE", "reason": "", "by": "", "booted": BOOTED}
    leads_to(held, cluster, host)
    held.node(**free)
    moves(held, cluster, host)
    if there != "resumed":
        at = {"cluster": f"slurm {cluster}", "cluster_host": host, "scheduler_node": "gpu001"}
        held.tells("gpu001", "hold", "taken", {**at, "hold_token": "gpufleet:theirs:reimage"})
    if there != "held by another run":
        assert not held.run("scheduler_node", state="resumed", force_reason="x").get("failed")
    leads_to(held, "alpha")
    held.node(**words)
    moves(held, "alpha")
    held.later(100)
    told = held.run("scheduler_node", state="held")
    assert told.get("failed") and told["error"]["kind"] == "not_ours", told
    assert held.power().get("failed") and not held.switched()


def test_h1_what_was_lifted_by_whoever_tells_less_of_the_cluster_stands_no_more(held: Controller) -> None:
    """slurmrestd names no controller: a person's hold that ended by it keeps nothing back for ever."""
    held.node(state="IDLE", reason="", by="")
    assert held.run("scheduler_node", state="held", why="a fan", kind="keep")["changed"]
    at = {"cluster": "slurm alpha", "scheduler_at": "https://slurm.example.com", "scheduler_node": "gpu001"}
    held.tells("gpu001", "hold", "released", at)
    held.node(state="IDLE", reason="", by="", booted=BOOTED)
    moves(held, "beta")
    moves(held, "alpha")
    held.node(state="IDLE+DRAIN", reason="Not responding", by="slurm")
    assert held.run("scheduler_node", state="present")["owner"] == "scheduler"


def test_h1_a_first_hold_is_ours_though_slurm_writes_over_it(controller: Callable[..., Controller]) -> None:
    """The machine is bound to no cluster yet but by that hold."""
    site = controller("gpu001", known=False)
    site.tells("gpu001", "state", "enrolled")
    assert site.run("scheduler_node", state="held", why="day0", force_reason="new")["changed"]
    site.node(state="IDLE+DRAIN", reason="Low RealMemory", by="slurm")
    assert site.run("scheduler_node", state="present")["owner"] == "ours"


def test_h1_an_older_hold_that_noted_no_cluster_claims_nothing_where_the_machine_moved(held: Controller) -> None:
    token = json.loads(held.data("hold")[0])["hold_token"]
    held.tells("gpu001", "evidence", "in_service", {"scheduler_node": "gpu001", "cluster": "slurm alpha"})
    held.tells("gpu001", "hold", "taken", {"hold_token": token, "scheduler_node": "gpu001"})
    leads_to(held, "beta")
    held.node(state="IDLE+DRAIN", reason="Low RealMemory", by="slurm")
    moves(held, "beta")
    held.later(100)
    assert held.run("scheduler_node", state="present")["owner"] == "scheduler"
    assert held.power().get("failed") and not held.switched()


def test_h2_a_quarantine_that_slurm_wrote_over_is_one_still_under_a_new_head_node(held: Controller) -> None:
    at = {"cluster": "slurm alpha", "cluster_host": "ctl1", "scheduler_node": "gpu001"}
    held.tells("gpu001", "hold", "taken", {**at, "hold_token": "gpufleet:r1+quarantine:xid79"})
    leads_to(held, "alpha", "ctl2")
    held.node(state="DOWN+DRAIN", reason="Not responding", by="slurm")
    moved = {"moved_to": "slurm alpha of ctl2", "force_reason": "a new head node"}
    assert not held.run("scheduler_node", state="present", **moved).get("failed")
    assert held.run("scheduler_node", state="held", why="reimage")["changed"] is False, "which stays what it is"
    held.later(100)
    assert held.power().get("failed") and not held.switched()
