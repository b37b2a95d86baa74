# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Old looks at nodes go into a file of their own. PRIVATE to the collection.

Each look at a healthy node is 10 kB, and nothing asks for it again once the node was imaged and admitted after it. What
decides anything stays: every state, hold, order, swap and attempt; all since a node was last imaged and admitted on a
passport; of each kind of event and each name the newest one; and the newest passport.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import copies, files, rows
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import waives
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

#: No run lasts so long: what it has told itself is not taken from it.
LEAST_DAYS = 7
#: What tells of a look, and of nothing that was done.
_LOOKS = "('verdict', 'look', 'evidence', 'measure')"
_DAY = 86_400.0
#: So many rows are deleted in one transaction: nobody else writes meanwhile.
_AT_ONCE = 500

#: The numbers of the newest event of each kind and name, which is what decisions ask for.
_NEWEST = "SELECT max(id) FROM events WHERE node_id = :node GROUP BY kind, name"


@dataclass(frozen=True)
class Due:
    """Numbers of rows, by table."""

    events: tuple[int, ...] = ()
    passports: tuple[int, ...] = ()

    def counts(self) -> dict[str, int]:
        return {"events": len(self.events), "passports": len(self.passports)}

    def __bool__(self) -> bool:
        return bool(self.events or self.passports)


def due(ledger: Ledger, days: float) -> Due:
    """What is older, and asked for by nothing any more."""
    with ledger.snapshot() as conn:
        before = ledger.now_in(conn) - days * _DAY
        events: list[int] = []
        for node_id, last in _settled(conn).items():
            sql = (
                f"SELECT id FROM events WHERE node_id = :node AND id < :last AND at < :before AND kind IN {_LOOKS}"
                f" AND id NOT IN ({_NEWEST}) ORDER BY id"
            )
            values = {"node": node_id, "last": last, "before": before}
            events += [int(number) for number in conn.execute(sa.text(sql), values).scalars()]
        sql = (
            "SELECT id FROM passports WHERE issued < :before AND expires < :now"
            " AND id NOT IN (SELECT max(id) FROM passports GROUP BY node_id) ORDER BY id"
        )
        values = {"before": before, "now": ledger.now_in(conn)}
        passports = [int(number) for number in conn.execute(sa.text(sql), values).scalars()]
    return Due(tuple(sorted(events)), tuple(passports))


def _settled(conn: Any) -> dict[str, int]:
    """By node the event before which nothing speaks for or against it any more: it was imaged, or wiped, and let into
    service on a passport after that. Who was let in by force or as adopted was let in over whatever stands."""
    sql = (
        "SELECT id, node_id, name, data FROM events WHERE kind = 'state' AND name IN ('imaging', 'wiping', 'admitted')"
        " ORDER BY id"
    )
    imaged: dict[str, int] = {}
    admitted: dict[str, int] = {}
    for row in conn.execute(sa.text(sql)).mappings():
        data = json.loads(row["data"])
        if row["name"] != "admitted":
            imaged[row["node_id"]] = int(row["id"])
        elif data.get("from") != "admitted":
            admitted[row["node_id"]] = 0 if waives(data) else int(row["id"])
    return {node: min(number, admitted.get(node, 0)) for node, number in imaged.items()}


def refuse_another(file: Ledger) -> None:
    """:raises Refused: where it is a ledger that runs work with, or a backup of one."""
    with file.snapshot() as conn:
        if rows.counts(conn)["nodes"] and not is_marked(conn):
            raise Refused(
                "this is a ledger of its own, and no archive",
                address=file.shown_url,
                do="name a new file, or the archive",
            )


def carry_out(ledger: Ledger, file: Ledger, asked: Due, run_id: str, path: str, say: Callable[[str], None]) -> None:
    """Into the file first, and there for good; then out of the ledger. Killed in between, the next run goes on: what
    lies in both is taken out then."""
    _for_good(file, path)
    for table, numbers in (("events", asked.events), ("passports", asked.passports)):
        for start in range(0, len(numbers), _AT_ONCE):
            with ledger.transaction() as conn:
                ledger.alone_with_archive(conn)
                some = _there_still(conn, table, numbers[start : start + _AT_ONCE])
                if not some:  # another archive has taken them meanwhile, into a file of its own
                    continue
                _into(ledger, conn, file, table, some)
                _out_of(ledger, conn, table, some)
                copies.record(ledger, conn, run_id, "archived", {table: len(some), "path": path})
            say(f"{start + len(some)} of {len(numbers)} {table} are in the archive")


