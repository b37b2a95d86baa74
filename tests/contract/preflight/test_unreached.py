# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""U8: an address behind which TLS, or the service, is not what the inventory says is told in one line as what it is."""

from __future__ import annotations

import datetime
import http.server
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_machines as machines
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_services as services
from sound_site import SoundSite

NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.timezone.utc)
ADDRESS = {"the BMC": "gpufleet_bmc_address"}
PEERS = ("the BMC", "Ironic", "MAAS")


class Page(http.server.BaseHTTPRequestHandler):
    """A web server with one page, at the root or, as a portal's, at each address; or one that leads to another."""

    server: Server

    def do_GET(self) -> None:
        body = b"<html><h1>It works!</h1></html>"
        self.send_response(200 if self.path == "/" else self.server.otherwise)
        self.send_header("Location", "/login/")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


class Server(http.server.ThreadingHTTPServer):
    """It greets in a thread of its own, so that one handshake that hangs keeps nobody else waiting."""

    context: ssl.SSLContext | None = None
    otherwise = 404

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if self.context is not None:
                request = self.context.wrap_socket(request, server_side=True)
        except OSError:
            self.shutdown_request(request)
            return
        super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


@pytest.fixture
def web(site: SoundSite) -> Iterator[Server]:
    """One node, and a web server for its peer."""
    site.hosts = {"gpu001": site.hosts["gpu001"]}
    server = Server(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def line(site: SoundSite, peer: str, scheme: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The one line that is told of this peer at this address."""
    url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(machines, "_IN_THREADS", {"timeout": 1.0, "silence": 2.0})
    if peer == "the BMC":
        site.hosts["gpu001"]["gpufleet_bmc_address"] = url
    site.shared.update(
        gpufleet_provisioner=peer.lower(), gpufleet_provisioner_url=url, gpufleet_provisioner_api_key="a:b:c-secret"
    )
    look = machines.look if peer == "the BMC" else services.provisioner
    _headline, _heading, told = site.lines(look)
    assert told.startswith("  gpu001: ") and url in told and "c-secret" not in told, told
    return told


def secure(site: SoundSite, server: Server, names: tuple[str, ...] = ("127.0.0.1",), **dates: Any) -> None:
    authority = trustme.CA()
    path = site.folder / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **dates).configure_cert(server.context)
    site.shared.update(gpufleet_bmc_ca_path=str(path), gpufleet_provisioner_ca_path=str(path))


def expired(site: SoundSite, server: Server) -> None:
    secure(site, server, not_before=NOON - datetime.timedelta(days=9), not_after=NOON)


def early(site: SoundSite, server: Server) -> None:
    begins = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)
    secure(site, server, not_before=begins, not_after=begins + datetime.timedelta(days=9))


def of_another(site: SoundSite, server: Server) -> None:
    secure(site, server, ("10.1.7.1",))


def of_nobody(site: SoundSite, server: Server) -> None:
    secure(site, server)
    trustme.CA().cert_pem.write_to_path(str(site.folder / "authority.pem"))


def plain(site: SoundSite, server: Server) -> None:
    """No TLS at all."""


#: What is there, by which scheme it is asked, what is told of it, and of the way out.
ROWS: dict[str, tuple[Callable[[SoundSite, Server], None], str, tuple[str, ...]]] = {
    "expired": (
        expired, "https",
        ("with which {peer} shows who it is has expired", "expired on 2026-01-02T12:00:00Z", "Do: renew it there"),
    ),
    "not valid yet": (early, "https", ("the certificate of {peer} is not valid yet", "this machine's clock")),
    "another name": (
        of_another, "https",
        ("the certificate of {peer} is for another name", "not valid for 127.0.0.1", "into {address}"),
    ),
    "another authority": (of_nobody, "https", ("no trusted TLS connection to {peer}", "Do: set gpufleet_", "ca_path")),
    "no TLS": (plain, "https", ("{peer} speaks no TLS there", "correct the port in {address}", "write http://")),
    "TLS": (secure, "http", ("{peer} speaks TLS there, and was asked without", "Do: write https:// into {address}")),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("peer", PEERS)
def test_u8_tls_that_does_not_come_about_is_told_as_what_it_is(
    site: SoundSite, web: Server, monkeypatch: pytest.MonkeyPatch, peer: str, row: str
) -> None:
    spoil, scheme, words = ROWS[row]
    spoil(site, web)
    told = line(site, peer, scheme, web, monkeypatch)
    address = ADDRESS.get(peer, "gpufleet_provisioner_url")
    assert all(word.format(peer=peer, address=address) in told for word in words), told
    assert ("ca_path" in told) == (row == "another authority"), told


@pytest.mark.parametrize("answer", [404, 302, 200])
@pytest.mark.parametrize("peer", ["Ironic", "MAAS", "Warewulf"])
def test_u8_a_web_server_in_place_of_a_provisioner_is_a_wrong_setting(
    site: SoundSite, web: Server, monkeypatch: pytest.MonkeyPatch, peer: str, answer: int
) -> None:
    """It answers, so that it is no service that is away: running again helps nobody."""
    web.otherwise = answer
    site.shared.update(gpufleet_provisioner_username="fleet", gpufleet_provisioner_password="of-the-provisioner")
    site.shared["gpufleet_image"] = None
    told = line(site, peer, "http", web, monkeypatch)
    assert str(answer) in told and "correct gpufleet_provisioner_url" in told, told
    [cause] = site.told(services.provisioner)
    assert cause["kind"] == "site", cause
