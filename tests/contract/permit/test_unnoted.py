# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hold that was written and that nobody came to note, and what is noted too late: whose is the node?"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from contract.permit.rig import ADOPTED, FORK, IDLE, Controller
from contract.permit.test_another_cluster import BOOTED, leads_to
from contract.permit.test_called_otherwise import There
from contract.permit.test_whose_node import FREE, adopted, is_theirs, kept, ours, token_of

Make = Callable[..., Controller]
FINDING = "gres/gpu count reported lower than configured (7 < 8)"
AT = {"cluster": "slurm alpha", "cluster_host": "ctl1", "scheduler_node": "gpu001"}

__all__ = ["ours"]


class Gone(There):
    """The way there breaks before the module comes to anything."""

    def _execute_module(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        raise AnsibleConnectionFailure("no route to host")


class Lost(There):
    """The way there breaks right after a write."""

    def _execute_module(self, *args: Any, **options: Any) -> dict[str, Any]:
        told = super()._execute_module(*args, **options)
        if told.get("asked"):
            raise AnsibleConnectionFailure("connection reset")
        return told


class Late(There):
    """Its answer comes once somebody has done something in between."""

    def _execute_module(self, *args: Any, **options: Any) -> dict[str, Any]:
        told, folder = super()._execute_module(*args, **options), Path(os.environ["GPUFLEET_TEST_FOLDER"])
        (folder / "looked").touch()
        appears(folder / "go on")
        return told


def appears(path: Path) -> None:
    end = time.monotonic() + 60.0
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)


def killed(site: Controller, **order: Any) -> str:
    """The words of a hold whose worker died right after it had written them."""
    script = site.folder / "bin" / "scontrol"
    good = script.read_text(encoding="utf-8")
    site.kill_after("State=DRAIN")
    assert site.run("scheduler_node", state="held", **order) == {}
    script.write_text(good, encoding="utf-8")
    return str(site.node()["reason"])


def of_another_run(site: Controller, *args: Any, **options: Any) -> dict[str, Any]:
    told, tells = FORK.Pipe(duplex=False)
    run = FORK.Process(target=lambda: tells.send(site.run(*args, **options)))
    run.start()
    tells.close()
    result: dict[str, Any] = told.recv()
    run.join(60)
    return result


# -- by its words alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", ["", " hands inside, jane"])
def test_h1_a_first_hold_that_nobody_noted_is_ours_as_it_was_announced(controller: Make, behind: str) -> None:
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    words = killed(site, why="retest")
    if behind:
        site.node(reason=f"{words}{behind}", by="jane")
        assert site.run("scheduler_node", state="present")["owner"] == "foreign"
        is_theirs(site)
    else:
        assert site.run("scheduler_node", state="held", why="retest")["owner"] == "ours"
        assert json.loads(site.data("hold")[-1])["hold_token"] == words


@pytest.mark.parametrize("behind", ["", " hands inside, jane"])
def test_h1_an_outage_on_the_way_to_a_jump_host_makes_no_persons_words_ours(ours: Controller, behind: str) -> None:
    """That call was announced, and has written nothing as far as anybody knows."""
    token = token_of(ours)
    ours.node(**FREE)
    assert ours.run("scheduler_node", state="present")["owner"] == "free", "she has lifted it"
    ours.node(state="IDLE+DRAIN", reason=f"{token}{behind}", by="jane")
    assert ours.run("scheduler_node", action=Gone, state="held", why="retest")["error"]["kind"] == "unreachable"
    is_theirs(ours)


@pytest.mark.parametrize("why", ["esc\x1b[31mred", "x" * 3000, "a zero\u200bwidth"])
def test_h1_the_words_of_an_announcement_are_those_that_are_written(ours: Controller, why: str) -> None:
    """Whatever the ledger keeps of the options beside them."""
    killed(ours, why=why)
    assert ours.run("scheduler_node", state="present")["owner"] == "ours"


