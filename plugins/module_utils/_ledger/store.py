# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger: what was done to which node, by whom, on what evidence. PRIVATE to the collection.

One object is one connection. Only the controller opens it, in the process that uses it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import files
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import Aliases
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id, uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

#: By table, what a run does there beside reading.
_DOES = {
    "nodes": "INSERT",
    "aliases": "INSERT UPDATE DELETE",
    "events": "INSERT",
    "leases": "INSERT UPDATE",
    "lease_log": "INSERT",
    "turns": "INSERT UPDATE",
    "attempts": "INSERT",
    "passports": "INSERT",
}
_WANTED = ", ".join(f"('{table}', '{verb}')" for table, verbs in _DOES.items() for verb in ("SELECT", *verbs.split()))
_RIGHTS = (
    "SELECT current_user AS name, coalesce((SELECT string_agg(verb || ' on ' || place, ', ')"
    f" FROM (VALUES {_WANTED}) AS wanted (place, verb) WHERE NOT has_table_privilege(place, verb)), '') AS lacks"
)
#: A clock that is kept right goes back by less.
CLOCK_SECONDS = 1.0


class Ledger(Aliases):
    """An open ledger."""

    # -- events ------------------------------------------------------------------------------------------------

    def append(
        self, run_id: str, events: Iterable[tuple[str, Event]], *, secrets: frozenset[str] = frozenset()
    ) -> list[int]:
        """Write events, all or none; returns their ids. Pairs of node id and event."""
        rows = _rows_of(events, secrets)  # before: while a transaction writes to SQLite, everybody else waits
        with self.transaction() as conn:
            return self._insert(conn, run_id, rows)

    def append_in(
        self, conn: Any, run_id: str, events: Iterable[tuple[str, Event]], *, secrets: frozenset[str] = frozenset()
    ) -> list[int]:
        """The same inside a transaction of the caller's."""
        return self._insert(conn, run_id, _rows_of(events, secrets))

    def _insert(self, conn: Any, run_id: str, rows: Iterable[Mapping[str, str]]) -> list[int]:
        """An event is dated by the ledger's clock, the one that all controllers share."""
        insert = sa.text(
            "INSERT INTO events (node_id, run_id, at, kind, name, data, boot, uptime)"
            " VALUES (:node, :run, :at, :kind, :name, :data, :boot, :uptime) RETURNING id"
        )
        when = {"at": self.now_in(conn), "boot": boot_id(), "uptime": uptime()}
        return [int(conn.execute(insert, {**row, **when, "run": run_id}).scalar()) for row in rows]

    def alone_with(self, conn: Any, node_id: str) -> None:
        """From here to the end of the caller's transaction nobody else writes an event of this node, and what others
        had begun to write is there. SQLite has one writer in any case."""
        if self.dialect == "postgresql":
            # Whoever writes an event shares a lock on the row that it refers to, until its transaction ends.
            conn.execute(sa.text("SELECT node_id FROM nodes WHERE node_id = :id FOR UPDATE"), {"id": node_id})

    def alone_with_waves(self, conn: Any) -> None:
        """From here to the end of the caller's transaction no other run begins a wave; SQLite has one writer."""
        if self.dialect == "postgresql":
            conn.execute(sa.text("SELECT pg_advisory_xact_lock(20864)"))

    def alone_with_archive(self, conn: Any) -> None:
        """From here to the end of the caller's transaction nobody else takes rows out; SQLite has one writer."""
        if self.dialect == "postgresql":
            conn.execute(sa.text("SELECT pg_advisory_xact_lock(20865)"))

    def alone_with_alerts(self, conn: Any) -> None:
        """From here to the end of the caller's transaction nobody else takes an alert; SQLite has one writer."""
        if self.dialect == "postgresql":
            conn.execute(sa.text("SELECT pg_advisory_xact_lock(20866)"))

    def latest(self, node_ids: Sequence[str], kind: str, names: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """The newest event of a kind for each node, in one query."""
        wanted = " AND name IN :names" if names else ""
        statement = sa.text(
            "SELECT id, node_id, run_id, at, kind, name, data FROM events WHERE id IN (SELECT max(id) FROM events"
            f" WHERE node_id IN :nodes AND kind = :kind{wanted} GROUP BY node_id)"
        ).bindparams(sa.bindparam("nodes", expanding=True))
        if names:
            statement = statement.bindparams(sa.bindparam("names", expanding=True))
        values: dict[str, Any] = {"nodes": list(node_ids) or [""], "kind": kind}
        if names:
            values["names"] = list(names)
        return {row["node_id"]: _event(row) for row in self._read(statement, values)}

    def moment(self) -> Moment:
        """The newest event of all nodes, and the time."""
        at = self.now()
        return Moment(int(self._rows("SELECT max(id) AS id FROM events")[0]["id"] or 0), at)

    def age(self, event: Mapping[str, Any]) -> float | None:
        """Seconds since this event; None where the ledger's clock was set back since, so that nobody knows.

        A database has one clock for all. That of a file is the controller's, which may be set: on the boot that wrote
        the event, its uptime counts as well, and the longer time of the two, since a machine that is stopped from
        outside knows of neither; on another boot, no event since may be dated before an earlier one.
        """
        now = self.now()
        passed = now - float(event["at"])
        if self.dialect == "sqlite":
            written = self._rows("SELECT boot, uptime FROM events WHERE id = :id", {"id": event["id"]})[0]
            if written["boot"] and written["boot"] == boot_id():
                awake = uptime() - float(written["uptime"])
                return None if awake < -CLOCK_SECONDS else max(0.0, awake, passed)
            if self._set_back_since(int(event["id"]), now):
                return None
        return max(0.0, passed)

    def _set_back_since(self, number: int, now: float) -> bool:
        """Was the clock of this file's controller set back since the event, as far as what it dated tells?"""
        sql = (
            "SELECT 1 AS back FROM (SELECT at, lag(at) OVER (ORDER BY id) AS earlier FROM events WHERE id >= :id"
            " UNION ALL SELECT :now, max(at) FROM events WHERE id >= :id) WHERE at < earlier - :by LIMIT 1"
        )
        return bool(self._rows(sql, {"id": number, "now": now, "by": CLOCK_SECONDS}))

    def history(
        self, node_id: str, *, since: int = 0, kinds: Sequence[str] = (), names: Sequence[str] = (), last: int = 0
    ) -> list[dict[str, Any]]:
        """A node's events after the event ``since``, oldest first.

        :param kinds: only events of these kinds, as ``names`` only those of these names: a node's whole life is long.
        :param last: only so many, the newest ones; 0 is all.
        """
        asked = {column: list(values) for column, values in (("kind", kinds), ("name", names)) if values}
        narrowed = "".join(f" AND {column} IN :{column}" for column in asked)
        statement = sa.text(
            "SELECT id, node_id, run_id, at, kind, name, data FROM events"
            f" WHERE node_id = :node AND id > :since{narrowed} ORDER BY id{' DESC LIMIT :last' if last else ''}"
        ).bindparams(*(sa.bindparam(column, expanding=True) for column in asked))
        values = {"node": node_id, "since": since, **asked, **({"last": last} if last else {})}
        rows = self._read(statement, values)
        return [_event(row) for row in (reversed(rows) if last else rows)]

    def newest(
        self, node_ids: Sequence[str], kind: str, names: Sequence[str], *, last: int, since: float = 0.0
    ) -> list[dict[str, Any]]:
        """Of each of these nodes the newest so many events of each name, dated after ``since``, oldest first."""
        statement = sa.text(
            "SELECT id, node_id, run_id, at, kind, name, data FROM (SELECT events.*, row_number() OVER"
            " (PARTITION BY node_id, name ORDER BY id DESC) AS place FROM events WHERE node_id IN :nodes"
            " AND kind = :kind AND name IN :names AND at >= :since) AS placed WHERE place <= :last ORDER BY id"
        ).bindparams(sa.bindparam("nodes", expanding=True), sa.bindparam("names", expanding=True))
        asked = {"nodes": list(node_ids) or [""], "kind": kind, "names": list(names), "since": since, "last": last}
        return [_event(row) for row in self._read(statement, asked)]

    def everybody(self) -> list[str]:
        """The ids of all nodes, the oldest first."""
        return [str(row["node_id"]) for row in self._rows("SELECT node_id FROM nodes ORDER BY created, node_id")]

    def of_all(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind of all nodes, oldest first: of one that is rare."""
        sql = "SELECT id, node_id, run_id, at, kind, name, data FROM events WHERE kind = :kind ORDER BY id"
        return [_event(row) for row in self._rows(sql, {"kind": kind})]

    def states(self, node_ids: Sequence[str], since: float) -> list[dict[str, Any]]:
        """When each node came into which state by which run, after a time, oldest first; no more of it than that."""
        sql = (
            "SELECT node_id, run_id, at, name FROM events WHERE node_id IN :nodes AND kind = 'state' AND at >= :since"
            " ORDER BY id"
        )
        return self._many(sql, "nodes", list(node_ids) or [""], {"since": since})

    def called(self, host: str) -> list[str]:
        """The nodes that were first seen by this host name, the oldest first: whole machines are replaced."""
        rows = self._rows("SELECT node_id FROM nodes WHERE name = :host ORDER BY created, node_id", {"host": host})
        return [str(row["node_id"]) for row in rows]

    def by_age(self, node_ids: Iterable[str]) -> list[str]:
        """The oldest first."""
        sql = "SELECT node_id FROM nodes WHERE node_id IN :ids ORDER BY created, node_id"
        return [str(row["node_id"]) for row in self._many(sql, "ids", list(node_ids) or [""], {})]

    def admitted_any(self) -> bool:
        """Has it ever let a node into service, or taken one in that served?"""
        return bool(self._rows("SELECT 1 AS one FROM events WHERE kind = 'state' AND name = 'admitted' LIMIT 1"))

    def runs(self, node_ids: Sequence[str], verb: str) -> dict[str, set[str]]:
        """Which runs announced a write by a verb, for each node, in one query."""
        rows = self._many(
            "SELECT DISTINCT node_id, run_id FROM events WHERE node_id IN :nodes AND kind = 'intent' AND name = :verb",
            "nodes",
            list(node_ids) or [""],
            {"verb": verb},
        )
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row["node_id"], set()).add(row["run_id"])
        return found

    def unwritable(self) -> str:
        """Why this user can write nothing there, in words; empty where nothing speaks against it. Nothing is tried."""
        place = sa.engine.make_url(self.url)
        if self.dialect == "postgresql":
            told = self._rows(_RIGHTS)[0]
            return f"the user {told['name']} lacks {told['lacks']}" if told["lacks"] else ""
        return files.unwritable(str(place.database)) if files.is_file(place) and self.url.startswith("sqlite") else ""

    # -- remedies and passports --------------------------------------------------------------------------------

    def record_attempt(self, run_id: str, node_id: str, remedy: str, finding: str) -> None:
        with self.transaction() as conn:
            conn.execute(
                sa.text(
                    "INSERT INTO attempts (node_id, run_id, at, remedy, finding)"
                    " VALUES (:node, :run, :at, :remedy, :finding)"
                ),
                {"node": node_id, "run": run_id, "at": self.now_in(conn), "remedy": remedy, "finding": finding},
            )

    def attempts(self, node_id: str, *, since: float = 0.0) -> list[dict[str, Any]]:
        """What was already tried on this node, oldest first."""
        return self._rows(
            "SELECT run_id, at, remedy, finding FROM attempts WHERE node_id = :node AND at >= :since ORDER BY id",
            {"node": node_id, "since": since},
        )

    def save_passport(
        self, run_id: str, node_id: str, *, issued: float, expires: float, digest: str, envelope: Mapping[str, Any]
    ) -> None:
        with self.transaction() as conn:
            conn.execute(
                sa.text(
                    "INSERT INTO passports (node_id, run_id, issued, expires, digest, envelope)"
                    " VALUES (:node, :run, :issued, :expires, :digest, :envelope)"
                ),
                {
                    "node": node_id,
                    "run": run_id,
                    "issued": issued,
                    "expires": expires,
                    "digest": digest,
                    "envelope": json.dumps(envelope, sort_keys=True),
                },
            )

    def passport_times(self, node_ids: Sequence[str]) -> dict[str, tuple[float, float]]:
        """When the newest passport of each node was issued and when it expires, in one query; a node that never had one
        is left out."""
        sql = (
            "SELECT node_id, issued, expires FROM passports WHERE id IN"
            " (SELECT max(id) FROM passports WHERE node_id IN :nodes GROUP BY node_id)"
        )
        rows = self._many(sql, "nodes", list(node_ids) or [""], {})
        return {row["node_id"]: (row["issued"], row["expires"]) for row in rows}

    def newest_passports(self) -> list[dict[str, Any]]:
        """That of each node, its envelope decoded."""
        sql = (
            "SELECT node_id, issued, envelope FROM passports WHERE id IN (SELECT max(id) FROM passports"
            " GROUP BY node_id)"
        )
        return [{**row, "envelope": json.loads(row["envelope"])} for row in self._rows(sql)]

    def passport(self, node_id: str) -> dict[str, Any] | None:
        """The newest passport of a node, its envelope decoded; None where it never had one."""
        rows = self._rows(
            "SELECT issued, expires, digest, envelope FROM passports WHERE node_id = :node ORDER BY id DESC LIMIT 1",
            {"node": node_id},
        )
        return {**rows[0], "envelope": json.loads(rows[0]["envelope"])} if rows else None


def _rows_of(events: Iterable[tuple[str, Event]], secrets: frozenset[str]) -> list[dict[str, str]]:
    return [
        {
            "node": node_id,
            "kind": event.kind,
            "name": event.name,
            "data": json.dumps(redact(event.data, secrets=secrets), sort_keys=True, default=str),
        }
        for node_id, event in events
    ]


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "data": json.loads(row["data"])}
