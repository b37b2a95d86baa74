# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish answers that nobody should give."""

from __future__ import annotations

import gzip
import socketserver
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import link as redfish_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    Refused,
    Unreachable,
    Unsupported,
)

from .conftest import Ctx
from .test_redfish import Make, boot, change

ODD = [
    b"", b"null", b"[]", b'"text"', b"42", b"<html>log in</html>", b'{"Members": null}', b"{}", b'{}{"a": 1}',
    b"\xff\xfe", b'{"Members": [null, 1, {}]}', b'{"Actions": null, "Boot": []}', b'{"Systems": null}',
    b'{"error": null}', b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("path", ["/redfish/v1/", "/redfish/v1/Systems", "/redfish/v1/Systems/1"])
@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
def test_odd_answers_are_errors_with_an_address(fake: Make, path: str, body: bytes) -> None:
    rig = fake("plain", tls=False)
    rig.bmc.faults["raw"] = {path: body}
    for act in (lambda: change(rig, "on", timeout=0.5), lambda: boot(rig, timeout=0.5)):
        with pytest.raises((BadAnswer, Unsupported, DeadlineExceeded)) as caught:
            act()
        assert caught.value.address.startswith("http://127.0.0.1") or "127.0.0.1" in str(caught.value)
    assert rig.writes() == 0


@pytest.mark.parametrize("action", ['{"target": null}', '{"target": 7}', "{}", '{"target": "http://["}'])
def test_b6_an_action_without_a_place_is_no_traceback(fake: Make, action: str) -> None:
    """The system is chosen first; its next answer has lost the action's target."""
    rig = fake("idrac10", tls=False, power="On")
    rig.bmc.machine.shuts_down = False
    place = "/redfish/v1/Systems/System.Embedded.1"

    def spoil(status: int, headers: dict[str, str], data: bytes) -> tuple[int, dict[str, str], bytes]:
        if rig.bmc.writes:
            doc = f'{{"@odata.id": "{place}", "PowerState": "On", "Actions": {{"#ComputerSystem.Reset": {action}}}}}'
            return status, headers, doc.encode()
        return status, headers, data

    rig.bmc.mangle = spoil
    with pytest.raises((BadAnswer, Unsupported, DeadlineExceeded)):
        change(rig, "graceful", timeout=2.0, graceful_timeout=0.2)
    assert rig.writes() == 1


@pytest.mark.parametrize("location", ["http://[", "", "//", "nonsense"])
def test_b5_a_task_whose_place_is_none_is_decided_by_reading(fake: Make, location: str) -> None:
    rig = fake("plain", tls=False)
    rig.bmc.mangle = lambda status, headers, data: (
        (202, {**headers, "Location": location}, b"") if status == 204 else (status, headers, data)
    )
    assert change(rig, "on")["after"] == {"power": "on"}


@pytest.mark.parametrize("status", ["Critical", "OK", "Warning", None])
def test_b5_a_task_that_was_completed_badly_is_refused(fake: Make, status: Any) -> None:
    """The machine is on, and the task says Completed: what it says of its health decides."""
    rig = fake("plain", tls=False)
    rig.bmc.faults.update(tasks=True, task_status=status)
    if status != "Critical":
        assert boot(rig)["proof"] == "readback"
        return
    with pytest.raises(Refused, match="task ended badly"):
        boot(rig)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LONG = HEAD + b"Content-Length: 300000001\r\n\r\n{"
DRIPS = {"body": LONG, "head": HEAD, "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1000000\r\n{"}
FLOODS = {
    "body": LONG,
    "to the end": HEAD + b"\r\n{",
    "chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n{" % 2**40,
    "length": HEAD + b"Content-Length: %d\r\n\r\n{" % 2**62,
    "head": HEAD,
}


class _Endless(socketserver.ThreadingTCPServer):
    """Begins each answer as it was told, and does not end it: a piece, a pause, and so on."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, begin: bytes, piece: bytes, pause: float) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.begin, self.piece, self.pause, self.over = begin, piece, pause, threading.Event()
        self.heard = 0
        self.params = {
            "bmc_protocol": "redfish",
            "bmc_address": f"http://127.0.0.1:{self.server_address[1]}",
            "bmc_username": "admin",
            "bmc_password": "correct-horse",
        }

    def __enter__(self) -> _Endless:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


class _Answers(socketserver.BaseRequestHandler):
    server: _Endless

    def handle(self) -> None:
        server = self.server
        try:
            asked = b""
            while b"\r\n\r\n" not in asked:
                more = self.request.recv(65536)
                if not more:
                    return
                asked += more
            server.heard += 1
            self.request.sendall(server.begin)
            for _turn in range(2000):
                self.request.sendall(server.piece)
                if server.over.wait(server.pause):
                    break
        except OSError:
            pass


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redfish_link, "READ_SECONDS", 1.0)
    yield


@pytest.mark.parametrize("begin", DRIPS.values(), ids=DRIPS)
def test_v2_an_answer_that_drips_is_given_up(brief: None, begin: bytes) -> None:
    with _Endless(begin, b"x", 0.1) as server:
        started = time.monotonic()
        with pytest.raises(BadAnswer, match="no end") as caught:
            info({**server.params, "timeout": 1.5}, Ctx())
        assert 1.0 < time.monotonic() - started < 60.0, "it drips for more than three minutes"
        assert server.heard == 1, "it was asked again"
        assert str(caught.value.address).startswith(server.params["bmc_address"])


@pytest.mark.parametrize("begin", FLOODS.values(), ids=FLOODS)
def test_v2_an_answer_that_floods_is_given_up(begin: bytes) -> None:
    with _Endless(begin, b"x" * 1_000_000, 0.0) as server, pytest.raises((BadAnswer, Unreachable)):
        info({**server.params, "timeout": 5.0}, Ctx())


def test_v2_a_flood_is_not_kept() -> None:
    tracemalloc.start()
    try:
        with _Endless(FLOODS["to the end"], b"x" * 1_000_000, 0.0) as server, pytest.raises(BadAnswer, match="no end"):
            info({**server.params, "timeout": 5.0}, Ctx())
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()


def test_q_whoever_asks_briefly_asks_again_where_the_bmc_answers_and_not_where_it_is_silent(fake: Make) -> None:
    """One that is busy is slow, and does answer; a silent one costs the time of one silence and no more."""
    rig = fake("plain", tls=False)
    rig.bmc.faults.update(busy=2, busy_status=503)
    params = {**rig.params, "silence": 5.0, "timeout": 60.0}
    assert info(params, Ctx()).data["identity"]
    with Mute() as mute:
        begun = time.monotonic()
        with pytest.raises(Unreachable):
            info({**params, "silence": 0.5, "bmc_address": mute.url}, Ctx())
        assert mute.heard == 1 and time.monotonic() - begun < 20.0


class Mute(socketserver.ThreadingTCPServer):
    """It takes each request, and answers none."""

    daemon_threads = True
    heard = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.over = threading.Event()

    def finish_request(self, request: Any, client_address: object) -> None:
        if request.recv(65536):
            self.heard += 1
            self.over.wait(120)

    def __enter__(self) -> Mute:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
def test_v2_a_packed_answer_is_read_and_has_an_end_too(fake: Make, packing: str) -> None:
    rig = fake("plain", tls=False)
    kind = {"gzip": gzip.compress, "deflate": zlib.compress}[packing]
    more = [b""]

    def pack(status: int, headers: dict[str, str], data: bytes) -> Any:
        return status, {**headers, "Content-Encoding": packing}, kind(data + more[0])

    rig.bmc.mangle = pack
    assert change(rig, "on")["after"] == {"power": "on"}
    more[0] = b" " * 40_000_000
    with pytest.raises(BadAnswer, match="no end"):
        change(rig, "off")


def test_v2_a_write_whose_answer_has_no_end_is_looked_into(fake: Make, brief: None) -> None:
    rig = fake("plain", tls=False)
    rig.bmc.mangle = lambda status, headers, data: (
        (200, headers, b"x" * 20_000_000) if status == 204 else (status, headers, data)
    )
    assert change(rig, "on")["after"] == {"power": "on"}
    assert rig.writes() == 1
