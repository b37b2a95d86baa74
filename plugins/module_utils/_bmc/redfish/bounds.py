# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer has an end, in time and in size, whatever its sender does. PRIVATE to the collection.

A socket's timeout counts between two bytes, and a body is read whole before anybody looks at it: one byte now and then
would hold a worker for ever, and a flood fill its memory. So time and bytes are counted where they come from the
socket, which holds for the head of an answer, for its chunks and for its body alike, and costs a request nothing: each
piece is as large as the reader asked for.
"""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Callable
from functools import partial
from http.client import HTTPResponse
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer

#: Recorded BMCs answer with at most some hundred kilobytes; a large registry of messages is some megabytes.
MOST_BYTES = 16 * 1024 * 1024
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
#: zlib's own mark for "gzip or zlib, as the data says".
_EITHER = 47


class Endless(BadAnswer):
    """What came is more, or takes longer, than any answer. The connection is closed."""

    def __init__(self, seen: str) -> None:
        super().__init__(
            "the BMC's answer has no end",
            wanted=f"at most {MOST_BYTES // 1024 // 1024} MiB, whole in its time",
            seen=seen,
            do="look at the load of the BMC and of the network before it; if it stays so, restart the BMC",
        )


class _Counted(io.RawIOBase):
    """What comes from a socket, until the clock of ``time.monotonic`` shows ``end``."""

    def __init__(self, raw: Any, sock: Any, end: float) -> None:
        super().__init__()
        self._raw = raw
        self._sock = sock
        self._began = time.monotonic()
        self._end = end
        self._seen = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._endless()
        if left < (self._sock.gettimeout() or left + 1.0):
            self._sock.settimeout(left)
        try:
            size: int | None = self._raw.readinto(buffer)
        except OSError as exc:
            # Without a byte it is silence, which the caller knows.
            if self._seen and time.monotonic() >= self._end:
                raise self._endless() from exc
            raise
        self._seen += size or 0
        if self._seen > MOST_BYTES:
            raise self._endless()
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _endless(self) -> Endless:
        return Endless(f"{self._seen} bytes in {time.monotonic() - self._began:.0f} s, and no end")


class _Answering(HTTPResponse):
    """http.client's answer, read through :class:`_Counted`."""

    def __init__(self, sock: Any, *args: Any, end: Callable[[], float], **more: Any) -> None:
        super().__init__(sock, *args, **more)
        raw = self.fp.detach()  # type: ignore[attr-defined]
        self.fp = io.BufferedReader(_Counted(raw, sock, end()))


def bounded(connection: Any, end: Callable[[], float]) -> Any:
    """The class of urllib3's connections whose answers end by ``end()``, which is asked when an answer begins."""

    class Bounded(connection):  # type: ignore[misc]
        response_class = staticmethod(partial(_Answering, end=end))

    return Bounded


def content(answer: Any) -> bytes:
    """The body of urllib3's answer: its data as they came, unpacked by us, for packed ones have an end in size too."""
    data: bytes = answer.data
    if str(answer.headers.get("Content-Encoding") or "").strip().lower() not in _PACKED or not data:
        return data
    unpacker = zlib.decompressobj(_EITHER)
    try:
        data = unpacker.decompress(data, MOST_BYTES)
    except zlib.error as exc:
        raise BadAnswer("the BMC's answer cannot be unpacked", seen=str(exc)) from exc
    if unpacker.unconsumed_tail:
        raise Endless(f"{len(answer.data)} bytes that unpack to more than {MOST_BYTES}")
    return data
