# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger that breaks while a task has it open: what comes next works again, or is refused, and never lost."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, ItemsView, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import silence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from contract.ledger.frozen import Freezing, freezing
from postgresql import Server

NOTE = Event("note", "x")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_t4_a_connection_that_broke_in_a_transaction_serves_the_next_one(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "S1")])
    with pytest.raises(KeyError), ledger.transaction() as conn:
        ledger.append_in(conn, "run", [(node, Event("note", "half"))])
        conn.invalidate()
        raise KeyError
    assert ledger.history(node) == []
    assert ledger.append("run", [(node, NOTE)])


@pytest.mark.slow
@pytest.mark.parametrize("first", ["read", "write"])
def test_t4_a_server_that_ends_our_connection_is_asked_again(postgresql: Server, first: str) -> None:
    with Ledger(postgresql.url("public")) as ledger:
        node = ledger.identify("n1", aliases=[("serial", "S1")])
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        postgresql.statement(f"{others} AND pid <> pg_backend_pid()")
        with pytest.raises(FleetError):
            ledger.history(node) if first == "read" else ledger.append("run", [(node, NOTE)])
        assert ledger.append("run", [(node, NOTE)])


@pytest.mark.slow
def test_t4_a_server_that_fails_over_to_a_standby_is_away_and_no_other_ledger(postgresql: Server) -> None:
    """What takes no writes is told as that, and not as a file that another program made."""
    with Ledger(postgresql.url("public")) as ledger:
        node = ledger.identify("n1", aliases=[("serial", "S1")])
        ledger._conn.exec_driver_sql("SET default_transaction_read_only = on")
        with pytest.raises(Unreachable, match="takes no writes") as told:
            ledger.append("run", [(node, NOTE)])
        assert "standby" in told.value.do and ledger.history(node) is not None, "reads go on"
        ledger._conn.exec_driver_sql("SET default_transaction_read_only = off")
        assert ledger.append("run", [(node, NOTE)])


@pytest.mark.slow
def test_t4_a_transaction_that_the_server_ended_since_we_were_slow_is_an_outage(postgresql: Server) -> None:
    with Ledger(postgresql.url("public")) as ledger:
        node = ledger.identify("n1", aliases=[("serial", "S1")])
        # The server gives its reason and closes. libpq tells whichever of the two it met when the statement was sent.
        told = "ended our transaction|server closed the connection"
        with pytest.raises(Unreachable, match=told), ledger.transaction() as conn:
            conn.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 10")
            select.select([conn.connection.driver_connection.fileno()], [], [], 30.0)  # the server's word
            ledger.append_in(conn, "run", [(node, NOTE)])
        assert ledger.append("run", [(node, NOTE)]), "on a new connection"


