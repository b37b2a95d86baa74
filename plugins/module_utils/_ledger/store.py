# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger: what was done to which node, by whom, on what evidence. PRIVATE to the collection.

One object is one connection. Only the controller opens it, in the process that uses it.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.connection import Connection
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id, uptime
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import same_serial, serial_of, uuid_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

#: Aliases by which two sources are known to speak of the same machine, strongest first. Never a host name.
JOINING = ("serial", "system_uuid", "mac")
#: A clock that is kept right goes back by less.
CLOCK_SECONDS = 1.0

#: Nobody else writes now, and what is another node's here is a retired one's that the machine was parted from.
_ALIAS = (
    "INSERT INTO aliases VALUES (:kind, :value, :id, :source, :now) ON CONFLICT (kind, value) DO UPDATE"
    " SET node_id = excluded.node_id, source = excluded.source, seen = excluded.seen"
)
#: What frees a MAC for a machine of another serial.
RETIRE = (
    "retire the old node first, with -e gpufleet_serial= and the old serial on each command so that the old one is"
    " meant (where it is in service the playbook drain, then ledger_event with state retired and a reason), lift by"
    " hand what scheduler and provisioner keep of it, take its gpufleet_node_id out of the inventory, and name the new"
    " serial there, which gets a node of its own then"
)
#: What is wrong with a host of which the inventory says nothing: no more than that.
NAMELESS = "nothing tells which machine this is"


#: The spelling of what machines are delivered with as well, where nobody has set anything.
_OF_KIND: Mapping[str, Callable[[str], str]] = {"serial": serial_of, "system_uuid": uuid_of}


