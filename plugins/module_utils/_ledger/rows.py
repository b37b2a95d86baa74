# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All rows of a ledger, counted, compared and copied, whatever database they lie in. PRIVATE to the collection."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

#: In the order in which they refer to each other. Those that number their rows are read in parts. Turns are of minutes,
#: and are not copied: while one is live nothing is moved, or put in the place of its ledger.
TABLES: Mapping[str, bool] = {
    "nodes": False,
    "aliases": False,
    "events": True,
    "leases": False,
    "lease_log": True,
    "attempts": True,
    "passports": True,
    "upkeep": True,
}
_AT_ONCE = 2000
#: So many rows between two lines of progress.
_TOLD = 50_000

Row = Mapping[str, Any]
Say = Callable[[str], None]


class Tally(NamedTuple):
    """``digest`` is over all rows in their order: two tables of one content have the same one."""

    rows: int
    digest: str


def parts(conn: Any, table: str) -> Iterator[list[dict[str, Any]]]:
    if not TABLES[table]:
        rows = [dict(row) for row in conn.execute(sa.text(f"SELECT * FROM {table}")).mappings()]
        rows.sort(key=line)  # databases order text each in their own way
        yield from (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))
        return
    last, statement = 0, sa.text(f"SELECT * FROM {table} WHERE id > :last ORDER BY id LIMIT {_AT_ONCE}")
    while rows := [dict(row) for row in conn.execute(statement, {"last": last}).mappings()]:
        yield rows
        last = rows[-1]["id"]


def line(row: Row) -> str:
    """One spelling of a number in all databases."""
    plain = {key: float(value) if isinstance(value, (int, float)) else value for key, value in row.items()}
    return json.dumps(plain, sort_keys=True)


class _Sum:
    def __init__(self) -> None:
        self._rows, self._hash = 0, hashlib.sha256()

    def add(self, rows: Sequence[Row]) -> int:
        for row in rows:
            self._hash.update(line(row).encode("utf-8", "surrogatepass") + b"\n")
        self._rows += len(rows)
        return self._rows

    def tally(self) -> Tally:
        return Tally(self._rows, self._hash.hexdigest())


def tallies(conn: Any) -> dict[str, Tally]:
    found = {}
    for table in TABLES:
        total = _Sum()
        for rows in parts(conn, table):
            total.add(rows)
        found[table] = total.tally()
    return found


def counts(conn: Any) -> dict[str, int]:
    return {table: int(conn.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar()) for table in TABLES}


def copy(source: Any, ledger: Ledger, target: Any, say: Say) -> dict[str, Tally]:
    """Every row of the connection ``source`` into the empty ledger, whose transaction ``target`` is; what was read."""
    every, found = counts(source), {}
    for table in TABLES:
        total = _Sum()
        for rows in parts(source, table):
            insert(ledger, target, table, rows)
            done = total.add(rows)
            if done // _TOLD > (done - len(rows)) // _TOLD:
                say(f"{done} of {every[table]} rows of {table}")
        found[table] = total.tally()
    number_on(ledger, target)
    return found


def insert(ledger: Ledger, conn: Any, table: str, rows: Sequence[Row], *, twice: str = "") -> None:
    """:param twice: what becomes of a row that is there already, in SQL."""
    if not rows:
        return
    names = list(rows[0])
    own = " OVERRIDING SYSTEM VALUE" if TABLES[table] and ledger.dialect == "postgresql" else ""
    values = ", ".join(f":{name}" for name in names)
    conn.execute(sa.text(f"INSERT INTO {table} ({', '.join(names)}){own} VALUES ({values}){twice}"), list(rows))


def number_on(ledger: Ledger, conn: Any) -> None:
    """SQLite goes on after the highest number that was ever given; PostgreSQL is told."""
    if ledger.dialect != "postgresql":
        return
    for table in (table for table, numbered in TABLES.items() if numbered):
        last = f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
        conn.execute(sa.text(f"{last} HAVING max(id) IS NOT NULL"))
