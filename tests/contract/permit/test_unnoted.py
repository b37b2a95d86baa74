# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hold that was written and that nobody came to note, and what is noted too late: whose is the node?"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.template import trust_as_template
from ansible_collections.gpufleet.baremetal.plugins.action import ledger_event, preflight
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
    back = site.run("scheduler_node", state="held", why="maintenance is over", over_keep=True)
    assert back["owner"] == "ours" and site.power()["changed"]


def test_h2_who_begins_to_keep_a_node_takes_a_fresh_proof_back(ours: Controller) -> None:
    """Slurm writes over it at once, and the run that held the node has its proof from right before that."""
    killed(ours, why="hands inside", kind="keep")
    ours.node(reason=FINDING, by="slurm")
    told = ours.power()
    assert told["error"]["kind"] == "evidence_missing" and "keep" in told["error"]["seen"] and not ours.switched(), told


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


# -- told late ---------------------------------------------------------------------------------------------------------

#: What another run does meanwhile, to which the lease of a frozen one has gone.
TAKES = """
import json, os
from dataclasses import replace
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
at, token = {at!r}, "gpufleet:theirs:recycle"
world = json.load(open({world!r}))
world["nodes"]["gpu001"].update(state="IDLE+DRAIN", reason=token, by="root")
json.dump(world, open({world!r}, "w"))
with Ledger("sqlite:///{folder}/ledger.sqlite") as ledger:
    node = ledger.identify("gpu001", aliases=[("serial", "S-gpu001")])
    with ledger.transaction() as conn:
        conn.exec_driver_sql("UPDATE leases SET expires = 1")
        lease.take_in(conn, ledger, node, replace(this_run(os.getpid()), run_id="theirs", host="elsewhere#1"))
    told = [("intent", "scheduler_node", {{"announces": [token]}}), ("hold", "taken", {{**at, "hold_token": token}})]
    ledger.append("theirs", [(node, Event(*one)) for one in told])
"""


@pytest.mark.parametrize("state", ["held", "resumed"])
def test_law4_a_run_whose_lease_went_to_another_one_notes_no_hold_any_more(controller: Make, state: str) -> None:
    """It was frozen between the last answer of its scheduler and its ledger, where the other's is the older one."""
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    order: dict[str, Any] = {"why": "reimage"}
    if state == "resumed":
        site.hold()
        order = {"force_reason": "a test", "timeout": 20.0}
    program, written = site.folder / "takes.py", site.folder / "written"
    program.write_text(TAKES.format(at=AT, world=str(site.slurm), folder=site.folder), encoding="utf-8")
    script = site.folder / "bin" / "scontrol"
    body = script.read_text(encoding="utf-8").splitlines()[1]
    after = f'*State=*) touch {written};; *"show config"*) test -e {written} && mv {program} {program}.done && '
    script.write_text(f'#!/bin/sh\ncase "$*" in {after}{sys.executable} {program}.done;; esac\n{body}\n', "utf-8")
    frozen = site.run("scheduler_node", state=state, **order)
    assert not program.exists() and frozen["error"]["kind"] in ("lease_lost", "fenced"), frozen
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    assert json.loads(site.data("hold")[-1])["hold_token"] == "gpufleet:theirs:recycle"
    assert of_another_run(site, "scheduler_node", state="present")["owner"] == "ours"


@pytest.mark.parametrize("seen", ["foreign_hold", "in_service", "not_drained"])
def test_law4_a_late_look_makes_no_stranger_somebody_elses(controller: Make, seen: str) -> None:
    """A node of a day 0, which our ledger has never admitted."""
    site = controller(known=False)
    site.tells("gpu001", "state", "discovered")
    site.node(state="UNKNOWN", reason="", by="", booted="None")
    site.run("scheduler_node", state="present")
    before = json.loads(site.data("evidence")[-1])
    site.hold()
    site.tells("gpu001", "evidence", seen, before)
    assert site.power()["changed"] and site.switched()


