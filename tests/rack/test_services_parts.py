# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the rack's services that need neither root nor a running rack."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "roles" / "virtual_rack" / "files" / "services"))

import claim
import keep_logs
import ports
import supervise

# An address of this machine's own that nobody else uses, and one that it does not have (TEST-NET-1)
HERE, NOWHERE = "127.90.0.1", "192.0.2.1"
#: The run that takes a claim here.
ME = os.getpid()
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


@pytest.fixture(params=list(KINDS))
def bound(request: pytest.FixtureRequest) -> tuple[str, socket.socket]:
    with socket.socket(socket.AF_INET, KINDS[request.param]) as other:
        other.bind((HERE, 0))
        if request.param == "tcp":
            other.listen()
        yield request.param, other


def wanted(protocol: str, port: int, address: str = HERE, **more: str) -> dict[str, object]:
    return {"protocol": protocol, "address": address, "port": port, "needed_by": "the test", **more}


def test_c5_a_port_of_somebody_else_is_named_with_its_owner(bound: tuple[str, socket.socket]) -> None:
    protocol, other = bound
    port = other.getsockname()[1]
    said = ports.taken(wanted(protocol, port, option="an_option"), set()) or ""
    for words in (f"Port {port} ({protocol.upper()}) on {HERE}", "the test", f"process {os.getpid()}: ", "an_option"):
        assert words in said, said
    assert ports.taken(wanted(protocol, port, NOWHERE), set()) is None


def test_c5_a_port_of_the_rack_itself_is_no_trouble(bound: tuple[str, socket.socket]) -> None:
    protocol, other = bound
    assert ports.taken(wanted(protocol, other.getsockname()[1]), {os.getsid(0)}) is None


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_c5_a_listener_on_every_address_is_in_the_way_of_each(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as other:
        other.bind((address, 0))
        other.listen()
        for place in (HERE, NOWHERE):
            assert f"process {os.getpid()}" in (ports.taken(wanted("tcp", other.getsockname()[1], place), set()) or "")


def test_c5_a_claim_ends_with_its_run(tmp_path: Path) -> None:
    claim.take(tmp_path, [], ME)
    claim.take(tmp_path, [], ME)  # the same run, once more
    file = tmp_path / "claim" / claim.HOLDER
    other = subprocess.Popen(["sleep", "60"])
    told = {"pid": other.pid, "start_time": supervise.start_time(other.pid), "boot_id": supervise.boot_id()}
    file.write_text(json.dumps({**told, "since": time.time()}))
    with pytest.raises(claim.Claimed, match=f"process {other.pid}: sleep 60"):
        claim.take(tmp_path, [], ME)
    claim.release(tmp_path, ME)
    assert file.exists(), "somebody else's claim was released"
    other.kill()
    other.wait(10)
    claim.take(tmp_path, [], ME)
    claim.release(tmp_path, ME)
    assert not file.exists()


#: Its name makes a run of Ansible of it: it takes the claim and calls the program that empties the rack.
RUN = """
import subprocess, sys
services, rack = sys.argv[1:]
subprocess.run([sys.executable, f"{services}/claim.py", "take", "--rack", rack], check=True)
empty = subprocess.Popen([sys.executable, f"{services}/empty.py", "--rack", rack, "--rackctl", "/nonexistent"])
print(empty.pid, flush=True)
empty.wait()
"""


class SlowIronic(http.server.BaseHTTPRequestHandler):
    """In good health, and long in telling its nodes."""

    asked, go_on = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        if "/nodes" in self.path:
            self.asked.set()
            self.go_on.wait(60)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"nodes": []}')

    def log_message(self, format: str, *args: object) -> None:
        """Not on the screen."""


@pytest.fixture
def emptied(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that empties a rack in this folder, and waits for its Ironic."""
    (tmp_path / "password").write_text("secret")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowIronic) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1/drivers"
        health = {"http": url, "user": "admin", "password_file": str(tmp_path / "password")}
        sleeper = {"argv": ["/bin/sleep", "300"], "log": str(tmp_path / "log")}
        services = [{"name": "ironic", **sleeper, "health": health}]
        (tmp_path / "services.json").write_text(json.dumps({"services": services}))
        supervise.start_all(tmp_path / "run", tmp_path / "services.json")
        # This one is started by what empties the rack, and outlives it.
        services.append({"name": "other", **sleeper, "health": {"argv": ["/bin/true"]}})
        (tmp_path / "services.json").write_text(json.dumps({"services": services}))
        (tmp_path / "ansible-run").write_text(RUN)
        argv = [sys.executable, str(tmp_path / "ansible-run"), str(Path(claim.__file__).parent), str(tmp_path)]
        run = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            yield run
        finally:
            SlowIronic.go_on.set()
            run.kill()
            run.communicate()
            supervise.stop_all(tmp_path / "run")
            server.shutdown()


def test_c5_what_empties_a_rack_goes_on_after_its_run_was_killed_and_nobody_joins_it(
    emptied: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert emptied.stdout and SlowIronic.asked.wait(30)
    pid = int(emptied.stdout.readline())
    with pytest.raises(claim.Claimed, match=f"process {emptied.pid}: "):
        claim.take(tmp_path, [], ME)
    emptied.kill()
    emptied.wait(10)
    assert supervise.start_time(pid), "it goes on"
    with pytest.raises(claim.Claimed, match=rf"still works on .*: process {pid}: .*empty\.py.*Wait for its end"):
        claim.take(tmp_path, [], ME)
    with pytest.raises(claim.Claimed, match=f"process {pid}: "), claim.working(tmp_path):
        pass
    claim.release(tmp_path, ME)  # a release of somebody else's does not help
    with pytest.raises(claim.Claimed):
        claim.take(tmp_path, [], ME)
    SlowIronic.go_on.set()
    assert supervise.wait_for_death(pid, 30_000)
    assert len(supervise.remembered(tmp_path / "run")) == 2, "a service that it started lives on, and holds nothing"
    claim.take(tmp_path, [], ME)
    claim.release(tmp_path, ME)


def test_c5_nothing_empties_a_rack_on_which_another_run_works(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    told = {"pid": other.pid, "start_time": supervise.start_time(other.pid), "boot_id": supervise.boot_id()}
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim" / claim.HOLDER).write_text(json.dumps({**told, "since": time.time()}))
    program = Path(claim.__file__).with_name("empty.py")
    argv = [sys.executable, str(program), "--rack", str(tmp_path), "--rackctl", "/nonexistent"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    other.kill()
    other.wait(10)
    assert done.returncode == 1 and f"process {other.pid}: sleep 60" in done.stderr


def test_c5_a_claim_is_not_given_where_a_port_is_taken(bound: tuple[str, socket.socket], tmp_path: Path) -> None:
    protocol, other = bound
    with pytest.raises(claim.Claimed, match="is taken by process"):
        claim.take(tmp_path, [wanted(protocol, other.getsockname()[1])], ME)


def test_c5_a_log_that_grew_is_set_aside_and_gone_on_with(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        keep_logs.look([str(tmp_path / "*.log")], 100)
        assert log.stat().st_size == 100, "it is not longer than the limit"
        writer.write(b"y")
        keep_logs.look([str(tmp_path / "*.log"), str(tmp_path / "*")], 100)
        assert (tmp_path / "one.log.1").read_bytes() == b"x" * 100 + b"y"
        writer.write(b"z")
    assert log.read_bytes() == b"z"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.log", "one.log.1"]
