# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The turn to write to a provisioner, among all controllers of one ledger."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until

PEER = "warewulf 1234"
Line = Callable[..., LedgerLifeline]


@pytest.fixture(autouse=True)
def _nobodys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(turns, "_PEERS", {})
    yield
    assert turns._TOGETHER == []


@pytest.fixture
def elsewhere(run: Callable[[], Holder]) -> Holder:
    """A worker of a controller on another machine."""
    return replace(run(), host="other#1", run_id="their-run")


def row(ledger: Ledger) -> dict[str, Any]:
    [found] = ledger._rows("SELECT * FROM turns")
    return found


def is_free(ledger: Ledger) -> bool:
    return bool(row(ledger)["expires"] <= ledger.now())


def test_one_controller_at_a_time_and_the_other_one_is_told_who(ledger: Ledger, line: Line, elsewhere: Holder) -> None:
    assert turns.take(ledger, PEER, elsewhere) == (1, "")
    mine = line()
    with mine.turn(PEER) as turn:
        whose = turn.taken()
        assert whose.startswith(f"their-run, process {elsewhere.pid} on other, renewed "), whose
        turns.end(ledger, PEER, 1)
        wait_until(turn.taken, lambda whose: not whose, timeout=30, interval=0.05, wanted="the turn")
        assert turn.taken() == "" and row(ledger)["pid"] == os.getpid()
        assert "on" in turns.take(ledger, PEER, elsewhere)[1]
        with mine.turn("warewulf 5678") as other:
            assert other.taken() == "", "another provisioner has turns of its own"
    assert all(one["expires"] <= ledger.now() for one in ledger._rows("SELECT * FROM turns"))


def test_two_threads_of_one_worker_have_one_after_the_other(ledger: Ledger, line: Line) -> None:
    with line().turn(PEER) as first, line().turn(PEER) as second:
        assert first.taken() == "" and second.taken() == "another host of this task"
        first.left()  # type: ignore[attr-defined]
        assert second.taken() == "" and row(ledger)["number"] == 2


def test_that_of_a_dead_worker_is_taken_over_at_once_here_and_by_its_time_elsewhere(
    ledger: Ledger, run: Callable[[], Holder], elsewhere: Holder, shift: Callable[[float], None]
) -> None:
    dead, other = run(), run()
    assert turns.take(ledger, PEER, dead) == (1, "")
    os.kill(dead.pid, signal.SIGKILL)
    os.waitpid(dead.pid, 0)
    assert turns.take(ledger, PEER, elsewhere)[1], "nobody sees there that it is dead"
    assert turns.take(ledger, PEER, other) == (2, "")
    shift(59)
    assert turns.take(ledger, PEER, elsewhere)[1]
    shift(61)
    assert turns.take(ledger, PEER, elsewhere) == (3, "")


def test_who_slept_through_somebody_elses_turn_writes_nothing_more(
    ledger: Ledger, line: Line, elsewhere: Holder, impatient: None, monkeypatch: Any, shift: Callable[[float], None]
) -> None:
    monkeypatch.setattr(turns, "_FRESH_SECONDS", 0.0)
    mine = line()
    mine.hold(["gpu001"])
    with mine.turn(PEER) as turn:
        assert turn.taken() == ""
        mine.still(["gpu001"])
        number = row(ledger)["number"]
        with ledger.transaction() as conn:
            conn.exec_driver_sql("UPDATE turns SET expires = 0")
        assert not turns.renew(ledger, PEER, mine._holder, number), "somebody else may have had it since"
        assert turns.take(ledger, PEER, elsewhere) == (number + 1, "")
        with pytest.raises(Unreachable, match="turn to write was lost") as caught:
            mine.before_write("PATCH", destructive=False, nodes=("gpu001",))
        assert not caught.value.of_peer, "the provisioner is not away for that"
    assert row(ledger)["run_id"] == "their-run" and not is_free(ledger), "theirs is not ended by us"


def test_it_is_renewed_while_one_write_lasts(ledger: Ledger, line: Line, monkeypatch: Any) -> None:
    monkeypatch.setattr(turns, "_RENEW_SECONDS", 0.0)
    monkeypatch.setattr(turns, "_BEAT_SECONDS", 0.05)
    with line().turn(PEER) as turn:
        assert turn.taken() == ""
        before = row(ledger)["renewed"]
        wait_until(lambda: row(ledger)["renewed"], lambda seen: seen > before, timeout=30, interval=0.05, wanted="it")


