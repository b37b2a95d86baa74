# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook maintenance: what a person keeps, what they may not take, and how each of it is given back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, Nodes, in_service
from fake_bmc.tls import Authority

pytestmark = pytest.mark.slow

OFF = ("-e", "maintenance=off")
ADOPT = "ansible-playbook gpufleet.baremetal.adopt -i INVENTORY --limit"


def on(why: str = "disk swap", **more: Any) -> tuple[str, str]:
    return "-e", json.dumps({"maintenance": "on", "maintenance_why": why, **more})


def written(nodes: Nodes) -> int:
    """How often Slurm was told to change something."""
    calls = json.loads(nodes.world.read_text(encoding="utf-8"))["calls"]
    return sum(call[:2] == ["scontrol", "update"] for call in calls)


def test_h2_day_2_leaves_a_kept_node_alone_whatever_slurm_writes_in_its_place(tmp_path: Path) -> None:
    """A GPU is out, and slurmd registers with seven: Slurm overwrites the Reason, and the node is kept as before."""
    with in_service(tmp_path) as nodes:
        told = nodes.book("maintenance", *on(maintenance_until="friday"), ok=True)
        assert "kept by a person: disk swap (until friday)" in told and "-e maintenance=off" in told, told
        assert "+keep:disk swap (until friday)" in nodes.scheduler("gpu001") and nodes.states("gpu001") == ["draining"]
        for change in ({}, {"reason": "gres/gpu count reported lower than configured (7 < 8)", "by": "slurm"}):
            seen, before = nodes.scheduler("gpu001", **change), written(nodes)
            nodes.book("day2_recycle", "-e", "day2_recycle_all=true", ok=True)
            assert (nodes.scheduler("gpu001"), written(nodes)) == (seen, before)
        nodes.book("maintenance", *OFF, ok=True)
        assert "gpufleet:" in nodes.scheduler("gpu001") and "+keep" not in nodes.scheduler("gpu001")
        assert nodes.states("gpu001") == ["draining", "drained"]


def test_h2_what_slurm_writes_over_two_keeps_makes_them_no_one_persons(tmp_path: Path) -> None:
    """Each is told by the words of who keeps it; and one person's two are given back though Slurm wrote over one."""
    finding = {"reason": "gres/gpu count reported lower than configured (7 < 8)", "by": "slurm"}
    with in_service(tmp_path, 2) as nodes:
        nodes.book("maintenance", *on("anna: hands inside"), "--limit", "gpu001", ok=True)
        nodes.book("maintenance", *on("bob: cable check"), "--limit", "gpu002", ok=True)
        held = [nodes.scheduler(name, **finding) for name in nodes.hosts]
        told = nodes.book("maintenance", *OFF, ok=False)
        assert "anna: hands inside" in told and "bob: cable check" in told, told
        assert [nodes.scheduler(name) for name in nodes.hosts] == held
        nodes.book("maintenance", *OFF, "--limit", "gpu002", ok=True)
        nodes.book("maintenance", *on("anna: hands inside"), "--limit", "gpu002", ok=True)
        nodes.book("maintenance", *OFF, ok=True)
        seen = [nodes.scheduler(name) for name in nodes.hosts]
        assert all("+keep" not in one and "gpufleet:" in one for one in seen), seen


