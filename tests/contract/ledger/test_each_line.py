# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lifeline of a task with several nodes: each has its own lease, its own intent and its own evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    EvidenceMissing,
    Fenced,
    FleetError,
    LeaseHeld,
    LeaseLost,
    NotOurs,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease, lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import VOIDS, Event

NAMES = ("n1", "n2", "n3")


@pytest.fixture
def nodes(ledger: Ledger) -> dict[str, str]:
    return {name: ledger.identify(name, aliases=[("serial", f"S-{name}")]) for name in NAMES}


Line = Callable[..., LedgerLifeline]


@pytest.fixture
def line(ledger: Ledger, nodes: dict[str, str]) -> Line:
    def make(holder: Any = None, **more: Any) -> LedgerLifeline:
        return LedgerLifeline(
            lambda: ledger,
            holder or this_run(os.getpid()),
            verb="provisioner_wait",
            intent={},
            identify=nodes.__getitem__,
            default_node="n1",
            **more,
        )

    return make


def seen(ledger: Ledger, nodes: dict[str, str], name: str, what: str = "drained") -> str:
    [number] = ledger.append("run", [(nodes[name], Event("evidence", what))])
    return f"event:{number}"


def lose(ledger: Ledger, node: str) -> None:
    """The lease goes to a run on another host."""
    with ledger.transaction() as conn:
        conn.exec_driver_sql(f"UPDATE leases SET expires = 1 WHERE node_id = '{node}'")
        lease.take_in(conn, ledger, node, Holder("theirs", "elsewhere#1", 1, 1, "boot"), node="x")


def test_t1_each_node_of_a_write_needs_evidence_of_its_own(ledger: Ledger, nodes: dict[str, str], line: Line) -> None:
    seen(ledger, nodes, "n1")
    with pytest.raises(EvidenceMissing) as caught:
        line().before_write("wipe", destructive=True, nodes=("n1", "n2"))
    assert caught.value.node == "n2"
    seen(ledger, nodes, "n2")
    assert line().before_write("wipe", destructive=True, nodes=("n1", "n2"))


def test_t1_the_evidence_of_one_write_serves_no_other_node(ledger: Ledger, nodes: dict[str, str], line: Line) -> None:
    """One task, one node after another, as a batch is sent on its way."""
    first, second = seen(ledger, nodes, "n1"), seen(ledger, nodes, "n2", "in_service")
    mine = line()
    assert mine.before_write("wipe", destructive=True, nodes=("n1",)) == first
    with pytest.raises(EvidenceMissing) as caught:
        mine.before_write("wipe", destructive=True, nodes=("n2",))
    assert caught.value.node == "n2" and "in_service" in caught.value.seen
    third = seen(ledger, nodes, "n3")
    assert mine.before_write("wipe", destructive=True, nodes=("n3",)) == third != second


@pytest.mark.parametrize("held", [(), ("n2",), ("n1", "n3"), NAMES])
@pytest.mark.parametrize("lacks", ["evidence", "maintenance"])
def test_t1_an_order_that_is_refused_for_one_node_is_recorded_of_none(
    ledger: Ledger, nodes: dict[str, str], line: Line, lacks: str, held: tuple[str, ...]
) -> None:
    """Whatever leases were taken before; it is then sent for those that have a permit, and recorded of these alone."""
    mine = line(batch=True, managed_by="ironic")
    for name in ("n1", "n3", *(("n2",) if lacks == "maintenance" else ())):
        seen(ledger, nodes, name)
    for name in ("n1", "n3", *(("n2",) if lacks == "evidence" else ())):
        ledger.append("run", [(nodes[name], Event("maintenance", "held"))])
    if held:
        mine.hold(held)
    with pytest.raises(NotOurs) as caught:
        mine.before_write("wipe all", destructive=True, nodes=NAMES)
    assert caught.value.node == "n2"
    assert set(lease.holders(ledger, list(nodes.values()))) == {nodes[name] for name in held}
    mine.before_write("wipe two", destructive=True, nodes=("n1", "n3"))
    told = {name: ledger.history(nodes[name], kinds=["intent", "note"]) for name in NAMES}
    assert {name: [event["data"]["write"] for event in events] for name, events in told.items()} == {
        "n1": ["wipe two"], "n2": [], "n3": ["wipe two"],
    }  # fmt: skip


@pytest.mark.parametrize("destructive", [True, False])
def test_t1_each_node_has_a_lease_and_an_intent_of_its_own(
    ledger: Ledger, nodes: dict[str, str], line: Line, destructive: bool
) -> None:
    for name in NAMES:
        seen(ledger, nodes, name)
    mine = line()
    mine.before_write("first", destructive=destructive, nodes=("n1",))
    mine.before_write("second", destructive=destructive, nodes=("n2", "n3"))
    assert set(lease.holders(ledger, list(nodes.values()))) == set(nodes.values())
    for name in NAMES:
        [intent] = ledger.history(nodes[name], kinds=["intent"])
        assert intent["data"]["write"] == ("first" if name == "n1" else "second")


def test_t1_a_node_that_is_written_to_again_beside_another_has_one_intent(
    ledger: Ledger, nodes: dict[str, str], line: Line
) -> None:
    mine = line()
    mine.before_write("first", destructive=False, nodes=("n1",))
    mine.before_write("second", destructive=False, nodes=("n1", "n2"))
    told = [[event["data"]["write"] for event in ledger.history(nodes[name])] for name in ("n1", "n2")]
    assert told == [["first"], ["second"]]


