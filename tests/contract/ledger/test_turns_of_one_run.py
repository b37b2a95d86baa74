# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The turn to write among workers of one run, which differ in its number alone, and among two who come at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from contract.ledger.test_turns import PEER, Line, _nobodys, is_free, row  # noqa: F401  # the same ledger, asked of one run


def test_one_worker_of_a_run_renews_and_ends_no_turn_of_another(ledger: Ledger, run: Callable[[], Holder]) -> None:
    first = run()
    second = replace(run(), run_id=first.run_id)
    assert turns.take(ledger, PEER, first) == (1, "")
    with ledger.transaction() as conn:
        conn.exec_driver_sql("UPDATE turns SET expires = 0")  # it stood still for a minute
    assert turns.take(ledger, PEER, second) == (2, "")
    before = row(ledger)
    assert not turns.renew(ledger, PEER, first, 1), "both would write"
    turns.end(ledger, PEER, 1)
    turns.outlast(ledger, PEER, 1, first.pid)
    assert row(ledger) == before, "it is the other worker's"
    assert turns.renew(ledger, PEER, second, 2)


def test_a_command_that_outlived_its_turn_keeps_the_other_hosts_of_its_task_waiting(
    ledger: Ledger, line: Line, run: Callable[[], Holder]
) -> None:
    command = run()
    with turns.together():
        with line().turn(PEER) as turn:
            assert turn.taken() == ""
            turn.outlived(command.pid)
        with line().turn(PEER) as turn:
            assert f"process {command.pid} on" in turn.taken(), "it goes on, and may still write"
        os.kill(command.pid, signal.SIGKILL)
        os.waitpid(command.pid, 0)


def test_a_task_that_ends_takes_no_turn_from_who_is_at_work_in_it(ledger: Ledger, line: Line) -> None:
    mine = line()
    with mine.turn(PEER) as turn:
        with turns.together():
            assert turn.taken() == ""
        assert not is_free(ledger)
        mine.still()
    assert is_free(ledger)


def is_awaited(conn: Any, ledger: Ledger) -> bool:
    """SQLite has one writer anyway, and cannot be asked."""
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 20867 AND NOT granted"
    return ledger.dialect == "sqlite" or bool(conn.execute(sa.text(waits)).scalar())


def test_of_two_that_come_at_once_to_a_new_provisioner_one_is_first(
    ledger: Ledger, url: str, run: Callable[[], Holder]
) -> None:
    """There is no row yet that the second could wait for."""
    first, second = run(), replace(run(), host="other#1", run_id="their-run")
    told: list[tuple[int, str]] = []

    def comes() -> None:
        with Ledger(url) as other:
            told.append(turns.take(other, PEER, second))

    thread = threading.Thread(target=comes)
    with ledger.transaction() as conn:
        if ledger.dialect == "postgresql":
            conn.execute(sa.text("SELECT pg_advisory_xact_lock(20867, hashtext(:peer))"), {"peer": PEER})
        thread.start()
        wait_until(lambda: is_awaited(conn, ledger), bool, timeout=20, interval=0.05, wanted="the second one")
        turns._grant(conn, PEER, first, 1, ledger.now_in(conn))
    thread.join(20)
    assert len(told) == 1 and told[0][0] == 0 and first.run_id in told[0][1], told
