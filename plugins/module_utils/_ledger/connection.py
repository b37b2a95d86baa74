# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to the ledger: engines, transactions, errors, migrations. PRIVATE to the collection.

SQLite (a file) and PostgreSQL are spoken to through SQLAlchemy Core with plain SQL that both understand.
"""

from __future__ import annotations

import contextlib
import importlib
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    MissingLibrary,
    OlderLedger,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import busy, files, silence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import default_url
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.schema import MOVED, migrations
from ansible_collections.gpufleet.baremetal.plugins.module_utils._private import make_private

try:
    import sqlite3  # noqa: F401  # pylint: disable=unused-import

    import sqlalchemy as sa

    # Loaded here, once and before the workers fork; else by each of them, at its first connection.
    import sqlalchemy.dialects.sqlite  # pylint: disable=unused-import
    from sqlalchemy.pool import NullPool
except ImportError:
    HAS_SQLALCHEMY = False
else:
    HAS_SQLALCHEMY = True


Self = TypeVar("Self", bound="Connection")
_IN_MEMORY = "sqlite://"
#: Seconds that another process may hold the file.
_LOCKED_SECONDS = 30.0
#: How a write begins, by dialect. SQLite's driver would begin lazily and read-only: two writers could then deadlock on
#: the upgrade. Reads stand outside of any transaction, which spares PostgreSQL two more questions for each of them.
#: A writer that hangs while it holds a lock on PostgreSQL ends nobody else's lease: they are told before.
_BEGIN = {
    "sqlite": ("BEGIN IMMEDIATE",),
    "postgresql": ("BEGIN; SET LOCAL statement_timeout TO 30000",),
}
_SNAPSHOT = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}
#: The one driver that the collection requires, whatever the URL says.
_POSTGRESQL = "postgresql+psycopg"
#: undefined_table (PostgreSQL, appendix A: error codes).
_NO_TABLE = "42P01"


#: What the next connection of the shared engine is made with; one a thread.
_opening = threading.local()


@lru_cache(maxsize=1)
def _sqlite_engine() -> Any:
    """One engine for all files: it keeps no connection, and what it has compiled serves every ledger and every fork."""
    engine = sa.create_engine("sqlite://", poolclass=NullPool)

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, args: Any, options: Any) -> Any:
        names, settings, patience = _opening.arguments
        # Several threads may use one connection in turn (shared.py), also that to a ledger in memory.
        own = {"timeout": patience, "isolation_level": None, "check_same_thread": False}
        return dialect.connect(*names, **{**settings, **own})

    @sa.event.listens_for(engine, "connect")
    def tune(connection: Any, record: Any) -> None:
        # WAL: readers never wait for the writer. NORMAL: a commit survives a crash of any process; a crash of
        # the machine may lose the last events, and never the file.
        try:
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()  # SQLAlchemy leaves it open until it is collected
            raise

    return engine


def load_postgresql() -> None:
    """Load dialect and driver, and connect to nothing: for the main process, or each of its workers would do it.

    A worker that loads them itself pays 0.12 s of CPU; loaded before the fork, they cost the workers nothing (measured:
    0.3 +- 0.5 ms of 45) and the run 0.1 s once. What URL a run will use stands in no place that can be read by then.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("psycopg")
        importlib.import_module("sqlalchemy.dialects.postgresql.psycopg")


def _ask_nothing(_connection: Any) -> None:
    """In place of SQLAlchemy's four questions to each new server, which are a quarter of what a host-task costs there.

    They are for writing SQL by its types; all SQL here is plain text.
    """


def _lacks_table(problem: Any) -> bool:
    """Is it a new ledger, in the words of SQLite, or by the number that PostgreSQL gives it?"""
    return "no such table" in str(problem) or getattr(problem, "sqlstate", None) == _NO_TABLE


