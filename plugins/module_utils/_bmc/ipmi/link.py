# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The session with an IPMI BMC: pyghmi behind a guard. PRIVATE to the collection.

pyghmi 1.6 is good at the protocol and rough at its edges. Here every failure is one of our tree, a chassis command is
sent once, the session is always closed, and we turn pyghmi's event loop ourselves, since left alone

* its login gives up after four packets (4 to 6 s) without an answer, and then says no more than ``None``; lost or
  late answers to RAKP 1 and 3 make it begin again for ever, with no deadline;
* it begins each login with the same numbers: the late answer to an earlier try then fits the new one, does not match
  its random numbers, and is told as a wrong password;
* an answer that arrives between its look and its sleep is noticed when the sleep ends, up to a second later (one
  login in three on a busy machine): its naps are kept short here;
* a BMC that answers with another hash than was proposed makes it raise ``struct.error``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bmc_address as bmc_address
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.contract import LostAnswer, NotNow
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.forked import KNOWN, begin_anew_in_forks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    MissingLibrary,
    Refused,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret

_PyghmiSession: Any = object
try:
    import pyghmi.exceptions
    from pyghmi.ipmi.private import session as _pyghmi_sessions
    from pyghmi.ipmi.private.session import Session as _PyghmiSession  # type: ignore[no-redef]
except ImportError as exc:
    LIBRARY_PROBLEM: str | None = str(exc)
    _LIBRARY = "pyghmi"
else:
    _LIBRARY = KNOWN
    LIBRARY_PROBLEM = begin_anew_in_forks(_pyghmi_sessions)

PORT = 623
#: How long a BMC that says nothing is asked for a session, and then for the answer to a read.
PATIENCE = 20.0
#: What was begun is given so much time, also at the deadline: a BMC that answers is not told as one that does not.
_LEAST_SECONDS = 4.0
#: How long the answer to a command that is sent once is waited for.
_ONCE_SECONDS = 10.0
#: When pyghmi would send it again by itself. Renewing a lease between two looks may take a blocked ledger's time, so no
#: limit near our own is far enough.
_NEVER = 1e6
#: One turn of pyghmi's event loop lasts so long at most.
_TURN_SECONDS = 0.1
#: Each new beginning within one login waits so much longer for its answers: slow BMCs need it.
_SLOWER_SECONDS = 0.75
#: How often a login is begun before it is given up. A BMC that drops its half-open sessions answers at once, and each
#: beginning takes one of the few that it has: after each it is left alone, the first time so long, then twice as long.
_BEGINNINGS = 5
_PAUSE_SECONDS = 0.5
#: Limits of the protocol (IPMI 2.0, 22.27 and 22.30); a longer Redfish password does not work here.
USER_LIMIT = 16
PASSWORD_LIMIT = 20

KG_LIMIT = 20
#: Privilege levels (IPMI 2.0, 6.8). Without one pyghmi asks for the highest, and for the lower where the BMC refuses.
PRIVILEGES = {"operator": 3, "administrator": 4}

#: Words of pyghmi at a failed login, first match wins, and what they are. No credentials were judged where a session
#: number was not known any more, or where nobody answered: then the login is begun again.
_LOGIN: tuple[tuple[str, type[FleetError], str], ...] = (
    ("nsufficient resources", NotNow, "the BMC has no session left"),
    ("Session ID", Unreachable, "the BMC has given up the login on its way"),
    ("nvalid role", AuthFailed, "the BMC refuses this user's privilege"),
    ("ncorrect password", AuthFailed, "the BMC refuses the login"),
    ("nauthorized", AuthFailed, "the BMC refuses the login"),
    ("RAKP", AuthFailed, "the BMC refuses the login"),
    ("timeout", Unreachable, "the BMC does not answer"),
    ("failed to initialize", Unreachable, "the BMC does not answer"),
    ("no longer connected", Unreachable, "the BMC does not answer"),
)
#: Status of RAKP 2 and 4 (IPMI 2.0, table 13-15): the BMC does not know the session number that it gave out.
_DROPPED = 2
#: Completion codes (IPMI 2.0, table 5-2).
_BUSY = frozenset({0xC0, 0xC3, 0xCE, 0xD2})
_UNSUPPORTED = frozenset({0xC1, 0xC2, 0xD6})
#: Those of single commands, by network function and command: 0x80 is a boot parameter that is not there [28.12, 28.13].
_LACKING: dict[tuple[int, int], frozenset[int]] = {(0x00, 0x08): frozenset({0x80}), (0x00, 0x09): frozenset({0x80})}
_LATER = frozenset({0xD5})
_NO_PRIVILEGE = frozenset({0xD4})


def host_and_port(address: str) -> tuple[str, int]:
    """Out of ``host``, ``host:port``, ``[v6]:port``, with or without a scheme.

    :raises ConfigError: when it is none of these.
    """
    with suppress(ValueError):
        parts = bmc_address.split(address)
        if not parts.login:
            return parts.host, parts.port or PORT
    raise ConfigError(
        "the BMC's address cannot be used",
        wanted="host or host:port, and no login in it",
        do="correct gpufleet_bmc_address",
    )


