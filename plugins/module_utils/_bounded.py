# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A body that came by requests, with an end in size and in time, whatever its sender does. PRIVATE to the collection.

A timeout of requests counts between two bytes, and what is packed unpacks to a thousand times of what came: one byte
now and then would hold a worker for hours, and a few kilobytes fill its memory.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

with contextlib.suppress(ImportError):  # who has a session of requests has both
    import requests
    import urllib3

#: Seconds until the last byte of an answer is there, and how many it may have: the machines of a large site, at once.
SECONDS, MOST = 180.0, 512 * 1024 * 1024
#: Sent with a request whose answer is read here.
UNPACKED: Mapping[str, str] = {"Accept-Encoding": "identity"}
_PIECE = 1024 * 1024
_AS_IT_IS = frozenset({"", "identity"})


class Whole:
    """What came back, in the names that answers of requests have."""

    def __init__(self, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.status_code, self.headers, self.content = status_code, headers, content

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """:raises ValueError: where it is none, in whatever encoding."""
        return json.loads(self.content)


def asked(session: Any, method: str, url: str, *, address: str, headers: Mapping[str, str], **more: Any) -> Whole:
    """Send a request over a session of requests, and read what comes back.

    :param address: where it goes, for people.
    :raises BadAnswer: as :func:`whole`; errors of requests, also where the connection ends within the answer.
    """
    answer = session.request(method, url, headers={**headers, **UNPACKED}, stream=True, **more)
    try:
        return whole(answer, most=MOST, seconds=SECONDS)
    except BadAnswer as exc:
        raise exc.located(address=address) from exc
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise requests.exceptions.ConnectionError(exc) from exc


def whole(answer: Any, *, most: int, seconds: float) -> Whole:
    """The rest of an answer that was asked for with ``stream=True`` and ``UNPACKED``.

    :param most: bytes. :param seconds: until its last byte is here.
    :raises BadAnswer: where it is more, takes longer or is packed all the same; errors of the connection as they come.
    """
    packed = str(answer.headers.get("Content-Encoding") or "").strip().lower()
    if packed not in _AS_IT_IS:
        raise BadAnswer("an answer that is packed, though none was asked for", wanted="identity", seen=cut(packed, 40))
    begun, pieces, size = time.monotonic(), [], 0
    while piece := _piece(answer.raw):
        pieces.append(piece)
        size += len(piece)
        took = time.monotonic() - begun
        if size > most or took > seconds:
            answer.close()
            raise BadAnswer(
                "an answer without an end",
                wanted=f"at most {most // 1024 // 1024} MiB, whole within {seconds:.0f} s",
                seen=f"{size} bytes in {took:.0f} s, and no end",
            )
    return Whole(answer.status_code, answer.headers, b"".join(pieces))


def _piece(raw: Any) -> bytes:
    """What is there, and no more: to wait for a whole piece is to wait for who sends a byte now and then."""
    read = getattr(raw, "read1", None) or raw._fp.read1  # urllib3 before 2.1 has none of its own
    piece: bytes = read(_PIECE)
    return piece