def other_serials(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Do two sides that both tell serials have none in common? What stands for none is none."""
    pairs = [(one, other) for one in filter(serial_of, ours) for other in filter(serial_of, theirs)]
    return bool(pairs) and not any(same_serial(one, other) for one, other in pairs)


def normal(kind: str, value: str) -> str:
    """One spelling an alias: MACs and UUIDs in lower case with colons, serials as they are without blanks around; empty
    for what is on many machines."""
    value = value.strip()
    if kind == "mac":
        digits = "".join(ch for ch in value.lower() if ch in "0123456789abcdef")
        return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))
    return _OF_KIND[kind](value) if kind in _OF_KIND else value


def _in_any_case(pair: tuple[str, str]) -> tuple[str, str]:
    """What an alias is compared by: one machine may be told by its serial in upper and in lower case."""
    kind, value = pair
    return kind, value.lower() if kind == "serial" else value


class Ledger(Connection):
    """An open ledger."""

    # -- who is who --------------------------------------------------------------------------------------------

    def identify(
        self,
        name: str,
        *,
        node_id: str = "",
        aliases: Sequence[tuple[str, str]] = (),
        source: str = "inventory",
        create: bool = True,
    ) -> str:
        """The node's id; a node that nobody has seen gets one, and new aliases are added to a known one.

        :param aliases: pairs of kind and value; only the kinds in :data:`JOINING` tell machines apart.
        :param create: False only looks, and answers with an empty id for a node that nobody has seen.
        :raises ConfigError: when two aliases belong to two nodes, or when there is nothing to know the node by.
        """
        spelled = [(kind, normal(kind, value)) for kind, value in aliases]
        known = [(kind, value) for kind, value in spelled if value]
        chosen, missing = self._owner(name, node_id, known)
        # An id out of the inventory may be one that this ledger has never seen.
        seen = bool(chosen) and (chosen != node_id or self._exists(node_id))
        if not create or (seen and not missing):
            return (chosen or "") if seen else ""
        with self.transaction() as conn:
            if self.dialect == "postgresql":
                conn.execute(sa.text("SELECT pg_advisory_xact_lock(20863)"))
            # Looked at again, now that nobody else writes: another run may have been first.
            chosen, missing = self._owner(name, node_id, known)
            return self._remember(conn, chosen, name, missing, source)

    def _owner(
        self, name: str, node_id: str, known: Sequence[tuple[str, str]]
    ) -> tuple[str | None, list[tuple[str, str]]]:
        """The node that the aliases belong to, if there is one, and the aliases that are not written as its own yet."""
        found = {(row["kind"], row["value"]): row["node_id"] for row in self._aliases(known)}
        serials = [value for kind, value in known if kind == "serial"]
        left = self._left_behind(found, serials, node_id)
        found = {pair: owner for pair, owner in found.items() if owner not in left}
        owners = {owner: pair for pair, owner in found.items() if pair[0] in JOINING}
        if node_id:
            owners.setdefault(node_id, ("node_id", node_id))
        if len(owners) > 1:
            raise ConfigError(
                "its identities belong to different nodes in the ledger",
                node=name,
                seen="; ".join(f"{pair[0]} {pair[1]} is node {owner}" for owner, pair in sorted(owners.items())),
                do=f"correct the serial or the MAC in the inventory; if a part was moved between machines, {RETIRE}",
            )
        if not owners and not any(kind in JOINING for kind, value in known):
            raise ConfigError(
                NAMELESS,
                node=name,
                wanted="gpufleet_node_id, gpufleet_serial, gpufleet_system_uuid or gpufleet_boot_mac",
                do="add the serial, the system UUID or the boot MAC to the inventory; host names are no identity",
            )
        told = {_in_any_case(pair) for pair in found}
        chosen, missing = next(iter(owners), None), [pair for pair in known if _in_any_case(pair) not in told]
        if chosen and any(kind == "serial" for kind, value in missing):
            self._one_serial(name, chosen, serials)
        return chosen, missing

    def _left_behind(
        self, found: Mapping[tuple[str, str], str], serials: Sequence[str], node_id: str
    ) -> frozenset[str]:
        """The retired nodes whose MAC a machine has that is known to be another one."""
        own = {owner for pair, owner in found.items() if pair[0] == "serial"} | ({node_id} if node_id else set())
        others = sorted({owner for owner in found.values() if owner not in own}) if own or serials else []
        retired = [owner for owner in others if self.retired(owner)]
        return frozenset(owner for owner in retired if own or other_serials(self.serials(owner), serials))

    def retired(self, node_id: str) -> bool:
        """Is the node out of the fleet?"""
        return self.latest([node_id], "state").get(node_id, {}).get("name") == "retired"

    def _one_serial(self, name: str, node_id: str, serials: Sequence[str]) -> None:
        """:raises ConfigError: where the node has a serial already, and this is none of them."""
        known = self.serials(node_id)
        if not other_serials(known, serials):
            return
        raise ConfigError(
            "the ledger knows this node by another serial",
            node=name,
            wanted=f"serial {' or '.join(known)}",
            seen=f"serial {', '.join(serials)}",
            do="correct the serial, the boot MAC, the node id or the address of the BMC in the inventory; if the"
            f" chassis was replaced, or the old serial was never right, {RETIRE}",
        )

    def serials(self, node_id: str) -> list[str]:
        """The serials that a node is known by."""
        return [row["value"] for row in self.aliases(node_id) if row["kind"] == "serial"]

    def owner(self, kind: str, value: str) -> str:
        """The id of the node that is known by this; empty for nobody's."""
        told = normal(kind, value)
        return next((str(row["node_id"]) for row in self._aliases([(kind, told)]) if told), "")

    def _exists(self, node_id: str) -> bool:
        return bool(self._rows("SELECT node_id FROM nodes WHERE node_id = :id", {"id": node_id}))

    def _aliases(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Their rows; of a serial that no node has as it is spelled here, those that have it in another case."""
        sql = "SELECT kind, value, node_id FROM aliases WHERE value IN :values"
        rows = self._many(sql, "values", [value for kind, value in pairs] or [""], {})
        rows = [row for row in rows if (row["kind"], row["value"]) in set(pairs)]
        told = {(row["kind"], row["value"]) for row in rows}
        other = [value.lower() for kind, value in pairs if kind == "serial" and (kind, value) not in told]
        sql = "SELECT kind, value, node_id FROM aliases WHERE kind = 'serial' AND lower(value) IN :values"
        return [*rows, *self._many(sql, "values", other, {})] if other else rows

    def _remember(
        self, conn: Any, node_id: str | None, name: str, pairs: Sequence[tuple[str, str]], source: str
    ) -> str:
        chosen = node_id or str(uuid.uuid4())
        conn.execute(
            sa.text("INSERT INTO nodes VALUES (:id, :name, :now) ON CONFLICT DO NOTHING"),
            {"id": chosen, "name": name, "now": time.time()},
        )
        for kind, value in pairs:
            conn.execute(
                sa.text(_ALIAS),
                {"kind": kind, "value": value, "id": chosen, "source": source, "now": time.time()},
            )
        return chosen

    def name(self, node_id: str) -> str:
        """By which host name a node was seen first; empty for a stranger."""
        rows = self._rows("SELECT name FROM nodes WHERE node_id = :id", {"id": node_id})
        return str(rows[0]["name"]) if rows else ""

    def aliases(self, node_id: str) -> list[dict[str, Any]]:
        """All names of a node: rows of kind, value, source, seen."""
        return self._rows(
            "SELECT kind, value, source, seen FROM aliases WHERE node_id = :id ORDER BY kind, value", {"id": node_id}
        )

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
        self, node_id: str, *, since: int = 0, kinds: Sequence[str] = (), names: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """A node's events after the event ``since``, oldest first.

        :param kinds: only events of these kinds, as ``names`` only those of these names: a node's whole life is long.
        """
        asked = {column: list(values) for column, values in (("kind", kinds), ("name", names)) if values}
        narrowed = "".join(f" AND {column} IN :{column}" for column in asked)
        statement = sa.text(
            "SELECT id, node_id, run_id, at, kind, name, data FROM events"
            f" WHERE node_id = :node AND id > :since{narrowed} ORDER BY id"
        ).bindparams(*(sa.bindparam(column, expanding=True) for column in asked))
        return [_event(row) for row in self._read(statement, {"node": node_id, "since": since, **asked})]

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
