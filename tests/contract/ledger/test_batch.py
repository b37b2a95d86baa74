# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leases of a batch: taken together, renewed beside a poll that lasts, and each lost alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    Fenced,
    FleetError,
    LeaseHeld,
    LeaseLost,
    NotOurs,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from contract.ledger.leased import HOSTS, steal, take


def ends(ledger: Ledger, ids: dict[str, str]) -> float:
    """When the first of these leases ends."""
    return min(row["expires"] for row in lease.holders(ledger, list(ids.values())).values())


def until(true: Callable[[], object]) -> None:
    wait_until(true, bool, timeout=60, interval=0.05, wanted="it")


# -- what a node is asked for ------------------------------------------------------------------------------------------


def test_t1_every_node_of_a_forced_write_has_its_note(
    ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline]
) -> None:
    line(force_reason="burning").before_write("POST /off", destructive=True, nodes=HOSTS)
    assert set(ledger.latest(list(ids.values()), "note")) == set(ids.values())


def test_maintenance_is_asked_for_node_by_node_and_also_of_a_lease_taken_before(
    ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline]
) -> None:
    ledger.append("run", [(ids["gpu001"], Event("maintenance", "held"))])
    mine = line(managed_by="ironic")
    mine.hold(HOSTS)
    mine.before_write("POST /boot", destructive=False, nodes=("gpu001",))
    with pytest.raises(NotOurs, match="ironic"):
        mine.before_write("POST /boot", destructive=False, nodes=("gpu002",))


# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_node_of_another_run_is_refused_alone(
    ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline], run: Callable[[], Holder]
) -> None:
    other = run()
    take(ledger, ids["gpu002"], other)
    refused = line(batch=True).hold_each(HOSTS)
    assert list(refused) == ["gpu002"] and other.run_id in refused["gpu002"]
    held = lease.holders(ledger, list(ids.values()))
    assert held[ids["gpu002"]]["run_id"] == other.run_id
    assert held[ids["gpu001"]]["run_id"] == held[ids["gpu003"]]["run_id"] != other.run_id


@pytest.mark.usefixtures("impatient")
def test_j5_one_poll_may_last_longer_than_a_lease(
    url: str, ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline], run: Callable[[], Holder]
) -> None:
    mine, other = line(batch=True), run()
    mine.hold_each(HOSTS)
    with mine.renewing(lambda: Ledger(url)):  # nothing beats in here: as a command that blocks
        for _turn in range(3):
            last = ends(ledger, ids)
            until(lambda last=last: ends(ledger, ids) > last)  # type: ignore[misc]
        for host in HOSTS:
            with pytest.raises(LeaseHeld):
                take(ledger, ids[host], other)
    assert mine.lost() == {}


@pytest.mark.usefixtures("impatient")
def test_j5_a_lease_that_is_lost_closes_its_own_node_alone(
    url: str, ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline], run: Callable[[], Holder]
) -> None:
    mine, thief = line(batch=True), run()
    mine.hold_each(HOSTS)
    ctx = Context(lifeline=mine)
    steal(ledger, ids["gpu002"], thief)
    with mine.renewing(lambda: Ledger(url)):
        ctx.wait(mine.lost, bool, timeout=30, interval=0.1, wanted="the loss noticed")
        assert list(mine.lost()) == ["gpu002"] and thief.run_id in mine.lost()["gpu002"]
        with pytest.raises(LeaseLost):
            ctx.may_write("POST /off", nodes=("gpu002",))
        assert ctx.may_write("POST /on", nodes=("gpu001",)) and ctx.may_write("POST /on", nodes=("gpu003",))
    assert lease.holders(ledger, [ids["gpu002"]])[ids["gpu002"]]["run_id"] == thief.run_id
    assert ledger.latest([ids["gpu002"]], "intent") == {}


