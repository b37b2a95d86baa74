# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that its scheduler gives work already, and of which the ledger cannot be told that it is admitted."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service

pytestmark = pytest.mark.slow


def resumed(nodes: Nodes) -> None:
    """Its passport is new, our hold is lifted, and the next thing is to write down that it is admitted."""
    payload = base64.b64encode(b'{"predicate": {}}').decode()
    envelope = {"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": []}
    with Ledger(nodes.url) as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
        ledger.append("r1", [(node, Event("state", state)) for state in ("imaging", "validating")])
        now = ledger.now()
        ledger.save_passport("r1", node, issued=now, expires=now + 9e6, digest="sha256:1", envelope=envelope)


def statement(nodes: Nodes, text: str) -> None:
    with contextlib.closing(sqlite3.connect(nodes.ledger, timeout=30, isolation_level=None)) as ledger:
        ledger.execute(text)


def read_only(nodes: Nodes) -> None:
    refused = "SELECT RAISE(ABORT, 'attempt to write a readonly database')"
    statement(nodes, f"CREATE TRIGGER full BEFORE INSERT ON events BEGIN {refused}; END")


def back_once_tried(nodes: Nodes) -> None:
    """The ledger can be written again as soon as the first try to hold the node has looked at the scheduler."""
    while not json.loads(nodes.world.read_text(encoding="utf-8") or '{"calls": []}')["calls"]:
        time.sleep(0.05)
    time.sleep(1.0)
    statement(nodes, "DROP TRIGGER full")


def admit(nodes: Nodes, **settings: Any) -> str:
    given = {"join_passport": {"passport": {"digest": "sha256:1"}}, "join_hold_interval": 0.5, **settings}
    role = {"name": "gpufleet.baremetal.join", "tasks_from": "admit.yml"}
    tasks = [{"ansible.builtin.import_role": role, "vars": given}]
    return nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": tasks}], ok=False)


def test_l6_a_ledger_that_is_back_in_a_moment_is_waited_for_and_the_node_is_held(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        resumed(nodes)
        read_only(nodes)
        back = threading.Thread(target=back_once_tried, args=(nodes,), daemon=True)
        back.start()
        told = admit(nodes, join_hold_timeout=60)
        back.join(60)
        assert "DRAIN gpufleet:" in nodes.scheduler("gpu001"), told
        assert "Not admitted, and held again" in told and "IN SERVICE, NOT" not in told and nodes.states("gpu001") == []


def test_c8_a_ledger_that_told_nothing_of_the_batch_is_waited_for_as_well(tmp_path: Path) -> None:
    """It went away when the verdicts of nodes that were resumed had to be written down."""
    verdict = {"ok": False, "reason": "the ledger takes nothing", "kind": "unreachable"}
    play = {
        "ansible.builtin.import_role": {"name": "gpufleet.baremetal.join"},
        "vars": {"join_hold_timeout": 60, "join_hold_interval": 0.5},
    }
    play["vars"]["join_wait"] = {"verdicts": {"gpu001": verdict}}
    from_there = ("--start-at-task", "Read whether the node is admitted")
    with in_service(tmp_path) as nodes:
        resumed(nodes)
        read_only(nodes)
        back = threading.Thread(target=back_once_tried, args=(nodes,), daemon=True)
        back.start()
        told = nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [play]}], *from_there, ok=False)
        back.join(60)
        assert "DRAIN gpufleet:" in nodes.scheduler("gpu001"), told
        assert "Not admitted, and held again: the ledger takes nothing" in told and "IN SERVICE" not in told, told


def test_c8_a_resume_that_the_ledger_was_not_told_of_is_taken_back(tmp_path: Path) -> None:
    """Slurm has done it. The ledger is away for no more than that."""
    untold = "NEW.kind = 'outcome' AND NEW.data LIKE '%State=RESUME%'"
    hold = {"gpufleet.baremetal.scheduler_node": {"state": "held"}}
    join = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.join"}, "vars": {"join_hold_interval": 0.5}}
    with in_service(tmp_path) as nodes:
        resumed(nodes)
        nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [hold]}], ok=True)
        nodes.options["scheduler_node"] = {"force_reason": "its gates are not played here"}
        refused = "SELECT RAISE(ABORT, 'attempt to write a readonly database')"
        statement(nodes, f"CREATE TRIGGER full BEFORE INSERT ON events WHEN {untold} BEGIN {refused}; END")
        play = {"hosts": "all", "gather_facts": False, "tasks": [join]}
        told = nodes.plays([play], "--start-at-task", "Lift our hold", ok=False)
        calls = [" ".join(call) for call in json.loads(nodes.world.read_text(encoding="utf-8"))["calls"]]
        asked = ["RESUME" in call for call in calls if "scontrol update" in call]
        assert asked == [False, True, False], (calls, told)
        assert "DRAIN gpufleet:" in nodes.scheduler("gpu001"), told
        assert "Not admitted, and held again" in told and "readonly" in told and nodes.states("gpu001") == [], told