def test_h2_who_resumes_a_kept_node_in_the_scheduler_itself_ends_the_keeping(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        nodes.book("maintenance", *on(), ok=True)
        nodes.scheduler("gpu001", state="IDLE", reason="", by="")
        told = nodes.book("maintenance", *OFF, ok=True)
        assert "kept by a person" not in told and nodes.scheduler("gpu001") == "IDLE", told
        assert nodes.events("gpu001", "hold")[-1][0] == "released"


def test_h2_a_hold_to_which_somebody_added_a_word_is_theirs_and_shown(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        nodes.book("maintenance", *on(), ok=True)
        reason = nodes.events("gpu001", "hold")[0][1]["hold_token"] + " part ordered"
        nodes.scheduler("gpu001", reason=reason, by="carol")
        told = nodes.book("maintenance", *OFF, ok=False)
        assert "part ordered" in told and "carol" in told, told
        assert nodes.scheduler("gpu001").endswith("part ordered")


def test_h2_a_node_in_service_that_the_ledger_never_admitted_is_not_taken(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        with Ledger(nodes.url) as ledger:  # day 0 has begun with one of them, and holds it
            node = ledger.identify("gpu009", aliases=[("serial", "SN0009")])
            ledger.append("r1", [(node, Event("state", "enrolled"))])
        nodes.hosts["gpu001"]["gpufleet_serial"] = "SN0008"
        nodes.hosts["gpu002"]["gpufleet_serial"] = "SN0009"
        nodes.scheduler("gpu002", state="DOWN", reason="Not responding", by="slurm", booted="None")
        told = nodes.book("maintenance", *on(), ok=False)
        assert "the ledger never admitted it" in told, told
        assert "or adopt it first" in told and f"{ADOPT} gpu001" in told, told
        assert nodes.scheduler("gpu001") == "IDLE" and "+keep:disk swap" in nodes.scheduler("gpu002")


@pytest.mark.parametrize("asked", [("-e", "maintenance=perhaps"), on("  ")])
def test_h2_who_does_not_say_what_or_why_is_told_and_nothing_is_done(tmp_path: Path, asked: tuple[str, ...]) -> None:
    with in_service(tmp_path) as nodes:
        told = nodes.book("maintenance", *asked, ok=False)
        assert "Say -e maintenance=on" in told and nodes.scheduler("gpu001") == "IDLE" and written(nodes) == 0, told


def test_h2_what_one_person_keeps_the_next_one_neither_takes_nor_gives_back_unseen(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.book("maintenance", *on("anna: hands inside"), "--limit", "gpu001", ok=True)
        told = nodes.book("maintenance", *on("bob: cable check"), ok=False)
        assert "keeps this node already" in told and "anna: hands inside" in told, told
        assert "anna: hands inside" in nodes.scheduler("gpu001") and "bob: cable check" in nodes.scheduler("gpu002")
        nodes.book("maintenance", *on("anna: hands inside"), "--limit", "gpu001", ok=True)  # who says the same goes on
        before = [nodes.scheduler(name) for name in nodes.hosts]
        told = nodes.book("maintenance", *OFF, ok=False)
        assert "kept for 2 reasons: anna: hands inside; bob: cable check" in told, told
        assert [nodes.scheduler(name) for name in nodes.hosts] == before
        nodes.book("maintenance", *on("carol", maintenance_replaces=True), "--limit", "gpu001", ok=True)
        assert "+keep:carol" in nodes.scheduler("gpu001")
        nodes.book("maintenance", *OFF, "--limit", "gpu002", ok=True)
        assert "+keep:carol" in nodes.scheduler("gpu001") and "+keep" not in nodes.scheduler("gpu002")


def test_h2_what_a_run_drained_for_another_reason_is_not_readmitted_with_what_was_kept(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.book("drain", "--limit", "gpu001", "-e", '{"drain_why": "firmware by anna"}', ok=True)
        nodes.book("maintenance", *on(), "--limit", "gpu002", ok=True)
        before = nodes.scheduler("gpu001")
        nodes.book("maintenance", *READMIT, ok=False)  # its machine does not answer here
        assert nodes.scheduler("gpu001") == before and "maintenance is over" in nodes.scheduler("gpu002")


def test_h2_a_run_that_was_killed_once_it_had_given_a_node_back_goes_on_with_it(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        nodes.book("maintenance", *on(), ok=True)
        hold = {"gpufleet.baremetal.scheduler_node": {"state": "held", "why": "maintenance is over", "over_keep": True}}
        nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [hold]}], ok=True)
        assert nodes.states("gpu001") == ["draining"]
        told = nodes.book("maintenance", *READMIT, ok=False)
        assert "cannot be reached over SSH" in told and nodes.states("gpu001") == ["draining", "drained"], told


@pytest.mark.parametrize("kept", [True, False])
def test_h2_a_machine_that_somebody_holds_is_not_powered_on(tmp_path: Path, kept: bool) -> None:
    """By whoever it is held; once they have given it back it is."""
    authority = Authority(tmp_path)
    on_it = [{"gpufleet.baremetal.redfish_power": {"state": "on"}}]
    look = [{"gpufleet.baremetal.scheduler_wait": {"until": "drained", "timeout": 1}, "run_once": True}]
    with in_service(tmp_path, context=authority.server_context("127.0.0.1")) as nodes:
        nodes.shared["gpufleet_bmc_ca_path"] = str(authority.path)
        if kept:
            nodes.book("maintenance", *on("hands inside"), ok=True)
        else:
            nodes.scheduler("gpu001", state="IDLE+DRAIN", reason="hands inside", by="anna")
            nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": look}], ok=True)
        told = nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": on_it}], ok=False)
        assert "may have their hands inside" in told and not nodes.bmcs["gpu001"].writes, told
        nodes.scheduler("gpu001", state="IDLE", reason="", by="")
        nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [*look, *on_it]}], ok=True)
        assert nodes.bmcs["gpu001"].writes


