# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sender does while nobody answers: Slurm tells it once."""

from __future__ import annotations

import io
import runpy
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import trustme

SENDER = Path(__file__).resolve().parents[3] / "extensions" / "eda" / "senders" / "gpufleet_tell.py"
#: slurmctld ends a program of a trigger then; the last try has 30 s, and so has scontrol.
ENDED_BY_SLURM, LAST_TRY = 300.0, 60.0


class Refusing(HTTPServer):
    """Answers ``codes`` one after the other, and then the last one."""

    codes: list[int]
    heard = 0
    #: What the last one has said of its token.
    token: str | None = None


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Refusing)
        self.rfile.read(int(self.headers["Content-Length"]))
        server.token = self.headers["Authorization"]
        self.send_response(server.codes[min(server.heard, len(server.codes) - 1)])
        server.heard += 1
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_told: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def source() -> Iterator[Refusing]:
    server = Refusing(("127.0.0.1", 0), _Answer)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were slept, without sleeping them."""
    slept: list[float] = []
    real = time.monotonic
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: real() + sum(slept))
    return slept


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Refusing) -> Callable[[], None]:
    token = tmp_path / "token"
    token.write_text("a-token-of-the-monitors\n", encoding="utf-8")
    monkeypatch.setenv("GPUFLEET_TELL_CONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("GPUFLEET_TELL_URL", f"http://127.0.0.1:{source.server_port}")
    monkeypatch.setenv("GPUFLEET_TELL_TOKEN_PATH", str(token))
    monkeypatch.setattr(sys, "argv", ["gpufleet_tell.py", "dcgm"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}"))
    return lambda: (runpy.run_path(str(SENDER), run_name="__main__"), None)[1]


def test_it_sends_again_for_minutes(source: Refusing, waited: list[float], tell: Callable[[], None]) -> None:
    source.codes = [503] * 15 + [200]
    tell()
    assert source.heard == 16 and sum(waited) > 120


def test_it_ends_before_slurmctld_ends_it(source: Refusing, waited: list[float], tell: Callable[[], None]) -> None:
    source.codes = [503]
    with pytest.raises(SystemExit, match="503"):
        tell()
    assert 200 < sum(waited) < ENDED_BY_SLURM - LAST_TRY


def test_what_no_repetition_mends_is_said_once(source: Refusing, waited: list[float], tell: Callable[[], None]) -> None:
    source.codes = [401]
    with pytest.raises(SystemExit, match="401"):
        tell()
    assert source.heard == 1 and not waited


@pytest.fixture
def demanding(
    source: Refusing, tell: Callable[[], None], waited: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> trustme.CA:
    """Who signs what the listener demands, as the event source does with client_ca_path."""
    known, own = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.issue_cert("127.0.0.1").configure_cert(context)
    known.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    source.socket = context.wrap_socket(source.socket, server_side=True)
    source.codes = [200]
    own.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("GPUFLEET_TELL_URL", f"https://127.0.0.1:{source.server_port}")
    monkeypatch.setenv("GPUFLEET_TELL_CA_PATH", str(tmp_path / "ca.pem"))
    return known


@pytest.fixture
def shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[trustme.CA], None]:
    """The sender has a certificate of that CA, and its key in a file of its own."""

    def signed_by(authority: trustme.CA) -> None:
        one = authority.issue_cert("slurmctld.example.com")
        for name, blob in (("CERTIFICATE", one.cert_chain_pems[0]), ("KEY", one.private_key_pem)):
            blob.write_to_path(str(tmp_path / name))
            monkeypatch.setenv(f"GPUFLEET_TELL_{name}_PATH", str(tmp_path / name))

    return signed_by


@pytest.mark.parametrize("token", ["Bearer a-token-of-the-monitors", None], ids=["and a token", "and no token"])
def test_a_listener_that_demands_a_certificate_is_shown_one(
    source: Refusing, demanding: trustme.CA, shows: Callable[[trustme.CA], None], monkeypatch: pytest.MonkeyPatch,
    tell: Callable[[], None], token: str | None,
) -> None:  # fmt: skip
    shows(demanding)
    if not token:
        monkeypatch.delenv("GPUFLEET_TELL_TOKEN_PATH")
    tell()
    assert (source.heard, source.token) == (1, token)


def test_the_key_may_be_in_the_file_of_the_certificate(
    source: Refusing, demanding: trustme.CA, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tell: Callable[[], None]
) -> None:
    both = demanding.issue_cert("slurmctld.example.com").private_key_and_cert_chain_pem
    both.write_to_path(str(tmp_path / "both.pem"))
    monkeypatch.setenv("GPUFLEET_TELL_CERTIFICATE_PATH", str(tmp_path / "both.pem"))
    tell()
    assert source.heard == 1


@pytest.mark.parametrize("one", [True, False], ids=["a stranger's", "none"])
def test_a_certificate_that_is_none_of_the_listeners_is_told(
    source: Refusing, demanding: trustme.CA, shows: Callable[[trustme.CA], None], tell: Callable[[], None], one: bool
) -> None:
    if one:
        shows(trustme.CA())
    with pytest.raises(SystemExit, match=f"https://127.0.0.1:{source.server_port}/dcgm: "):
        tell()
    assert source.heard == 0


@pytest.mark.parametrize("name", ["CA_PATH", "CERTIFICATE_PATH", "KEY_PATH"])
def test_a_file_that_is_not_there_is_named(
    demanding: trustme.CA, shows: Callable[[trustme.CA], None], monkeypatch: pytest.MonkeyPatch,
    tell: Callable[[], None], name: str,
) -> None:  # fmt: skip
    shows(demanding)
    monkeypatch.setenv(f"GPUFLEET_TELL_{name}", "/a/file/of/nobody")
    with pytest.raises(SystemExit, match=f"{name}=/a/file/of/nobody"):
        tell()


def test_who_may_not_speak_for_anybody_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, waited: list[float], tell: Callable[[], None]
) -> None:
    monkeypatch.delenv("GPUFLEET_TELL_TOKEN_PATH")
    with pytest.raises(SystemExit, match="neither TOKEN_PATH nor CERTIFICATE_PATH"):
        tell()
