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
from collections.abc import Callable, Iterator, Sequence
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
    #: As many answers before them are these bytes, and the end.
    broken: Sequence[bytes] = ()
    heard = 0
    #: What the last one has said of its token.
    token: str | None = None


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Refusing)
        self.rfile.read(int(self.headers["Content-Length"]))
        server.token = self.headers["Authorization"]
        server.heard += 1
        if server.heard <= len(server.broken):
            self.wfile.write(server.broken[server.heard - 1])
            self.close_connection = True
            return
        self.send_response(server.codes[min(server.heard - len(server.broken), len(server.codes)) - 1])
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


CHUNKED = b"HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{}"
BROKEN = {
    "no HTTP": b"garbage\r\n",
    "nothing": b"",
    "a part": b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
    "a part of a chunk": CHUNKED % b"200 OK",
    "a part of what a proxy says": CHUNKED % b"502 Bad Gateway",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_is_no_whole_answer_is_none(
    source: Refusing, waited: list[float], tell: Callable[[], None], broken: bytes
) -> None:
    source.broken, source.codes = [broken] * 3, [200]
    tell()
    assert source.heard == 4 and len(waited) == 3


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_who_never_answers_as_a_whole_is_told_in_one_line(
    source: Refusing, waited: list[float], tell: Callable[[], None], broken: bytes
) -> None:
    source.broken = [broken] * 100
    with pytest.raises(SystemExit, match=f"http://127.0.0.1:{source.server_port}/dcgm: .+"):
        tell()
    assert 200 < sum(waited) < ENDED_BY_SLURM - LAST_TRY


def test_a_refusal_that_breaks_off_is_one(source: Refusing, waited: list[float], tell: Callable[[], None]) -> None:
    source.broken = [CHUNKED % b"401 Unauthorized"]
    with pytest.raises(SystemExit, match="401"):
        tell()
    assert source.heard == 1 and not waited


def test_an_answer_in_another_script_is_one(
    source: Refusing, tell: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    source.broken = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff{"]
    tell()
    assert source.heard == 1 and "{" in capsys.readouterr().out


@pytest.mark.parametrize("written", [None, b"\xff\xfe"], ids=["none", "no text"])
def test_a_token_that_cannot_be_read_is_named(
    source: Refusing, tell: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: bytes | None
) -> None:
    path = tmp_path / "another"
    if written:
        path.write_bytes(written)
    monkeypatch.setenv("GPUFLEET_TELL_TOKEN_PATH", str(path))
    with pytest.raises(SystemExit, match=f"TOKEN_PATH={path}: "):
        tell()
    assert source.heard == 0


@pytest.mark.parametrize("url", ["eda.example.com:5053", "https://eda.example.com:abc"])
def test_an_address_that_is_none_is_named(
    waited: list[float], tell: Callable[[], None], monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("GPUFLEET_TELL_URL", url)
    with pytest.raises(SystemExit, match=f"URL={url}/dcgm: "):
        tell()
    assert not waited


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