class Connection:
    """An open ledger, without a word of what is in it.

    :ivar new: it was made just now, and knows nothing of what others have done.
    """

    new = False

    def __init__(
        self,
        url: str = "",
        *,
        create: bool = True,
        place: str = "",
        patience: float = _LOCKED_SECONDS,
        as_it_is: bool = False,
    ) -> None:
        """:param create: False where nothing may be written: a ledger that is not there is an empty one in memory.
        :param as_it_is: without ``create``: one of an older release is read too, in its own tables.
        :param patience: seconds that each step waits for another process that has SQLite's file locked.
        :param place: the :attr:`place` of the ledger that is meant: none is made where it is not there.
        :raises Unreachable: where it is not that ledger.
        """
        if not HAS_SQLALCHEMY:
            raise MissingLibrary("SQLAlchemy", why="the ledger is kept through it")
        self.url = url or default_url()
        parsed = files.parsed(self.url)
        self.dialect = parsed.get_backend_name()
        self.shown_url = files.shown_url(parsed)
        if self.dialect not in _BEGIN:
            raise ConfigError(
                f"the ledger cannot be kept in {self.dialect}", address=self.shown_url, wanted="sqlite or postgresql"
            )
        self._writing, self._patience = False, patience
        self._conn: Any = None
        #: Device and inode of SQLite's file, as it was opened.
        self._place: tuple[int, int] | None = None
        #: What SQLite's file calls itself; another file may come by the same inode.
        self._number = 0
        if place and self.dialect == "sqlite" and files.is_file(parsed):
            files.still_at(files.file_of(place), files.place(str(parsed.database)), self.shown_url)
        with self._errors(), contextlib.ExitStack() as broken:
            broken.callback(self.close)
            if create:
                self._open(parsed, create=True)
            if create or not self._open_to_read(parsed, as_it_is=as_it_is):
                self._migrate()
            if self._place is not None:
                self._numbered(create)
            if place and self.place != place:
                raise files.moved(place, self.place, self.shown_url)
            broken.pop_all()

    @property
    def place(self) -> str:
        """What tells this ledger's file from another one in its place; empty for one that is no file."""
        return files.shown(self._place, self._number) if self._place is not None else ""

    def _numbered(self, create: bool) -> None:
        """Give a new file its number; the transaction keeps two from doing it."""

        def read() -> int:
            return int(self._conn.exec_driver_sql("PRAGMA user_version").scalar() or 0)

        self._number = read()
        self._forget()
        if create and not self._number:
            with self.transaction() as conn:
                self._number = read() or secrets.randbelow(2**31 - 1) + 1
                conn.exec_driver_sql(f"PRAGMA user_version = {self._number}")

    def _open_to_read(self, url: Any, *, as_it_is: bool) -> bool:
        """Makes nothing and alters nothing: where there is no ledger yet, an empty one in memory takes its place.
        True where it is an older release's, and open all the same."""
        if files.is_there(url):
            self._open(url, create=False)
            version, newest = self._version(), len(migrations(self.dialect))
            if version >= newest or (version and as_it_is):
                return version < newest
            self.close()
            if version:
                raise OlderLedger(
                    "the ledger was written by an older release of this collection, and nothing may be written now",
                    address=self.shown_url,
                    wanted=f"schema {newest}",
                    seen=f"schema {version}",
                    do="run once without --check: a task of fleet_status alters its tables, and nothing else",
                )
        self.dialect = "sqlite"
        self._open(sa.engine.make_url(_IN_MEMORY), create=False)
        return False

    def _open(self, url: Any, *, create: bool) -> None:
        self._engine = self._make_engine(url, create=create)
        self._conn = busy.waited_for(
            self._engine.connect, self.dialect, patience=self._patience, address=self.shown_url
        )
        self._path = str(url.database) if self.dialect == "sqlite" and files.is_file(url) else ""
        self._place = files.place(self._path) if self._path else None

    def _still_there(self) -> None:
        """:raises Unreachable: where SQLite's file was removed or replaced: what is written would be in no ledger."""
        if self._place is not None:
            files.still_at(self._place, files.place(self._path), self.shown_url)

    def another(self: Self) -> Self:
        """A second connection to this very ledger, for a thread; where it is gone, none is made."""
        self._still_there()
        return type(self)(self.url, place=self.place)

    def _make_engine(self, url: Any, *, create: bool) -> Any:
        if self.dialect != "sqlite":
            try:
                # A database in the encoding SQL_ASCII would answer with bytes otherwise.
                own = {key: value for key, value in silence.TCP.items() if key not in url.query}
                settings = {**own, "client_encoding": "utf8", "autocommit": True}
                url = url.set(drivername=_POSTGRESQL)
                engine: Any = sa.create_engine(url, poolclass=NullPool, connect_args=settings, use_native_hstore=False)
                engine.dialect.initialize = _ask_nothing
                return silence.limited(engine)
            except ImportError as exc:
                raise MissingLibrary("psycopg", why="the ledger lies in PostgreSQL", cause=str(exc)) from exc
        if create and files.is_file(url):
            try:
                Path(url.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as exc:
                raise ConfigError(
                    f"the folder of the ledger cannot be made: {exc.strerror}",
                    address=self.shown_url,
                    do="set gpufleet_ledger_url to a place that this user may write",
                ) from exc
            # SQLite gives its companions the rights of the file itself.
            make_private(url.database, f"{url.database}-wal", f"{url.database}-shm")
        engine = _sqlite_engine()
        _opening.arguments = (*engine.dialect.create_connect_args(url), self._patience)
        return engine

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.OperationalError as exc:
            if busy.FULL.search(str(exc.orig)):
                raise busy.no_room(exc.orig, self.shown_url) from exc
            raise Unreachable(
                f"the ledger does not answer: {exc.orig}",
                address=self.shown_url,
                do="check gpufleet_ledger_url, and that the database runs and this user may write it",
            ) from exc
        except sa.exc.DBAPIError as exc:
            raise busy.refused(exc.orig, self.shown_url) from exc
        except sa.exc.SQLAlchemyError as exc:  # of its own, for instance on a connection that broke before
            raise Unreachable(
                f"the ledger cannot be asked: {exc}", address=self.shown_url, do="check gpufleet_ledger_url"
            ) from exc

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A write transaction: everything in the body, or nothing. A server that leaves one statement of it without
        an answer is given up; what is computed between two statements is not the server's."""
        with self._errors(), self._marked():
            try:
                self._still_there()
                for statement in _BEGIN[self.dialect]:
                    self._conn.exec_driver_sql(statement)
                yield self._conn
                self._conn.exec_driver_sql("COMMIT")
                self._conn.commit()
            except BaseException:
                with contextlib.suppress(sa.exc.SQLAlchemyError):  # what broke may be the connection itself
                    self._conn.exec_driver_sql("ROLLBACK")
                self._forget()
                raise

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        """All that is read in the body is of one moment, and keeps nobody from writing."""
        with self._errors(), self._marked():
            conn = self._conn
            try:
                conn.exec_driver_sql(_SNAPSHOT[self.dialect])
                yield conn
            finally:
                with contextlib.suppress(sa.exc.SQLAlchemyError):
                    conn.exec_driver_sql("ROLLBACK")
                self._forget()

    def _unlimited(self) -> contextlib.AbstractContextManager[None]:
        if self.dialect == "sqlite":
            return contextlib.nullcontext()
        return silence.unlimited(self._conn.connection.driver_connection)

    def _forget(self) -> None:
        """End what SQLAlchemy believes to have begun: on a broken connection it opens no new one before."""
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            self._conn.rollback()

    @contextmanager
    def _marked(self) -> Iterator[None]:
        self._writing = True
        try:
            yield
        finally:
            self._writing = False

    def _read(self, statement: Any, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Rows. Outside a write transaction SQLAlchemy's own, which it believes to have begun, ends here."""
        with self._errors():
            try:
                return [dict(row) for row in self._conn.execute(statement, dict(values)).mappings()]
            finally:
                if not self._writing:
                    self._forget()

    def _rows(self, sql: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        return self._read(sa.text(sql), values or {})

    def _many(self, sql: str, key: str, values: Iterable[str], more: Mapping[str, Any]) -> list[dict[str, Any]]:
        statement = sa.text(sql).bindparams(sa.bindparam(key, expanding=True))
        return self._read(statement, {key: list(values), **more})

    def _migrate(self) -> None:
        steps = migrations(self.dialect)
        if self._version() == len(steps):
            return
        with self.transaction() as conn, self._unlimited():  # as long as a big table needs
            if self.dialect == "postgresql":
                conn.exec_driver_sql("SET LOCAL statement_timeout TO 0")
                conn.execute(sa.text("SELECT pg_advisory_xact_lock(20861)"))
            conn.execute(sa.text("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)"))
            done = conn.execute(sa.text("SELECT max(version) FROM schema_version")).scalar() or 0
            self.new = done == 0
            if done == MOVED:
                raise files.moved_away(self.shown_url, conn)
            if done > len(steps):
                raise ConfigError(
                    "the ledger was written by a newer release of this collection",
                    address=self.shown_url,
                    wanted=f"schema {len(steps)} or older",
                    seen=f"schema {done}",
                    do="upgrade the collection on this controller",
                )
            for number in range(done, len(steps)):
                for statement in steps[number]:
                    conn.exec_driver_sql(statement.replace("%", "%%") if self.dialect == "postgresql" else statement)
                conn.execute(sa.text("INSERT INTO schema_version VALUES (:number)"), {"number": number + 1})

    def _version(self) -> int:
        try:
            return int(self._conn.execute(sa.text("SELECT max(version) FROM schema_version")).scalar() or 0)
        except (sa.exc.OperationalError, sa.exc.ProgrammingError) as exc:
            self._forget()
            if not _lacks_table(exc.orig):  # whoever only reads would take it for an empty ledger
                raise
            return 0

    def now(self) -> float:
        """The ledger's own clock: the database's where several controllers share it."""
        if self.dialect == "sqlite":
            return time.time()
        return float(self._rows("SELECT extract(epoch FROM clock_timestamp()) AS now")[0]["now"])

    def now_in(self, conn: Any) -> float:
        """The same inside a transaction of the caller's."""
        if self.dialect == "sqlite":
            return time.time()
        return float(conn.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar())

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()  # the engine keeps none

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