def test_h2_what_is_given_back_while_its_jobs_run_is_not_recorded_as_drained(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        world = json.loads(nodes.world.read_text(encoding="utf-8"))
        nodes.world.write_text(json.dumps({**world, "jobs": [{"id": "4711", "node": "gpu001"}]}), encoding="utf-8")
        nodes.scheduler("gpu001", state="ALLOCATED")
        nodes.book("maintenance", *on(drain_timeout=0), ok=False)
        nodes.scheduler("gpu001", state="ALLOCATED+DRAIN")
        nodes.book("maintenance", *OFF, ok=True)
        assert "maintenance is over" in nodes.scheduler("gpu001") and nodes.states("gpu001") == ["draining"]


def test_h2_a_node_of_which_nobody_can_tell_is_neither_taken_nor_given_back(tmp_path: Path) -> None:
    """slurmctld was just started, and has not heard of it: whoever works there is not asked."""
    with in_service(tmp_path) as nodes:
        nodes.scheduler("gpu001", state="UNKNOWN", booted="None")
        for asked in (on(), OFF):
            told = nodes.book("maintenance", *asked, ok=False)
            assert "unknown to the scheduler" in told and written(nodes) == 0 and not nodes.states("gpu001"), told


#: What another run does between this one's look at the ledger and its hold.
QUARANTINES = """
import sys
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
with Ledger(sys.argv[1]) as ledger:
    node = ledger.identify("gpu001", aliases=[("serial", "SN0001")], create=False)
    found = {"from": "draining", "reason": "Xid 79", "remedy": "rma"}
    ledger.append("another", [(node, Event("state", "draining", {"from": "admitted"}))])
    ledger.append("another", [(node, Event("state", "quarantined", found))])
"""


@pytest.mark.parametrize("book", [("drain",), ("maintenance", *on())])
def test_l2_what_another_run_found_meanwhile_is_not_written_over(tmp_path: Path, book: tuple[str, ...]) -> None:
    with in_service(tmp_path) as nodes:
        (tmp_path / "other.py").write_text(QUARANTINES, encoding="utf-8")
        argv = [sys.executable, str(tmp_path / "other.py"), nodes.url]
        other = {"ansible.builtin.command": {"argv": argv}, "delegate_to": "localhost", "connection": "local"}
        plays = yaml.safe_load((PLAYBOOKS / f"{book[0]}.yml").read_text(encoding="utf-8"))
        looks = [number for number, task in enumerate(plays[0]["tasks"]) if "gpufleet.baremetal.fleet_status" in task]
        plays[0]["tasks"].insert(looks[0] + 1, {**other, "check_mode": False})
        told = nodes.plays(plays, *book[1:], ok=False)
        assert nodes.states("gpu001") == ["draining", "quarantined"] and "another run" in told, told


READMIT = (*OFF, "-e", "maintenance_readmit=true")


def test_h2_what_could_not_be_readmitted_is_tried_again_and_its_gates_may_see_the_new_boot(tmp_path: Path) -> None:
    """Its machine does not answer here: how far each playbook goes is what is asked."""
    with in_service(tmp_path, 2) as nodes:
        with Ledger(nodes.url) as ledger:  # which works as it did before us
            node = ledger.identify("gpu009", aliases=[("serial", "SN0009")])
            taken = [("enrolled", {}), ("admitted", {"adopted": True})]
            ledger.append("r1", [(node, Event("state", state, data)) for state, data in taken])
        nodes.hosts["gpu002"]["gpufleet_serial"] = nodes.bmcs["gpu002"].vendor["system"]["SerialNumber"] = "SN0009"
        nodes.book("maintenance", *on(), ok=True)
        for _time in range(2):
            told = nodes.book("maintenance", *READMIT, ok=False)
            assert "the kernel log" in told and "cannot be reached over SSH" in told, told
            assert "maintenance is over" in nodes.scheduler("gpu001") and nodes.states("gpu001")[-1] == "drained"
            # Neither a log that counts nor a passport lets the other one back in: its owner does.
            assert "was adopted, and no run has imaged it" in told and f"{ADOPT} gpu002" in told, told
            assert "maintenance is over" in nodes.scheduler("gpu002") and nodes.states("gpu009")[-1] == "drained"
        told = nodes.book("revalidate", ok=False)
        assert "baseline : Prove that the declared image runs" in told, told
        assert told.count("this one was adopted as it worked. Run the playbook gpufleet.baremetal.reimage first") >= 1
