# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer has an end, in time and in size, whatever its sender does. PRIVATE to the collection.

A socket's timeout counts between two bytes, and a body is read whole before anybody looks at it: one byte now and then
would hold a worker for ever, and a flood fill its memory. So time and bytes are counted where they come from the
socket, which holds for the head of an answer, for its chunks and for its body alike, and costs a request nothing: each
piece is as large as the reader asked for. What is packed unpacks to a thousand times of what came, and is not read.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPResponse
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._elements import elements
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

#: Seconds until the last byte of an answer is there, and how many it may have. Who waits for longer than that for a
#: byte waits as long for the last one: a service may need nearly all of the time until its first.
SECONDS, MOST = 180.0, 512 * 1024 * 1024
#: The same of a list that is read element by element, and so fills no memory: 100,000 machines of MAAS are 5 GB.
MOST_LISTED = 8 * 1024 * 1024 * 1024
#: Of what was read so, kept to be shown where it is no list.
_SHOWN = 4096
#: Sent with a request whose answer is read here.
UNPACKED: Mapping[str, str] = {"Accept-Encoding": "identity"}
_AS_IT_IS = frozenset({"", "identity"})


@dataclass(frozen=True)
class Over:
    """An answer that is over a bound. seen: what came of it. seconds: which it was to end within; 0 for its size."""

    seen: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Bounds:
    """Of each answer of a connection.

    until: asked when an answer begins, with the seconds for which its caller waits for a byte (0 for any number), until
    when it may last, in the clock of ``time.monotonic``. most: how many bytes it may have. endless: what is raised of
    one that is more, or takes longer. step: after so many bytes ``until`` is asked again, since a large file may take
    as long as it takes while it comes; 0 for never.
    """

    until: Callable[[float], float]
    most: Callable[[], int]
    endless: Callable[[Over], FleetError]
    step: int = 0


class _Counted(io.RawIOBase):
    """What comes from a socket, within its bounds."""

    def __init__(self, raw: Any, sock: Any, bounds: Bounds) -> None:
        super().__init__()
        self._raw = raw
        self._sock = sock
        self._bounds = bounds
        self._silence = sock.gettimeout()
        self._end = bounds.until(self._silence or 0.0)
        self._began = self._left = time.monotonic()
        self._within = self._end - self._began
        self._seen = self._mark = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        now = time.monotonic()
        self._end += now - self._left  # what its reader did meanwhile took no time of the sender's
        left = self._end - now
        if left <= 0:
            raise self._endless(self._within)
        self._sock.settimeout(left if self._silence is None else min(left, self._silence))
        try:
            size: int | None = self._raw.readinto(buffer)
        except OSError as exc:
            # Without a byte it is silence, which the caller knows.
            if self._seen and time.monotonic() >= self._end:
                raise self._endless(self._within) from exc
            raise
        self._seen += size or 0
        if self._seen > self._bounds.most():
            raise self._endless()
        if self._bounds.step and self._seen - self._mark >= self._bounds.step:
            self._mark, self._end = self._seen, self._bounds.until(self._silence or 0.0)
            self._within = self._end - self._began
        self._left = time.monotonic()
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _endless(self, seconds: float = 0.0) -> FleetError:
        took = time.monotonic() - self._began
        return self._bounds.endless(Over(f"{self._seen} bytes in {took:.0f} s, and no end", seconds))


