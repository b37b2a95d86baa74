# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ledger's history says of whose a node is: orders count that may have been taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _errors as errors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import Noted, noted, ours
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds

BEGUN, SERVES = Event("state", "imaging", {"deploy_id": "d1"}), Event("state", "admitted", {})


def unset(_name: str, _host: str) -> None:
    """Of a host whose row says nothing."""


def step(state: str, write: str = "PUT x", **more: Any) -> Event:
    """On the way to a state."""
    return Event("intent", "provisioner_node", {"options": {"state": state}, "write": write, **more})


def order(state: str, **options: Any) -> Event:
    return step(state, orders=state, options={"state": state, **options})


def sent(state: str) -> Event:
    return step(state, "provisioner_node on jump")


def answer(kind: str = "", **more: Any) -> Event:
    return Event("outcome", "provisioner_node", {**({"kind": kind} if kind else {"changed": True}), **more})


def of(ledger: Ledger, *events: Event, run: str = "r1") -> Noted:
    node = ledger.identify("gpu1", aliases=[("serial", "S9")])
    ledger.append(run, [(node, event) for event in events])
    return noted(ledger, [node])[node]


def kinds(one: type[errors.FleetError]) -> Iterator[str]:
    yield one.kind
    for below in one.__subclasses__():
        yield from kinds(below) if below.__module__ == errors.__name__ else ()


def test_j7_of_every_kind_of_error_it_is_said_whether_an_order_may_have_been_taken() -> None:
    assert set(kinds(errors.FleetError)) == set(errors.NOT_TAKEN)


@pytest.mark.parametrize("kind", sorted(errors.NOT_TAKEN) + ["lost_answer", "killed"])
def test_j7_an_order_to_deploy_makes_a_node_ours_unless_it_was_not_taken(ledger: Ledger, kind: str) -> None:
    said = [] if kind == "killed" else [answer(kind)]
    found = of(ledger, BEGUN, order("deployed"), *said)
    taken = not errors.NOT_TAKEN.get(kind)
    assert found.stands is taken and found.ids == (["d1"] if taken else []), found
    again = of(ledger, order("deployed", deploy_id="d1"), run="r2")
    assert again.stands and again.ids == ["d1"], "it is ordered again as the same deployment"


def test_j7_an_order_that_names_no_deployment_is_known_by_none_until_the_next_order(ledger: Ledger) -> None:
    """A person's own play orders it, and no run has recorded that it begins; the record bears no id then."""
    of(ledger, BEGUN, order("deployed"), answer(), SERVES)
    assert of(ledger, order("released"), answer(), order("deployed"), answer(), run="r2").known_ids == ["d1", ""]
    assert of(ledger, order("released"), answer(), run="r3").ids == ["d1"], "who deploys it now does so without an id"
    refused = of(ledger, order("deployed"), answer("refused"), run="r4")
    assert not refused.stands and refused.ids == ["d1"], refused
    assert of(ledger, sent("deployed"), answer("unreachable"), run="r5").ids == ["d1"], "nobody knows that it was given"
    assert of(ledger, sent("deployed"), answer(ordered="deployed"), run="r6").known_ids == ["d1", ""]


@pytest.mark.parametrize("said", [[], [answer()], [answer(begun="commission", ordered="")], [answer("unreachable")]])
def test_j7_a_step_before_the_order_makes_no_node_ours_and_ends_nothing(ledger: Ledger, said: list[Event]) -> None:
    """Whatever somebody else deploys then, also where our note of what was to be lies there."""
    found = of(ledger, BEGUN, step("deployed"), *said)
    assert not found.stands and not found.ids, found
    assert of(ledger, SERVES, step("deployed"), *said).stands and of(ledger, step("released"), *said).stands
    assert not of(ledger, order("released"), step("deployed"), *said, run="r2").stands


ADOPTED = Event("state", "admitted", {"adopted": True, "provisioner_stamp": "s1"})


