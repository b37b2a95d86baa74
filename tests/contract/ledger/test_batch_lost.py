# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch whose leases are refused, lost, or renewed by nobody any more: who sees it, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Fenced, LeaseLost
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from contract.ledger.leased import HOSTS, steal, take


def test_however_many_are_refused_the_leases_of_a_batch_are_taken_at_once(
    ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline], run: Callable[[], Holder]
) -> None:
    """Taken one after the other, the first of a big batch expire before the last ones are there."""
    take(ledger, ids["gpu001"], run())
    take(ledger, ids["gpu003"], run())
    before = {row["node_id"]: row for row in lease.holders(ledger, list(ids.values())).values()}
    opened: list[Any] = []
    sa.event.listen(ledger._engine, "begin", opened.append)
    mine = line(batch=True)
    refused = mine.hold_each(HOSTS)
    assert set(refused) == {"gpu001", "gpu003"} and all("another run works on" in one for one in refused.values())
    assert len(opened) == 1
    after = lease.holders(ledger, list(ids.values()))
    assert all(after[ids[host]] == before[ids[host]] for host in refused)
    assert after[ids["gpu002"]]["run_id"] == mine._holder.run_id


def test_t4_a_batch_of_any_size_needs_room_for_few_locks_and_its_first_leases_last(
    ledger: Ledger,
    ids: dict[str, str],
    line: Callable[..., LedgerLifeline],
    run: Callable[[], Holder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PostgreSQL keeps a lock for each node of a transaction, in a table that is full at some ten thousand."""
    monkeypatch.setattr(lifeline, "_AT_ONCE", 1)
    take(ledger, ids["gpu002"], run())
    opened: list[Any] = []
    sa.event.listen(ledger._engine, "begin", opened.append)
    assert list(line(batch=True).hold_each(HOSTS)) == ["gpu002"]
    assert len(opened) == len(HOSTS)
    steal(ledger, ids["gpu002"], run())
    for host in ("gpu001", "gpu003"):
        with ledger.transaction() as conn:
            conn.execute(sa.text("UPDATE leases SET expires = 1 WHERE node_id = :node"), {"node": ids[host]})
    monkeypatch.setattr(lifeline, "_RENEW_SECONDS", -1.0)
    assert list(line(batch=True).hold_each(HOSTS)) == ["gpu002"]
    rows = lease.holders(ledger, list(ids.values()))
    assert rows[ids["gpu001"]]["renewed"] >= rows[ids["gpu003"]]["renewed"], "the first is renewed while others come"


def test_a_lost_node_is_refused_to_a_batch_that_asks_for_it_again(
    ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline], run: Callable[[], Holder]
) -> None:
    mine = line(batch=True)
    mine.hold_each(HOSTS)
    steal(ledger, ids["gpu002"], run())
    assert list(mine.confirm()) == ["gpu002"]
    assert list(mine.hold_each(HOSTS)) == ["gpu002"]


class Attentive(LedgerLifeline):
    """Sees what everybody could see at the moment at which the leases count as looked at."""

    known: tuple[dict[str, str], ...] = ()

    @property
    def _checked(self) -> float:
        return self.__dict__.get("checked", 0.0)

    @_checked.setter
    def _checked(self, at: float) -> None:
        self.known += (dict(self.lost()),)
        self.__dict__["checked"] = at


def test_who_sees_that_the_leases_were_looked_at_sees_the_losses(
    ledger: Ledger, ids: dict[str, str], run: Callable[[], Holder]
) -> None:
    """A write that came between the two would be sent to a node of another run."""
    mine = Attentive(
        lambda: ledger, run(), identify=ids.__getitem__, verb="node_wait", intent={}, default_node="", batch=True
    )
    mine.hold_each(HOSTS)
    steal(ledger, ids["gpu002"], run())
    mine.known = ()
    mine.confirm()
    assert mine.known and all(list(lost) == ["gpu002"] for lost in mine.known)


class Odd(Exception):
    """What no part of the ledger is known to raise."""


@pytest.mark.parametrize("batch", [True, False])
def test_what_ends_the_renewing_unforeseen_ends_the_leases_and_is_told(
    ledger: Ledger, ids: dict[str, str], line: Callable[..., LedgerLifeline], impatient: None, batch: bool
) -> None:
    """The thread is gone and nobody renews: the body must not go on for hours as if somebody did."""

    def broken() -> Ledger:
        raise Odd("the disk melted")

    mine = line(batch=batch)
    mine.hold(HOSTS)
    ctx = Context(lifeline=mine)
    written: list[Any] = []

    def body() -> None:
        ctx.wait(mine.lost, bool, timeout=20, interval=0.05, wanted="the loss noticed")
        written.append(mine.lost())
        with pytest.raises(LeaseLost, match="Odd: the disk melted"):
            ctx.may_write("POST /off", nodes=("gpu002",))

    if batch:
        with mine.renewing(broken):
            body()
        assert set(written[0]) == set(HOSTS) and all("the disk melted" in one for one in written[0].values())
        return
    with pytest.raises(Fenced, match="Odd: the disk melted"), mine.renewing(broken):
        with pytest.raises(Fenced):
            body()
        with pytest.raises(Fenced):
            ctx.may_write("POST /off", nodes=("gpu002",))
    assert not written
