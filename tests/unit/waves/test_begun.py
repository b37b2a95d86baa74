# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What other runs have begun: how long it counts, whom a person's word frees, and what a fleet of any size costs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import begun, ended, plan, rollout, tries
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import Member

IMAGE = "gpu-golden 2"
NOW = 1_800_000_000.0
HERE = replace(this_run(os.getpid()), run_id="theirs")
ASKER = replace(HERE, run_id="mine", pid=1)
LIVES = HERE
DEAD = replace(HERE, pid_start=HERE.pid_start + 1)
ELSEWHERE = replace(HERE, host="other#1")
#: This host had no such process, and does not say of which start it was.
NOBODY = replace(HERE, pid=2**22 + 1, pid_start=0)


def wave(number: int, node: str, image: str = IMAGE, **more: Any) -> dict[str, Any]:
    return {"id": number, "node_id": node, "run_id": "theirs", "at": NOW, "data": {"image": image}, **more}


def reset(number: int, node: str, *images: str) -> dict[str, Any]:
    return {"id": number, "node_id": node, "data": {"images": list(images)}}


# -- for how long ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holder", "ago", "waited"),
    [
        (ELSEWHERE, 1799, True),
        (ELSEWHERE, 1801, False),
        (None, 1799, True),
        (None, 1801, False),
        (DEAD, 1, False),
        (LIVES, 1, True),
        (LIVES, 90_000, True),
        (replace(LIVES, boot_id="another"), 90_000, False),
        (NOBODY, 1, True),
        (NOBODY, 1801, False),
    ],
)
def test_who_began_a_wave_is_waited_for_while_he_is_seen_to_live_else_for_half_an_hour(
    holder: Holder | None, ago: int, waited: bool
) -> None:
    data = {"holder": ended.held_by(holder)} if holder else {}
    one = wave(5, "n1", at=NOW - ago, data=data)
    assert ended.promised([one], {"n1": 4}, ASKER, NOW) == ({"n1": "theirs"} if waited else {})
    assert ended.promised([one], {"n1": 6}, ASKER, NOW) == {}, "he came to it"
    assert ended.promised([one], {"n1": 4}, replace(ASKER, run_id="theirs"), NOW) == {}, "it is his own"