def test_l6_a_node_that_falls_silent_after_its_resume_is_held_again_by_whatever_playbook(tmp_path: Path) -> None:
    """readmit has no rescue: once its agent answers again, after a boot that no gate saw, it would be given work."""
    with in_service(tmp_path) as nodes:
        resumed(nodes)
        hold = {"gpufleet.baremetal.scheduler_node": {"state": "held"}}
        nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [hold]}], ok=True)
        nodes.options["scheduler_node"] = {"force_reason": "its gates are not played here", "timeout": 3}
        silent_once_resumed(nodes)
        told = nodes.book("readmit", "-e", "join_timeout=5", "--start-at-task", "Lift our hold", ok=False)
        assert "DRAIN" in nodes.scheduler("gpu001") and "gpufleet:" in nodes.scheduler("gpu001"), told
        assert "Not admitted, and held again" in told and nodes.states("gpu001") == [], told


def silent_once_resumed(nodes: Nodes) -> None:
    """Its agent falls silent in the moment in which the scheduler takes it back."""
    command = nodes.folder / "bin" / "scontrol"
    real = command.rename(command.with_name("scontrol.real"))
    text = (
        f"import json, pathlib; world = pathlib.Path({str(nodes.world)!r}); told = json.loads(world.read_text());"
        " told['nodes']['gpu001']['state'] = 'IDLE+NOT_RESPONDING'; world.write_text(json.dumps(told))"
    )
    silent = f'case "$*" in *State=RESUME*) {shlex.quote(sys.executable)} -c {shlex.quote(text)} ;; esac'
    command.write_text(f'#!/bin/sh\n{shlex.quote(str(real))} "$@"\nrc=$?\n{silent}\nexit $rc\n', encoding="utf-8")
    command.chmod(0o755)


def test_h1_a_node_that_a_person_drains_right_after_its_resume_is_told_as_theirs(tmp_path: Path) -> None:
    """It gets no work, and there is nothing to hold again."""
    given = {"join_hold_timeout": 600, "join_node": {"changed": True}}
    play = {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.join"}, "vars": given}
    from_there = ("--start-at-task", "Wait until the scheduler sees the batch answer")
    with in_service(tmp_path) as nodes:
        resumed(nodes)
        nodes.scheduler("gpu001", state="IDLE+DRAIN", reason="anna swaps a DIMM", by="anna")
        told = nodes.plays([{"hosts": "all", "gather_facts": False, "tasks": [play]}], *from_there, ok=False)
        assert "not held by us" in told and "anna swaps a DIMM" in told and "IN SERVICE" not in told, told
        assert "RETRYING" not in told and nodes.scheduler("gpu001") == "IDLE+DRAIN anna swaps a DIMM", told


def test_l6_a_node_that_nothing_can_hold_again_is_told_with_the_command_that_does(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        resumed(nodes)
        read_only(nodes)
        told = admit(nodes, join_hold_timeout=1)
        assert nodes.scheduler("gpu001") == "IDLE"
        assert "IN SERVICE, NOT ADMITTED: gpu001" in told and "readonly" in told, told
        assert "ansible-playbook gpufleet.baremetal.drain -i INVENTORY --limit gpu001" in told
        statement(nodes, "DROP TRIGGER full")
        nodes.book("drain", "--limit", "gpu001", ok=True)
        assert "DRAIN gpufleet:" in nodes.scheduler("gpu001"), "the command that was told"


@pytest.mark.parametrize("states", [["quarantined"], ["quarantined", "imaging"], ["imaging", "validating"]])
def test_j7_what_came_from_another_provisioner_and_was_not_imaged_there_is_not_validated(
    tmp_path: Path, states: list[str]
) -> None:
    """What it runs was deployed by the one that it left: by no look is that what this one was to deploy."""
    with in_service(tmp_path) as nodes:
        with Ledger(nodes.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
            ledger.append("r1", [(node, Event("state", state, {"reason": "moved"})) for state in ("draining", *states)])
            places = {"from": {"provisioner": "maas", "url": "https://a"}, "to": {"provisioner": "ironic", "url": "b"}}
            ledger.append("r1", [(node, Event("provisioner", "moved", places))])
        told = nodes.book("revalidate", ok=False)
    assert "by the provisioner that has it now" in told and "gpufleet.baremetal.reimage first" in told, told
    assert "Prove the BMC" not in told and nodes.states("gpu001") == []
