# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a ledger whole? PRIVATE to the collection.

Nothing in a ledger is signed but its passports. What is told here is what the database itself can know: that nothing is
damaged, nothing refers to what is not there, nothing was taken out of a file, and that it still refuses to change.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import rows
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlalchemy as sa

#: How a database tells which of its tables refuse to be changed.
_GUARDS: Mapping[str, str] = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname AS name FROM pg_trigger WHERE tgenabled IN ('O', 'A') AND NOT tgisinternal"
    " AND tgrelid IN ('events'::regclass, 'passports'::regclass)",
}
_WANTED: Mapping[str, tuple[str, ...]] = {
    "sqlite": ("events_update", "events_delete", "passports_update", "passports_delete"),
    "postgresql": ("events_append_only", "passports_append_only"),
}
#: What refers to a node. PostgreSQL refuses what does not; a file may have been written with another program.
_REFER = ("aliases", "events", "leases", "attempts", "passports")
#: Columns that hold JSON.
_JSON: Mapping[str, str] = {"events": "data", "passports": "envelope", "upkeep": "data"}


def findings(ledger: Ledger, conn: Any) -> list[str]:
    """What is wrong, in words; empty where nothing is.

    :param conn: of :meth:`Ledger.snapshot`.
    """
    return [*_damage(ledger, conn), *_guards(ledger, conn), *_strays(conn), *_gaps(ledger, conn), *_unread(conn)]


def _damage(ledger: Ledger, conn: Any) -> Iterator[str]:
    if ledger.dialect != "sqlite":
        return
    told = [str(row[0]) for row in conn.exec_driver_sql("PRAGMA integrity_check(5)")]
    yield from (f"the file is damaged: {line}" for line in told if line != "ok")


def _guards(ledger: Ledger, conn: Any) -> Iterator[str]:
    there = {row["name"] for row in conn.execute(sa.text(_GUARDS[ledger.dialect])).mappings()}
    for name in _WANTED[ledger.dialect]:
        if name not in there:
            yield f"the trigger {name} is gone: what was written may have been changed since"


def _strays(conn: Any) -> Iterator[str]:
    for table in _REFER:
        sql = f"SELECT count(*) FROM {table} WHERE node_id NOT IN (SELECT node_id FROM nodes)"
        count = conn.execute(sa.text(sql)).scalar()
        if count:
            yield f"{count} rows of {table} are of no node"


def _gaps(ledger: Ledger, conn: Any) -> Iterator[str]:
    """A file gives each event the next number, and takes back that of one that was not written: each one that lacks
    was written, and taken out. A server gives numbers away that nobody uses, and what came from one lacks them."""
    moved = conn.execute(sa.text("SELECT 1 FROM upkeep WHERE what = 'copied' LIMIT 1")).scalar()
    if ledger.dialect != "sqlite" or moved:
        return
    sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"
    given = int(conn.execute(sa.text(sql)).scalar())
    there = int(conn.execute(sa.text("SELECT count(*) FROM events")).scalar())
    archived = conn.execute(sa.text("SELECT data FROM upkeep WHERE what = 'archived'")).scalars()
    kept = sum(int(json.loads(text).get("events", 0)) for text in archived)
    if given != there + kept:
        yield f"{given - there - kept} events were taken out: {given} were written, {there} are there, {kept} archived"


def _unread(conn: Any) -> Iterator[str]:
    for table, column in _JSON.items():
        bad = [row["id"] for part in rows.parts(conn, table) for row in part if not _is_json(row[column])]
        if bad:
            yield f"{len(bad)} rows of {table} cannot be read, the first is number {bad[0]}"


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
