# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who goes when: any fleet, any budgets, and what must hold of each plan; and how waves that ended are judged."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import ended, shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import (
    FLEET,
    Limit,
    Member,
    Room,
    domains,
    limit,
    rooms,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.plan import Plan, planned
from hypothesis import given
from hypothesis import strategies as st

Domain = tuple[str, str]

LIMITS = st.builds(Limit, st.integers(0, 6), st.one_of(st.none(), st.floats(0, 100))) | st.builds(
    Limit, st.none(), st.floats(0, 100)
)
RUNS = st.lists(st.one_of(st.none(), st.floats(0, 1e6)), max_size=3).map(tuple)
KEYS = ("fleet", "rack", "tenant")


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Member], dict[str, Limit]]:
    budgets = {key: draw(LIMITS) for key in draw(st.sets(st.sampled_from(KEYS), min_size=1))}
    members = []
    for number in range(draw(st.integers(1, 30))):
        values = {key: draw(st.sampled_from(["a", "b", ["a", "b"], "c"])) for key in budgets}
        where = domains("", values)
        members.append(Member(f"gpu{number}", draw(st.booleans()), where, draw(RUNS)))
    return members, budgets


def spent(members: Iterable[Member], wave: Iterable[str], domain: Domain) -> int:
    """How many are out of this domain while the wave works."""
    gone = set(wave)
    return sum(1 for node in members if domain in node.domains and (node.out or node.host in gone))


def made(members: list[Member], budgets: dict[str, Limit], canary: int, growth: float) -> tuple[Plan, dict[Any, Room]]:
    try:
        found = rooms(members, budgets)
    except ConfigError:
        return Plan(), {}
    return planned(members, found, canary, growth), found


