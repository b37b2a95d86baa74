# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of other slices and controllers: which of them count, and in which budgets."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import budget, elsewhere, plan
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import FLEET, Limit, Member

TAKEN, RELEASED = (Event("hold", name, {"hold_token": "gpufleet:r:keep"}) for name in ("taken", "released"))


def state(name: str) -> Event:
    return Event("state", name, {"reason": "x"})


@pytest.mark.parametrize(
    ("events", "out"),
    [
        ([state("admitted")], False),
        ([state("admitted"), state("quarantined")], True),
        ([state("admitted"), state("draining")], True),
        ([state("admitted"), TAKEN], True),
        ([state("admitted"), TAKEN, RELEASED], False),
        ([state("admitted"), TAKEN, state("draining"), state("admitted")], False),
        ([state("enrolled")], None),
        ([state("enrolled"), state("imaging")], None),
        ([state("enrolled"), state("imaging"), state("quarantined")], None),
        ([state("admitted"), state("imaging")], True),
        ([state("admitted"), state("retired"), state("enrolled"), state("imaging")], None),
        ([state("admitted"), state("retired")], None),
        ([], None),
    ],
)
def test_who_served_once_counts_and_is_out_by_the_ledger(tmp_path: Path, events: list[Event], out: bool | None) -> None:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        here, there = (ledger.identify(name, aliases=[("serial", name)]) for name in ("gpu001", "gpu002"))
        ledger.append("r", [(here, state("quarantined")), *((there, event) for event in events)])
        found = elsewhere.others(ledger, [here])
        assert [(one.name, one.out) for one in found] == ([] if out is None else [("gpu002", out)])
        assert elsewhere.others(ledger, [here, there]) == []


def test_a_hold_is_not_lifted_by_a_look_from_before_it(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "S1")])
        [begun, _taken] = ledger.append("r", [(node, state("admitted")), (node, TAKEN)])
        ledger.append("late", [(node, Event("hold", "released", Moment(begun).as_data()))])
        assert [one.out for one in elsewhere.others(ledger, [])] == [True]
        ledger.append("since", [(node, Event("hold", "released", ledger.moment().as_data()))])
        assert [one.out for one in elsewhere.others(ledger, [])] == [False]


def fleet(size: int, **domains: str) -> list[Member]:
    own = ((FLEET, ""), *domains.items())
    return [Member(f"gpu{number}", domains=own) for number in range(size)]


def other(name: str, out: bool, *domains: tuple[str, str]) -> elsewhere.Other:
    return elsewhere.Other(name, name, 1, out, domains)


@pytest.mark.parametrize(
    ("limit", "outs", "goes"),
    [
        (Limit(nodes=4), 2, 2),
        (Limit(nodes=4), 4, 0),
        (Limit(nodes=4), 0, 4),
        # Of 10 here and 30 there: one here, and four in all.
        (Limit(percent=10), 3, 1),
        (Limit(percent=10), 4, 0),
    ],
)
def test_four_slices_have_one_budget(limit: Limit, outs: int, goes: int) -> None:
    limits = {FLEET: limit}
    others = elsewhere.members([other(f"n{number}", number < outs) for number in range(30)], (), limits)
    own = elsewhere.beside(fleet(10), others)
    rooms = budget.rooms(own, limits, others)
    assert len(plan.fitting(own, rooms, 10)) == goes and rooms[FLEET, "with other inventories"].total == 40


def test_what_another_run_is_about_to_take_is_out_and_a_domain_has_whom_it_is_told_of() -> None:
    limits = {FLEET: Limit(nodes=9), "rack": Limit(nodes=1)}
    found = [other("n1", False, ("rack", "a"), ("pdu", "7")), other("n2", True, ("rack", "b"))]
    for promised, left in (((), 1), (("n1",), 0)):
        others = elsewhere.members(found, promised, limits)
        rooms = budget.rooms(elsewhere.beside(fleet(2, rack="a"), others), limits, others)
        assert rooms["rack", "a with other inventories"].left == left and rooms["rack", "a"].left == 1
        assert {key for key, _value in rooms} == {FLEET, "rack"} and len(rooms) == 4
    with pytest.raises(ConfigError, match="no node of the fleet has rack"):
        budget.rooms(elsewhere.beside(fleet(2), others), limits, others)


def test_nodes_that_are_gone_let_no_more_of_those_that_are_left_go() -> None:
    """A rack of six, of which four were taken down and stand in the ledger as they did."""
    limits = {"rack": Limit(percent=50)}
    others = elsewhere.members([other(f"n{number}", False, ("rack", "a")) for number in range(4)], (), limits)
    own = elsewhere.beside([Member(f"gpu{number}", domains=(("rack", "a"),)) for number in range(2)], others)
    assert len(plan.fitting(own, budget.rooms(own, limits, others), 2)) == 1


def test_what_is_told_of_a_place_is_what_changed_and_takes_nothing_else_back() -> None:
    own = [
        Member("gpu1", domains=((FLEET, ""), ("rack", "a"))),
        Member("gpu2", domains=((FLEET, ""),)),
    ]
    assert elsewhere.to_tell(own, {}, ["fleet", "rack"]) == {"gpu1": (("rack", "a"),)}
    told = {"gpu1": (("pdu", "7"), ("rack", "b")), "gpu2": (("rack", "b"),)}
    assert elsewhere.to_tell(own, told, ["fleet", "rack"]) == {"gpu1": (("pdu", "7"), ("rack", "a")), "gpu2": ()}
    assert elsewhere.to_tell(own, {"gpu1": (("rack", "a"),), "gpu2": (("pdu", "7"),)}, ["fleet", "rack"]) == {}