def test_it_ends_with_its_worker_but_where_a_command_has_outlived_it_and_not_with_its_run(
    ledger: Ledger, line: Line, run: Callable[[], Holder], elsewhere: Holder, shift: Callable[[float], None]
) -> None:
    mine = line()
    with mine.turn(PEER) as turn:
        assert turn.taken() == ""
        lease.end_all(ledger, mine._holder)
        assert not is_free(ledger), "its worker lives, and may be at a write"
    assert is_free(ledger)
    dead = replace(run(), run_id=mine._holder.run_id)
    assert turns.take(ledger, PEER, dead)[1] == ""
    os.kill(dead.pid, signal.SIGKILL)
    os.waitpid(dead.pid, 0)
    lease.end_all(ledger, mine._holder)
    assert turns.take(ledger, PEER, elsewhere)[1], "a command that a killed worker has begun may go on"
    goes_on, over = run(), run()
    for command in (goes_on, over):
        with mine.turn(PEER) as turn:
            assert turn.taken() == ""
            turn.outlived(command.pid)
        lease.end_all(ledger, mine._holder)
        assert turns.take(ledger, PEER, elsewhere)[1], "what goes on there may still write"
        with mine.turn(PEER) as turn:
            assert f"process {command.pid} on" in turn.taken(), "here too, while it lives"
            os.kill(command.pid, signal.SIGKILL)
            os.waitpid(command.pid, 0)
            assert turns.take(ledger, PEER, elsewhere)[1], "nobody sees there that it has ended"
            wait_until(turn.taken, lambda whose: not whose, timeout=30, interval=0.05, wanted="the turn")
    with mine.turn(PEER) as turn:
        assert turn.taken() == ""
        turn.outlived(over.pid)
    assert turns.take(ledger, PEER, elsewhere)[1], "it had ended by then, and what it has begun may not have"
    shift(270)
    lease.end_all(ledger, mine._holder)
    assert turns.take(ledger, PEER, elsewhere)[1], "its last minute is no lease's"
    shift(301)
    assert turns.take(ledger, PEER, elsewhere)[1] == ""


def _turns(line: Line, count: int) -> None:
    for _number in range(count):
        with line().turn(PEER) as turn:
            wait_until(turn.taken, lambda whose: not whose, timeout=30, interval=0.05, wanted="the turn")


def test_a_task_for_all_hosts_takes_it_once(ledger: Ledger, line: Line) -> None:
    with turns.together():
        _turns(line, 4)
        assert row(ledger)["number"] == 1 and not is_free(ledger)
    assert is_free(ledger)
    _turns(line, 2)
    assert row(ledger)["number"] == 3, "each host's own task has one of its own"


def test_a_task_for_all_hosts_makes_way_for_who_waits(
    ledger: Ledger, line: Line, elsewhere: Holder, monkeypatch: Any
) -> None:
    monkeypatch.setattr(turns, "_OURS_SECONDS", 0.0)
    with turns.together():
        _turns(line, 1)
        assert turns.take(ledger, PEER, elsewhere)[1]
        monkeypatch.setattr(turns, "_ASK_SECONDS", 0.0)
        with line().turn(PEER) as turn:
            assert turn.taken() == ""
        assert is_free(ledger)
        with line().turn(PEER) as turn:
            assert "made way" in turn.taken(), "who makes way is not the next one"
        assert turns.take(ledger, PEER, elsewhere) == (2, "")
        turns.end(ledger, PEER, 2)
        _turns(line, 1)
    assert row(ledger)["number"] == 3 and is_free(ledger)


def test_one_that_rested_too_long_is_taken_anew(
    ledger: Ledger, line: Line, elsewhere: Holder, monkeypatch: Any
) -> None:
    monkeypatch.setattr(turns, "_FRESH_SECONDS", 0.0)
    with turns.together():
        _turns(line, 1)
        with ledger.transaction() as conn:
            conn.exec_driver_sql("UPDATE turns SET expires = 0")
        assert turns.take(ledger, PEER, elsewhere) == (2, "")
        with line().turn(PEER) as turn:
            assert "their-run" in turn.taken()
    assert row(ledger)["run_id"] == "their-run" and not is_free(ledger)