@given(fleets(), st.integers(1, 4), st.floats(1, 3), st.randoms())
def test_what_holds_of_each_plan(
    fleet: tuple[list[Member], dict[str, Limit]], canary: int, growth: float, mixed: random.Random
) -> None:
    members, budgets = fleet
    plan, found = made(members, budgets, canary, growth)
    for wave in plan.waves:
        for domain, room in found.items():
            # What others have taken beyond it is theirs; the wave adds nothing then.
            assert spent(members, wave, domain) <= max(room.may, spent(members, (), domain))
    assert sorted([*plan.order, *plan.left]) == sorted(node.host for node in members), "each once, or told why not"
    sizes = [len(wave) for wave in plan.waves]
    assert not sizes or (0 < sizes[0] <= canary and all(sizes))
    assert all(size <= -(-canary * growth**number // 1) + 1 for number, size in enumerate(sizes))
    assert all(why.startswith("no room in ") for why in plan.left.values())
    mixed.shuffle(members)
    assert made(members, budgets, canary, growth)[0] == plan


@given(fleets())
def test_who_is_idle_goes_before_who_works(fleet: tuple[list[Member], dict[str, Limit]]) -> None:
    members, _budgets = fleet
    by_host = {node.host: node for node in members}
    plain = [Member(node.host, node.out, (), node.runs) for node in members]
    order = planned(plain, {}, 1, 1.0).order
    kinds = [1 if by_host[host].out else 2 if by_host[host].runs else 0 for host in order]
    assert kinds == sorted(kinds)
    working = [by_host[host].runs for host in order if not by_host[host].out and by_host[host].runs]
    longest = [max(float("inf") if one is None else one for one in runs) for runs in working]
    assert longest == sorted(longest)


@pytest.mark.parametrize(
    ("said", "total", "may"),
    [(2, 100, 2), ("2", 1, 2), ("10%", 100, 10), ("10%", 5, 1), ("0%", 5, 0), ("7%", 100, 7), ("50 %", 3, 1)]
    + [("10%", 19, 1), ("10%", 20, 2)]
    + [({"nodes": 8, "percent": 10}, 50, 5), ({"nodes": 8, "percent": "10%"}, 500, 8), ({"nodes": 0}, 9, 0)],
)  # fmt: skip
def test_a_budget_is_the_lesser_of_what_it_says(said: Any, total: int, may: int) -> None:
    assert limit(said, "it").of(total, least=1) == may


@pytest.mark.parametrize(
    "said", ["", "many", -1, "101%", True, 1.5, {}, {"nodes": "10%"}, {"percent": "x"}, {"node": 1}, None]
)
def test_what_is_no_limit_is_refused(said: Any) -> None:
    with pytest.raises(ConfigError, match="is no limit"):
        limit(said, "the budget of fleet")


def test_a_budget_of_a_variable_that_no_node_has_holds_nobody_back_and_is_refused() -> None:
    node = Member("gpu1", domains=domains("gpu1", {FLEET: "", "rack": "", "rak": None}))
    assert node.domains == ((FLEET, ""),)
    with pytest.raises(ConfigError, match="no node of the fleet has rak"):
        rooms([node], {FLEET: Limit(1), "rak": Limit(1)})
    with pytest.raises(ConfigError, match="names no domain"):
        domains("gpu1", {"rack": {"a": 1}})


# -- how waves ended ---------------------------------------------------------------------------------------------------


def stands(state: str, event: int, **more: Any) -> dict[str, Any]:
    return {"state": state, "event": event, "kept": "", "held_by": "", **more}


def begun(number: int = 5, **data: Any) -> dict[str, Any]:
    return {"id": number, "data": data}


@pytest.mark.parametrize(
    ("event", "one", "came"),
    [
        (begun(), stands("admitted", 9), "through"),
        (begun(), stands("admitted", 2), "untouched"),
        (begun(), stands("quarantined", 9), "failed"),
        (begun(), stands("draining", 2), "failed"),
        (begun(), stands("unknown", 2), "failed"),
        (begun(), stands("unserved", 2, held_by="foreign"), "untouched"),
        (begun(), stands("unserved", 9, held_by="foreign"), "failed"),
        (begun(), stands("draining", 2, kept="disk"), "untouched"),
        (begun(out=True), stands("draining", 2, kept="disk"), "failed"),
    ],
)
def test_whoever_was_taken_and_is_not_in_service_again_has_failed(
    event: dict[str, Any], one: dict[str, Any], came: str
) -> None:
    assert ended.how(event, one) == came


def test_a_node_that_was_stopped_where_it_served_has_failed_and_the_words_do_not_say_that_it_is_out() -> None:
    serves = stands("admitted", 2)
    assert [ended.how(begun(), serves, stopped) for stopped in (True, False)] == ["failed", "untouched"]
    assert ended.how(begun(), stands("admitted", 9), stopped=True) == "through", "it was brought back since"
    held = stands("unserved", 2, held_by="foreign")
    assert ended.how(begun(), held, stopped=True) == "untouched"
    one = ended.ended({"a": begun(canary=True), "b": begun()}, {"a": serves, "b": serves}, ["a"])
    assert (one.failed, one.through) == (("a",), ())
    told = ended.halted(replace(one, serving=frozenset("a")), Limit(99))
    assert "the canary a was stopped while it served still" in told
    some = ended.Ended(through=("b",), failed=("c", "d"), serving=frozenset("c"))
    assert "2 of 3 nodes have not come through (c,d), and 10% may fail" in ended.halted(some, Limit(percent=10))
    back = replace(some, back=tuple(f"n{number}" for number in range(20)))
    assert ended.halted(back, Limit(percent=10)) == "", "what earlier runs brought back has ended as well"


def test_a_canary_that_failed_stops_all_and_others_count_against_what_has_ended() -> None:
    events = {host: begun(canary=host == "a") for host in "abcdefghijk"}
    good = {host: stands("admitted", 9) for host in events}
    assert ended.halted(ended.ended(events, good), Limit(0)) == "" and ended.ended(events, good).sure
    bad = stands("quarantined", 9)
    one = ended.ended(events, {**good, "b": bad})
    assert ended.halted(one, Limit(percent=10)) == "" and "1 of 11 nodes" in ended.halted(one, Limit(0))
    first = ended.ended({"a": events["a"], "b": events["b"]}, {**good, "b": bad})
    assert "1 of 2 nodes are not in service again (b)" in ended.halted(first, Limit(percent=10)), "not of those to come"
    assert "the canary a " in ended.halted(ended.ended(events, {**good, "a": bad}), Limit(99))
    none = ended.ended(events, dict.fromkeys(events, stands("admitted", 2)))
    assert not none.sure and ended.halted(none, Limit(0)) == ""


def test_a_table_fits_a_terminal_whatever_is_in_it() -> None:
    waves = [[f"gpu{number:04}" for number in range(at, 4000, 7)] for at in range(7)] * 3
    found = [Room("rack", f"r{number}", 40, number % 3, 2) for number in range(40)]
    told = {
        "waves": waves,
        "left": {"login1": "kept by a person: disk", "login2": "kept by a person: disk"},
        "images": ["gpu-golden 2026.11.2 0123456789ab"],
        "halted": "",
    }
    lines = shown.table("Waves", told, found, 80)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80 and "and 32 more, some of them full" in text and "and 9 more waves" in text
    assert "login[1-2]: kept by a person: disk" in text and "wave  21" in text
    assert "\n  image  gpu-golden 2026.11.2 0123456789ab\n" in text