def key_of(kg: str, where: str) -> bytes | None:
    """The BMC's key as bytes: text, or 0x and hexadecimal digits, as most BMCs show it; None where none is given.

    :raises ConfigError: without a word of the key.
    """
    if not kg:
        return None
    try:
        key = bytes.fromhex(kg[2:]) if kg.startswith("0x") else kg.encode("utf-8")
    except ValueError:
        key = b""
    if 0 < len(key) <= KG_LIMIT:
        keep_secret(kg, kg[2:] if kg.startswith("0x") else "")
        return key
    raise ConfigError(
        "the BMC's key for IPMI (Kg) cannot be used",
        address=where,
        wanted=f"text of at most {KG_LIMIT} bytes, or 0x and as many bytes in hexadecimal digits",
        do="correct gpufleet_bmc_ipmi_kg",
    )


class _Session(_PyghmiSession):
    """A session whose every beginning has a number of its own, and more patience than the one before."""

    _beginnings = 0

    def _initsession(self) -> None:
        super()._initsession()
        self.localsid = int.from_bytes(os.urandom(4), "little") & 0x7FFFFF00 | 0x10
        self.timeout += _SLOWER_SECONDS * self._beginnings
        self._beginnings += 1

    def _got_rakp4(self, data: Any) -> Any:
        if data[1] == _DROPPED:
            self.logontries = 0  # else pyghmi begins again itself, and at once
        return super()._got_rakp4(data)