@pytest.mark.slow
def test_t4_no_lock_and_no_silent_host_is_waited_for_as_long_as_a_lease_lives(postgresql: Server) -> None:
    with Ledger(postgresql.url("public")) as ledger:
        with ledger.transaction() as conn:
            assert conn.execute(sa.text("SHOW statement_timeout")).scalar() == "30s"
        told = {name.decode(): value for name, value in _parameters(ledger).items()}
    assert told["tcp_user_timeout"] == b"25000" and told["keepalives_idle"] == b"10"


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["read", "write", "commit"])
def test_t4_a_server_that_is_frozen_while_its_kernel_acknowledges_is_given_up(
    postgresql: Server, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(postgresql.url("public")) as ledger:
        node = ledger.identify("n1", aliases=[("serial", "S1")])
        server = int(ledger._rows("SELECT pg_backend_pid() AS pid")[0]["pid"])
        before = len(ledger.history(node))

        def ask() -> None:
            if asked == "commit":
                with ledger.transaction() as conn:
                    ledger.append_in(conn, "run", [(node, NOTE)])
                    os.kill(server, signal.SIGSTOP)
            else:
                os.kill(server, signal.SIGSTOP)
                ledger.history(node) if asked == "read" else ledger.append("run", [(node, NOTE)])

        thaws = threading.Timer(15.0, os.kill, (server, signal.SIGCONT))  # whoever waits for it gets an answer then
        thaws.start()
        monkeypatch.setattr(silence, "ANSWER_SECONDS", 3.0)
        try:
            with pytest.raises(Unreachable, match="does not answer"):
                ask()
        finally:
            thaws.cancel()
            os.kill(server, signal.SIGCONT)
            monkeypatch.undo()
        assert ledger.append("run", [(node, NOTE)]), "on a new connection"
        assert len(ledger.history(node)) in ((before + 1, before + 2) if asked == "commit" else (before + 1,))


@pytest.mark.slow
@pytest.mark.parametrize("writes", [True, False])
def test_x2_a_server_is_given_up_whichever_answer_it_freezes_at(
    postgresql: Server, writes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login, what ends it, the version of the schema, or what was asked for."""
    told: dict[int, str] = {}

    def task(before: Freezing, number: int) -> None:
        try:
            with Ledger(before.url, create=writes) as ledger:
                ledger.moment()
            told[number] = "" if before.frozen else "Unreachable"
        except FleetError as exc:
            told[number] = type(exc).__name__

    with Ledger(postgresql.url("public")), freezing(postgresql) as whole:
        task(whole, -1)
    monkeypatch.setattr(silence, "ANSWER_SECONDS", 2.0)
    with contextlib.ExitStack() as stack:
        cases = [(stack.enter_context(freezing(postgresql, after=number)), number) for number in range(whole.said)]
        threads = [threading.Thread(target=task, args=case, daemon=True) for case in cases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    told.pop(-1)
    assert len(cases) > 3 and told == {number: "Unreachable" for _before, number in cases}


@pytest.mark.parametrize("said", [0, 1])
def test_t4_a_driver_that_says_that_something_came_while_nothing_did_is_cut_as_well(
    said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As psycopg's waiting in C does until 3.2.10, each time its interval has passed."""
    monkeypatch.setattr(silence, "ANSWER_SECONDS", 0.0)
    ours, theirs = socket.socketpair()

    def answers() -> Iterator[int]:
        while True:
            yield 1

    with ours, theirs:
        waiting = silence.cut_in_the_end(answers(), ours.fileno())
        next(waiting)
        time.sleep(0.01)
        waiting.send(said)
        theirs.settimeout(1)
        assert theirs.recv(1) == b"", "the line is shut down"


class Slow(dict[str, object]):
    """What takes long to be made ready for the ledger."""

    def __init__(self, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__(x=1)
        self._seconds = seconds
        self._meanwhile = meanwhile

    def items(self) -> ItemsView[str, object]:
        time.sleep(self._seconds)
        self._meanwhile()
        return super().items()


@pytest.mark.slow
def test_x3_no_server_is_given_up_for_what_is_computed_here(
    postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(postgresql.url("public")) as ledger:
        node = ledger.identify("n1", aliases=[("serial", "S1")])
        monkeypatch.setattr(silence, "ANSWER_SECONDS", 2.0)
        assert ledger.append("run", [(node, Event("note", "x", Slow(2.5)))])
        with ledger.transaction() as conn:
            time.sleep(2.5)
            assert ledger.append_in(conn, "run", [(node, NOTE)])
        silence.ANSWER_SECONDS = 0.5
        with ledger.transaction() as conn, silence.unlimited(ledger._conn.connection.driver_connection):
            assert conn.exec_driver_sql("SELECT 1 FROM pg_sleep(1)").scalar()
        with pytest.raises(Unreachable), ledger.transaction() as conn:
            conn.exec_driver_sql("SELECT 1 FROM pg_sleep(1)")


def test_x3_others_write_while_the_rows_of_an_append_are_made(ledger: Ledger, url: str) -> None:
    node = ledger.identify("n1", aliases=[("serial", "S1")])

    def meanwhile() -> None:
        if url.startswith("sqlite"):
            with contextlib.closing(sqlite3.connect(url.partition("///")[2], timeout=0)) as other:
                other.execute("BEGIN IMMEDIATE")

    assert ledger.append("run", [(node, Event("note", "x", Slow(0.0, meanwhile)))])


def _parameters(ledger: Ledger) -> dict[bytes, bytes | None]:
    """What the open connection was made with, as libpq tells."""
    raw = ledger._conn.connection.driver_connection
    return {option.keyword: option.val for option in raw.pgconn.info}


@pytest.mark.parametrize("replaced", [False, True])
def test_t4_nothing_is_written_into_a_file_that_is_gone(file: Path, replaced: bool) -> None:
    with Ledger(f"sqlite:///{file}") as ledger:
        node = ledger.identify("n1", aliases=[("serial", "S1")])
        file.rename(file.with_suffix(".old"))
        if replaced:
            file.touch()
        with pytest.raises(Unreachable, match="removed or replaced"):
            ledger.append("run", [(node, NOTE)])
        with pytest.raises(Unreachable, match="removed or replaced"):
            ledger.another()
        assert file.exists() == replaced, "and no new one is made"
        if replaced:
            return
        file.with_suffix(".old").rename(file)
        assert ledger.append("run", [(node, NOTE)])


def test_t4_a_second_connection_sees_the_same_ledger(ledger: Ledger) -> None:
    node = ledger.identify("n1", aliases=[("serial", "S1")])
    with ledger.another() as second:
        assert second.append("run", [(node, NOTE)])
    assert len(ledger.history(node)) == 1 and time.time() - ledger.history(node)[0]["at"] < 60
