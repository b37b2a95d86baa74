# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U5: what befalls the wait of a whole batch is each host's own verdict under run_once, of each watcher."""

from __future__ import annotations

import socketserver
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import dcgm_gate, gate_wait, node_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _batch
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

HOSTS = ("gpu001", "gpu002")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger that knows the hosts."""
    monkeypatch.setattr(lifeline, "_CONFIRM_SECONDS", 0.0)
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        for host in HOSTS:
            ledger.identify(host, aliases=[("serial", f"S-{host}")])
    return tmp_path / "ledger.sqlite"


def at(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as ledger:
        ledger.execute(statement)


def waited(folder: Path, action: type[BatchAction], *, run_once: bool, nodes: Any, **args: Any) -> dict[str, Any]:
    variables = {host: {"gpufleet_serial": f"S-{host}", **nodes[host]} for host in HOSTS}
    shared = {"hostvars": variables, "ansible_play_hosts": list(HOSTS), "ansible_play_batch": list(HOSTS)}
    door = Door(
        folder, action.verb, base=action, name=action.NAME, own_spec=action.SPEC,
        args={"interval": 0.1, **args}, **variables["gpu001"], **shared,
    )  # fmt: skip
    door.task.run_once = run_once
    return door.run()


@pytest.fixture
def port(file: Path) -> Iterator[int]:
    """Nodes that answer; when the first one does, the ledger's leases are gone."""
    away = threading.Lock()

    class Greeter(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if away.acquire(blocking=False):
                at(file, "ALTER TABLE leases RENAME TO away")
            self.request.sendall(b"SSH-2.0-x\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeter) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("run_once", [True, False])
def test_u5_a_ledger_that_goes_away_while_nodes_boot_is_each_hosts_own_verdict(
    tmp_path: Path, port: int, run_once: bool
) -> None:
    there = {host: {"ansible_host": "127.0.0.1", "ansible_port": port} for host in HOSTS}
    found = waited(tmp_path, node_wait.ActionModule, run_once=run_once, nodes=there, timeout=60)
    if not run_once:  # there each host's block rescues it
        assert found["failed"] and found["error"]["kind"] == "unreachable"
        return
    assert not found.get("failed") and set(found["verdicts"]) == set(HOSTS), found
    for verdict in found["verdicts"].values():
        assert (verdict["ok"], verdict["kind"], verdict["seconds"]) == (False, "unreachable", 0.0) and verdict["reason"]
        assert not any(host in verdict["reason"] for host in HOSTS), "it is about none of them"


@pytest.mark.parametrize("run_once", [True, False])
def test_u5_a_ledger_that_is_away_before_a_wait_is_each_hosts_own_verdict(
    tmp_path: Path, file: Path, run_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives no leases; a task that fails under run_once takes all other hosts out of the run."""
    monkeypatch.setattr(_batch, "_AWAY_SECONDS", 0.0)
    at(file, "ALTER TABLE leases RENAME TO away")
    nowhere = {host: {"ansible_host": "127.0.0.1", "ansible_port": 1} for host in HOSTS}
    found = waited(tmp_path, node_wait.ActionModule, run_once=run_once, nodes=nowhere, timeout=0)
    if not run_once:
        assert found["failed"] and found["error"]["kind"] == "unreachable" and "leases" in found["msg"]
        return
    assert not found.get("failed") and not found["changed"] and set(found["verdicts"]) == set(HOSTS), found
    for verdict in found["verdicts"].values():
        assert (verdict["ok"], verdict["kind"], verdict["seconds"]) == (False, "unreachable", 0.0), verdict
        assert "leases" in verdict["reason"] and not any(host in verdict["reason"] for host in HOSTS), verdict


def test_u5_a_ledger_that_is_away_for_a_moment_before_a_wait_is_waited_for(tmp_path: Path, file: Path) -> None:
    at(file, "ALTER TABLE leases RENAME TO away")
    back = threading.Timer(1.0, at, (file, "ALTER TABLE away RENAME TO leases"))
    back.start()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        there = {host: {"ansible_host": "127.0.0.1", "ansible_port": server.server_address[1]} for host in HOSTS}
        found = waited(tmp_path, node_wait.ActionModule, run_once=True, nodes=there, timeout=60)
        server.shutdown()
    back.join()
    assert {host: verdict["ok"] for host, verdict in found["verdicts"].items()} == dict.fromkeys(HOSTS, True), found


class Answers(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"SSH-2.0-x\r\n")


def test_u5_a_ledger_that_takes_no_verdict_of_a_batch_is_told_to_each_host_as_that(tmp_path: Path, file: Path) -> None:
    """As one whose disk is full. Who collects such a verdict has none, and nobody is blamed."""
    at(file, "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT no_room(1); END")
    started = {host: {"begun": {"changed": True, "gate": "dcgm_gate"}} for host in HOSTS}
    asked = {"gate": "dcgm_gate", "after": "begun"}
    found = waited(tmp_path, gate_wait.ActionModule, run_once=True, nodes=started, **asked)
    assert not found.get("failed") and set(found["verdicts"]) == set(HOSTS), found
    for verdict in found["verdicts"].values():
        assert (verdict["ok"], verdict["verdict"], verdict["kind"]) == (False, "", "unreachable"), verdict
    at(file, "DROP TRIGGER full")
    collects = dcgm_gate.ActionModule
    door = Door(
        tmp_path, lambda params, ctx: None, base=collects, name=collects.NAME, own_spec=collects.SPEC,  # type: ignore
        args={"collect": "ended"}, gpufleet_serial="S-gpu001", gpufleet_sku="h100-sxm-8",
        ended=found,
    )  # fmt: skip
    judged = door.run()
    assert judged["failed"] and judged["error"]["kind"] == "unreachable" and "verdict" not in judged, judged
    assert "no_room" in judged["msg"]
