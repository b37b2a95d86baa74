# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what an image's URLs point to: small files whole, artifacts piece by piece. PRIVATE to the collection.

http, https and file. What is read here is trusted for nothing until a signature says so, so limits guard memory and
time, and TLS is verified where it is used, whatever the environment says.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _tls as tls
from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import (
    AdapterOf,
    Bounds,
    Over,
    bounded_session,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    MissingLibrary,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import timed_out

try:
    import requests
except ImportError:
    HAS_REQUESTS = False
else:
    HAS_REQUESTS = True

#: Checksums, signatures and manifests are a few kilobytes; more is an attack or a wrong URL.
SMALL = 1024 * 1024
_PIECE = 1024 * 1024
#: How often a server may need the timeout for one piece: its socket's counts from one byte to the next.
_TIMEOUTS = 10
_CONNECT_SECONDS = 10.0
_LONGEST = 86400
#: Answers of a server that has no time for the moment, besides those with which it fails (5xx).
_LATER = frozenset({408, 425, 429})
_SETTING = "the URL in gpufleet_image"


@dataclass(frozen=True)
class Source:
    """An opened URL: what its server says of it, and its content piece by piece."""

    url: str
    #: Changes with the content, as far as the server tells; empty where it tells nothing.
    version: str
    size: int | None
    pieces: Iterator[bytes]


def basename(url: str) -> str:
    """The file name at the end of a URL."""
    return unquote(_parts(url).path).rpartition("/")[2]


def shown(url: str) -> str:
    """The URL without credentials and without a query, which may hold a token."""
    parts = _parts(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else parts.path


def _parts(url: str) -> SplitResult:
    """:raises ConfigError: where it has none."""
    try:
        return urlsplit(url)
    except ValueError:
        tls.demand_url(url, _SETTING)
        raise


def how(params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of :func:`opened` and :func:`read_small` that a verb's parameters decide."""
    return {key: params.get(key) for key in ("ca_path", "timeout", "away")}


def read_small(
    url: str,
    *,
    ca_path: str | None,
    timeout: float,
    away: Away | None = None,
    limit: int = SMALL,
) -> bytes:
    """A small file whole.

    :raises BadAnswer: where it is larger than the limit.
    """
    content = b""
    with opened(url, ca_path=ca_path, timeout=timeout, away=away) as source:
        for piece in source.pieces:
            content += piece
            if len(content) > limit:
                raise BadAnswer("more than can be expected there", address=shown(url), wanted=f"at most {limit} bytes")
    return content


@contextmanager
def opened(
    url: str,
    *,
    ca_path: str | None,
    timeout: float,
    beat: Callable[[], None] | None = None,
    away: Away | None = None,
) -> Iterator[Source]:
    """Open a URL.

    :param timeout: seconds without a byte after which the server is given up.
    :param away: knows for how many seconds more the run tries a server that is away again; else nobody does.
    :param beat: called between pieces; raises where the run is gone.
    """
    scheme = _parts(url).scheme.lower()
    opener = {"http": _http, "https": _http, "file": _file, "": _file}.get(scheme)
    if opener is None:
        raise ConfigError("a URL of a kind that is not read here", wanted="http, https or file", seen=shown(url))
    if not 0 < timeout <= _LONGEST:
        raise ConfigError(
            "the timeout of a download cannot be used",
            wanted=f"more than 0 and at most {_LONGEST} seconds",
            seen=f"{timeout:g}",
            do="correct the option timeout",
        )
    with ExitStack() as stack:

        def ask() -> Source:
            return stack.enter_context(opener(url, ca_path, timeout))

        source = away.heard(url, ask, beat=beat) if away else ask()
        yield Source(source.url, source.version, source.size, _watched(source, beat))


def _watched(source: Source, beat: Callable[[], None] | None) -> Iterator[bytes]:
    """The pieces, as many as were promised."""
    seen = 0
    for piece in source.pieces:
        if beat is not None:
            beat()
        seen += len(piece)
        yield piece
    if source.size is not None and seen != source.size:
        raise Unreachable(
            "the connection ended early", address=shown(source.url), wanted=f"{source.size} bytes", seen=f"{seen} bytes"
        )


@contextmanager
def _http(url: str, ca_path: str | None, timeout: float) -> Iterator[Source]:
    if not HAS_REQUESTS:
        raise MissingLibrary("requests", why="the image lies behind a URL")
    tls.demand_url(url, _SETTING, of_a_file=True)
    verify = tls.authorities(ca_path, "ca_path in gpufleet_image, or the option ca_path")
    with requests.Session() as session:
        # REQUESTS_CA_BUNDLE and proxies of the environment decide nothing; hence also verify in each request.
        bounded_session(session, AdapterOf(_paced(url, timeout)))
        session.max_redirects = 5
        try:
            answer = session.get(url, stream=True, verify=verify, timeout=(_CONNECT_SECONDS, timeout))
        except requests.RequestException as exc:
            raise _no_answer(url, exc, timeout) from None
        with answer:
            if answer.status_code >= 500 or answer.status_code in _LATER:
                raise _unreachable(url, f"HTTP {answer.status_code} {answer.reason}")
            if answer.status_code != 200:
                raise Refused(
                    f"the server answered HTTP {answer.status_code} {answer.reason}",
                    address=shown(url),
                    wanted="the file",
                    do="correct the URL in gpufleet_image, or publish the file there",
                )
            yield Source(url, _version(answer), _length(answer), _pieces(answer, url))


def _paced(url: str, timeout: float) -> Bounds:
    """A server that drips, in the head of its answer too, is not waited for; one that goes on sending is."""

    def drips(over: Over) -> Unreachable:
        slow = _TIMEOUTS * timeout
        return Unreachable(
            f"less than 1 MiB in {slow:g} s",
            address=shown(url),
            seen=over.seen,
            do="look at the server's load",
            details={"slow": slow},
        )

    return Bounds(lambda _silence: time.monotonic() + _TIMEOUTS * timeout, lambda: sys.maxsize, drips, step=_PIECE)


def _pieces(answer: Any, url: str) -> Iterator[bytes]:
    try:
        yield from answer.iter_content(_PIECE)
    except requests.RequestException as exc:
        raise _unreachable(url, type(exc).__name__) from None


def _no_answer(url: str, exc: Exception, timeout: float) -> Unreachable:
    waits = _CONNECT_SECONDS if isinstance(exc, requests.ConnectTimeout) else timeout
    slow = waits if timed_out(exc) else 0.0
    return _unreachable(url, type(exc).__name__, untrusted=tls.untrusting(exc), slow=slow)


def _unreachable(url: str, why: str, *, untrusted: bool = False, slow: float = 0.0) -> Unreachable:
    known = {"tls": True} if untrusted else {"slow": slow}  # a certificate does not become trusted by waiting
    # The library's own text names the URL with its credentials.
    return Unreachable(
        f"the file cannot be fetched ({why})",
        address=shown(url),
        do="set ca_path in gpufleet_image to the CA that vouches for its server"
        if untrusted
        else "check the URL in gpufleet_image, and that its server runs",
        details=known if untrusted or slow else None,
    )


def _version(answer: Any) -> str:
    parts = [answer.headers.get(name, "") for name in ("ETag", "Last-Modified", "Content-Length")]
    return "|".join(parts) if parts[0] or parts[1] else ""


def _length(answer: Any) -> int | None:
    text = str(answer.headers.get("Content-Length") or "")
    encoded = answer.headers.get("Content-Encoding", "identity") != "identity"
    return int(text) if text.isdigit() and not encoded else None


@contextmanager
def _file(url: str, ca_path: str | None, timeout: float) -> Iterator[Source]:
    path = unquote(urlsplit(url).path) if urlsplit(url).scheme else url
    with ExitStack() as held:
        try:
            handle = held.enter_context(open(path, "rb"))
        except OSError as exc:
            # A wrong path is a setting; a share that is away is a service.
            kind = ConfigError if isinstance(exc, (FileNotFoundError, PermissionError)) else Unreachable
            raise kind(
                f"the file cannot be read: {exc.strerror}", address=path, do="correct the path in gpufleet_image"
            ) from exc
        told = os.fstat(handle.fileno())
        if not stat.S_ISREG(told.st_mode):
            raise ConfigError("not a regular file", seen=path)
        version = f"{told.st_dev}|{told.st_ino}|{told.st_mtime_ns}|{told.st_size}"
        yield Source(url, version, told.st_size, iter(lambda: handle.read(_PIECE), b""))
