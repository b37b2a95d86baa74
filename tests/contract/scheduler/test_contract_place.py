# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scheduler it is that says all this: a site has others, with nodes of the same names."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from contract.scheduler.verbs import RUN, TOKEN, events, node, verdict, wait

ELSEWHERE = {"known_cluster": "slurm elsewhere", "known_scheduler_at": "https://elsewhere.example.com"}


def test_r5_every_view_says_which_scheduler_it_is_of(keeper: Any) -> None:
    """Of a node that it does not know as well: its absence proves nothing of another one's."""
    first, second = keeper.names[:2]
    views = [*keeper.open().states([first, keeper.unknown]).values(), keeper.open().states([second])[second]]
    (place,) = {one.place for one in views}
    assert place != Place() and not place.is_other(place)


def test_r5_a_node_of_this_name_in_another_cluster_is_another_machines(keeper: Any) -> None:
    """The row, or a file that it names, leads to the scheduler of other machines, whose node of this name is free."""
    name = keeper.names[0]
    known = {**ELSEWHERE, "known_scheduler_node": name}
    for one, states in ((name, ("present", "held", "resumed")), (keeper.unknown, ("present", "held"))):
        for state in states:
            with pytest.raises(WrongMachine) as refused:
                node(keeper, one, state, **{**known, "known_scheduler_node": one})
            assert f"{one} of slurm elsewhere" in str(refused.value), state
            assert "state=present" in refused.value.do and "correct gpufleet_scheduler" in refused.value.do
    found = verdict(wait(keeper, nodes=[{"host": name, "known_runs": [RUN], **known}], timeout=0), name)
    assert not found["ok"] and found["kind"] == "wrong_machine" and keeper.faults.writes == []


def test_r5_whoever_is_led_to_another_cluster_is_told_each_setting_that_leads_there(keeper: Any) -> None:
    """And none that does not; of one of another kind, the driver."""
    name = keeper.names[0]
    own = {"known_cluster": f"{keeper.driver.NAME} elsewhere", "known_scheduler_node": name}
    with pytest.raises(WrongMachine) as refused:
        node(keeper, name, "present", **own)
    leads = names.LEADS[keeper.driver.NAME]
    assert set(leads) & set(keeper.reached), "by one of them the site is reached"
    settings = " or ".join(f"gpufleet_{one}" for one in leads)
    assert refused.value.do.startswith(f"correct {settings}; where the machine is a node of ")
    with pytest.raises(WrongMachine) as refused:
        node(keeper, name, "present", **{**own, "known_cluster": "others elsewhere"})
    assert refused.value.do.startswith("correct gpufleet_scheduler; where the machine is a node of ")


def test_r5_slurm_tells_its_controller_as_well(slurm_site: Any) -> None:
    """Two clusters may be called alike."""
    name = slurm_site.names[0]
    place = slurm_site.open().states([name])[name].place
    assert place == Place("slurm gpufleet-test", socket.gethostname().partition(".")[0])


def test_r5_a_person_says_that_a_machine_is_a_node_of_this_cluster_now(keeper: Any) -> None:
    name = keeper.names[0]
    place = keeper.open().states([name])[name].place
    told = {**ELSEWHERE, "known_scheduler_node": name, "moved_to": str(place), "force_reason": "moved, ticket 9"}
    moved = node(keeper, name, "present", **told)
    assert events(moved) == [("named", "scheduler_node"), ("evidence", "in_service")]
    (named, seen) = [event.data for event in moved.events]
    assert (named["reason"], named["was_of"]) == ("moved, ticket 9", "slurm elsewhere")
    assert Place.told(named) == Place.told(seen) == place, "which counts from then on"
    told = {**place.data("known_"), "known_scheduler_node": name}
    held = node(keeper, name, "held", **told)
    assert held.changed and Place.told(held.events[0].data) == place
    freed = node(keeper, name, "resumed", known_token=held.events[0].data["hold_token"], **told)
    assert events(freed)[0] == ("hold", "released") and Place.told(freed.events[0].data) == place


def test_r5_nobody_says_so_of_one_that_it_does_not_know(keeper: Any) -> None:
    place = keeper.open().states([keeper.unknown])[keeper.unknown].place
    told = {**ELSEWHERE, "known_scheduler_node": keeper.unknown, "moved_to": str(place), "force_reason": "x"}
    with pytest.raises(WrongMachine, match="no gpu999 of") as refused:
        node(keeper, keeper.unknown, "present", **told)
    assert "for good, say so" in refused.value.do and "gpufleet_scheduler=none" in refused.value.do


def test_a_second_hold_changes_nothing(keeper: Any) -> None:
    name = keeper.names[0]
    first = node(keeper, name, "held")
    assert events(first) == [("hold", "taken"), ("evidence", "drained")]
    keeper.faults.forget()
    where = Place.told(first.events[0].data).data("known_")
    again = node(keeper, name, "held", known_token=TOKEN, **where)
    assert not again.changed and again.data["asked"] == [] and keeper.faults.writes == []
    assert events(again) == [("evidence", "drained")]