def test_law4_a_late_look_keeps_no_node_from_its_next_state(controller: Make) -> None:
    site = controller()
    site.tells("gpu001", "state", "admitted", ADOPTED)
    site.tells("gpu001", "hold", "taken", {**AT, "hold_token": "gpufleet:old:reimage"})
    site.run("scheduler_node", state="present")
    before = json.loads(site.data("evidence")[-1])
    site.hold()
    moment = {key: before[key] for key in ("after_event", "looked_at")}
    site.tells("gpu001", "hold", "released", {**AT, "hold_token": "gpufleet:old:reimage", **moment})
    site.tells("gpu001", "evidence", "in_service", before)
    for state in ("draining", "drained"):
        told = site.run("ledger_event", action=ledger_event.ActionModule, kind="state", state=state, reason="a test")
        assert not told.get("failed"), told


def test_law4_who_read_the_ledger_before_our_hold_and_looked_after_it_takes_no_proof_back(controller: Make) -> None:
    """Its scheduler was away between the two."""
    site = controller("gpu001")
    adopted(site, "gpu001", "gpu001")
    site.restarts()
    told: dict[str, Any] = {}
    look = threading.Thread(target=lambda: told.update(of_another_run(site, "scheduler_node", state="present")))
    look.start()
    appears(site.folder / "bin" / "scontrol.real.asked")
    site.hold()
    look.join(60)
    assert told["owner"] == "foreign" and site.events("evidence")[-1] == "foreign_hold"
    assert site.power()["changed"]


def test_h1_a_look_between_an_announcement_and_its_write_makes_that_hold_nobody_elses(ours: Controller) -> None:
    for state in ("enrolled", "imaging", "validating"):
        ours.tells("gpu001", "state", state)
    ours.passport()
    ours.node(booted=BOOTED)
    script, folder = ours.folder / "bin" / "scontrol", ours.folder
    real = script.rename(script.with_name("scontrol.real"))
    boots = f"p = {str(ours.slurm)!r}; w = json.load(open(p)); w['nodes']['gpu001']['booted'] = '2099-01-01T00:00:00'"
    (folder / "boots.py").write_text(f"import json; {boots}; json.dump(w, open(p, 'w'))", encoding="utf-8")
    wait = (
        f"touch {folder}/resumed; while [ ! -e {folder}/seen ]; do sleep 0.05; done; {sys.executable} {folder}/boots.py"
    )
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *State=RESUME*) {real} "$@"; {wait}; exit 0;; esac\nexec {real} "$@"\n', "utf-8"
    )
    script.chmod(0o755)
    resumed: dict[str, Any] = {}
    run = threading.Thread(target=lambda: resumed.update(ours.run("scheduler_node", state="resumed", timeout=5.0)))
    run.start()
    appears(folder / "resumed")
    assert of_another_run(ours, "scheduler_node", state="present")["owner"] == "free"
    (folder / "seen").touch()
    run.join(60)
    assert resumed.get("failed") and ours.node()["reason"].endswith("booted since the last look"), resumed
    assert ours.run("scheduler_node", state="present")["owner"] == "ours"


# -- one bad row -------------------------------------------------------------------------------------------------------


class Preflight(preflight.ActionModule):
    """It looks at everything, and is none of the verbs."""

    verb = None


@pytest.mark.parametrize("cell", ["ansible_host", "gpufleet_system_uuid"])
def test_u5_a_cell_that_cannot_be_read_stops_no_neighbour(controller: Make, cell: str) -> None:
    site = controller("gpu001", "gpu002")
    for host in site.hosts:
        site.hold(host)
    site.hosts["gpu002"][cell] = trust_as_template("{{ nobody_has_set_this }}")
    batch = [{"host": host, "scheduler_node": host} for host in site.hosts]
    waited = site.run("scheduler_wait", until="drained", timeout=0.0, nodes=batch)["verdicts"]
    assert waited["gpu001"]["ok"] and not waited["gpu002"]["ok"], waited
    assert f"its {cell} cannot be read" in waited["gpu002"]["reason"] and waited["gpu002"]["kind"] == "config"
    site.later(100)
    assert site.power()["changed"], "its proof is renewed beside the neighbour's"
    told = " ".join(site.run("preflight", action=Preflight, hosts=list(site.hosts))["lines"])
    assert f"gpu002: its {cell} cannot be read" in told and f"nodes: its {cell}" not in told, told