def test_t1_a_lease_that_is_lost_while_the_ledger_is_asked_is_not_written_past(
    ledger: Ledger, nodes: dict[str, str]
) -> None:
    """The thread beside notices it; the write that waited for its ledger must not be sent."""
    meanwhile: list[Callable[[], object]] = []

    def opened() -> Ledger:
        if meanwhile:
            meanwhile.pop()()
        return ledger

    names: dict[str, Any] = {"verb": "provisioner_wait", "intent": {}, "default_node": "n1", "batch": True}
    mine = LedgerLifeline(opened, this_run(os.getpid()), identify=nodes.__getitem__, **names)
    seen(ledger, nodes, "n1")
    assert mine.before_write("first", destructive=True)
    meanwhile += [mine.confirm, lambda: lose(ledger, nodes["n1"]) or meanwhile.pop()()]
    with pytest.raises(LeaseLost):
        mine.before_write("second", destructive=True)


def test_t1_a_node_of_another_run_stops_a_batch_that_would_write_to_it(
    ledger: Ledger, nodes: dict[str, str], line: Line
) -> None:
    mine = line()
    mine.before_write("first", destructive=False, nodes=("n1",))
    with ledger.transaction() as conn:
        lease.take_in(conn, ledger, nodes["n2"], Holder("theirs", "elsewhere#1", 1, 1, "boot"), node="n2")
    with pytest.raises(LeaseHeld):
        mine.before_write("second", destructive=False, nodes=("n1", "n2"))
    assert ledger.history(nodes["n2"]) == []


def test_t1_a_later_write_finds_that_the_lease_is_gone(
    ledger: Ledger, nodes: dict[str, str], line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifeline, "_FRESH_SECONDS", 0.0)
    mine = line()
    mine.before_write("first", destructive=False)
    lose(ledger, nodes["n1"])
    with pytest.raises(Fenced):
        mine.before_write("second", destructive=False)


def test_j2_all_that_is_too_old_is_renewed_in_one_go_and_the_write_goes_on(
    ledger: Ledger, nodes: dict[str, str], line: Line, shift: Callable[[float], None]
) -> None:
    """Before anything is recorded, and outside of any transaction: here the ledger is written to by others."""
    asked: list[tuple[str, ...]] = []

    def prove(names: Sequence[str], kind: str, from_age: float) -> dict[str, FleetError]:
        asked.append(tuple(names))
        assert (kind, from_age) == ("evidence", 60.0)
        assert ledger.history(nodes["n1"], kinds=["intent"]) == []
        for name in names:
            seen(ledger, nodes, name)
        return {}

    seen(ledger, nodes, "n1")
    seen(ledger, nodes, "n2")
    shift(600)
    third = seen(ledger, nodes, "n3")
    mine = line(prove=prove)
    assert mine.before_write("wipe", destructive=True, nodes=NAMES) != third and asked == [("n1", "n2")]
    assert mine.before_write("wipe", destructive=True, nodes=("n3",)) == third and len(asked) == 1


@pytest.mark.parametrize("error", [Unreachable("slurmctld is away"), ConfigError("no such slurm.conf"), None])
def test_j2_a_proof_that_is_not_renewed_permits_nothing(
    ledger: Ledger, nodes: dict[str, str], line: Line, shift: Callable[[float], None], error: Optional[FleetError]
) -> None:
    """Who cannot be asked for the moment is no refusal; and nobody is asked for ever."""
    asked: list[int] = []
    seen(ledger, nodes, "n1")
    shift(600)
    answer = {} if error is None else dict.fromkeys(("n1",), error)
    mine = line(prove=lambda *_given: asked.append(1) or answer)
    with pytest.raises(Unreachable if isinstance(error, Unreachable) else EvidenceMissing) as caught:
        mine.before_write("wipe", destructive=True, nodes=("n1",))
    assert caught.value.node == "n1" and (error is None or error.what in str(caught.value))
    assert len(asked) == (1 if error else 3)
    assert ledger.history(nodes["n1"], kinds=["intent"]) == []


@pytest.mark.parametrize("name", VOIDS)
def test_t1_what_was_taken_back_since_permits_no_second_write(
    ledger: Ledger, nodes: dict[str, str], line: Line, name: str
) -> None:
    first = seen(ledger, nodes, "n1")
    mine = line()
    assert mine.before_write("first", destructive=True, nodes=("n1",)) == first
    seen(ledger, nodes, "n1", name)
    with pytest.raises(EvidenceMissing):
        mine.before_write("second", destructive=True, nodes=("n1",))
    again = seen(ledger, nodes, "n1")
    assert mine.before_write("third", destructive=True, nodes=("n1",)) == again


def test_t1_a_force_is_told_once_a_node_and_after_what_was_taken_back(
    ledger: Ledger, nodes: dict[str, str], line: Line
) -> None:
    mine = line(force_reason="smoke")
    first = seen(ledger, nodes, "n1")
    assert mine.before_write("first", destructive=True, nodes=("n1",)) == first
    seen(ledger, nodes, "n1", "in_service")
    for what in ("second", "third"):
        assert mine.before_write(what, destructive=True, nodes=("n1",)) == "forced:smoke"
    assert [event["data"]["write"] for event in ledger.history(nodes["n1"], kinds=("note",))] == ["second"]