def _there_still(conn: Any, table: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """What is counted as taken out twice would make the ledger less than whole for ever."""
    ids: Any = sa.bindparam("ids", expanding=True)
    statement = sa.text(f"SELECT id FROM {table} WHERE id IN :ids ORDER BY id").bindparams(ids)
    return tuple(int(row[0]) for row in conn.execute(statement, {"ids": numbers}))


def _for_good(file: Ledger, path: str) -> None:
    """From here on what is committed to it outlives a power cut, as what is taken out of the ledger may."""
    file._conn.exec_driver_sql("PRAGMA synchronous=FULL")
    file._forget()
    try:
        files.on_disk(os.path.dirname(path))
    except OSError as exc:
        raise ConfigError(f"the archive's folder cannot be put on the disk: {exc.strerror}", seen=path) from exc


def _into(ledger: Ledger, source: Any, file: Ledger, table: str, numbers: tuple[int, ...]) -> None:
    found = [dict(row) for row in source.execute(_those("SELECT *", table), {"ids": list(numbers)}).mappings()]
    nodes = sorted({row["node_id"] for row in found})
    of = sa.text("SELECT * FROM nodes WHERE node_id IN :nodes").bindparams(sa.bindparam("nodes", expanding=True))
    with file.transaction() as conn:
        there = [dict(row) for row in source.execute(of, {"nodes": nodes}).mappings()]
        rows.insert(file, conn, "nodes", there, twice=" ON CONFLICT DO NOTHING")
        rows.insert(file, conn, table, found, twice=" ON CONFLICT DO NOTHING")
        if not is_marked(conn):
            copies.record(file, conn, "", "copied", {"from": ledger.shown_url, "archive": True})
        _compare(conn, table, numbers, found, file.shown_url)


def is_marked(conn: Any) -> bool:
    """Does it say already that it is an archive, whose numbers have gaps?"""
    told = conn.execute(sa.text("SELECT data FROM upkeep WHERE what = 'copied'")).scalars()
    return any(json.loads(text).get("archive") for text in told)


def _compare(conn: Any, table: str, numbers: tuple[int, ...], wanted: list[dict[str, Any]], address: str) -> None:
    seen = [dict(row) for row in conn.execute(_those("SELECT *", table), {"ids": list(numbers)}).mappings()]
    if sorted(map(rows.line, seen)) == sorted(map(rows.line, wanted)):
        return
    if len(seen) == len(wanted):
        raise Refused(
            f"the archive has other {table} under these numbers: a backup was restored since, or it is of another one",
            address=address,
            seen=f"{len(set(map(rows.line, seen)) - set(map(rows.line, wanted)))} others of {len(seen)}",
            do="name a new file; this one keeps what the ledger had before",
        )
    raise copies.differs(address, f"{len(seen)} of {len(wanted)} rows of {table}")


def _out_of(ledger: Ledger, conn: Any, table: str, numbers: tuple[int, ...]) -> None:
    """What refuses deletions steps aside for this transaction alone."""
    lift, set_again = _GUARD[ledger.dialect]
    kept = [str(text) for text in _made_by(conn, table)] if ledger.dialect == "sqlite" else []
    conn.exec_driver_sql(lift.format(table=table))
    conn.execute(_those("DELETE", table), {"ids": list(numbers)})
    for statement in kept or [set_again.format(table=table)]:
        conn.exec_driver_sql(statement)


def _made_by(conn: Any, table: str) -> list[str]:
    sql = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = :name"
    return list(conn.execute(sa.text(sql), {"name": f"{table}_delete"}).scalars())


_GUARD: Mapping[str, tuple[str, str]] = {
    "sqlite": ("DROP TRIGGER {table}_delete", ""),
    "postgresql": (
        "ALTER TABLE {table} DISABLE TRIGGER {table}_append_only",
        "ALTER TABLE {table} ENABLE TRIGGER {table}_append_only",
    ),
}


def _those(verb: str, table: str) -> Any:
    return sa.text(f"{verb} FROM {table} WHERE id IN :ids").bindparams(sa.bindparam("ids", expanding=True))
