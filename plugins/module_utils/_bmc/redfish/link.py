# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to a Redfish service, with the face of sushy's connector and our own rules. PRIVATE to the collection.

sushy's objects work on it. It is no subclass: to import sushy costs a run 0.15 s of CPU, and what of it is used
(words.py) is needed by a request that failed alone. What differs from the connector of sushy 5.14, and why:

* It speaks through urllib3 at once. The session of requests that sushy puts before it costs as much again as the
  request itself, and reads the environment: ``REQUESTS_CA_BUNDLE`` would override what verifies the BMC, ``.netrc``
  who logs in, and a proxy would be asked.
* TLS: one ready ``SSLContext`` for all connections of a CA file. Otherwise the system's CA bundle is read for each
  connection, which is most of what a request costs.
* Connections stay open between requests; sushy closes each.
* A read is repeated while the BMC says "not now" or the connection breaks, for a bounded time. A write never is:
  a connection that broke after it was sent is :class:`LostAnswer`.
* 401 is final. sushy tries a refused login again, in another way, and on 403 opens one more session each time.
* Every failure is an exception of our tree, whatever the body was.
"""

from __future__ import annotations

import importlib.util
import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.contract import LostAnswer, NotNow
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.bounds import Endless, bounds, content
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.pin import Pin, checking
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.session import login_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc_address import bracketed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import bounded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._tls import untrusting
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import cause

try:
    import urllib3  # which sushy itself needs
    from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
except ImportError as exc:
    LIBRARY_PROBLEM: str | None = str(exc)
else:
    # Looked for, not loaded: that it is missing shall be told at the first run, and not by the first failure.
    LIBRARY_PROBLEM = None if importlib.util.find_spec("sushy") else "No module named 'sushy'"

CONNECT_SECONDS = 10.0
#: How long no byte may come: recorded BMCs need up to 23 s for one resource. A whole answer has as much past the
#: deadline of the task, and twice as much before it.
READ_SECONDS = 60.0
#: How long a read goes on against a BMC that does not answer, and against one that says that it is not ready.
PATIENCE_BROKEN = 20.0
PATIENCE_BUSY = 120.0
RETRY_SECONDS = 2.0
#: An idle connection may have been closed at the other end: a write goes out on a new one.
IDLE_SECONDS = 3.0
_REDIRECTS = 3
_BLANK, _SLASHES = re.compile(r"\s"), re.compile(r"[/\\]")
#: How long the end of a session is waited for.
LOGOUT_SECONDS = 5.0
#: An empty context, made before the fork (rehearsal.py): a worker that needs one for its own CA file takes it.
_SPARE: list[ssl.SSLContext] = []


def prepare_tls() -> None:
    """Make the usual context, and an empty one to spare."""
    tls_context(None, True)
    if not _SPARE:
        _SPARE.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def _empty() -> ssl.SSLContext:
    """The one to spare goes to whichever thread comes first."""
    try:
        return _SPARE.pop()
    except IndexError:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@lru_cache(maxsize=32)
def tls_context(ca_path: str | None, verify: bool) -> ssl.SSLContext:
    """The context for a CA file; made once a process, so the action makes the usual one before its workers fork.

    :raises ConfigError: when the file cannot be used.
    """
    if not verify:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if not ca_path:
        return ssl.create_default_context()
    context = _empty()
    try:
        context.load_verify_locations(cafile=ca_path)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"the file of certificate authorities cannot be used: {exc}",
            seen=ca_path,
            do="set gpufleet_bmc_ca_path to a PEM file on the machine that talks to the BMC",
        ) from exc
    return context


def base_url(address: str) -> str:
    """``https://host[:port]`` out of an address as people write it.

    :raises ConfigError: when it is none, or holds a login.
    """
    scheme, mark, rest = address.rpartition("://")
    url = f"{scheme}{mark or 'https://'}{bracketed(rest)}"
    try:
        parts = urlsplit(url)
        usable = not _BLANK.search(url) and parts.port != 0
    except ValueError:  # brackets without an end, a port that is no number or too large
        parts, usable = urlsplit(""), False
    if not usable or parts.scheme not in ("http", "https") or not parts.hostname or set("@\\") & {*parts.netloc}:
        raise ConfigError(
            "the BMC's address cannot be used",
            wanted="https://host, host or host:port, and no login in it",
            do="correct gpufleet_bmc_address",
        )
    return f"{parts.scheme}://{parts.netloc}"


class Answer:
    """What came back, in the names that sushy's objects know from requests."""

    def __init__(self, status_code: int, headers: Mapping[str, str], content: bytes) -> None:
        self.status_code = status_code
        self.headers = headers
        self.content = content

    def json(self) -> Any:
        return json.loads(self.content)


