# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role quarantine makes of a failure, through ansible-playbook: the node's own, or anybody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet, status
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_served import AWAY

pytestmark = pytest.mark.slow

ROLE = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.quarantine"}}
#: What fails on each host.
FAULTS: dict[str, dict[str, Any]] = {
    "admitted": {"ansible.builtin.assert": {"that": False, "fail_msg": "it does not answer"}},
    "released": {"ansible.builtin.fail": {"msg": "jobs run"}},
    "stopped-then-imaged": {"gpufleet.baremetal.ledger_event": {"kind": "note"}},
}


def test_only_the_nodes_own_failure_quarantines_it_and_every_other_is_noted(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.shared["gpufleet_scheduler"] = "none"
    tasks = [{**task, "when": f"inventory_hostname == {host!r}"} for host, task in FAULTS.items()]
    flags = ("--limit", ",".join(FAULTS))
    fleet.play({"block": tasks, "rescue": [ROLE]}, flags=flags)
    nodes = fleet.play(status(), flags=flags)[0]["nodes"]
    assert {host: nodes[host]["state"] for host in FAULTS} == {
        "admitted": "quarantined",
        "released": "drained",
        "stopped-then-imaged": "validating",
    }
    assert "it does not answer" in nodes["admitted"]["reason"]
    assert "jobs run" in nodes["released"]["stopped"] and "name" in nodes["stopped-then-imaged"]["stopped"]


def test_q1_what_failed_at_another_host_of_the_batch_is_noted_and_quarantines_nobody(tmp_path: Path) -> None:
    """Where a task that is run once fails, Ansible tells the other hosts in the rescue nothing of it."""
    fleet = Fleet(tmp_path)
    fleet.shared["gpufleet_scheduler"] = "none"
    flags = ("--limit", "released,stopped-then-imaged")
    fleet.play(ROLE, flags=flags)
    nodes = fleet.play(status(), flags=flags)[0]["nodes"]
    told = [nodes[host] for host in ("released", "stopped-then-imaged")]
    assert [one["state"] for one in told] == ["drained", "validating"]
    assert all("run once for the whole batch" in one["stopped"] for one in told), told


def test_what_is_no_result_is_not_taken_for_one(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    asked = {"ansible.builtin.debug": {"msg": "{{ 'a word' is gpufleet.baremetal.quarantines }}"}}
    fleet.play(asked, ok=False, flags=("--limit", "admitted"))
    assert "asks of a result or of a watcher" in fleet.output


def test_u5_an_outage_in_a_wait_for_the_batch_is_told_of_each_host_and_changes_none(tmp_path: Path) -> None:
    """In the role that waits. A task of run_once that failed had taken all hosts but one out of the run."""
    with in_service(tmp_path, 3) as nodes:
        (tmp_path / "bin" / "scontrol").write_text(AWAY, encoding="utf-8")
        wait = {"name": "gpufleet.baremetal.drain"}
        given = {"drain_after": "inventory_hostname", "drain_timeout": 1, "drain_interval": 0.5}
        block = {"block": [{"ansible.builtin.import_role": wait, "vars": given}], "rescue": [ROLE]}
        told = nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [block]}], ok=True)
        reasons = [nodes.events(name, "note")[0][1]["reason"] for name in nodes.hosts]
        assert len(reasons) == 3 and len(set(reasons)) == 1 and "slurmctld does not answer" in reasons[0], reasons
        recap = told.partition("PLAY RECAP")[2]
        assert recap.count("changed=0") == recap.count("rescued=1") == 3 and "without a message" not in told, told


def test_r5_a_verdict_is_recorded_though_the_node_that_its_row_names_is_not_held(tmp_path: Path) -> None:
    """Nobody has said yet that it is this machine; else the next run would know nothing of what was found."""
    verdict = {"verdict": "fail", "findings": [{"id": "xid_79", "text": "Xid 79", "remedy": "reset_gpu"}]}
    rescue = {
        **ROLE,
        "vars": {"quarantine_result": {"failed": True, "msg": "Xid 79", "remedy": "reset_gpu", **verdict}},
    }
    with in_service(tmp_path, 1) as nodes:
        nodes.hosts["gpu001"]["gpufleet_scheduler_node"] = "n7"
        block = {"block": [{"ansible.builtin.fail": {"msg": "Xid 79"}}], "rescue": [rescue]}
        told = nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [block]}], ok=True)
        [*_before, (state, data)] = nodes.events("gpu001", "state")
        assert state == "quarantined" and data["remedy"] == "reset_gpu", told
        assert data["reason"].startswith("Xid 79; not held: ") and "n7" in data["reason"], data


def test_u2_a_preflight_that_stops_a_run_is_no_verdict_about_its_node(tmp_path: Path) -> None:
    """It has findings, as a gate has, and says of each failed task what each failed task says."""
    fleet = Fleet(tmp_path)
    fleet.shared |= {"gpufleet_scheduler": "none", "gpufleet_provisioner": "", "gpufleet_passport_key_path": "/nowhere"}
    look = {"gpufleet.baremetal.preflight": {"skip": ["ssh", "image", "bmc"]}}
    flags = ("--limit", "released")
    fleet.play({"block": [look], "rescue": [ROLE]}, flags=flags)
    told = fleet.play(status(), flags=flags)[0]["nodes"]["released"]
    assert told["state"] == "drained" and "to be mended before anything is written" in told["stopped"], told
    failed = fleet.play({**look, "register": "looked", "ignore_errors": True}, flags=flags)[0]
    assert failed["kind"] == "config" == failed["error"]["kind"] and failed["error"]["do"], failed


@pytest.mark.parametrize("file", ["main", "stopped"])
def test_u5_who_was_merely_refused_a_lease_notes_nothing_over_why_the_node_stands(tmp_path: Path, file: str) -> None:
    fleet = Fleet(tmp_path)
    fleet.shared["gpufleet_scheduler"] = "none"
    flags = ("--limit", "released")
    role = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.quarantine", "tasks_from": file}}
    for failed in ({"msg": "its disk is full"}, {"msg": "another run works on it", "error": {"kind": "lease_held"}}):
        told = {"ansible_failed_result": {"failed": True, **failed}}
        fleet.play({**role, "vars": {**told, "quarantine_result": told["ansible_failed_result"]}}, flags=flags)
    told = fleet.play(status(), flags=flags)[0]["nodes"]["released"]
    assert told["state"] == "drained" and told["stopped"] == "its disk is full", told
