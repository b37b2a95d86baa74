# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger as a whole: verified, backed up, restored, moved, archived; in a file and in a real PostgreSQL."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    LeaseHeld,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, rows, turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from contract.ledger.kept import NOTE, backed_up, content, do, done_to, filled
from postgresql import Server

DAY = 86_400.0


@pytest.fixture
def full(url: str) -> str:
    return filled(url)


@pytest.fixture
def in_use(full: str) -> Iterator[Callable[[], int]]:
    """Somebody writes all the time; tells how much so far."""
    over, wrote = threading.Event(), []

    def write() -> None:
        with Ledger(full) as ledger:
            node = ledger.identify("n0", aliases=[("serial", "S0")])
            while not over.is_set():
                wrote.extend(ledger.append("other", [(node, NOTE)] * 2))

    thread = threading.Thread(target=write)
    thread.start()
    yield lambda: len(wrote)
    over.set()
    thread.join(30)


# -- backup and verify -------------------------------------------------------------------------------------------------


def test_c10_a_backup_is_the_whole_ledger_and_verifies(full: str, tmp_path: Path) -> None:
    path = tmp_path / "b.sqlite"
    told = do(full, "backed_up", path=str(path))
    assert told["changed"] and told["rows"]["events"] == 15 and told["rows"]["passports"] == 3
    assert content(f"sqlite:///{path}") == content(full) and path.stat().st_mode & 0o777 == 0o600
    assert do(f"sqlite:///{path}", "verified")["findings"] == [] == do(full, "verified")["findings"]
    assert [name.name for name in tmp_path.iterdir() if "b.sqlite" in name.name] == ["b.sqlite"]
    with pytest.raises(ConfigError, match="no backup is written over"):
        do(full, "backed_up", path=str(path))


def test_c10_a_backup_of_a_ledger_in_use_is_of_one_moment(full: str, in_use: Callable[[], int], tmp_path: Path) -> None:
    for number in range(3):
        before = in_use()
        url = f"sqlite:///{tmp_path}/b{number}.sqlite"
        do(full, "backed_up", path=f"{tmp_path}/b{number}.sqlite")
        with Ledger(url) as ledger:
            events = int(ledger._rows("SELECT count(*) AS n FROM events")[0]["n"]) - 15
        assert before <= events <= in_use() and events % 2 == 0, "and no half of what was written together"
        assert do(url, "verified")["findings"] == []


def test_c10_check_mode_backs_nothing_up(full: str, tmp_path: Path) -> None:
    assert do(full, "backed_up", path=f"{tmp_path}/b.sqlite", dry=True)["changed"]
    assert not (tmp_path / "b.sqlite").exists()


def test_c10_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for state in ("verified", "backed_up", "archived"):
        with pytest.raises(ConfigError, match="there is no ledger"):
            do(f"sqlite:///{tmp_path}/typo.sqlite", state, path=f"{tmp_path}/b.sqlite")
    assert list(tmp_path.iterdir()) == []


TAMPER = {
    "an event was taken out": "DROP TRIGGER events_delete; DELETE FROM events WHERE id = 7",
    "the newest event was taken out": "DROP TRIGGER events_delete; DELETE FROM events WHERE id = 15",
    "events_update is gone": "DROP TRIGGER events_update",
    "rows of aliases are of no node": "PRAGMA foreign_keys=OFF; DELETE FROM nodes WHERE name = 'n1'",
    "rows of events cannot be read, the first is number 3": "DROP TRIGGER events_update;"
    "UPDATE events SET data = 'x' WHERE id IN (3, 4)",
}


@pytest.mark.parametrize("words", TAMPER)
def test_c10_what_was_done_to_a_file_is_told(tmp_path: Path, words: str) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "l.sqlite")) as file:
        file.executescript(TAMPER[words])
    expected = "1 events were taken out: 15 were written" if "taken out" in words else words
    with pytest.raises(BadAnswer, match=expected):
        do(url, "verified")


