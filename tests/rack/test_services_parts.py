# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the rack's services that need neither root nor a running rack."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
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
    claim.take(tmp_path, [])
    claim.take(tmp_path, [])  # the same run, once more
    file = tmp_path / "claim" / claim.HOLDER
    other = subprocess.Popen(["sleep", "60"])
    told = {"pid": other.pid, "start_time": supervise.start_time(other.pid), "boot_id": supervise.boot_id()}
    file.write_text(json.dumps({**told, "since": time.time()}))
    with pytest.raises(claim.Claimed, match=f"process {other.pid}: sleep 60"):
        claim.take(tmp_path, [])
    claim.release(tmp_path)
    assert file.exists(), "somebody else's claim was released"
    other.kill()
    other.wait(10)
    claim.take(tmp_path, [])
    claim.release(tmp_path)
    assert not file.exists()


def test_c5_a_claim_is_not_given_where_a_port_is_taken(bound: tuple[str, socket.socket], tmp_path: Path) -> None:
    protocol, other = bound
    with pytest.raises(claim.Claimed, match="is taken by process"):
        claim.take(tmp_path, [wanted(protocol, other.getsockname()[1])])


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
