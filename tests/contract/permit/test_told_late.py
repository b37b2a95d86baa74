# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is noted too late, and one bad row: whose is the node?"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ansible.template import trust_as_template
from ansible_collections.gpufleet.baremetal.plugins.action import ledger_event, preflight
from contract.permit.rig import ADOPTED, Controller
from contract.permit.test_another_cluster import BOOTED
from contract.permit.test_unnoted import AT, appears, of_another_run
from contract.permit.test_whose_node import adopted, ours

Make = Callable[..., Controller]

__all__ = ["ours"]


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
    site.restarts(after="held")
    told: dict[str, Any] = {}
    look = threading.Thread(target=lambda: told.update(of_another_run(site, "scheduler_node", state="present")))
    look.start()
    appears(site.folder / "bin" / "scontrol.real.asked")
    site.hold()
    (site.folder / "held").touch()
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
