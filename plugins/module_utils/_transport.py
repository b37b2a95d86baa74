# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What went wrong between us and a service that speaks HTTP: one table for all ports. PRIVATE to the collection.

A driver says who its peer is and what a person can set to reach it; which exception of the tree stands for a status
or a broken connection, and in what words, is the same for all of them.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _tls as tls
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

#: Told by what stands before the service, or by a service that is going up or down.
GATEWAY = frozenset({502, 503, 504})


#: What a library tells before it says why: which address, and how often it was tried.
_BEFORE_WHY = ("(Caused by ", "): ")
_QUERY = re.compile(r"(https?://[^\s?]+)\?[^\s)]+")


def cause(exc: BaseException) -> str:
    """Why nothing came, in a library's own words: refused, a name that is not known, a certificate."""
    told = str(exc)
    for mark in _BEFORE_WHY:
        told = told.rpartition(mark)[2] or told
    if told != str(exc):
        told = _without_ends(told)
    return f"{type(exc).__name__}: " + _QUERY.sub(r"\1", told)


def _without_ends(told: str) -> str:
    """Less the brackets and quotes at its end whose beginnings were cut off."""
    while told.endswith(("'", '"', ")")):
        end = told[-1]
        if told.count(end) == told.count("(") if end == ")" else told.count(end) % 2 == 0:
            break
        told = told[:-1]
    return told


def timed_out(exc: BaseException) -> bool:
    """Was a request given up because nothing came? Each library has a class of its own for that."""
    seen: Any = exc
    for _depth in range(8):
        if isinstance(seen, TimeoutError) or "Timeout" in type(seen).__name__:
            return True
        told = (getattr(seen, "reason", None), seen.__cause__, *seen.args[:1], seen.__context__)
        seen = next((one for one in told if isinstance(one, BaseException)), None)
        if seen is None:
            return False
    return False


def is_here(address: str) -> bool:
    """Is it this machine itself, so that nothing of it crosses a network?"""
    parts = urlsplit(address)
    host = "" if "\\" in parts.netloc else str(parts.hostname or "")
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def in_clear(address: str) -> bool:
    """Does what is sent there cross a network without TLS?"""
    return urlsplit(address).scheme != "https" and not is_here(address)


def known_as(address: str) -> str:
    """An address without a login, and with whose it is where each machine calls itself so: what it is told apart by."""
    parts = urlsplit(address)
    plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")
    return f"{plain} on {socket.gethostname()}" if is_here(address) else plain


def said(status: int, words: Any) -> str:
    """``HTTP 409: in use``, for the field ``seen``."""
    return f"HTTP {status}: {short(words)}".rstrip(": ")


class Clock:
    """A peer's clock, by the dates of its answers.

    :ivar ahead: between which seconds it was ahead of this machine's at its last answer; None where none tells.
    """

    ahead: tuple[float, float] | None = None

    def timed(self, ask: Callable[[], Any]) -> Any:
        """An answer that has ``headers``; what a cache gives (``Age``) is dated by who filled it."""
        asked = time.time()
        answer = ask()
        answered = time.time()
        try:
            date = parsedate_to_datetime(answer.headers.get("Date") or "").timestamp()
        except (TypeError, ValueError):
            return answer
        if not answer.headers.get("Age"):
            self.ahead = date - answered, date + 1.0 - asked  # whole seconds are told
        return answer


