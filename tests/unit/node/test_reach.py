# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a batch of SSH ports, against real sockets on loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node.reach import wait_for_nodes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


@contextmanager
def server(greeting: bytes | None) -> Iterator[int]:
    """A port that greets everybody so, or keeps silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _peer = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                if greeting is not None:
                    connection.sendall(greeting)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        for connection in kept:
            connection.close()


def wait(*nodes: dict[str, Any], timeout: float = 0.3, check: bool = False) -> dict[str, Any]:
    params = {"nodes": list(nodes), "timeout": timeout, "interval": 0.05, "connect_timeout": 0.2}
    verdicts: dict[str, Any] = wait_for_nodes(params, Context(check_mode=check)).data["verdicts"]
    return verdicts


def test_each_node_gets_its_own_verdict_and_a_dead_one_stops_nobody() -> None:
    with server(b"SSH-2.0-OpenSSH_9.2\r\n") as good, server(b"220 mail\r\n") as mail, server(None) as silent:
        verdicts = wait(
            {"host": "good", "address": "127.0.0.1", "port": good},
            {"host": "mail", "address": "127.0.0.1", "port": mail},
            {"host": "silent", "address": "127.0.0.1", "port": silent},
            {"host": "closed", "address": "127.0.0.1", "port": 1},
        )
    assert {host: verdict["ok"] for host, verdict in verdicts.items()} == {
        "good": True,
        "mail": False,
        "silent": False,
        "closed": False,
    }
    assert "220 mail" in verdicts["mail"]["reason"]
    assert "timed out" in verdicts["silent"]["reason"]
    assert "refused" in verdicts["closed"]["reason"]


def test_a_node_that_answers_later_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    opened = threading.Event()

    def late() -> None:
        opened.wait(5)
        with socket.create_server(("127.0.0.1", port)) as listener:
            connection, _peer = listener.accept()
            connection.sendall(b"SSH-2.0-x\r\n")
            connection.close()

    thread = threading.Thread(target=late, daemon=True)
    thread.start()
    threading.Timer(0.2, opened.set).start()
    verdicts = wait({"host": "late", "address": "127.0.0.1", "port": port}, timeout=5)
    thread.join(5)
    assert verdicts["late"]["ok"]


def test_check_mode_looks_once_and_does_not_wait() -> None:
    begun = time.monotonic()
    verdicts = wait({"host": "closed", "address": "127.0.0.1", "port": 1}, timeout=30, check=True)
    assert not verdicts["closed"]["ok"]
    assert time.monotonic() - begun < 20


def test_no_nodes_no_verdicts() -> None:
    assert wait() == {}


def test_a_node_without_a_name_is_an_error() -> None:
    with pytest.raises(ConfigError):
        wait({"port": 22})
