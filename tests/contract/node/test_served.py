# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's scheduler says beside the ledger, through whole playbooks: nobody calls admitted what is not served."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.action.scheduler_node import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import NODE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door
from unit.scheduler import slurm_commands

AWAY = "#!/bin/sh\necho 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2\nexit 1\n"


def half_held(nodes: Nodes, name: str) -> None:
    """A run was killed between the hold at Slurm and the ledger's word of it."""
    with Ledger(nodes.url) as ledger:
        node = ledger.identify(name, aliases=[("serial", nodes.hosts[name]["gpufleet_serial"])])
        ledger.append("r1", [(node, Event("intent", "scheduler_node", {"options": {"state": "held"}}))])
    nodes.scheduler(name, state="IDLE+DRAIN", reason="gpufleet:r1:GPU 3 fell off the bus", by="root")


@pytest.mark.slow
def test_c2_day_2_takes_up_what_a_killed_run_held_and_leaves_a_persons_hold(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        half_held(nodes, "gpu001")
        alices = {"state": "IDLE+DRAIN", "reason": "memtest", "by": "alice"}
        before = nodes.scheduler("gpu002", **alices)
        nodes.scheduler("gpu003", state="DOWN", reason="Not responding", by="slurm")
        seen = nodes.book("passports", ok=True)
        assert "3 nodes: 1 draining, 2 unserved" in seen and "'memtest' set by alice" in seen, seen
        calls = json.loads(nodes.world.read_text(encoding="utf-8"))["calls"]
        assert len([call for call in calls if call[:1] == ["scontrol"] and "node" in call]) == 1, calls
        told = nodes.book("day2_recycle", "--limit", "gpu001,gpu002", ok=False)
        assert nodes.states("gpu001") == ["draining", "drained"], told
        assert "left draining by an earlier run" in nodes.scheduler("gpu001")
        assert nodes.scheduler("gpu002") == before and not nodes.events("gpu002", "note"), told
        assert "unserved held by somebody else" in told and "failed=0" in told.rpartition("gpu002 :")[2], told


@pytest.mark.slow
def test_c2_a_scheduler_that_is_away_is_told_and_no_node_is_green(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        (tmp_path / "bin" / "scontrol").write_text(AWAY, encoding="utf-8")
        told = nodes.book("day2_recycle", ok=False)
        assert "unknown to the scheduler: " in told and "slurmctld does not answer" in told and "1 unknown" in told, (
            told
        )
        assert not nodes.events("gpu001", "note") and not nodes.states("gpu001")
        alone: dict[str, Any] = {"gpufleet.baremetal.fleet_status": {"ask_scheduler": False, "report": True}}
        play = {"hosts": "all", "gather_facts": False, "tasks": [{**alone, "run_once": True}]}
        assert "1 nodes: 1 admitted" in nodes.plays([play], ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("booted", ["2026-11-20T10:12:58", "None"], ids=["stopped", "killed"])
def test_c8_a_slurm_that_was_just_started_says_nothing_of_a_node_that_it_has_not_heard_of(
    tmp_path: Path, booted: str
) -> None:
    with in_service(tmp_path) as nodes:
        nodes.scheduler("gpu001", state="UNKNOWN", booted=booted)
        told = nodes.book("status", ok=False)
        assert "slurm has not heard of it lately (UNKNOWN): wait a minute, or see that" in " ".join(told.split())
        assert "1 unknown" in told and "day2_recycle" not in told, "nobody is told to image a node that may be at work"


@pytest.mark.slow
@pytest.mark.parametrize("book", ["day2_recycle", "passports"])
def test_c2_what_could_not_be_looked_at_is_no_success_though_its_scheduler_is_back(tmp_path: Path, book: str) -> None:
    """Whoever asked for it would hear that all went well, and nothing was done."""
    with in_service(tmp_path) as nodes:
        shutil.copy(nodes.world, tmp_path / "back.json")
        nodes.scheduler("gpu001", state="UNKNOWN", booted="None")
        plays = yaml.safe_load((PLAYBOOKS / f"{book}.yml").read_text(encoding="utf-8"))
        comes_back = {"ansible.builtin.copy": {"src": str(tmp_path / "back.json"), "dest": str(nodes.world)}}
        plays.insert(-1, {"hosts": "localhost", "gather_facts": False, "tasks": [comes_back]})
        told = nodes.plays(plays, "-e", f"{book}_all=true", "-e", "passports_renew=true", ok=False)
        assert "1 admitted" in told and "admitted: not looked at: unknown to the scheduler: slurm has not" in told, told
        assert not nodes.states("gpu001") and "then run again" in told


@pytest.mark.slow
def test_u10_a_tenants_node_is_touched_only_by_a_run_that_names_the_tenant(tmp_path: Path) -> None:
    """The tenant's node is half drained, so that each playbook would have something to do."""
    with in_service(tmp_path, 2) as nodes:
        nodes.hosts["gpu001"]["gpufleet_tenant"] = "blue"
        half_held(nodes, "gpu001")
        before = nodes.scheduler("gpu001")
        told = nodes.book("day2_recycle", "--limit", "gpu001", "-e", "day2_recycle_all=true", ok=True)
        assert "of the tenant blue, and left alone" in told and "-e gpufleet_for_tenant=blue" in told, told
        for more in ((), ("--check",)):
            refused = nodes.book("drain", "--limit", "gpu001", *more, ok=False)
            assert "this node is a tenant's" in refused, refused
        assert nodes.scheduler("gpu001") == before and not nodes.states("gpu001")
        nodes.book("drain", "--limit", "gpu001", "-e", "gpufleet_for_tenant=green", ok=False)
        assert nodes.scheduler("gpu001") == before
        nodes.book("drain", "-e", "gpufleet_for_tenant=blue", ok=True)
        assert nodes.states("gpu001") == nodes.states("gpu002") == ["draining", "drained"]
        told = nodes.book("status", "-e", "gpufleet_for_tenant=blue", ok=True)
        recycle = "ansible-playbook gpufleet.baremetal.day2_recycle -i INVENTORY --limit"
        assert f"{recycle} gpu001 -e gpufleet_for_tenant=blue" in told and f"{recycle} gpu002 -e" not in told, told
        # On its way from one provisioner to another, it is brought on by who names the tenant as well.
        place = {"provisioner": "maas", "url": "http://127.0.0.1:9/MAAS"}
        nodes.shared |= {"gpufleet_provisioner": "maas", "gpufleet_provisioner_url": place["url"]}
        with Ledger(nodes.url) as ledger:
            left = Event(moves.KIND, moves.LEFT, {"from": place, "to": {**place, "url": "http://127.0.0.2:9/MAAS"}})
            ledger.append("r1", [(nodes.node_id("gpu001"), left)])
        told = " ".join(nodes.book("status", ok=False).split())
        assert "--limit gpu001 -e @MIGRATE_TO -e gpufleet_for_tenant=blue" in told, told


@pytest.mark.slow
def test_h2_day_2_leaves_a_quarantine_to_people_until_one_of_them_says_otherwise(tmp_path: Path) -> None:
    """gpu001 waits for a part. gpu002 may be recycled once more."""
    with in_service(tmp_path, 2) as nodes:
        with Ledger(nodes.url) as ledger:
            for name, remedy in (("gpu001", "rma"), ("gpu002", "reset_gpu")):
                node = ledger.identify(name, aliases=[("serial", nodes.hosts[name]["gpufleet_serial"])])
                reason = {"reason": f"it failed {name}", "remedy": remedy}
                ledger.append("r1", [(node, Event("state", "quarantined", reason))])
                ledger.record_attempt("r1", node, "reimage", "it failed")
        told = nodes.book("day2_recycle", ok=False)
        assert nodes.scheduler("gpu001") == "IDLE" and "+DRAIN gpufleet:" in nodes.scheduler("gpu002"), told
        assert "it failed gpu001 (no run is the remedy rma: apply it first) Next: " in told, told
        way = ("--limit", "gpu001", "-e", "day2_recycle_all=true")
        assert f"Next: ansible-playbook gpufleet.baremetal.day2_recycle -i INVENTORY {' '.join(way)}" in told, told
        nodes.book("day2_recycle", *way, ok=False)
        assert "+DRAIN gpufleet:" in nodes.scheduler("gpu001"), "the command that was told takes it up"


def door(folder: Path, **args: Any) -> Door:
    tenant = {name: args.pop(name) for name in list(args) if name.startswith("gpufleet_")}
    return Door(
        folder, scheduler_node, base=ActionModule, name="scheduler_node", own_spec=NODE, args=args,
        gpufleet_scheduler="slurm", gpufleet_scheduler_node="gpu001", **tenant,
    )  # fmt: skip


def test_u10_a_hold_of_a_tenants_node_is_lifted_for_no_reason_but_the_tenants_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = slurm_commands.install(tmp_path, nodes={"gpu001": {"state": "IDLE", "reason": "", "by": ""}})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert door(tmp_path, state="held", force_reason="a test").run().get("changed")
    held = world.read_text(encoding="utf-8")
    tenant = {"state": "resumed", "force_reason": "a test"}
    refused = door(tmp_path, gpufleet_tenant="blue", **tenant).run()
    assert refused["failed"] and "this node is a tenant's" in refused["msg"], refused
    assert world.read_text(encoding="utf-8").count("update") == held.count("update")
    named = door(tmp_path, gpufleet_tenant="blue", gpufleet_for_tenant="blue", **tenant).run()
    assert named.get("changed"), named


def test_c3_a_node_that_another_run_admitted_since_the_look_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = slurm_commands.install(tmp_path, nodes={"gpu001": {"state": "IDLE", "reason": "", "by": ""}})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
        [seen] = ledger.append("r1", [(node, Event("state", "quarantined", {"reason": "x"}))])
        [now] = ledger.append("r2", [(node, Event("state", "admitted"))])
    for state in ("held", "resumed"):
        refused = door(tmp_path, state=state, seen_event=seen).run()
        assert refused["failed"] and refused["error"]["kind"] == "not_ours" and "r2" in refused["msg"], refused
    assert "update" not in world.read_text(encoding="utf-8")
    held = door(tmp_path, state="held", seen_event=now).run()
    assert held.get("changed"), held
