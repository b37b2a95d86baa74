# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The session with an IPMI BMC: pyghmi behind a guard. PRIVATE to the collection.

pyghmi 1.6 is good at the protocol and rough at its edges: a BMC that answers with another hash than was proposed
makes it raise ``struct.error``, a lost session raises or returns None, and it repeats a request that got no answer.
Here every failure is one of our tree, a chassis command is sent once, and the session is always closed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.contract import LostAnswer, NotNow
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
    Refused,
    Unreachable,
    Unsupported,
)

try:
    import pyghmi.exceptions
    from pyghmi.ipmi.private.session import Session
except ImportError as exc:
    LIBRARY_PROBLEM: str | None = str(exc)
else:
    LIBRARY_PROBLEM = None

PORT = 623
#: How long the answer to a command that is sent once is waited for.
_ONCE_SECONDS = 10.0
#: Limits of the protocol (IPMI 2.0, 22.27 and 22.30); a longer Redfish password does not work here.
USER_LIMIT = 16
PASSWORD_LIMIT = 20

#: Words of pyghmi at a failed login, and what they are.
_LOGIN: tuple[tuple[str, type[FleetError], str], ...] = (
    ("ncorrect password", AuthFailed, "the BMC refuses the login"),
    ("nauthorized", AuthFailed, "the BMC refuses the login"),
    ("RAKP", AuthFailed, "the BMC refuses the login"),
    ("nvalid role", AuthFailed, "the BMC refuses this user's privilege"),
    ("nsufficient resources", NotNow, "the BMC has no session left"),
    ("timeout", Unreachable, "the BMC does not answer"),
    ("None", Unreachable, "the BMC does not answer"),  # what it says after its last attempt
)
#: Completion codes (IPMI 2.0, table 5-2).
_BUSY = frozenset({0xC0, 0xC3, 0xCE, 0xD2})
_UNSUPPORTED = frozenset({0xC1, 0xC2, 0xD6})
_LATER = frozenset({0xD5})
_NO_PRIVILEGE = frozenset({0xD4})


def host_and_port(address: str) -> tuple[str, int]:
    """Out of ``host``, ``host:port``, ``[v6]:port``, with or without a scheme.

    :raises ConfigError: when it is none of these.
    """
    parts = urlsplit(address if "://" in address else f"ipmi://{address}")
    try:
        if parts.hostname and "@" not in parts.netloc:
            return parts.hostname, parts.port or PORT
    except ValueError:
        pass
    raise ConfigError(
        "the BMC's address cannot be used",
        wanted="host or host:port, and no login in it",
        do="correct gpufleet_bmc_address",
    )


class IpmiLink:
    """One session, opened at the first command."""

    def __init__(self, address: str, username: str, password: str) -> None:
        if LIBRARY_PROBLEM is not None:
            raise MissingLibrary("pyghmi", why="IPMI is spoken through it", cause=LIBRARY_PROBLEM)
        self.host, self.port = host_and_port(address)
        self.shown = f"ipmi://{self.host}:{self.port}"
        for name, value, limit in (("username", username, USER_LIMIT), ("password", password, PASSWORD_LIMIT)):
            if len(value.encode("utf-8")) > limit:
                raise ConfigError(
                    f"the BMC's {name} is too long for IPMI",
                    address=self.shown,
                    wanted=f"at most {limit} bytes",
                    do=f"use a BMC user for IPMI with a {name} that fits, or bmc_protocol redfish",
                )
        # As bytes: pyghmi encodes text, and then never finds again what it had filed under it.
        self._login = (username.encode("utf-8"), password.encode("utf-8"))
        self._session: Any = None

    def command(
        self, netfn: int, command: int, data: Sequence[int] = (), *, once: bool = False, what: str = ""
    ) -> bytes:
        """One command's data.

        :param once: never sent a second time; without an answer :class:`LostAnswer` is raised.
        """
        session = self._open()
        try:
            answer = (self._sent_once if once else session.raw_command)(netfn=netfn, command=command, data=tuple(data))
        except Exception as exc:  # pyghmi raises what its parser stumbles over
            self.close()
            raise self._lost(what, exc, once) from exc
        if not isinstance(answer, dict) or answer.get("code") == 0xFFFF:
            self.close()
            raise self._lost(what, None, once)
        code = int(answer.get("code") or 0)
        if code:
            raise self._refusal(code, str(answer.get("error") or ""), what)
        return bytes(answer.get("data") or b"")

    def _sent_once(self, **request: Any) -> Any:
        """pyghmi repeats what got no answer; told not to, it does not wait either. So the waiting is done here."""
        session, answers = self._session, []  # type: Any, list[Any]
        session.raw_command(**request, timeout=_ONCE_SECONDS * 2, callback=answers.append)
        end = time.monotonic() + _ONCE_SECONDS
        while not answers and time.monotonic() < end:
            Session.wait_for_rsp(timeout=max(0.01, end - time.monotonic()))
        session.incommand = False
        return answers[0] if answers else None

    def _open(self) -> Any:
        if self._session is not None and not getattr(self._session, "broken", False):
            return self._session
        username, password = self._login
        try:
            self._session = Session(bmc=self.host, userid=username, password=password, port=self.port)
        except FleetError:
            raise
        except Exception as exc:  # IpmiException, struct.error, socket errors
            raise self._no_login(exc) from exc
        return self._session

    def _no_login(self, exc: Exception) -> FleetError:
        text = str(exc)
        if isinstance(exc, pyghmi.exceptions.PyghmiException):
            for words, kind, what in _LOGIN:
                if words in text:
                    return kind(what, address=self.shown, seen=text, do=_HELP[kind])
        if isinstance(exc, OSError):
            return Unreachable("the BMC does not answer", address=self.shown, seen=text, do=_HELP[Unreachable])
        return BadAnswer(
            "no IPMI session with this BMC",
            address=self.shown,
            wanted="RMCP+ with cipher suite 17 or 3",
            seen=f"{type(exc).__name__}: {text}",
            do="enable one of these cipher suites at the BMC, or use bmc_protocol redfish",
        )

    def _lost(self, what: str, exc: Exception | None, once: bool) -> FleetError:
        seen = f"{type(exc).__name__}: {exc}" if exc is not None else "no answer"
        kind = LostAnswer if once else Unreachable
        said = f"the BMC did not answer {what or 'a command'}"
        return kind(said, address=self.shown, seen=seen, do=_HELP[Unreachable])

    def _refusal(self, code: int, text: str, what: str) -> FleetError:
        told: dict[str, Any] = {
            "address": self.shown,
            "wanted": what,
            "seen": f"completion code 0x{code:02x} {text}".strip(),
        }
        if code in _BUSY:
            return NotNow("the BMC is busy", **told)
        if code in _UNSUPPORTED:
            return Unsupported("the BMC does not know this command", **told)
        if code in _NO_PRIVILEGE:
            return Refused("the BMC's user may not do this", **told, do="give this user the operator privilege or more")
        return Refused("the BMC refuses this command", **told, details={"meaning": "already" if code in _LATER else ""})

    def close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.logout()
        except Exception:  # the session ends at the BMC by itself; nothing of ours depends on it
            return


_HELP: dict[type[FleetError], str] = {
    AuthFailed: "check gpufleet_bmc_username and gpufleet_bmc_password, and that this user may use IPMI over LAN;"
    " it was tried once and is not tried again",
    NotNow: "close other IPMI sessions with this BMC, or wait a minute",
    Unreachable: "check gpufleet_bmc_address, the route to the out-of-band network,"
    " and that the BMC has IPMI over LAN enabled",
}