class IpmiLink:
    """One session, opened at the first command.

    :param wait: ``Context.wait``: the only way to wait, which keeps the lease and stops with its run.
    :param deadline: in the clock of ``time.monotonic``; nothing is begun again past it.
    :param privilege: the level to ask for; without one the highest that the user has.
    :param kg: the BMC's own key, which some demand beside the password.
    """

    def __init__(
        self,
        address: str,
        username: str,
        password: str,
        *,
        wait: Callable[..., Any],
        deadline: float,
        privilege: str = "",
        kg: str = "",
    ) -> None:
        if LIBRARY_PROBLEM is not None:
            raise MissingLibrary(_LIBRARY, why=f"IPMI is spoken through it: {LIBRARY_PROBLEM}", cause=LIBRARY_PROBLEM)
        self.host, self.port = host_and_port(address)
        self.shown = f"ipmi://{bmc_address.joined(self.host, self.port)}"
        for name, value, limit in (("username", username, USER_LIMIT), ("password", password, PASSWORD_LIMIT)):
            if len(value.encode("utf-8")) > limit:
                raise ConfigError(
                    f"the BMC's {name} is too long for IPMI",
                    address=self.shown,
                    wanted=f"at most {limit} bytes",
                    do=f"use a BMC user for IPMI with a {name} that fits, or bmc_protocol redfish",
                )
        keep_secret(password)
        # As bytes: pyghmi encodes text, and then never finds again what it had filed under it.
        self._login = (username.encode("utf-8"), password.encode("utf-8"))
        self._rights = {"privlevel": PRIVILEGES.get(privilege), "kg": key_of(kg, self.shown)}
        self._session: Any = None
        self._wait = wait
        self._deadline = deadline

    def command(
        self, netfn: int, command: int, data: Sequence[int] = (), *, once: bool = False, what: str = ""
    ) -> bytes:
        """One command's data.

        :param once: never sent a second time; without an answer :class:`LostAnswer` is raised.
        """
        session = self._open()
        answers: list[Any] = []
        request: dict[str, Any] = {"netfn": netfn, "command": command, "data": tuple(data)}
        limit = self._limit(PATIENCE)
        if once:
            limit = _ONCE_SECONDS
            request["timeout"] = _NEVER
        try:
            session.raw_command(**request, callback=answers.append)
            self._turn(lambda: bool(answers) or session.broken, limit)
            session.incommand = False
        except FleetError:
            self.close()
            raise
        except Exception as exc:  # pyghmi raises what its parser stumbles over
            self.close()
            raise self._lost(what, exc, once) from exc
        answer = answers[0] if answers else None
        if not isinstance(answer, dict) or answer.get("code") in (None, 0xFFFF):
            self.close()
            raise self._lost(what, None, once)
        code = int(answer["code"])
        if code:
            raise self._refusal(code, str(answer.get("error") or ""), what, _LACKING.get((netfn, command), ()))
        return bytes(answer.get("data") or b"")

    def _limit(self, seconds: float) -> float:
        return max(_LEAST_SECONDS, min(seconds, self._deadline - time.monotonic()))

    def _turn(self, done: Callable[[], bool], limit: float) -> bool:
        """Turn pyghmi's event loop, which repeats what got no answer, until it is done; False where it never was."""
        try:
            self._wait(
                lambda: done() or _Session.wait_for_rsp(timeout=min(_TURN_SECONDS, limit)) or done(),
                lambda _value: done(),
                timeout=limit,
                interval=0.0,
                wanted="an answer of the BMC",
            )
        except DeadlineExceeded:
            return False
        return True

    def _open(self) -> Any:
        """The session; a login that nobody answered is begun again, one that was refused never."""
        if self._session is not None and not getattr(self._session, "broken", False):
            return self._session
        end = time.monotonic() + self._limit(PATIENCE)
        failed: list[FleetError] = []

        def begin() -> Any:
            if failed and time.monotonic() >= end:
                raise _given_up(failed)
            try:
                return self._logged_in(max(0.0, end - time.monotonic()))
            except Unreachable as exc:
                failed.append(exc)
                if len(failed) == _BEGINNINGS or isinstance(exc.__cause__, OSError):
                    raise _given_up(failed) from exc.__cause__
            return None

        try:
            self._session = self._wait(
                begin,
                lambda session: session is not None,
                timeout=end - time.monotonic(),
                interval=lambda: _PAUSE_SECONDS * 2.0 ** (len(failed) - 1),
                wanted="a session with the BMC",
            )
        except DeadlineExceeded as exc:
            raise _given_up(failed) from exc
        return self._session

    def _logged_in(self, limit: float) -> Any:
        username, password = self._login
        said: list[dict[str, Any]] = []
        session: Any = None
        try:
            session = _Session(
                bmc=self.host, userid=username, password=password, port=self.port, onlogon=said.append, **self._rights
            )
            answered = self._turn(lambda: bool(said), limit)
            problem = str(said[0].get("error") or "") if said else "timeout"
            if not answered or problem:
                raise self._no_login(problem)
        except FleetError:
            _end(session)
            raise
        except Exception as exc:  # IpmiException, struct.error, socket errors
            _end(session)
            raise self._failed_login(exc) from exc
        return session

    def _no_login(self, text: str) -> FleetError:
        """What pyghmi's words stand for."""
        for words, kind, what in _LOGIN:
            if words in text:
                return kind(what, address=self.shown, seen=text, do=_HELP[kind])
        return BadAnswer(
            "no IPMI session with this BMC",
            address=self.shown,
            wanted="RMCP+ with cipher suite 17 or 3",
            seen=text,
            do="enable one of these cipher suites at the BMC, or use bmc_protocol redfish",
        )

    def _failed_login(self, exc: Exception) -> FleetError:
        if isinstance(exc, OSError):
            return Unreachable("the BMC does not answer", address=self.shown, seen=str(exc), do=_HELP[Unreachable])
        if isinstance(exc, pyghmi.exceptions.PyghmiException):
            return self._no_login(str(exc))
        return self._no_login(f"{type(exc).__name__}: {exc}")

    def _lost(self, what: str, exc: Exception | None, once: bool) -> FleetError:
        seen = f"{type(exc).__name__}: {exc}" if exc is not None else "no answer"
        kind = LostAnswer if once else Unreachable
        said = f"the BMC did not answer {what or 'a command'}"
        return kind(said, address=self.shown, seen=seen, do=_HELP[Unreachable])

    def _refusal(self, code: int, text: str, what: str, lacking: Container[int]) -> FleetError:
        told: dict[str, Any] = {
            "address": self.shown,
            "wanted": what,
            "seen": f"completion code 0x{code:02x} {text}".strip(),
        }
        if code in _BUSY:
            return NotNow("the BMC is busy", **told)
        if code in _UNSUPPORTED or code in lacking:
            return Unsupported("the BMC does not know this command", **told)
        if code in _NO_PRIVILEGE:
            return Refused("the BMC's user may not do this", **told, do="give this user the operator privilege or more")
        return Refused("the BMC refuses this command", **told, details={"meaning": "already" if code in _LATER else ""})

    def close(self) -> None:
        session, self._session = self._session, None
        _end(session)


def _given_up(failed: list[FleetError]) -> FleetError:
    """What the last beginning ended with, and how many there were."""
    last = failed[-1]
    if len(failed) > 1:
        last.seen = f"{last.seen}, the last of {len(failed)} logins that were begun"
    return last


def _end(session: Any) -> None:
    """Log out, or leave a login on its way: what pyghmi still holds of it would answer for the next one."""
    if session is None:
        return
    try:
        session.logout()
    except Exception:  # the session ends at the BMC by itself; nothing of ours depends on it
        return


_HELP: dict[type[FleetError], str] = {
    AuthFailed: "check gpufleet_bmc_username and gpufleet_bmc_password (and gpufleet_bmc_ipmi_kg, where the BMC has a"
    " key of its own), and that this user may use IPMI over LAN with that gpufleet_bmc_ipmi_privilege;"
    " it was tried once and is not tried again",
    NotNow: "close other IPMI sessions with this BMC, or wait a minute",
    Unreachable: "check gpufleet_bmc_address, the route to the out-of-band network,"
    " and that the BMC has IPMI over LAN enabled",
}