@pytest.mark.parametrize("again", [step("rescued"), sent("rescued")])
def test_j7_an_order_that_was_refused_ends_no_work_that_an_earlier_one_began(ledger: Ledger, again: Event) -> None:
    assert of(ledger, step("rescued"), answer(), again, answer("refused")).works == {"rescued"}
    assert of(ledger, step("unrescued"), answer("refused")).works == {"rescued"}
    assert of(ledger, ADOPTED, step("rescued"), step("rescued"), answer("refused")).works == {"rescued"}, "or may have"
    of(ledger, ADOPTED, step("rescued"), run="r2")
    of(ledger, step("rescued"), answer(), run="r3")
    assert of(ledger, answer("refused"), run="r2").works == {"rescued"}, "it is the other order's"
    assert of(ledger, ADOPTED, step("rescued"), answer("refused"), run="r4").works == set()


def test_j7_work_that_we_began_since_a_node_was_adopted_is_known_until_we_end_it(ledger: Ledger) -> None:
    assert of(ledger, step("rescued"), answer(), ADOPTED).works == set(), "it was adopted as it is since"
    assert of(ledger, step("rescued"), answer("refused")).works == set()
    assert of(ledger, sent("rescued")).works == set(), "nobody told that it was begun"
    assert of(ledger, step("rescued")).works == {"rescued"}, "the run was killed, and it may have been taken"
    assert of(ledger, answer("unreachable")).works == {"rescued"}
    assert of(ledger, step("unrescued"), answer("unreachable")).works == {"rescued", "unrescued"}
    assert of(ledger, step("unrescued"), answer()).works == {"unrescued"}, "who rescues it now is somebody else"
    assert of(ledger, sent("serviced"), answer(), step("tested"), answer()).works == {"serviced", "unrescued"}
    assert of(ledger, order("deployed", deploy_id="d1"), answer()).works == set()


def test_j7_a_deployment_that_ends_on_the_way_to_the_next_one_is_ours_no_more(ledger: Ledger) -> None:
    """The run ends between the two, and somebody else deploys it."""
    assert not of(ledger, BEGUN, order("deployed"), answer(), SERVES, step("deployed", orders="released")).stands


@pytest.mark.parametrize(("told", "stands"), [
    ([], False), ([answer()], False), ([answer("refused")], False), ([answer("unreachable")], False),
    ([answer(ordered="deployed")], True), ([answer("unreachable", ordered="deployed")], True),
    ([answer(ordered="released"), answer(ordered="deployed")], True), ([answer(ordered="released")], False),
    ([answer(ordered="deployed"), answer("auth")], True),
])  # fmt: skip
def test_j7_an_order_that_went_elsewhere_counts_once_it_is_told(
    ledger: Ledger, told: list[Event], stands: bool
) -> None:
    found = of(ledger, BEGUN, sent("deployed"), *told)
    assert found.stands is stands and found.ids == ([] if told == [answer("refused")] else ["d1"]), found


@pytest.mark.parametrize("kind", ["refused", "auth", "config", "fenced"])
def test_j7_a_release_that_was_not_taken_ends_nothing(ledger: Ledger, kind: str) -> None:
    found = of(ledger, BEGUN, order("deployed"), answer(), SERVES, order("released"), answer(kind))
    assert found.stands and found.ids == ["d1"]
    assert not of(ledger, order("released"), answer("unreachable")).stands, "it may have been"


def test_j7_what_was_refused_takes_back_that_order_alone(ledger: Ledger) -> None:
    """As a release that was taken, a deployment that was not, and a maintenance."""
    assert not of(ledger, SERVES, order("released"), answer(), order("deployed"), answer("refused")).stands
    assert of(ledger, order("deployed"), answer(), order("maintenance"), answer("refused")).stands


def test_j7_what_went_wrong_after_the_order_was_taken_takes_nothing_back(ledger: Ledger) -> None:
    assert of(ledger, BEGUN, order("deployed"), answer("refused", begun="deploy")).stands


