# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several schedulers with nodes of the same names it is that is asked."""

from __future__ import annotations

import socket
from dataclasses import fields, replace

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import adoption
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.absence import demand_nobodys, doubts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Hold, NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import known_as

ALPHA, BETA, HERE, THERE = "slurm alpha", "slurm beta", "https://here", "https://there"


@pytest.mark.parametrize(
    ("asked", "known", "other"),
    [
        (Place(ALPHA), Place(), False),  # noted before clusters were
        (Place(), Place(), False),
        (Place(ALPHA), Place(ALPHA), False),
        (Place(ALPHA), Place("slurm Alpha"), False),
        (Place(ALPHA), Place(BETA), True),
        (Place(ALPHA, scheduler_at=HERE), Place(BETA, scheduler_at=HERE), True),  # leads to another one now
        (
            Place(ALPHA, scheduler_at=THERE),
            Place(ALPHA, scheduler_at=HERE),
            False,
        ),  # was moved
        (Place("kubernetes alpha"), Place(ALPHA), True),
        (Place(ALPHA, "ctl1"), Place(ALPHA, "CTL1"), False),
        (Place(ALPHA, "ctl2"), Place(ALPHA, "ctl1"), True),  # two that are called alike, or a new head node
        (Place(ALPHA), Place(ALPHA, "ctl1"), False),  # by slurmrestd, which does not tell
        (Place(ALPHA, "ctl1"), Place(ALPHA), False),
        (Place(scheduler_at=HERE), Place(scheduler_at=HERE), False),
        (Place(scheduler_at=THERE), Place(scheduler_at=HERE), True),
        (Place(ALPHA, scheduler_at=HERE), Place(scheduler_at=HERE), False),  # it tells its name since it was updated
        (Place(scheduler_at=HERE), Place(ALPHA, scheduler_at=HERE), True),  # whoever answers there keeps its name back
        (Place(scheduler_at=HERE), Place(ALPHA, "ctl1", HERE), True),
        (Place(scheduler_at=HERE), Place(ALPHA), True),  # nothing that could be compared
        (Place(ALPHA), Place(scheduler_at=HERE), True),
        (Place(), Place(ALPHA), True),
        (Place(), Place(scheduler_at=HERE), True),
    ],
)
def test_r5_another_scheduler_is_told_by_its_name_else_by_its_address(asked: Place, known: Place, other: bool) -> None:
    assert asked.is_other(known) is other


def test_r5_whoever_tells_less_takes_nothing_away() -> None:
    """What slurmrestd notes of a hold has no controller, and what the commands note has no address."""
    rest, commands = Place(ALPHA, scheduler_at=HERE), Place(ALPHA, "ctl1")
    assert rest.filled(commands) == commands.filled(rest) == Place(ALPHA, "ctl1", HERE)
    view = NodeView("n1", state="idle", place=rest)
    assert Place.told(taken(Hold("gpufleet:r:w"), view, Claim(place=commands)).data) == Place(ALPHA, "ctl1", HERE)
    assert Place.told(taken(Hold("gpufleet:r:w"), view, Claim(place=Place(BETA, "ctl9"))).data) == rest


def test_r5_a_name_that_is_known_is_filled_in_for_nobody_who_keeps_it_back() -> None:
    """Behind the address another cluster may stand by now, and a person who names an address names neither."""
    view, known = NodeView("n1", state="idle", place=Place(scheduler_at=HERE)), Place(ALPHA, "ctl1", HERE)
    assert Place.told(taken(Hold("gpufleet:r:w"), view, Claim(place=known)).data) == view.place
    claim = Claim(bound="n1", place=known)
    for one in (claim, replace(claim, moved_to=HERE)):
        told = str(doubts(Slurm({}), {"n1": view}, {"n1": one})["n1"].do)
        assert "moved_to" not in told and "names no cluster" in told and "gpufleet_scheduler_url" in told
    away = replace(claim, place=replace(known, scheduler_at=THERE))
    assert f"moved_to='{HERE}'" in str(doubts(Slurm({}), {"n1": view}, {"n1": away})["n1"].do)
    assert doubts(Slurm({}), {"n1": view}, {"n1": replace(away, moved_to=HERE)}) == {}


@pytest.mark.parametrize("rival", [Place(), Place(ALPHA, scheduler_at=HERE), Place(scheduler_at=HERE)])
def test_r5_a_scheduler_that_tells_no_name_may_be_the_one_of_which_another_machine_is_that_node(rival: Place) -> None:
    """Or that machine's drain would permit what is done to this one."""
    view = NodeView("n1", state="idle", place=Place(scheduler_at=HERE))
    with pytest.raises(WrongMachine, match="another machine"):
        demand_nobodys(Slurm({}), view, Claim(rivals=(("other", rival),)))
    demand_nobodys(Slurm({}), view, Claim(rivals=(("other", Place(ALPHA, scheduler_at=THERE)),)))


def test_what_a_place_is_known_by_is_what_results_and_the_ledger_have() -> None:
    """In its order: by position too. The ledger's port does not ask the scheduler's, and spells them itself."""
    assert adoption._PLACE == names.PLACE
    assert tuple(one.name for one in fields(Place)) == names.PLACE == tuple(Place(ALPHA, "ctl1", HERE).data())
    assert tuple(Place().data("known_")) == tuple(f"known_{key}" for key in names.PLACE)


def test_what_is_told_is_read_back() -> None:
    for place in (Place(), Place(ALPHA), Place(scheduler_at=HERE), Place(ALPHA, scheduler_at=HERE)):
        assert Place.told(place.data()) == Place.told(place.data("known_"), "known_") == place
    known = {"known_cluster", "known_cluster_host", "known_scheduler_at"}
    assert Place().data() == {} and set(Place().data("known_")) == known
    assert str(Place(ALPHA, "ctl1")) == "slurm alpha of ctl1" and Place(ALPHA, "ctl1").is_called(" Slurm alpha of ctl1")
    assert [str(one) for one in (Place(ALPHA, scheduler_at=HERE), Place(scheduler_at=HERE))] == [ALPHA, HERE]


@pytest.mark.parametrize(
    ("address", "known"),
    [
        ("https://slurm.example.com:6820/", "https://slurm.example.com:6820"),
        ("https://svc:s3cret@slurm.example.com/rest?x=1", "https://slurm.example.com/rest"),
        ("http://localhost:6820", f"http://localhost:6820 on {socket.gethostname()}"),
        ("https://[::1]:6443", f"https://[::1]:6443 on {socket.gethostname()}"),
    ],
)
def test_r5_an_address_is_known_without_a_login_and_with_whose_it_is(address: str, known: str) -> None:
    """The ledger masks a login, and every machine calls itself localhost."""
    assert known_as(address) == known


def test_r5_of_a_batch_each_one_of_another_cluster_is_refused_and_hides_no_doubt_about_others() -> None:
    driver = Slurm({})
    views = {name: NodeView(name, state="idle", place=Place(BETA)) for name in ("n1", "n2", "n3")}
    views["n4"] = NodeView("n4", place=Place(ALPHA))
    claims = {name: Claim(bound=name, place=Place(ALPHA)) for name in ("n1", "n2", "n4")}
    claims = {**claims, "n3": Claim(bound="n3", place=Place(BETA)), "n4": replace(claims["n4"], admitted=True)}
    driver.known = dict  # type: ignore[method-assign]
    found = doubts(driver, views, claims)
    assert {name: type(exc) for name, exc in found.items()} == {
        "n1": WrongMachine,
        "n2": WrongMachine,
        "n4": ConfigError,
    }