def test_h1_a_call_that_noted_a_hold_of_before_speaks_for_no_later_one(controller: Make) -> None:
    """As right after an upgrade: it has written nothing, and its outcome comes behind what it has noted."""
    site = controller("gpu001")
    site.tells("gpu001", "state", "admitted", ADOPTED)
    site.node(state="IDLE+DRAIN", reason="gpufleet:r0:reimage", by="root")
    old = {"hold_token": "gpufleet:r0:reimage", "hold_author": "root", "scheduler_node": "gpu001"}
    site.tells("gpu001", "hold", "taken", old)
    noted = site.run("scheduler_node", action=There, state="held", why="reimage")
    assert not noted["changed"] and site.events("hold") == ["taken"] * 2
    lost = site.run("scheduler_node", action=Lost, state="held", why="quarantined: xid79")
    assert lost["error"]["kind"] == "unreachable" and site.node()["reason"].endswith("xid79")
    assert site.run("scheduler_node", action=There, state="held", why="quarantined: xid79")["owner"] == "ours"


@pytest.mark.parametrize("knows", ["both are strangers", "the neighbour's is known"])
@pytest.mark.parametrize("lost", [True, False])
def test_r5_a_hold_that_was_announced_for_this_machine_and_taken_for_another_is_the_others(
    controller: Make, knows: str, lost: bool
) -> None:
    """The row of gpu001 has slipped to its neighbour's node; its own machine is n1, and works."""
    nodes = {"n1": {"state": "ALLOCATED", "reason": "", "by": "", "booted": BOOTED}, "n2": {**IDLE, "booted": "None"}}
    site = controller("gpu001", "gpu002", known=False, nodes=nodes, jobs=[{"id": "4711", "node": "n1"}])
    for host in site.hosts.values():
        host["gpufleet_scheduler_node"] = "n2"
    if knows == "both are strangers":
        site.node("n2", state="UNKNOWN")
    else:
        adopted(site, "gpu002", "n2")
    if lost:
        assert site.run("scheduler_node", action=Gone, state="held", why="day0").get("failed")
    assert not site.run("scheduler_node", "gpu002", state="held", why="day0").get("failed")
    site.node("n2", state="IDLE+DRAIN", booted=BOOTED)
    batch = [{"host": "gpu001", "scheduler_node": "n2"}]
    waited = site.run("scheduler_wait", until="drained", timeout=0.0, nodes=batch)
    assert not waited["verdicts"]["gpu001"]["ok"], waited
    assert site.power().get("failed") and not site.switched()


def test_r5_who_names_another_node_in_a_task_has_not_held_it_for_its_machine(controller: Make) -> None:
    """Its row is right: the machine is n1, and works."""
    nodes = {"n1": {"state": "ALLOCATED", "reason": "", "by": "", "booted": BOOTED}, "n2": {**IDLE, "booted": BOOTED}}
    site = controller("gpu001", "gpu002", known=False, nodes=nodes, jobs=[{"id": "4711", "node": "n1"}])
    for host, node in (("gpu001", "n1"), ("gpu002", "n2")):
        site.hosts[host]["gpufleet_scheduler_node"] = node
    adopted(site, "gpu002", "n2")
    lost = site.run("scheduler_node", action=Gone, state="held", why="day0", scheduler_node="n2")
    assert lost["error"]["kind"] == "unreachable"
    assert site.run("scheduler_node", "gpu002", state="held", why="day0")["owner"] == "ours"
    batch = [{"host": "gpu001", "scheduler_node": "n2"}]
    waited = site.run("scheduler_wait", until="drained", timeout=0.0, nodes=batch)
    assert not waited["verdicts"]["gpu001"]["ok"], waited
    assert site.run("scheduler_node", state="present", scheduler_node="n2")["owner"] == "foreign"
    assert site.power().get("failed") and not site.switched()


def test_h1_a_hold_of_a_release_that_told_no_tokens_is_known_by_its_options(ours: Controller) -> None:
    """Its run was killed before the upgrade; the intent is as it was written then."""
    words = "gpufleet:an_earlier_run:quarantined: xid79"
    order = {"options": {"state": "held", "why": "quarantined: xid79", "kind": "work"}}
    ours.tells("gpu001", "intent", "scheduler_node", order)
    ours.node(state="IDLE+DRAIN", reason=words, by="root")
    assert ours.run("scheduler_node", state="present")["owner"] == "ours"
    ours.node(reason=f"{words} hands inside", by="jane")
    assert ours.run("scheduler_node", state="present")["owner"] == "foreign"