def test_c10_a_damaged_file_is_told(tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite", 60)
    with contextlib.closing(sqlite3.connect(tmp_path / "l.sqlite")) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_node'").fetchone()[0]
    with open(tmp_path / "l.sqlite", "r+b") as raw:
        raw.seek((page - 1) * 4096)
        raw.write(b"\xff" * 4096)
    with pytest.raises(FleetError, match="damaged|malformed"):
        do(url, "verified")


# -- restore -----------------------------------------------------------------------------------------------------------


def test_c10_a_backup_is_restored_where_there_is_none(full: str, url: str, tmp_path: Path) -> None:
    before, backup = content(full), backed_up(full, tmp_path)
    new = f"sqlite:///{tmp_path}/new/l.sqlite"
    assert do(new, "restored", path=backup, dry=True)["changed"] and not (tmp_path / "new").exists()
    assert do(new, "restored", path=backup)["set_aside"] == ""
    assert content(new) == before and done_to(new)[-1] == "restored"
    assert (tmp_path / "new" / "l.sqlite").stat().st_mode & 0o777 == 0o600
    with Ledger(new) as ledger:
        node = ledger.identify("n0", aliases=[("serial", "S0")])
        assert ledger.append("later", [(node, NOTE)]) == [16], "and it goes on after the last event"


def test_c10_a_backup_replaces_no_ledger_without_a_reason(tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    backup, before = backed_up(url, tmp_path), content(url)
    with Ledger(url) as ledger:
        node = ledger.identify("n0", aliases=[("serial", "S0")])
        ledger.append("later", [(node, NOTE)])
    later = content(url)
    with pytest.raises(Refused, match="there is a ledger already") as caught:
        do(url, "restored", path=backup)
    assert "3 nodes, 16 events" in caught.value.seen and content(url) == later
    told = do(url, "restored", path=backup, force_reason="disk damaged, ticket 4711")
    assert content(url) == before and content(f"sqlite:///{told['set_aside']}") == later
    with Ledger(url) as ledger:
        assert "ticket 4711" in ledger._rows("SELECT data FROM upkeep")[-1]["data"]


def test_c10_no_ledger_is_replaced_under_a_run(tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    backup = backed_up(url, tmp_path)
    with Ledger(url) as ledger:
        node = ledger.identify("n0", aliases=[("serial", "S0")])
        with ledger.transaction() as conn:
            lease.take_in(conn, ledger, node, Holder("its-run", "h#1", 1, 1, "b"))
    with pytest.raises(LeaseHeld, match="its-run"):
        do(url, "restored", path=backup, force_reason="x")
    with Ledger(url) as ledger, ledger.transaction() as conn:
        conn.execute(sa.text("UPDATE leases SET expires = 0"))
    with Ledger(url) as ledger:
        turns.take(ledger, "xcat 1", Holder("writes", "h#1", 1, 1, "b"))
    with pytest.raises(LeaseHeld, match="writes"):
        do(url, "restored", path=backup, force_reason="x")
    with Ledger(url) as ledger:
        turns.end(ledger, "xcat 1", 1)
    with Ledger(url) as ledger:
        assert ledger.moment().event
        with pytest.raises(Refused, match="another process has this ledger open"):
            do(url, "restored", path=backup, force_reason="x")
        assert ledger.append("later", [(node, NOTE)]), "and whoever has it open goes on"
    do(url, "restored", path=backup, force_reason="x")


def test_c10_a_ledger_that_cannot_be_read_is_replaced_for_a_reason(tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    backup, before = backed_up(url, tmp_path), content(url)
    (tmp_path / "l.sqlite").write_bytes(b"no database" * 500)
    (tmp_path / "l.sqlite-wal").write_bytes(b"its journal")
    with pytest.raises(Refused, match="cannot be read"):
        do(url, "restored", path=backup)
    told = do(url, "restored", path=backup, force_reason="x")
    assert content(url) == before, "and no journal of before is a part of it"
    assert Path(told["set_aside"]).read_bytes().startswith(b"no database")


def test_c10_a_backup_that_is_not_whole_is_not_restored(tmp_path: Path) -> None:
    backup = backed_up(filled(f"sqlite:///{tmp_path}/l.sqlite"), tmp_path)
    with contextlib.closing(sqlite3.connect(backup)) as file:
        file.executescript("DROP TRIGGER events_delete; DELETE FROM events WHERE id = 7")
    with pytest.raises(BadAnswer, match="1 events were taken out"):
        do(f"sqlite:///{tmp_path}/new.sqlite", "restored", path=backup)
    assert not (tmp_path / "new.sqlite").exists()


@pytest.mark.slow
def test_c10_a_backup_is_restored_into_an_empty_server_alone(postgresql: Server, tmp_path: Path) -> None:
    for schema in ("restored", "other"):
        postgresql.statement(f"CREATE SCHEMA {schema}")
    source = filled(postgresql.url("other"))
    backup, before = backed_up(source, tmp_path), content(source)
    do(postgresql.url("restored"), "restored", path=backup)
    assert (
        content(postgresql.url("restored")) == before and do(postgresql.url("restored"), "verified")["findings"] == []
    )
    with Ledger(postgresql.url("restored")) as ledger:
        node = ledger.identify("n0", aliases=[("serial", "S0")])
        assert ledger.append("later", [(node, NOTE)]) == [16]
    for reason in ("", "x"):
        with pytest.raises(Refused, match="nothing is mixed into it"):
            do(postgresql.url("restored"), "restored", path=backup, force_reason=reason)


# -- from a file to a server -------------------------------------------------------------------------------------------


@pytest.fixture
def empty(postgresql: Server, request: pytest.FixtureRequest) -> str:
    schema = f"m{abs(hash(request.node.name)) % 10**9}"
    postgresql.statement(f"CREATE SCHEMA {schema}")
    return postgresql.url(schema)


@pytest.mark.slow
def test_c10_a_ledger_is_moved_to_a_server_and_nobody_goes_on_in_the_file(empty: str, tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    before = content(url)
    assert do(url, "moved", to=empty, dry=True)["rows"]["events"] == 15 and content(url) == before
    with Ledger(url) as opened:
        node = opened.identify("n0", aliases=[("serial", "S0")])
        told = do(url, "moved", to=empty)
        assert content(empty) == before and told["rows"]["events"] == 15
        with pytest.raises(FleetError, match="moved to postgresql"):
            opened.append("run", [(node, NOTE)])
        with pytest.raises(FleetError, match="moved to postgresql"), opened.transaction() as conn:
            lease.take_in(conn, opened, node, Holder("run2", "h#1", 1, 1, "b"))
    for create in (True, False):
        with pytest.raises(ConfigError, match="this ledger was moved") as caught:
            Ledger(url, create=create)
        assert "gpufleet_ledger_url" in caught.value.do and "postgresql" in caught.value.wanted
    with Ledger(empty) as ledger:
        assert ledger.append("later", [(node, NOTE)]) == [16]
    with contextlib.closing(sqlite3.connect(tmp_path / "l.sqlite")) as file:
        assert file.execute("SELECT count(*) FROM events").fetchone() == (15,), "left as it was"


@pytest.mark.slow
def test_c10_a_move_that_was_killed_before_the_mark_is_finished_by_the_next(empty: str, tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    with Ledger(url) as ledger, ledger.snapshot() as source, Ledger(empty) as target, target.transaction() as conn:
        rows.copy(source, target, conn, print)
    with Ledger(url) as ledger:
        assert ledger.moment().event == 15, "it is not marked"
    do(url, "moved", to=empty)
    with pytest.raises(ConfigError, match="this ledger was moved"):
        Ledger(url)


@pytest.mark.slow
def test_c10_no_ledger_is_mixed_into_another_one_or_moved_under_a_run(empty: str, tmp_path: Path) -> None:
    url = filled(f"sqlite:///{tmp_path}/l.sqlite")
    filled(empty, 1)
    for dry in (True, False):
        with pytest.raises(Refused, match="nothing is mixed into it"):
            do(url, "moved", to=empty, dry=dry)
    with Ledger(url) as ledger, ledger.transaction() as conn:
        conn.execute(sa.text("UPDATE leases SET expires = :later"), {"later": time.time() + 60})
    with pytest.raises(LeaseHeld):
        do(url, "moved", to=empty)
    with pytest.raises(ConfigError, match="from a file to a PostgreSQL server"):
        do(empty, "moved", to=f"sqlite:///{tmp_path}/other.sqlite")
    assert not (tmp_path / "other.sqlite").exists()