class Link:
    """What sushy's objects take for their connector, and our driver works on.

    :param auth: ``session`` for one login and one logout, else the login goes with each request.
    :param pin: the certificate that is fixed, if one is.
    :param wait: ``Context.wait``: the only way to sleep.
    :param deadline: in the clock of ``time.monotonic``; nothing is retried past it.
    :param silence: how long no byte may come; where less than usual, the silent and the busy are soon given up.
    """

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        *,
        context: ssl.SSLContext,
        auth: str = "",
        pin: Pin | None = None,
        wait: Callable[..., Any],
        deadline: float,
        silence: float = READ_SECONDS,
    ) -> None:
        if LIBRARY_PROBLEM is not None:
            raise MissingLibrary("sushy", why="Redfish is spoken through it", cause=LIBRARY_PROBLEM)
        self._url = url
        self._wait = wait
        self._deadline = deadline
        self._silence = silence
        self._brief = silence < READ_SECONDS
        self._used = 0.0
        parts = urlsplit(url)
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=silence)
        if parts.scheme == "https":
            if context.verify_mode == ssl.CERT_NONE:
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            self._pool: Any = urllib3.HTTPSConnectionPool(
                parts.hostname or "", parts.port, timeout=timeout, retries=False, ssl_context=context
            )
            if pin is not None:
                self._pool.ConnectionCls = checking(self._pool.ConnectionCls, pin)
        else:
            self._pool = urllib3.HTTPConnectionPool(parts.hostname or "", parts.port, timeout=timeout, retries=False)
        self._pool.ConnectionCls = bounded(self._pool.ConnectionCls, bounds(self._answer_ends))
        self._login = login_of(auth, username, password, url)
        self._usual = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # compressed answers carry weak ETags; see sushy
            "OData-Version": "4.0",
        }

    def set_auth(self, auth: Any) -> None:
        """For sushy's objects: the login is given already."""

    def set_http_basic_auth(self, username: str, password: str) -> None:
        """As :meth:`set_auth`."""

    def close(self) -> str:
        """What may be left behind at the BMC, in words; empty where nothing is."""
        left = self._login.end(self._ask_briefly)
        self._pool.close()
        return left

    def _ask(self, method: str, path: str, data: Any, headers: dict[str, str]) -> Answer:
        """One request without a login, for what is about logins."""
        more = {} if data is None else {"Content-Type": "application/json"}
        body = None if data is None else json.dumps(data).encode("utf-8")
        return self._request(method, self._here(path), body, {**more, **headers})

    def _ask_briefly(self, method: str, path: str, data: Any, headers: dict[str, str]) -> Answer:
        """The same for a session's end, for whose answer nobody waits long."""
        before = self._pool.timeout, self._silence
        self._pool.timeout = urllib3.Timeout(connect=LOGOUT_SECONDS, read=LOGOUT_SECONDS)
        self._silence = LOGOUT_SECONDS
        self._fresh_connection()
        try:
            return self._ask(method, path, data, headers)
        finally:
            self._pool.timeout, self._silence = before

    @property
    def url(self) -> str:
        return str(self._url)

    def get(self, path: str = "", data: Any = None, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
        """One read, which is repeated while the BMC cannot answer."""
        return self._read(path, dict(headers or {}))

    def send(self, method: str, path: str, data: Any, headers: dict[str, str] | None = None) -> Any:
        """One write, sent once.

        :raises NotNow: when the BMC said so before doing anything.
        :raises LostAnswer: when nobody knows whether it was done.
        """
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._fresh_connection()
        where = f"{method} {self._absolute(path)}"
        try:
            answer = self._once(method, path, data, headers or {})
        except (HTTPError, OSError, Endless) as exc:
            if _never_left(exc):
                raise self._unreachable(exc, where) from exc
            raise LostAnswer(
                "the connection broke before the BMC's answer came", address=where, seen=_cause(exc)
            ) from exc
        if answer.status_code in answers.AMBIGUOUS and not answers.meaning(answer):
            raise LostAnswer(
                "the BMC's answer does not say whether it was done", address=where, seen=answers.said(answer)
            )
        problem = answers.refusal(answer, method, where)
        if problem is not None:
            raise problem
        return answer

    def _read(self, path: str, headers: dict[str, str]) -> Any:
        if time.monotonic() > self._deadline + self._silence:
            raise Unreachable(
                "the BMC answers too slowly for the time of this task",
                address=f"GET {self._absolute(path)}",
                do="raise timeout, or see what the BMC is busy with",
            )
        began = time.monotonic()
        first = self._try_read(path, headers)
        if not isinstance(first, FleetError):
            return first
        patience = self._patience(first, time.monotonic() - began)
        if self._brief and not patience:
            raise first
        last = {"answer": first}

        def again() -> Any:
            last["answer"] = self._try_read(path, headers)
            return last["answer"]

        try:
            return self._wait(
                again,
                lambda answer: not isinstance(answer, FleetError),
                timeout=patience,
                interval=max(RETRY_SECONDS, first.after if isinstance(first, NotNow) else 0.0),
                wanted="an answer of the BMC",
            )
        except FleetError as exc:
            if isinstance(last["answer"], FleetError) and exc.kind == "deadline":
                raise last["answer"] from exc
            raise

    def _patience(self, first: FleetError, took: float) -> float:
        """How long it is asked again. One that is asked briefly may be slow, as long as it answers."""
        left = max(0.0, self._deadline - time.monotonic())
        if self._brief:
            return min(PATIENCE_BROKEN, left) if took < self._silence else 0.0
        return min(PATIENCE_BUSY if isinstance(first, NotNow) else PATIENCE_BROKEN, left)

    def _try_read(self, path: str, headers: dict[str, str]) -> Any:
        """An answer, or the reason to ask again; what will not get better is raised."""
        where = self._absolute(path)
        try:
            answer = self._once("GET", path, None, headers)
        except (HTTPError, OSError) as exc:
            if untrusting(exc):
                raise self._unreachable(exc, where) from exc
            return self._unreachable(exc, where)
        except Endless as exc:
            raise exc.located(address=where) from exc.__cause__
        except NotNow as exc:  # the login with a session, before anything was begun
            return exc
        problem = answers.refusal(answer, "GET", where)
        if isinstance(problem, NotNow):
            return problem
        if problem is not None:
            raise problem
        return answer

    def _once(self, method: str, path: str, data: Any, headers: dict[str, str]) -> Answer:
        body = None
        if data is not None:
            body = json.dumps(data).encode("utf-8")
            headers = {"Content-Type": "application/json", **headers}
        try:
            answer = self._logged_in(method, self._here(path), body, headers)
            for _hop in range(_REDIRECTS):
                if method != "GET" or answer.status_code not in (301, 302, 307, 308):
                    break
                answer = self._logged_in(method, self._here(answer.headers.get("Location") or ""), None, headers)
            return answer
        finally:
            self._used = time.monotonic()

    def _logged_in(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        """The request with our login; once more where a session has run out: what answers 401 has done nothing."""
        answer = self._request(method, target, body, {**self._login.headers(self._ask), **headers})
        if answer.status_code == 401 and self._login.renewed(self._ask_briefly):
            answer = self._request(method, target, body, {**self._login.headers(self._ask), **headers})
        if answer.status_code != 401:
            self._login.accepted()
        return answer

    def _request(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        headers = {**self._usual, **headers}
        try:
            raw = self._pool.request(method, target, body=body, headers=headers, redirect=False, decode_content=False)
        except (MemoryError, OverflowError) as exc:
            raise Endless("the length that it tells is none that anything has") from exc
        return Answer(raw.status, raw.headers, content(raw))

    def _answer_ends(self) -> float:
        """When the answer that begins now is given up, in the clock of ``time.monotonic``."""
        now = time.monotonic()
        return now + min(2 * self._silence, max(self._deadline - now, self._silence))

    def _fresh_connection(self) -> None:
        """The idle one, if there is one, is given up: the other end may have closed it."""
        pool = self._pool
        if pool.pool is not None and not pool.pool.empty():
            kept = pool.pool.get(block=False)
            if kept is not None:
                kept.close()
            pool.pool.put(None, block=False)

    def _here(self, path: str) -> str:
        """A URI of this BMC, verbatim; a link to another host is none of ours and never gets our login."""
        if any(part in (".", "..") for part in _SLASHES.split(unquote(path))):
            # Servers resolve it, and what reads like a part of our system is one of its neighbour's then.
            raise BadAnswer("the BMC tells a link that leads elsewhere", address=self.url, seen=short(path, 200))
        if path.startswith("/") and not path.startswith("//"):
            return path
        try:
            parts = urlsplit(urljoin(f"{self._url}/", path))
        except ValueError:
            raise BadAnswer("the BMC tells a link that is none", address=self.url, seen=short(path, 200)) from None
        if parts.netloc != urlsplit(self._url).netloc:
            raise ConfigError("the BMC links to another host", address=self.url, seen=path)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def _absolute(self, path: str) -> str:
        return f"{self._url}{self._here(path)}"

    def _unreachable(self, exc: BaseException, where: str) -> FleetError:
        return answers.BMC.unreached(where, exc, _cause(exc), timeout=self._silence)


def _never_left(exc: BaseException) -> bool:
    """True where the request cannot have reached the BMC."""
    return isinstance(exc, (NewConnectionError, ConnectTimeoutError)) or untrusting(exc)


def _cause(exc: BaseException) -> str:
    return short(cause(exc), 300)