def test_a_write_notices_the_loss_before_any_thread_does(
    ledger: Ledger,
    ids: dict[str, str],
    line: Callable[..., LedgerLifeline],
    run: Callable[[], Holder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that slept may wake up in the middle of a poll, long before its next beat."""
    mine = line(batch=True)
    mine.hold_each(HOSTS)
    steal(ledger, ids["gpu002"], run())
    monkeypatch.setattr(lifeline, "_FRESH_SECONDS", 0.0)
    mine.before_write("POST /on", destructive=False, nodes=("gpu001",))
    with pytest.raises(LeaseLost):
        mine.before_write("POST /off", destructive=False, nodes=("gpu002",))


def test_a_new_lease_is_no_look_at_the_others(
    ledger: Ledger,
    ids: dict[str, str],
    line: Callable[..., LedgerLifeline],
    run: Callable[[], Holder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that slept takes another node's lease at once; that says nothing of those that it held before."""
    mine = line(batch=True)
    mine.hold(("gpu001",))
    steal(ledger, ids["gpu001"], run())
    long_ago = time.monotonic() - 3600
    monkeypatch.setattr(mine, "_checked", long_ago)
    mine.before_write("POST /on", destructive=False, nodes=("gpu002",))
    with pytest.raises(LeaseLost):
        mine.before_write("POST /off", destructive=False, nodes=("gpu001",))


def test_a_task_of_one_node_ends_with_its_lease(
    ledger: Ledger,
    ids: dict[str, str],
    line: Callable[..., LedgerLifeline],
    run: Callable[[], Holder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = line()
    mine.hold(("gpu001",))
    steal(ledger, ids["gpu001"], run())
    monkeypatch.setattr(lifeline, "_FRESH_SECONDS", 0.0)
    with pytest.raises(Fenced):
        mine.before_write("POST /off", destructive=False)


def test_the_beating_thread_stops_with_its_run(
    url: str, ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline], impatient: None
) -> None:
    mine = line(batch=True, parent=1)  # an orphan's
    with pytest.raises(Fenced), mine.renewing(lambda: Ledger(url)):
        time.sleep(0.5)


class Doors:
    """Opens the ledger, unless something is in the way: one problem a turn."""

    def __init__(self, ledger: Callable[[], Ledger], *problems: FleetError) -> None:
        self._ledger = ledger
        self.problems = list(problems)

    def __call__(self) -> Ledger:
        if self.problems:
            raise self.problems.pop(0)
        return self._ledger()


@pytest.mark.parametrize("problem", [Unreachable("away"), DeadlineExceeded("locked"), BadAnswer("odd")])
def test_a_ledger_that_is_away_for_a_moment_ends_no_wait(
    url: str,
    ledger: Ledger,
    ids: dict[str, str],
    line: Callable[..., LedgerLifeline],
    impatient: None,
    problem: FleetError,
) -> None:
    """The wait goes on; whoever writes meanwhile asks the ledger itself."""
    doors = Doors(lambda: Ledger(url), problem, problem)
    mine = line(batch=True)
    mine.hold_each(HOSTS)
    last = ends(ledger, ids)
    with mine.renewing(doors):
        until(lambda: ends(ledger, ids) > last)
    assert not doors.problems and mine.lost() == {}


def test_the_beating_thread_of_one_node_ends_with_its_lease(
    url: str,
    ledger: Ledger,
    ids: dict[str, str],
    line: Callable[..., LedgerLifeline],
    run: Callable[[], Holder],
    impatient: None,
) -> None:
    mine = line()
    mine.hold(("gpu001",))
    steal(ledger, ids["gpu001"], run())
    with pytest.raises(Fenced, match="no longer ours"), mine.renewing(lambda: Ledger(url)):
        time.sleep(0.5)


def test_the_waits_own_beat_asks_no_ledger_while_the_thread_renews_and_a_write_does(
    ids: dict[str, str], ledger: Ledger, run: Callable[[], Holder], impatient: None
) -> None:
    doors = Doors(lambda: ledger)
    mine = LedgerLifeline(
        doors, run(), identify=ids.__getitem__, verb="node_wait", intent={}, default_node="gpu001", batch=True
    )
    mine.hold_each(HOSTS)
    away = [Unreachable("away")] * 100
    doors.problems = list(away)
    time.sleep(0.2)  # more than one renewal
    with mine.renewing(Doors(lambda: ledger, *away)):
        mine.beat()
        assert doors.problems == away
        with pytest.raises(Unreachable):
            mine.before_write("POST /on", destructive=False, nodes=("gpu001",))
    with pytest.raises(Unreachable):
        mine.beat()


def test_a_loss_that_nobody_noticed_is_found_before_a_wait_ends(
    ledger: Ledger, ids: dict[str, str], run: Callable[[], Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    doors = Doors(lambda: ledger)
    mine = LedgerLifeline(
        doors, run(), identify=ids.__getitem__, verb="node_wait", intent={}, default_node="gpu001", batch=True
    )
    assert mine.confirm() == {}
    mine.hold_each(HOSTS)
    steal(ledger, ids["gpu002"], run())
    assert mine.lost() == {}
    doors.problems = [Unreachable("away")]
    assert list(mine.confirm()) == ["gpu002"], "a ledger that is away for a moment is asked again"
    monkeypatch.setattr(lifeline, "_CONFIRM_SECONDS", 0.0)
    doors.problems = [Unreachable("away")]
    with pytest.raises(Unreachable):
        mine.confirm()
