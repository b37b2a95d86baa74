# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a link logs in: by name and password with each request, or once, with a session. PRIVATE to the collection.

A BMC has few sessions (iDRAC 8), and keeps one that nobody ended until its own timeout. So there is one for a task,
which begins at the first request and ends with the link, however the task ends, also by Ctrl-C or TERM; only a process
that is killed, or that is ended while its login is under way, leaves it behind.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._broken_off import BrokenOff
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret

#: One request as it is: method, path, body, headers.
Ask = Callable[[str, str, Any, dict[str, str]], Any]
_ROOT = "/redfish/v1/"
#: Where sessions are made if the service root does not say; as on all recorded BMCs.
_SESSIONS = "/redfish/v1/SessionService/Sessions"
_TOKEN = "X-Auth-Token"
#: How often a logout is asked for; statuses by which a BMC says that there is no such session any more.
_LOGOUTS = 2
_GONE = frozenset({401, 404, 410})


class Login(ABC):
    """What each request carries."""

    @abstractmethod
    def headers(self, ask: Ask) -> dict[str, str]:
        """The headers that prove who asks."""

    def renewed(self, ask: Ask) -> bool:
        """After a 401: whether it makes sense to ask once more."""
        return False

    def accepted(self) -> None:
        """A request with these headers was not refused."""
        return

    def end(self, ask: Ask) -> str:
        """Give back what the BMC holds for us. Never raises; what may be left there is told in words."""
        return ""


class Basic(Login):
    def __init__(self, username: str, password: str) -> None:
        login = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
        keep_secret(password, login)
        self._headers = {"Authorization": f"Basic {login}"}

    def headers(self, ask: Ask) -> dict[str, str]:
        return self._headers


class Session(Login):
    """:param where: what to show a person."""

    def __init__(self, username: str, password: str, where: str) -> None:
        keep_secret(password)
        self._body = {"UserName": username, "Password": password}
        self._where = where
        self._token = ""
        self._place = ""
        self._good = False
        self._left = ""
        self._broken_off = BrokenOff()

    def headers(self, ask: Ask) -> dict[str, str]:
        if not self._token:
            self._begin(ask)
        return {_TOKEN: self._token}

    def accepted(self) -> None:
        self._good = self._good or bool(self._token)

    def renewed(self, ask: Ask) -> bool:
        """A session that has worked has run out at the BMC; one that never did is a login that is refused.

        It may also be open, and one resource refuse it: then it would stay.
        """
        again, self._good = self._good, False
        if again:
            self._left = self._given_back(ask) or self._left
        return again

    def _begin(self, ask: Ask) -> None:
        """One login. Its answer alone tells the session: where it is lost no second one is made.

        :raises AuthFailed: where it is refused; it is not tried again.
        """
        root = answers.body_of(ask("GET", _ROOT, None, {}))
        place = select.link(root, "Links", "Sessions") or _SESSIONS
        where = f"POST {self._where}{place}"
        try:
            answer = ask("POST", place, self._body, {})
        except FleetError:
            raise
        except Exception as exc:
            raise Unreachable(
                "the BMC's answer to the login was lost",
                address=where,
                seen=type(exc).__name__,
                do="run again; a session that it began ends by the BMC's own timeout",
            ) from exc
        self._take(answer, where)

    def _take(self, answer: Any, where: str) -> None:
        problem = answers.refusal(answer, "POST", where)
        if problem is not None and answer.status_code in (400, 403):
            problem = AuthFailed("the BMC refuses the login", address=where, seen=answers.said(answer), do=problem.do)
        if problem is not None:
            raise problem
        self._token = str(answer.headers.get(_TOKEN) or "")
        body = answers.body_of(answer)
        self._place = _path(answer.headers.get("Location") or select.link(body))
        if not self._token:
            raise BadAnswer(
                "the BMC began a session and told no token",
                address=where,
                wanted=_TOKEN,
                seen=f"HTTP {answer.status_code}",
                do="set gpufleet_bmc_auth to basic",
            )
        keep_secret(self._token)
        self._broken_off.hold()

    def end(self, ask: Ask) -> str:
        self._broken_off.leaving()
        try:
            self._left = self._given_back(ask) or self._left
        finally:
            self._broken_off.release()
        return self._left

    def _given_back(self, ask: Ask) -> str:
        """The logout. A BMC that is busy, or drops the connection, is asked once more."""
        token = self._token
        if not token:
            return ""
        seen = "" if self._place else "the BMC did not tell its place"
        for _turn in range(_LOGOUTS if self._place else 0):
            try:
                answer = ask("DELETE", self._place, None, {_TOKEN: token})
            except Exception as exc:  # nothing of the task depends on it
                seen = type(exc).__name__
                continue
            if answer.status_code in _GONE or answers.refusal(answer, "DELETE", self._where) is None:
                self._token = ""
                return ""
            seen = answers.said(answer)
        # Not before: what breaks off a logout in the middle leaves the session to the end of the task.
        self._token = ""
        return f"{self._where}: a session of this task may be left there until the BMC's own timeout ends it ({seen})"


def _path(location: str) -> str:
    """A session's place on this BMC, which may call itself by another name than we do."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return ""
    return parts.path + (f"?{parts.query}" if parts.query else "")


def login_of(way: str, username: str, password: str, where: str) -> Login:
    return Session(username, password, where) if way == "session" else Basic(username, password)