class _Answering(HTTPResponse):
    """http.client's answer, read through :class:`_Counted`."""

    def __init__(self, sock: Any, *args: Any, bounds: Bounds, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        raw = self.fp.detach()  # type: ignore[attr-defined]
        self.fp = io.BufferedReader(_Counted(raw, sock, bounds))


def bounded(connection: Any, bounds: Bounds) -> Any:
    """The class of urllib3's connections whose answers have these bounds."""

    class Bounded(connection):  # type: ignore[misc]
        response_class = staticmethod(partial(_Answering, bounds=bounds))

    return Bounded


class TooSlow(BadAnswer):
    """An answer that began, and did not end within its time."""

    def __init__(self, over: Over) -> None:
        super().__init__(
            "an answer without an end",
            wanted=f"the whole of it within {over.seconds:.0f} s",
            seen=over.seen,
            do="look at the load of that service and of the network before it, and run again",
        )


def _until(silence: float) -> float:
    return time.monotonic() + max(SECONDS, silence)


def _of_whole(most: Callable[[], int]) -> Bounds:
    """Those of an answer that is taken up whole, or as a whole list."""

    def endless(over: Over) -> BadAnswer:
        if over.seconds:
            return TooSlow(over)
        return BadAnswer(
            "an answer without an end",
            wanted=f"at most {most() // 1024 // 1024} MiB",
            seen=over.seen,
            do="ask for less at once, if this service has so much to tell; else look what answers there",
        )

    return Bounds(_until, most, endless)


_WHOLE, _LISTED = _of_whole(lambda: MOST), _of_whole(lambda: MOST_LISTED)

try:
    import requests
    import urllib3
    from requests.adapters import HTTPAdapter
except ImportError:  # whoever needs one says so in its own words
    BoundedAdapter: Any = object
    AdapterOf: Any = object
else:

    class AdapterOf(HTTPAdapter):  # type: ignore[no-redef]
        """Connections of requests whose answers have these bounds."""

        def __init__(self, bounds: Bounds, *args: Any, **kwargs: Any) -> None:
            self._bounds = bounds  # before the pools are made, which the parent does
            super().__init__(*args, **kwargs)

        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs)
            self.poolmanager.pool_classes_by_scheme = _pools(self._bounds)

        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            found = super().proxy_manager_for(proxy, **kwargs)
            found.pool_classes_by_scheme = _pools(self._bounds)
            return found

    class BoundedAdapter(AdapterOf):  # type: ignore[no-redef]
        """The same for answers that are read whole: they have an end, and are not packed. listed: each is a list that
        is read element by element."""

        def __init__(self, *args: Any, listed: bool = False, **kwargs: Any) -> None:
            super().__init__(_LISTED if listed else _WHOLE, *args, **kwargs)

        def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            answer = super().send(request, *args, **kwargs)
            packed = str(answer.headers.get("Content-Encoding") or "").strip().lower()
            if packed not in _AS_IT_IS:
                answer.close()
                raise BadAnswer(
                    "an answer that is packed, though none was asked for", wanted="identity", seen=cut(packed, 40)
                )
            return answer

    def _pools(bounds: Bounds) -> dict[str, Any]:
        """By scheme, pools of bounded connections."""
        plain: dict[str, Any] = {"http": urllib3.HTTPConnectionPool, "https": urllib3.HTTPSConnectionPool}
        return {
            scheme: type(pool.__name__, (pool,), {"ConnectionCls": bounded(pool.ConnectionCls, bounds)})
            for scheme, pool in plain.items()
        }


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


def bounded_session(session: Any, adapter: Any = None) -> Any:
    """This session of requests, whose answers have an end from now on, and which heeds nothing of the environment:
    neither proxies, nor authorities (REQUESTS_CA_BUNDLE), nor another login (.netrc).

    :param adapter: with bounds of its own, where answers are not read whole.
    """
    session.trust_env = False
    session.headers.update(UNPACKED)
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter or BoundedAdapter())
    return session


class Listed(Whole):
    """A list of which ``each`` made something, element by element. Of its text the beginning is left."""

    def __init__(self, answer: Any, each: Callable[[Any], Any]) -> None:
        self._problem: ValueError | None = None
        self._made: list[Any] = []
        self._beginning = b""

        def read(most: int) -> bytes:
            piece: bytes = answer.raw.read(most, decode_content=False)
            self._beginning += piece[: max(0, _SHOWN - len(self._beginning))]
            return piece

        for element in self._parsed(elements(read)):
            self._made.append(each(element))
        super().__init__(answer.status_code, answer.headers, self._beginning)

    def _parsed(self, found: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from found
        except ValueError as exc:
            self._problem = exc

    def json(self) -> list[Any]:
        if self._problem is not None:
            raise self._problem
        return self._made


def asked(
    session: Any,
    method: str,
    url: str,
    *,
    address: str,
    headers: Mapping[str, str],
    each: Callable[[Any], Any] | None = None,
    **more: Any,
) -> Whole:
    """Send a request over a session that is bound, and read what comes back.

    :param address: where it goes, for people.
    :param each: makes of each element of the list that comes with a 200 what is kept of it.
    :raises BadAnswer: where it has no end or is packed; errors of requests, also where the connection ends within it.
    """
    try:
        answer = session.request(method, url, headers=dict(headers), stream=True, **more)
        if each is not None and answer.status_code == 200:
            return Listed(answer, each)
        return Whole(answer.status_code, answer.headers, answer.raw.read(decode_content=False))
    except BadAnswer as exc:
        raise exc.located(address=address) from exc
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        if isinstance(exc, requests.exceptions.RequestException):
            raise
        raise requests.exceptions.ConnectionError(exc) from exc
