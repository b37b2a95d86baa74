# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm by slurmrestd. PRIVATE to the collection.

What is known of it (measured with 22.05 and 26.05), and why the code is as it is:

* 200 with ``errors`` is a refusal, and 200 with a warning of an unknown field did something else than was asked.
* An unknown node is 200 with an error numbered 0 and no node at all: only a whole table in which it is missing says so.
* A host list is no way to ask for several nodes: one node, or the whole table. A write of several may be refused and
  half done: whoever wrote reads them back.
* ``POST /node/ALL`` changes every node, so no name goes out that could mean more than one.
* Neither SlurmUser nor PrivateData can be asked for.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bounded import asked, bounded_session
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    MissingLibrary,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Unplaced, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import rest_shapes as shapes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.commands import Commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import Reservation
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import check_name
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.link import Link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.rest_answer import (
    PEER,
    judged,
    not_too_deep,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.rest_login import Login, plain, reader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.rest_tables import (
    LEVELS,
    UNKNOWN_FIELD,
    VERSIONS,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import cause, in_clear, known_as

_MISSING: str | None = None
try:
    import requests
except ImportError:
    _MISSING = traceback.format_exc()

#: Seconds for one answer: 5,000 nodes take 3.5 to 4.5, and an outage of slurmctld is told after 10.
TIMEOUT = 60.0
#: Nodes of one write.
AT_ONCE = 1000
_NODES = re.compile(r"/slurm/(v\d+\.\d+\.\d+)/nodes/?\Z")
_RIGHTS = "use a token of root, of SlurmUser (gpufleet_scheduler_slurm_user) or of an operator of the accounting"


class Rest(Link):
    def __init__(self, options: Mapping[str, Any]) -> None:
        if _MISSING:
            raise MissingLibrary("requests", why="it speaks to slurmrestd", cause=_MISSING)
        self.address = str(options["scheduler_url"]).rstrip("/")
        verify = PEER.verified_by(self.address, options["scheduler_ca_path"], "gpufleet_scheduler_ca_path")
        # Whose marks are the scheduler's own may be guessed, but not who is shown everything.
        self._said_user = str(options["scheduler_slurm_user"] or "")
        self._slurm_user = self._said_user or "slurm"
        if in_clear(self.address):
            raise ConfigError(
                "a token would go to slurmrestd in clear",
                address=self.address,
                do=f"put TLS before it, and write https:// into {PEER.setting}",
            )
        self._conf, self._user = str(options["scheduler_conf"]), str(options["scheduler_user"])
        self._login_host = str(options.get("scheduler_login_host") or "")
        self._login = Login(self.address, reader(options, self._minted), self._user)
        self._session = bounded_session(requests.Session())
        self._session.verify = verify
        self._found: tuple[str, Mapping[str, Any]] | None = None
        self._level: bool | None = None
        self._cluster = ""

    def _minted(self) -> str:
        user = self._user or self._slurm_user
        try:
            return plain(Commands(self._conf, self._login_host).token(user), "scontrol token")
        except ConfigError as exc:
            raise ConfigError(
                "there is no token for slurmrestd, and scontrol makes none here",
                address=self.address,
                seen=str(exc),
                do="set gpufleet_scheduler_token_path",
            ) from exc

    # -- the version -------------------------------------------------------------------------------------------

    def _spoken(self) -> tuple[str, Mapping[str, Any]]:
        """The highest version of its API that both know, and the paths that it serves; they last as long as this."""
        if self._found is None:
            content = self._send("GET", "/openapi/v3", of_slurm=False)
            paths = content.get("paths")
            if not isinstance(paths, dict):
                raise BadAnswer(
                    "GET /openapi/v3 names no paths",
                    address=self.address,
                    seen=short(content, 200),
                    details=PEER.elsewhere(),
                    do=f"correct {PEER.setting}, if another program than slurmrestd answers there",
                )
            served = {found[1] for found in map(_NODES.match, paths) if found}
            known = [version for version in VERSIONS if version in served]
            if not known:
                raise Unsupported(
                    "no version of the REST API that slurmrestd serves is known here",
                    address=self.address,
                    wanted=", ".join(VERSIONS),
                    seen=", ".join(sorted(served)) or "none",
                    do="load one of them (slurmrestd -d or -s), or leave gpufleet_scheduler_url out for the commands",
                )
            self._found = known[0], paths
        return self._found

    def _path(self, rest: str) -> str:
        return f"/slurm/{self._spoken()[0]}/{rest}"

    # -- reading -----------------------------------------------------------------------------------------------

    def records(self, names: Sequence[str], spoilt: dict[str, BadAnswer]) -> dict[str, Record]:
        table = self._one(names[0]) if len(names) == 1 else None
        rows = table if table is not None else self._table()
        with not_too_deep(self.address, "the table of nodes"):
            told = Counter(_name(one) for one in rows)
        found: dict[str, Record] = {}
        wanted = frozenset(names)
        for one in rows:
            name = _name(one)
            if name not in wanted:
                continue
            try:
                if told[name] > 1:
                    raise BadAnswer("a node that is told twice", node=name, address=self.address)
                with not_too_deep(self.address, f"the node {name}"):
                    found[name] = shapes.node(one)
            except BadAnswer as exc:
                spoilt[name] = exc
        return {name: found[name] for name in names if name in found}

    def _one(self, name: str) -> list[Mapping[str, Any]] | None:
        """Of this node alone; None where it cannot be told from one that is not known."""
        try:
            rows = self._list("node/" + check_name(name), "nodes")
        except (BadAnswer, Refused):
            return None
        return rows if [_name(one) for one in rows] == [name] else None

    def _table(self) -> list[Mapping[str, Any]]:
        return self._list("nodes/", "nodes")

    def jobs(self, names: Sequence[str]) -> Mapping[str, Sequence[Work]]:
        return self._read(shapes.jobs, self._list("jobs/", "jobs"))

    def reservations(self) -> Mapping[str, Sequence[Reservation]]:
        return self._read(shapes.reservations, self._list("reservations/", "reservations"))

    def _read(self, read: Callable[[Sequence[Mapping[str, Any]]], Any], rows: Sequence[Mapping[str, Any]]) -> Any:
        try:
            with not_too_deep(self.address, "what it tells"):
                return read(rows)
        except BadAnswer as exc:
            raise exc.located(address=self.address) from exc

    def known(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for one in self._table():
            with not_too_deep(self.address, "the table of nodes"):
                others = (shapes.text(one, field) for field in ("hostname", "address"))
                found[_name(one)] = (*found.get(_name(one), ()), *filter(None, others))
        return found

    def unplaced(self) -> Unplaced:
        # No version serves the topology, and a node's own field of it is empty where a file gives the node its place.
        return Unplaced(
            {}, "slurmrestd tells no topology (scontrol show topology does, on a machine with the commands)"
        )

    def clock(self) -> str:
        # measured: slurmctld's time at its answer.
        told = self._send("GET", self._path("diag/")).get("statistics")
        return shapes.moment(shapes.number(told, "req_time")) if isinstance(told, dict) else ""

    def place(self) -> Place:
        # measured: slurmrestd 22.05 tells no cluster, 26.05 does with each answer
        return Place(f"slurm {self._cluster}" if self._cluster else "", scheduler_at=known_as(self.address))

    def slurm_user(self) -> tuple[str, ...]:
        return (self._slurm_user,)

    def hides(self, what: str) -> FleetError | None:
        if self._sees_all():
            return None
        return Refused(
            f"Slurm may hide {what} from this user",
            address=self.address,
            seen=f"the token is used for {self._login.user}, and slurmrestd does not tell PrivateData",
            do=_RIGHTS,
        )

    def _sees_all(self) -> bool:
        if self._login.user in ("root", self._said_user):
            return True
        if self._level is None:
            self._level = self._operator()
        return self._level

    def _operator(self) -> bool:
        """Whether the accounting gives this user a level that is shown everything; without accounting none."""
        version, paths = self._spoken()
        if not any(path.startswith(f"/slurmdb/{version}/user/") for path in paths):
            return False
        try:
            content = self._send("GET", f"/slurmdb/{version}/user/{check_name(self._login.user)}")
        except (BadAnswer, Refused, ConfigError):
            return False
        users = content.get("users")
        if not isinstance(users, list) or len(users) != 1 or not isinstance(users[0], dict):
            return False
        level = users[0].get("administrator_level")
        words = level if isinstance(level, list) else [level]
        return users[0].get("name") == self._login.user and len(words) == 1 and words[0] in LEVELS

    def _list(self, path: str, key: str) -> list[Mapping[str, Any]]:
        content = self._send("GET", self._path(path))
        self._cluster = shapes.cluster(content)
        rows = content.get(key)
        if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows):
            raise PEER.no_list(self.address, f"GET {self._path(path)}", content)
        return rows

    def prerequisites(self) -> Sequence[FleetError]:
        if not self._writes():
            return (self._reads_alone(),)
        if self._sees_all():
            return ()
        seen = f"the token is used for {self._login.user}; SlurmUser is {self._slurm_user}"
        return (Refused("Slurm lets this user change no node", address=self.address, seen=seen, do=_RIGHTS),)

    # -- writing -----------------------------------------------------------------------------------------------

    def _writes(self) -> bool:
        return self._takes("node/")

    def _writes_many(self) -> bool:
        """An older version changes one node at a time."""
        return self._takes("nodes/")

    def _takes(self, word: str) -> bool:
        version, paths = self._spoken()
        mine = [methods for path, methods in paths.items() if f"{path}/".startswith(f"/slurm/{version}/{word}")]
        return any(isinstance(methods, dict) and "post" in methods for methods in mine)

    def _reads_alone(self) -> Unsupported:
        return Unsupported(
            "this slurmrestd changes no node",
            address=self.address,
            wanted="v0.0.39 or later (Slurm 23.02)",
            seen=self._spoken()[0],
            do="leave gpufleet_scheduler_url out, so that the commands are used, or update Slurm",
        )

    def update_request(self, name: str, state: str, reason: str | None = None) -> str:
        return f"POST {self._path('node/' + name)} {_body(state, reason)}"

    def update(self, name: str, state: str, reason: str | None = None) -> None:
        if not self._writes():
            raise self._reads_alone().located(node=name)
        try:
            self._update("node/" + check_name(name), _body(state, reason))
        except FleetError as exc:
            raise exc.located(node=name) from exc

    def update_each(self, names: Sequence[str], state: str, reason: str | None = None) -> dict[str, FleetError]:
        failed: dict[str, FleetError] = {}
        step = AT_ONCE if self._writes_many() else 1
        for block in (names[first : first + step] for first in range(0, len(names), step)):
            try:
                if block[1:]:
                    self._update("nodes/", {"name": [check_name(name) for name in block], **_body(state, reason)})
                else:
                    self.update(block[0], state, reason)
            except FleetError as exc:
                failed.update(dict.fromkeys(block, exc))
        return failed

    def _update(self, path: str, body: Mapping[str, Any]) -> None:
        content = self._send("POST", self._path(path), body)
        warnings = content.get("warnings") or []
        if UNKNOWN_FIELD in str(warnings).lower():
            raise BadAnswer(
                "slurmrestd left out a part of what was to be written",
                address=self.address,
                seen=cut(warnings, 300),
                do="look at the node, then run again: this is a defect of the collection",
            )

    # -- one request -------------------------------------------------------------------------------------------

    def _send(self, method: str, path: str, body: Any = None, *, of_slurm: bool = True) -> dict[str, Any]:
        answer = self._answered(method, path, body)
        with not_too_deep(self.address, f"{method} {path}"):
            return judged(answer, self.address, method, path, of_slurm=of_slurm)

    def _answered(self, method: str, path: str, body: Any) -> Any:
        """A token that was renewed meanwhile is tried once."""
        headers = self._login.headers()
        answer = self._asked(method, path, body, headers)
        if answer.status_code in (401, 511) and self._login.renewed(headers["X-SLURM-USER-TOKEN"]):
            answer = self._asked(method, path, body, self._login.headers())
        return answer

    def _asked(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Any:
        try:
            return asked(
                self._session,
                method,
                self.address + path,
                address=self.address,
                json=body,
                headers={"Accept": "application/json", **headers},
                timeout=TIMEOUT,
                allow_redirects=False,
            )
        except requests.exceptions.RequestException as exc:
            raise PEER.unreached(self.address, exc, cause(exc), timeout=TIMEOUT) from exc


def _body(state: str, reason: str | None) -> dict[str, Any]:
    return {"state": [state], **({} if reason is None else {"reason": reason})}


def _name(one: Mapping[str, Any]) -> str:
    name = one.get("name")
    if not isinstance(name, str) or not name:
        raise BadAnswer("a node without a name", seen=cut(dict(one), 200))
    return name