BACK = ["imaging", "validating", "admitted", "drained", "retired", "discovered"]


def test_j7_a_machine_that_was_retired_and_comes_back_is_a_new_one(ledger: Ledger) -> None:
    def told(*states: str) -> tuple[bool, bool, dict[str, Any]]:
        for state in states:
            ledger.append("r1", [(node, Event("state", state, {"deploy_id": state}))])
        known = holds(ledger, {"gpu1": node}, unset)["gpu1"]
        return known["known_admitted"], node in ours(ledger, [node]), status(ledger, {"gpu1": node})["gpu1"]

    node = ledger.identify("gpu1", aliases=[("serial", "S9")])
    admitted, here, one = told(*BACK[:4])
    assert admitted and here and one["admitted_before"] and one["deploy_id"] == "imaging" and one["imaging_at"]
    admitted, here, one = told(*BACK[4:])
    assert not admitted and not here and not one["admitted_before"], one
    assert (one["deploy_id"], one["imaging_at"]) == ("", 0.0) and ".day0_bringup " in one["next"], one
    assert ".day0_bringup " in told("imaging")[2]["next"], "until it is admitted"
    admitted, here, one = told("validating", "admitted")
    assert admitted and here and one["admitted_before"]


# -- where it is ---------------------------------------------------------------------------------------------------

A, B = ({"provisioner": "maas", "url": f"https://{name}/MAAS", "cloud": ""} for name in ("maas1", "maas2"))
AT_A, AT_B = {"provisioner_place": A}, {"provisioner_place": B}


def test_r3_an_order_says_where_a_node_is_until_that_is_given_back(ledger: Ledger) -> None:
    assert of(ledger, BEGUN, order("deployed", **AT_B)).place == {}, "an option is no place"
    there = {**A, "tells": "d1"}
    assert of(ledger, step("deployed", orders="deployed", **AT_A), answer(ordered="deployed")).place == there
    assert of(ledger, SERVES).place == there, "it is admitted where it is"
    assert of(ledger, step("deployed", **AT_B), answer()).place == there, "a step is no order"
    assert of(ledger, step("deployed", orders="deployed", **AT_B), answer("refused")).place == there
    assert of(ledger, step("released", orders="released", **AT_A), answer()).place == {}


def test_r3_what_went_elsewhere_is_where_it_was_sent_to(ledger: Ledger) -> None:
    sent_there = step("deployed", "provisioner_node on jump", **AT_A)
    assert of(ledger, BEGUN, sent_there, answer(ordered="deployed")).place == {**A, "tells": "d1"}


def test_r3_an_adoption_says_where_a_node_is_and_one_without_a_record_does_not(ledger: Ledger) -> None:
    told = {"adopted": True, "provisioner_stamp": "s1", **AT_A}
    assert of(ledger, Event("state", "admitted", told)).place == {**A, "tells": "s1"}
    assert of(ledger, Event("state", "retired")).place == {}
    nowhere = {"adopted": True, "provisioner_record": "absent"}
    assert of(ledger, Event("state", "admitted", nowhere)).place == {}


def test_r3_a_new_name_is_the_place_from_then_on_and_a_move_is_none(ledger: Ledger) -> None:
    renamed = Event("provisioner", "renamed", {"from": A, "to": B})
    there = of(ledger, BEGUN, step("deployed", orders="deployed", **AT_A), answer(ordered="deployed"), renamed)
    assert there.stands and there.place == {**B, "tells": "d1"} and there.ids == ["d1"]
    assert of(ledger, Event("provisioner", "moved", {"from": A, "to": B})).place == {}
    assert of(ledger, SERVES).place == {}, "an order of then says nothing any more"


def test_r3_of_an_older_release_nothing_is_noted(ledger: Ledger) -> None:
    found = of(ledger, BEGUN, order("deployed"), answer(ordered="deployed"), SERVES)
    assert found.stands and found.place == {}
