# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever is asked over HTTP answers without an end, packed, or breaks off: each client holds its own worker free."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bounded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import api as ironic
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.api import IronicApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import api as maas
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import api as warewulf
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import WarewulfApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import access
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes import api as kubernetes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.driver import Kubernetes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_netbox as netbox
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_control import NAMES, Control
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_maas import read_maas
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_netbox import NetboxApi


def of_warewulf(url: str) -> WarewulfApi:
    return WarewulfApi({"provisioner_url": url, **WRITES}, Context(), timeout=warewulf.TIMEOUT)


def of_kubernetes(url: str) -> kubernetes.Api:
    options = Kubernetes({"scheduler_url": url, "scheduler_token": "x"}).options
    return kubernetes.Api(access.of_options(options), timeout=kubernetes.TIMEOUT)


WRITES = {"provisioner_username": "root", "provisioner_password": "x"}
#: By system, how it is asked once.
KEYED = {"provisioner_api_key": "a:b:c"}
CLIENTS: dict[str, Callable[[str], Any]] = {
    "maas": lambda url: MaasApi({"provisioner_url": url, **KEYED}, Context(), timeout=maas.TIMEOUT).get("machines/"),
    "warewulf": lambda url: WarewulfApi(
        {"provisioner_url": url, **WRITES}, Context(), timeout=warewulf.TIMEOUT
    ).nodes(),
    "kubernetes": lambda url: of_kubernetes(url).get("/api/v1/nodes/n1"),
    "ironic": lambda url: IronicApi({"provisioner_url": url}, Context()).listed("/nodes", "nodes"),
    "netbox": lambda url: NetboxApi({"url": url, "token": "x"}, "here").listed("dcim/devices", []),
}


