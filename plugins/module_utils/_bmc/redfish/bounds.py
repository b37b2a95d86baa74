# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC's answer may be at most. PRIVATE to the collection."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import Bounds
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


def bounds(until: Callable[[], float]) -> Bounds:
    """Of each answer of one BMC. :param until: as there."""
    return Bounds(lambda _silence: until(), lambda: MOST_BYTES, lambda over: Endless(over.seen))


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