def test_what_was_begun_long_ago_is_read_until_the_node_stands_otherwise(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        one, other = (ledger.identify(name, aliases=[("serial", name)]) for name in ("gpu001", "gpu002"))
        ledger.append("before", [(node, Event("state", "admitted")) for node in (one, other)])
        ledger.append("theirs", [(node, Event("wave", "begun", {"image": IMAGE})) for node in (one, other)])
        ledger.append("theirs", [(other, Event("state", "draining"))])

        def standing() -> list[str]:
            since = ledger.now() + 9
            return [wave["node_id"] for wave in begun.stand(begun.recent(ledger, [one, other], run="me", since=since))]

        assert standing() == [one]
        ledger.append("theirs", [(one, Event("wave", "withdrawn"))])
        assert standing() == []


def test_a_node_that_a_run_was_stopped_at_is_not_waited_for_however_long_that_run_lives(tmp_path: Path) -> None:
    """It is in the state of before, and the run has told that it came to it; another run's note says nothing of it."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("n1", aliases=[("serial", "n1")])
        ledger.append("theirs", [(node, Event("wave", begun.BEGUN, {"image": IMAGE}))])

        def old() -> list[str]:
            return [str(one["run_id"]) for one in begun.recent(ledger, [node], run="me", since=NOW + 9e8)]

        ledger.append("another", [(node, Event("note", "stopped", {"reason": "x"}))])
        assert old() == ["theirs"]
        ledger.append("theirs", [(node, Event("note", "stopped", {"reason": "its BMC does not answer"}))])
        assert old() == []


# -- a person's word ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "waited"),
    [
        ([], True),
        ([reset(4, "n1", IMAGE)], True),
        ([reset(6, "n1", IMAGE)], False),
        ([reset(6, "n1", "another 1")], True),
        ([reset(6, "n2", IMAGE)], True),
        ([reset(6, "away", IMAGE)], True),
        ([reset(6, "n1", "another 1", IMAGE), reset(4, "n1", IMAGE)], False),
    ],
)
def test_a_word_frees_the_node_of_which_it_was_said_of_that_image_and_of_what_came_before_it(
    said: list[dict[str, Any]], waited: bool
) -> None:
    one = wave(5, "n1")
    assert begun.waited_for([one], begun.Mended(said, ["n1", "n2"])) == ([one] if waited else [])


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ([reset(6, "n2", IMAGE)], 6),
        ([reset(6, "n2", "another 1")], 0),
        ([reset(6, "away", IMAGE), reset(4, "n2", IMAGE)], 6),
        ([reset(6, "elsewhere", IMAGE)], 0),
    ],
)
def test_of_a_node_that_no_run_can_name_each_word_about_the_image_counts(said: list[dict[str, Any]], last: int) -> None:
    """Of whichever node of this inventory it was said, or of itself while it was there."""
    assert begun.Mended(said, ["n1", "n2"]).last("away", IMAGE) == last


# -- who tries it now --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("busy", "awaited", "through", "tried"),
    [
        (True, [], [], True),
        (False, ["n1"], [], True),
        (False, ["n2"], [], False),
        (True, ["n1"], ["gpu001"], False),
    ],
)
def test_another_run_tries_it_where_it_has_the_node_or_is_about_to(
    busy: bool, awaited: list[str], through: list[str], tried: bool
) -> None:
    nodes = {"gpu001": {"busy": busy, "node_id": "n1"}}
    assert tries.here(["gpu001"], through, nodes, awaited) == (["gpu001"] if tried else [])


@pytest.mark.parametrize(
    ("state", "busy", "awaited", "tried"),
    [
        ("draining", ["n1"], [], True),
        ("draining", [], ["n1"], False),
        ("draining", ["n2"], [], False),
        ("admitted", [], ["n1"], True),
        ("admitted", ["n1"], [], False),
    ],
)
def test_of_another_inventorys_nodes_it_is_tried_where_somebody_is_at_it(
    state: str, busy: list[str], awaited: list[str], tried: bool
) -> None:
    past = rollout.Past(waves=[wave(5, "n1")])
    past.see({"id": 6, "run_id": "p", "kind": "state", "name": state, "data": {}}, IMAGE)
    assert tries.away({"n1": ("gpu001", past)}, busy, awaited) == (["gpu001"] if tried else [])


# -- what it costs -----------------------------------------------------------------------------------------------------


class Counted(str):
    """A name that tells how often it was held against another one."""

    asked = 0

    def __eq__(self, other: object) -> bool:
        Counted.asked += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def names(count: int) -> list[str]:
    """Each time other objects, since one that is the same is never held against itself."""
    return [Counted(f"gpu{number}") for number in range(count)]


def awaits(count: int) -> None:
    waves = [wave(number, node) for number, node in enumerate(names(count))]
    resets = [reset(count + number, node, IMAGE) for number, node in enumerate(names(count))]
    assert begun.waited_for(waves, begun.Mended(resets, names(count))) == []


def tries_it(count: int) -> None:
    nodes = {host: {"busy": True, "node_id": host} for host in names(count)}
    assert tries.here(names(count), names(count), nodes, frozenset()) == []


def counts_earlier(count: int) -> None:
    pasts = {host: rollout.Past(waves=[wave(1, host)], through=True) for host in names(count)}
    nodes = {host: {"state": "admitted"} for host in names(count)}
    assert len(rollout.with_earlier(ended.Ended(), pasts, nodes, {}).through) == count


def takes_turns(count: int) -> None:
    assert len(plan.in_turn(map(Member, names(count)), names(count))) == count


def asked(does: Callable[[int], None], count: int) -> int:
    Counted.asked = 0
    does(count)
    return Counted.asked


@pytest.mark.parametrize("does", [awaits, tries_it, counts_earlier, takes_turns])
def test_a_fleet_of_twice_the_size_costs_twice_as_much(does: Callable[[int], None]) -> None:
    """Half as much again for what sets of another size meet by chance."""
    assert asked(does, 800) <= 3 * asked(does, 400) + 100