class Handler(BaseHTTPRequestHandler):
    server: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(dict(self.headers))
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.server.answer(self)

    def begins(self, length: int, **headers: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    found: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.daemon_threads, found.asked = True, []
    threading.Thread(target=lambda: found.serve_forever(poll_interval=0.05), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def ask(system: str, server: Any, answer: Callable[[Handler], None]) -> Any:
    server.answer = answer
    return CLIENTS[system](f"http://127.0.0.1:{server.server_address[1]}")


def drips(handler: Handler) -> None:
    handler.begins(1000)
    for _ in range(60):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def drips_in_its_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Pad: ")
    for _ in range(60):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def asks_to_go_on(handler: Handler) -> None:
    for _ in range(60):
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def drips_in_its_trailer(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"2\r\n{}\r\n0\r\n")
    for _ in range(60):
        handler.wfile.write(b"x: y\r\n")
        time.sleep(0.05)


def stalls(handler: Handler) -> None:
    """For longer than an answer may take, and not as long as a client waits for a byte."""
    handler.begins(1000)
    handler.wfile.write(b" ")
    time.sleep(2)


def fills(handler: Handler) -> None:
    handler.begins(4 << 20)
    handler.wfile.write(b" " * (4 << 20))


def packs(handler: Handler) -> None:
    body = gzip.compress(b" " * (8 << 20) + b"{}")
    handler.begins(len(body), Content_Encoding="gzip")
    handler.wfile.write(body)


def breaks_off(handler: Handler) -> None:
    handler.begins(1000)
    handler.wfile.write(b'{"items": [')


def in_pieces(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    for piece in (b'{"kind": "Node", ', b'"count": 0, "next": null, "results": []}'):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    handler.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough for a first byte on a machine that is starved. An answer may take as long as its first byte may."""
    monkeypatch.setattr(_bounded, "SECONDS", 0.5)
    for client in (maas, warewulf, kubernetes, ironic, netbox):
        monkeypatch.setattr(client, "TIMEOUT", 1.0)
    monkeypatch.setattr(_bounded, "MOST", 1 << 20)


def has_no_end(system: str, server: Any, answer: Callable[[Handler], None]) -> None:
    with pytest.raises(BadAnswer, match="without an end") as caught:
        ask(system, server, answer)
    assert caught.value.address.startswith("http://127.0.0.1:")


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("system", CLIENTS)
def test_an_answer_without_an_end_ends(system: str, server: Any) -> None:
    for answer in (drips, fills):
        has_no_end(system, server, answer)
    with pytest.raises(BadAnswer, match="packed"):
        ask(system, server, packs)
    assert {headers["Accept-Encoding"] for headers in server.asked} == {"identity"}


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("system", ["netbox", "ironic"])
@pytest.mark.parametrize("answer", [drips_in_its_head, asks_to_go_on, drips_in_its_trailer, stalls])
def test_no_part_of_an_answer_is_without_an_end(system: str, server: Any, answer: Callable[[Handler], None]) -> None:
    has_no_end(system, server, answer)


@pytest.mark.parametrize("system", CLIENTS)
def test_an_answer_that_breaks_off_is_an_outage(system: str, server: Any) -> None:
    with pytest.raises(Unreachable):
        ask(system, server, breaks_off)


@pytest.mark.parametrize("system", ["kubernetes", "netbox"])
def test_an_answer_in_pieces_is_read_whole(system: str, server: Any) -> None:
    assert ask(system, server, in_pieces) == ([] if system == "netbox" else {
        "kind": "Node", "count": 0, "next": None, "results": []
    })  # fmt: skip


MACHINES = 40
#: As large as MAAS's own are in the mean.
FILLING = "x" * 20_000


def machines(count: int = MACHINES) -> bytes:
    rows = [
        {"system_id": f"abc{n}", "hostname": f"gpu{n:03}", "node_type": 0, "filling": FILLING} for n in range(count)
    ]
    return json.dumps(rows).encode()


def inventory(server: Any, answer: Callable[[Handler], None], timeout: float) -> list[Any]:
    server.answer = answer
    options = {"url": f"http://127.0.0.1:{server.server_address[1]}", "api_key": "a:b:c", "timeout": timeout}
    fields, control = Fields(None, "source 1"), Control(None, NAMES, "source 1")
    return read_maas(options, where="source 1 (maas)", fields=fields, control=control)


def thinks_and_tells(handler: Handler) -> None:
    """As MAAS does: nothing until all is worked out, then piece by piece."""
    time.sleep(1.2)
    body = machines()
    handler.begins(len(body))
    for at in range(0, len(body), 1 << 16):
        handler.wfile.write(body[at : at + (1 << 16)])
        time.sleep(0.05)


def test_an_inventory_has_the_time_that_its_source_was_given(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounded, "SECONDS", 0.5)
    assert [one.name for one in inventory(server, thinks_and_tells, 30.0)] == [f"gpu{n:03}" for n in range(MACHINES)]


def says_nothing(_handler: Handler) -> None:
    time.sleep(2)


def test_an_inventory_that_was_given_too_little_time_is_told_how_much_it_had(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bounded, "SECONDS", 0.5)
    with pytest.raises(BadAnswer, match="without an end") as caught:
        inventory(server, drips, 1.0)
    assert caught.value.wanted == "the whole of it within 1 s" and "bytes in 1 s" in caught.value.seen
    assert "a longer timeout for this source (source 1 (maas))" in caught.value.do
    with pytest.raises(Unreachable, match="read timeout=1") as silent:
        inventory(server, says_nothing, 1.0)
    assert "a longer timeout for this source (source 1 (maas))" in silent.value.do


def tells(handler: Handler) -> None:
    body = machines()
    handler.begins(len(body))
    handler.wfile.write(body)


def test_the_machines_of_a_site_have_an_end_of_their_own_and_others_have_the_usual_one(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bounded, "MOST", 1 << 18)
    assert len(inventory(server, tells, 30.0)) == MACHINES
    with pytest.raises(BadAnswer, match="without an end") as caught:
        ask("maas", server, tells)
    assert "at most 0 MiB" in caught.value.wanted and "ask for less" in caught.value.do
    monkeypatch.setattr(_bounded, "MOST_LISTED", 1 << 19)
    with pytest.raises(BadAnswer, match="without an end"):
        inventory(server, tells, 30.0)


def test_a_site_that_is_larger_than_memory_is_read(server: Any) -> None:
    """What is left of a machine is a fiftieth of it, and no more than that is held at once."""

    def goes_on(handler: Handler) -> None:
        row = machines(1)[1:-1]
        handler.begins(1 + 2000 * (len(row) + 1))
        handler.wfile.write(b"[")
        for _ in range(1999):
            handler.wfile.write(row + b",")
        handler.wfile.write(row + b"]")

    tracemalloc.start()
    try:
        assert len(inventory(server, goes_on, 60.0)) == 2000
        assert tracemalloc.get_traced_memory()[1] < 20 << 20, "the answer itself is 40 MB"
    finally:
        tracemalloc.stop()


def breaks_its_list(handler: Handler) -> None:
    body = machines(3)[:-1] + b"}"
    handler.begins(len(body))
    handler.wfile.write(body)


def breaks_off_amid_it(handler: Handler) -> None:
    handler.begins(100_000)
    handler.wfile.write(machines(3)[:-9])


def test_a_list_that_is_none_is_no_fleet(server: Any) -> None:
    for answer in (breaks_its_list, breaks_off):
        with pytest.raises(BadAnswer, match="JSON"):
            inventory(server, answer, 30.0)
    with pytest.raises(Unreachable):
        inventory(server, breaks_off_amid_it, 30.0)