@dataclass(frozen=True)
class Peer:
    """A service, by the name that a person knows it by, and what helps where it cannot be reached or refuses us."""

    name: str
    #: What to check where nothing answers, where its certificate is not trusted, and where it refuses the login.
    reach: str
    trust: str
    login: str
    #: Its name for what it is logged in with.
    key: str = "login"
    #: The variable that holds its address.
    setting: str = "its address"

    def verified_by(self, address: str, path: Any, setting: str) -> str | bool:
        """What vouches for its certificate: the file of that setting, or what this machine trusts anyway.

        :raises ConfigError: where the address or the file is none.
        """
        tls.demand_url(address, self.setting)
        return tls.authorities(path, setting)

    def demand_tls(self, address: str) -> None:
        """:raises ConfigError: where the login, and all that goes with it, would cross a network in clear."""
        if in_clear(address):
            raise ConfigError(
                f"a login would go to {self.name} in clear",
                address=address,
                wanted="an address with https://, or one of this machine itself",
                do=f"put TLS before it, and write https:// into {self.setting}; or lead a tunnel there, for instance of"
                " SSH, and write http://localhost and its port",
            )

    def silent(self, address: str, cause: Any, *, slow: float = 0.0) -> Unreachable:
        """No answer came. slow: the seconds after which it was given up; 0 where it failed at once."""
        return self._of_tls(address, cause) or Unreachable(
            f"{self.name} does not answer",
            address=address,
            seen=short(cause),
            do=self.reach,
            details={"slow": slow} if slow else None,
        )

    def untrusted(self, address: str, cause: Any) -> Unreachable:
        """We ended the handshake."""
        return self._of_tls(address, cause) or Unreachable(
            f"no trusted TLS connection to {self.name}",
            address=address,
            seen=short(cause),
            do=self.trust,
            details={"tls": True},
        )

    def unreached(self, address: str, exc: BaseException, cause: Any, *, timeout: float) -> Unreachable:
        """No answer came, or we ended the handshake, as the error says. cause: what is shown of it.

        :param timeout: seconds after which a request is given up.
        """
        if tls.untrusting(exc):
            return self.untrusted(address, cause)
        return self.silent(address, cause, slow=timeout if timed_out(exc) else 0.0)

    def _of_tls(self, address: str, cause: Any) -> Unreachable | None:
        return tls.why(tls.Asked(self.name, address, self.setting, str(cause)))

    def login_refused(
        self, address: str, *, do: str = "", seen: str = "HTTP 401", details: dict[str, Any] | None = None
    ) -> AuthFailed:
        """401. Without ``seen`` nothing of its body is shown: some print the secret that they were given."""
        return AuthFailed(
            f"{self.name} refused the {self.key}",
            address=address,
            seen=seen,
            details=details,
            do=f"{do or self.login}; it was tried once and is not tried again",
        )

    def elsewhere(self) -> dict[str, Any]:
        """Details of an answer that no such service gives: its address is hardly the right one."""
        return {"setting": self.setting}

    def no_list(self, address: str, request: str, seen: Any) -> BadAnswer:
        return BadAnswer(
            f"{request} brings no list",
            address=address,
            seen="HTTP 404" if seen is None else short(seen),
            details=self.elsewhere() if seen is None else None,
            do=f"correct {self.setting}, if another program than {self.name} answers there",
        )

    def no_json(self, address: str, request: str, status: int, text: Any, *, kind: Any = "") -> BadAnswer:
        """kind: its Content-Type."""
        page = "html" in str(kind or "").lower()
        return BadAnswer(
            f"{request}: HTTP {status} whose body is no JSON" + (", but a web page" if page else ""),
            address=address,
            seen=short(text),
            details=self.elsewhere() if page else None,
            do=f"correct {self.setting}: is it really the address of {self.name}, and not of a web server or a proxy?",
        )

    def refusal(self, address: str, method: str, path: str, status: int, seen: str) -> FleetError:
        """A status that is no success and has no meaning of its own: the service is down, or it says no.

        A write that failed with 5xx may have been done half, and is no outage that is waited out.
        """
        down = status in GATEWAY or (status >= 500 and method == "GET")
        kind = Unreachable if down else Refused
        details = {"status": status, **({"begun": f"{method} {path}"} if status >= 500 and not down else {})}
        return kind(f"{self.name} refused {method} {path}", address=address, seen=seen, details=details)
