# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of the contract suites are what they say: of a service and of a tool alike."""

from __future__ import annotations

import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from contract.faults import GARBAGE, OUTAGE, REFUSAL, Faults, HttpFaults, Said, ToolFaults
from contract.proxy import Proxy

WAYS = {OUTAGE: Said(1, err="no answer\n"), GARBAGE: Said(0, out="<>\n"), REFUSAL: Said(1, err="Permission denied\n")}


class Peer:
    """``write`` and ``read`` give a word, or None where none came; ``done`` tells the writes that took effect."""

    faults: Faults
    read: Callable[[], Any]
    write: Callable[[], Any]
    done: Callable[[], int]


@pytest.fixture
def tool(tmp_path: Path) -> Peer:
    effect = tmp_path / "effect"
    effect.write_text("")
    real = tmp_path / "real"
    real.write_text(f'#!/bin/sh\n[ "$1" = set ] && echo x >> {effect}\necho fine "$2"\n')
    real.chmod(0o755)
    peer = Peer()
    peer.faults = ToolFaults(tmp_path / "faults", {"ctl": [str(real)]}, [r"^ctl set\b"], WAYS)

    def run(*argv: str) -> Any:
        done = subprocess.run([str(peer.faults.path / "ctl"), *argv], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else None

    peer.read, peer.write = lambda: run("get", "a b"), lambda: run("set", "a b")
    peer.done = lambda: len(effect.read_text().split())
    return peer


@pytest.fixture
def service() -> Iterator[Peer]:
    done: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"fine a b\n")

        def do_POST(self) -> None:
            done.append(self.path)
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True).start()
    proxy = Proxy(f"http://127.0.0.1:{server.server_address[1]}")
    peer = Peer()
    peer.faults = HttpFaults(proxy)

    def ask(method: str) -> Any:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{proxy.url}/x?y", method=method), timeout=5) as got:
                return got.read().decode()
        except (OSError, urllib.error.URLError):
            return None

    peer.read, peer.write, peer.done = lambda: ask("GET"), lambda: ask("POST"), lambda: len(done)
    yield peer
    proxy.close()
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["tool", "service"])
def peer(request: pytest.FixtureRequest) -> Peer:
    found: Peer = request.getfixturevalue(request.param)
    return found


def test_a_peer_in_good_health_is_counted(peer: Peer) -> None:
    assert peer.read() == "fine a b\n" and peer.write() == "fine a b\n"
    assert (len(peer.faults.reads), len(peer.faults.writes), peer.done()) == (1, 1, 1)
    assert [call.is_write for call in peer.faults.calls] == [False, True]
    peer.faults.forget()
    assert peer.faults.calls == []


def test_a_fault_that_fails_itself_is_no_outage_that_a_test_passes_by() -> None:
    """Also where it was forgotten since."""
    proxy = Proxy("http://127.0.0.1:9")
    proxy.fault = lambda asked: asked.what  # type: ignore[attr-defined]
    with pytest.raises(OSError):
        urllib.request.urlopen(proxy.url, timeout=5)
    proxy.forget()
    with pytest.raises(AttributeError, match="what"):
        proxy.close()


def test_an_outage_ends_after_so_many_calls(peer: Peer) -> None:
    peer.faults.outage(times=2)
    assert peer.write() is None and peer.read() is None and peer.done() == 0
    assert peer.read() == "fine a b\n"
    peer.faults.outage()
    assert [peer.read() for _time in range(3)] == [None] * 3
    peer.faults.forget()
    assert peer.read() == "fine a b\n"


def test_every_way_leaves_the_peer_as_it_was(peer: Peer) -> None:
    assert {OUTAGE, GARBAGE} <= set(peer.faults.unusable) and REFUSAL not in peer.faults.unusable
    for way in (*peer.faults.unusable, REFUSAL):
        peer.faults.strike(way)
        assert peer.write() != "fine a b\n" and peer.done() == 0, way
    peer.faults.refuse_login()
    assert peer.read() is None


def test_some_writes_are_refused_and_nothing_else(peer: Peer) -> None:
    peer.faults.strike_writes(REFUSAL, 2, 3)
    assert [peer.write() for _time in range(4)] == ["fine a b\n", None, None, "fine a b\n"] and peer.done() == 2
    peer.faults.strike_writes(REFUSAL, 2)
    assert [peer.write() for _time in range(3)] == ["fine a b\n", None, None] and peer.read() == "fine a b\n"
    peer.faults.forget()
    assert peer.write() == "fine a b\n"


def test_a_lost_answer_is_of_a_write_that_was_done(peer: Peer) -> None:
    peer.faults.lose_answer(2)
    assert peer.write() == "fine a b\n" and peer.read() == "fine a b\n"
    assert peer.write() is None and peer.done() == 2
    assert peer.write() == "fine a b\n" and peer.done() == 3
