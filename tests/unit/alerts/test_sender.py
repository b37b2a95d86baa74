# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sender does while nobody answers: Slurm tells it once."""

from __future__ import annotations

import io
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

SENDER = Path(__file__).resolve().parents[3] / "extensions" / "eda" / "senders" / "gpufleet_tell.py"
#: slurmctld ends a program of a trigger then; the last try has 30 s, and so has scontrol.
ENDED_BY_SLURM, LAST_TRY = 300.0, 60.0


class Refusing(HTTPServer):
    """Answers ``codes`` one after the other, and then the last one."""

    codes: list[int]
    heard = 0


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Refusing)
        self.rfile.read(int(self.headers["Content-Length"]))
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
