# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of a ledger, and what stands in their way. PRIVATE to the collection.

A copy is made row by row out of one moment of the source, and held against it before it gets its name or is committed:
nobody ever sees half of one. What was done to a ledger is on record in itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    LeaseHeld,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import files, places, rows
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.connection import HAS_SQLALCHEMY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

with contextlib.suppress(ImportError):  # Connection says what is missing before anything here runs
    import sqlite3

    import sqlalchemy as sa

#: What a ledger has since its first release.
_TABLES = frozenset({"schema_version", "nodes", "events", "leases", "passports"})

#: What is wrong with the passports of a ledger, in words; none are looked at without it.
Judge = Callable[[Any], list[str]]


@dataclass(frozen=True)
class Asked:
    """What one call is about. ``url`` as the run names it, ``run_id`` for the record."""

    url: str
    params: Mapping[str, Any]
    run_id: str
    dry: bool = False
    say: Callable[[str], None] = lambda line: None
    judge: Judge = field(default=lambda conn: [])

    @property
    def path(self) -> str:
        return os.path.realpath(str(self.params["path"]))


def copied(source: Any, target: Ledger, asked: Asked, what: str, note: Optional[dict[str, Any]] = None) -> None:
    """All or nothing, and the same: each row is read again from the copy before it is committed."""
    with target.transaction() as conn:
        refuse_rows_in(conn, target.shown_url)
        wanted = rows.copy(source, target, conn, asked.say)
        seen = rows.tallies(conn)
        if seen != wanted:
            other = [name for name in wanted if seen[name] != wanted[name]]
            differ = [f"{name}: {seen[name].rows} of {wanted[name].rows} rows" for name in other]
            raise differs(target.shown_url, ", ".join(differ))
        if what:
            end_leases(conn)
            record(target, conn, asked.run_id, what, note or {})


def differs(address: str, seen: str) -> BadAnswer:
    return BadAnswer(
        "the copy is not what was copied, and was thrown away",
        address=address,
        wanted="the same rows with the same content",
        seen=seen,
        do="report it: this is a defect of the collection or of the database",
    )


def record(ledger: Ledger, conn: Any, run_id: str, what: str, data: Mapping[str, Any]) -> None:
    conn.execute(
        sa.text("INSERT INTO upkeep (at, run_id, what, data) VALUES (:at, :run, :what, :data)"),
        {"at": ledger.now_in(conn), "run": run_id, "what": what, "data": json.dumps(data, sort_keys=True)},
    )


@contextmanager
def made(path: str) -> Iterator[str]:
    """A file beside it, which gets the name when the body is done with it."""
    part = f"{path}.part-{uuid.uuid4().hex[:8]}"
    try:
        yield part
        files.on_disk(part)
        os.link(part, path)
    except OSError as exc:
        raise ConfigError(f"the file cannot be made: {exc.strerror}", seen=path, do="name another place") from exc
    finally:
        for name in (part, f"{part}-wal", f"{part}-shm"):
            with contextlib.suppress(OSError):
                os.unlink(name)


def end_leases(conn: Any) -> None:
    """In a copy: the runs that had them know another ledger."""
    for table in ("leases", "turns"):
        conn.execute(sa.text(f"UPDATE {table} SET expires = renewed"))


def refuse_leases(ledger: Ledger, conn: Any) -> None:
    """A turn may outlast each lease of its run: what was begun in it still writes to a provisioner.

    :raises LeaseHeld: where a run works with this ledger now.
    """
    now, live = {"now": ledger.now_in(conn)}, []
    for table in ("leases", "turns") if sa.inspect(conn).has_table("turns") else ("leases",):  # an older release's
        found = sa.text(f"SELECT run_id FROM {table} WHERE expires > :now ORDER BY expires DESC")
        live += conn.execute(found, now).scalars()
    runs = list(dict.fromkeys(live))
    if runs:
        raise LeaseHeld(
            "a run works with this ledger",
            address=ledger.shown_url,
            seen=", ".join(runs[:3]),
            do="wait for its end; after a kill its leases end within a minute, and what a command outlived within five",
        )


def refuse_rows(ledger: Ledger) -> None:
    with ledger.snapshot() as conn:
        refuse_rows_in(conn, ledger.shown_url)


def refuse_rows_in(conn: Any, address: str) -> None:
    there = {table: count for table, count in rows.counts(conn).items() if count}
    if there:
        raise Refused(
            "there is another ledger already, and nothing is mixed into it",
            address=address,
            wanted="an empty database",
            seen=", ".join(f"{count} rows of {table}" for table, count in there.items()),
            do="name an empty one",
        )


def file_url(path: str) -> str:
    if "?" in path:
        raise ConfigError("a ledger's path has no question mark", seen=path, do="name another")
    return f"sqlite:///{path}"


def path_of_url(url: str) -> str:
    return (url or places.default_url()).partition("sqlite:///")[2].partition("?")[0]


def refuse_no_ledger(path: str, called: str = "") -> None:
    """Whatever is opened as a ledger becomes one: an empty file, and another program's database. What cannot be read
    is left to whoever opens it next, who says why.

    :param called: the file as a person knows it.
    :raises BadAnswer: where it is none.
    """
    if not HAS_SQLALCHEMY:
        return
    try:
        with contextlib.closing(sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=rw", uri=True)) as file:
            found = {row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return
    if not found >= _TABLES:
        raise BadAnswer(
            "this is no ledger",
            address=called or path,
            wanted=f"a database with the tables {', '.join(sorted(_TABLES))}",
            seen=f"a database with {', '.join(sorted(found)[:5])}" if found else "a database without any table",
            do="correct the path: nothing was written to it",
        )


def is_frozen(path: str) -> bool:
    """A file that nobody has open, where none may be made beside it: SQLite needs two beside each that it opens."""
    return os.path.isfile(path) and bool(files.unwritable(path)) and not os.path.exists(f"{path}-wal")


@contextmanager
def apart(path: str) -> Iterator[str]:
    """A private copy of one moment of a file, also of one in use.

    :raises ConfigError: where there is no room for it. :raises BadAnswer: where it cannot be copied as a database.
    """
    mode = "mode=ro&immutable=1" if is_frozen(path) else "mode=rw"
    with tempfile.TemporaryDirectory(prefix="gpufleet-verify-") as own:
        copy = os.path.join(own, "ledger.sqlite")
        try:
            from_it = sqlite3.connect(f"file:{urllib.parse.quote(path)}?{mode}", uri=True)
            with contextlib.closing(from_it) as source, contextlib.closing(sqlite3.connect(copy)) as target:
                source.backup(target)
        except sqlite3.OperationalError as exc:
            raise ConfigError(
                f"the ledger cannot be copied to be looked at: {exc}",
                address=file_url(path),
                do=f"make room in {tempfile.gettempdir()}, or set TMPDIR; and run as a user who may read it",
            ) from exc
        except sqlite3.DatabaseError as exc:
            raise BadAnswer(f"this is no ledger: {exc}", address=file_url(path), do="correct the path") from exc
        refuse_no_ledger(copy, path)
        yield copy


def there(url: str, *, dry: bool) -> Ledger:
    """The ledger that is meant, and no new one. One of an older release is altered unless it is a dry run.

    :raises ConfigError: where there is none. :raises BadAnswer: where it is something else.
    """
    path = path_of_url(url)
    if path and not os.path.isfile(path):
        raise ConfigError("there is no ledger", address=file_url(path), do="correct gpufleet_ledger_url")
    if path:
        refuse_no_ledger(path)
    return Ledger(url, create=not dry)
