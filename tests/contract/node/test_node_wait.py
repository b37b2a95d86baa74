# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_wait as a verb and as the module by itself. How a batch is served stands beside it, under ``batch``."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Fenced
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node.reach import wait_for_nodes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline

CHECKOUT = Path(__file__).resolve().parents[3]


@contextmanager
def greeting(text: bytes) -> Iterator[int]:
    """The port of a server that says this and nothing else."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _peer = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(text)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=5)


def waited(*nodes: dict[str, Any], check: bool = False, line: Lifeline | None = None, **more: Any) -> dict[str, Any]:
    params = {"nodes": list(nodes), "timeout": 0.3, "interval": 0.05, "connect_timeout": 0.5, **more}
    ctx = Context(check_mode=check, lifeline=line)
    verdicts: dict[str, Any] = wait_for_nodes(params, ctx).as_dict(ctx)["verdicts"]
    return verdicts


@pytest.mark.parametrize("text", [b"HTTP/1.0 400 Bad Request\r\n", b"", b"\x00\xff", b"ssh-2.0"])
def test_what_greets_otherwise_is_no_node(text: bytes) -> None:
    with greeting(text) as port:
        verdict = waited({"host": "n1", "address": "127.0.0.1", "port": port})["n1"]
    assert not verdict["ok"] and "greeted with" in verdict["reason"]


def test_a_name_that_does_not_resolve_is_a_verdict() -> None:
    with greeting(b"SSH-2.0-x\r\n") as port:
        verdicts = waited({"host": "n1", "address": "127.0.0.1", "port": port}, {"host": "no.such.host.invalid"})
    assert verdicts["n1"]["ok"] and not verdicts["no.such.host.invalid"]["ok"]


def test_a_name_that_nobody_knows_is_no_verdict_about_the_node_and_a_silent_port_is() -> None:
    nodes = {
        "nameless": {"address": "no.such.host.invalid"},
        "silent": {"address": "127.0.0.1", "port": 1},
        "theirs": {"refused": "another run works on it"},
        "unset": {"refused": "no serial", "refused_kind": "config"},
    }
    verdicts = waited(*({"host": host, **node} for host, node in nodes.items()))
    told = {host: quarantines(verdict) for host, verdict in verdicts.items()}
    assert told == {"nameless": False, "silent": True, "theirs": False, "unset": False}, verdicts
    assert verdicts["nameless"]["kind"] in ("config", "unreachable") and verdicts["unset"]["kind"] == "config"


def test_check_mode_looks_once() -> None:
    assert not waited({"host": "n1", "address": "127.0.0.1", "port": 1}, check=True, timeout=3600)["n1"]["ok"]


def test_nothing_to_wait_for() -> None:
    assert waited() == {}


def test_a_node_without_name_and_address() -> None:
    with pytest.raises(ConfigError):
        waited({"port": 22})


def test_an_orphan_stops_waiting() -> None:
    class Gone(Lifeline):
        def beat(self) -> None:
            raise Fenced("the run is gone")

    with pytest.raises(Fenced):
        waited({"host": "n1", "address": "127.0.0.1", "port": 1}, line=Gone(), timeout=3600)


def test_the_module_by_itself() -> None:
    code = "from ansible_collections.gpufleet.baremetal.plugins.modules.node_wait import main; main()"
    with greeting(b"SSH-2.0-x\r\n") as port:
        args = {"timeout": 5, "interval": 0.1, "nodes": [{"host": "n1", "address": "127.0.0.1", "port": port}]}
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": args}),
            env={**os.environ, "PYTHONPATH": str(CHECKOUT / "build" / "collections"), "_ANSIBLE_PROFILE": "legacy"},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["verdicts"]["n1"]["ok"] and result["changed"] is False, done.stderr


class Losing(Lifeline):
    def confirm(self) -> dict[str, str]:
        return {"n1": "another run works on it"}


def test_a_node_that_answered_and_was_lost_then_is_none_of_ours() -> None:
    with greeting(b"SSH-2.0-x\r\n") as port:
        nodes = [{"host": host, "address": "127.0.0.1", "port": port} for host in ("n1", "n2")]
        verdicts = waited(*nodes, line=Losing())
    assert verdicts["n1"] == {"ok": False, "seconds": 0.0, "reason": "another run works on it", "kind": "not_ours"}
    assert verdicts["n2"]["ok"]