# -- what a person keeps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["nothing", "a hold of ours"])
def test_h2_a_keep_that_nobody_noted_stays_one_when_slurm_writes_over_it(controller: Make, before: str) -> None:
    """As by somebody who has a GPU in their hands. The person gives it back as any other."""
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    if before != "nothing":
        site.hold()
    killed(site, why="hands inside", kind="keep")
    site.node(reason=FINDING, by="slurm")
    site.later(100)
    assert of_another_run(site, "scheduler_node", state="held", why="reimage")["error"]["kind"] == "not_ours"
    assert site.power().get("failed") and not site.switched()
    kept_by = site.run("scheduler_node", state="present", over_keep=True)
    assert kept_by["owner"] == "ours" and kept_by["holds"][0]["kind"] == "keep", "as maintenance=off asks first"
    back = site.run("scheduler_node", state="held", why="maintenance is over", over_keep=True)
    assert back["owner"] == "ours" and site.power()["changed"]


def test_h2_who_begins_to_keep_a_node_takes_a_fresh_proof_back(ours: Controller) -> None:
    """Slurm writes over it at once, and the run that held the node has its proof from right before that."""
    killed(ours, why="hands inside", kind="keep")
    ours.node(reason=FINDING, by="slurm")
    told = ours.power()
    assert told["error"]["kind"] == "evidence_missing" and not ours.switched(), told


@pytest.mark.parametrize("begun", ["it was killed after its write", "it never came there"])
def test_h2_a_keep_that_nobody_noted_ends_when_a_look_finds_the_node_free(controller: Make, begun: str) -> None:
    """Once that call can write no more. What Slurm finds out later is Slurm's."""
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    if begun == "it never came there":
        assert site.run("scheduler_node", action=Gone, state="held", why="hands inside", kind="keep").get("failed")
    else:
        killed(site, why="hands inside", kind="keep")
        site.node(**FREE)
    site.later(100)
    assert site.run("scheduler_node", state="present")["owner"] == "free"
    site.node(state="IDLE+DRAIN", reason=FINDING, by="slurm")
    told = site.run("scheduler_node", state="held", why="reimage")
    assert told["error"]["kind"] == "not_ours" and "maintenance=off" in told["msg"], "it may be under way still"
    site.node(**FREE)
    site.later(1000)
    assert site.run("scheduler_node", state="present")["owner"] == "free"
    site.node(state="IDLE+DRAIN", reason=FINDING, by="slurm")
    assert site.run("scheduler_node", state="held", why="reimage")["owner"] == "ours"


@pytest.mark.parametrize("way", ["out of its scheduler", "to another cluster"])
def test_h2_nobody_takes_a_machine_elsewhere_under_a_keep_that_nobody_noted(controller: Make, way: str) -> None:
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    killed(site, why="hands inside", kind="keep")
    said = {"force_reason": "ticket 9"}
    if way == "to another cluster":
        leads_to(site, "beta")
        site.node(**FREE)
        said["moved_to"] = "slurm beta of ctl1"
    else:
        site.hosts["gpu001"]["gpufleet_scheduler"] = "none"
    told = site.run("scheduler_node", state="present", **said)
    assert told["error"]["kind"] == "not_ours" and "hands inside" in told["msg"] and not site.events("named")


def test_law4_a_look_through_a_jump_host_that_is_told_late_takes_no_keep_away(
    ours: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFLEET_TEST_FOLDER", str(ours.folder))
    ours.node(**FREE)
    look = threading.Thread(target=lambda: ours.run("scheduler_node", action=Late, state="present"))
    look.start()
    appears(ours.folder / "looked")
    kept(ours)
    (ours.folder / "go on").touch()
    look.join(60)
    assert ours.events("hold")[-1] == "released" and "after_event" in ours.data("hold")[-1]
    assert ours.run("scheduler_node", state="present", over_keep=True)["owner"] == "ours"
    ours.node(state="IDLE+DRAIN", reason=FINDING, by="slurm")
    ours.later(100)
    assert ours.run("scheduler_node", state="held", why="reimage")["error"]["kind"] == "not_ours"
    assert ours.power().get("failed") and not ours.switched()
