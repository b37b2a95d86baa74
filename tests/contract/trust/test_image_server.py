# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of images that sends a byte now and then holds nobody; one that is merely slow is waited for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _fetch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable

MIB = 1024 * 1024
#: Seconds without a byte; ten times that for a piece. It drips for far longer, and never for as long without a byte.
TIMEOUT, DRIPS = 0.3, 60.0
Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def serving() -> Iterator[Callable[[Answer], str]]:
    """The URL of a server that answers so."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.over = over  # type: ignore[attr-defined]
            with contextlib.suppress(OSError):
                self.server.answer(self)  # type: ignore[attr-defined]

        def log_message(self, *_words: Any) -> None:
            pass

    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=lambda: server.serve_forever(poll_interval=0.05), daemon=True).start()

    def so(answer: Answer) -> str:
        server.answer = answer
        return f"http://127.0.0.1:{server.server_address[1]}/image.sha256"

    yield so
    over.set()
    server.shutdown()
    server.server_close()


def _bytes_now_and_then(handler: Any) -> None:
    end = time.monotonic() + DRIPS
    while time.monotonic() < end and not handler.server.over.wait(0.05):
        handler.wfile.write(b"x")


def _begins(handler: Any, size: int) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(size))
    handler.end_headers()


def drips_in_its_head(handler: Any) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Pad: ")
    _bytes_now_and_then(handler)


def drips(handler: Any) -> None:
    _begins(handler, MIB)
    _bytes_now_and_then(handler)


def drips_at_its_end(handler: Any) -> None:
    _begins(handler, 3 * MIB)
    handler.wfile.write(b"x" * (2 * MIB + 100))
    _bytes_now_and_then(handler)


def takes_its_time(handler: Any) -> None:
    """Longer than for a piece, and a piece well within it."""
    _begins(handler, 12 * MIB)
    for _ in range(12):
        for _ in range(4):
            time.sleep(0.1)
            handler.wfile.write(b"x" * (MIB // 4))


@pytest.mark.parametrize("answer", [drips_in_its_head, drips, drips_at_its_end])
def test_v2_a_server_that_drips_holds_nobody(serving: Callable[[Answer], str], answer: Answer) -> None:
    url, began = serving(answer), time.monotonic()
    with pytest.raises(Unreachable, match="less than 1 MiB in 3 s") as told:
        _fetch.read_small(url, ca_path=None, timeout=TIMEOUT, limit=10 * MIB)
    assert time.monotonic() - began < DRIPS / 2
    assert told.value.address == url and "bytes in" in told.value.seen and "load" in told.value.do


def at_once(handler: Any) -> None:
    _begins(handler, 12 * MIB)
    handler.wfile.write(b"x" * (12 * MIB))


def test_v2_what_the_reader_takes_is_not_the_servers_time(serving: Callable[[Answer], str]) -> None:
    """As an upload to a provisioner reads, which takes its own time for each piece."""
    seen = 0
    with _fetch.opened(serving(at_once), ca_path=None, timeout=TIMEOUT) as source:
        for piece in source.pieces:
            time.sleep(11 * TIMEOUT if seen < MIB else 0)
            seen += len(piece)
    assert seen == 12 * MIB


def test_v2_a_server_that_takes_its_time_is_waited_for(serving: Callable[[Answer], str]) -> None:
    assert len(_fetch.read_small(serving(takes_its_time), ca_path=None, timeout=TIMEOUT, limit=20 * MIB)) == 12 * MIB
