# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is measured with whom, and what pairs prove of each of their nodes."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.judge import merged, settle, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.plan import Pair, pairs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.together import Cell, Figure, Figures
from hypothesis import given
from hypothesis import strategies as st

CELL: Cell = ("pair.rail", "mlx5_0/1")
PLACES = st.dictionaries(st.integers(0, 60).map("gpu{:03}".format), st.sampled_from(["", "a", "b", "c"]), max_size=24)


@given(PLACES)
def test_each_node_is_in_two_pairs_and_once_in_a_round(places: dict[str, str]) -> None:
    rounds = pairs(places)
    edges = [pair for one in rounds for pair in one]
    degree = {host: sum(host in pair for pair in edges) for host in places}
    assert len(rounds) <= 3 and len({frozenset(pair) for pair in edges}) == len(edges)
    assert all(len(set(itertools.chain(*one))) == 2 * len(one) for one in rounds)
    assert set(degree.values()) <= ({2} if len(places) > 2 else {1} if len(places) == 2 else {0})


@given(PLACES)
def test_who_has_enough_neighbours_on_his_leaf_is_measured_with_one(places: dict[str, str]) -> None:
    edges = [pair for one in pairs(places) for pair in one]
    for host, leaf in places.items():
        if list(places.values()).count(leaf) >= 3:
            near = [pair for pair in edges if host in pair and places[pair[0]] == places[pair[1]]]
            assert near


def shown(bad: dict[Pair, float | None], *edges: Pair) -> dict[Pair, Figures]:
    """All of these pairs reach 390, but for those of ``bad``; None of what was not measured."""
    found: dict[Pair, Figures] = {}
    for pair in edges:
        value = bad.get(pair, 390.0)
        figure = Figure(why="hangs") if value is None else Figure(value, value >= 368, f"{value:g} Gb/s")
        found[pair] = {(host, CELL): figure for host in pair}
    return found


RING: tuple[Pair, ...] = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a"))
AB, BC, CD, DE, EA = RING
LEAF = dict.fromkeys("abcde", "leaf1")


@pytest.mark.parametrize(
    ("bad", "verdicts", "remedies"),
    [
        ({}, "ppppp", {}),
        ({AB: 90.0, BC: 91.0}, "pfppp", {"b": "field_diag"}),
        ({AB: 90.0}, "iippp", {"a": "fabric", "b": "fabric"}),
        ({AB: None}, "iippp", {"a": "retest", "b": "retest"}),
        ({AB: 90.0, BC: None}, "pippp", {"b": "fabric"}),
        ({AB: None, BC: None}, "pippp", {"b": "retest"}),
        ({AB: 90.0, BC: 90.0, CD: 90.0}, "pffpp", {}),
        ({AB: 90.0, BC: 90.0, CD: 90.0, DE: 90.0}, "pfifp", {"c": "fabric"}),
        (dict.fromkeys(RING, 90.0), "iiiii", {}),
        (dict.fromkeys(RING), "iiiii", {"a": "retest"}),
    ],
)
def test_a_bad_node_is_told_from_its_partners(
    bad: dict[Pair, float | None], verdicts: str, remedies: dict[str, str]
) -> None:
    found = shown(bad, *RING)
    settled = {host: settle(host, CELL, found, LEAF) for host in "abcde"}
    assert "".join(one.verdict[0] for one in settled.values()) == verdicts, settled
    assert {host: settled[host].remedy for host in remedies} == remedies
    for one in settled.values():
        assert (one.verdict == "pass") == (one.measured == 390.0) and (one.verdict == "pass") == (not one.why)


def test_of_two_nobody_is_told_apart_and_alone_nobody_is_measured() -> None:
    slow = shown({AB: 90.0}, AB)
    assert {settle(host, CELL, slow, LEAF).verdict for host in "ab"} == {"inconclusive"}
    assert {settle(host, CELL, shown({}, AB), LEAF).verdict for host in "ab"} == {"pass"}
    assert settle("c", CELL, slow, LEAF).verdict == settle("c", CELL, {}, LEAF).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("leaves", "slow", "verdicts"),
    [
        ({"a": 1, "b": 1, "c": 1, "d": 2}, "d", "pppi"),
        ({"a": 1, "b": 2, "c": 3}, "c", "ppi"),
        ({"a": 1, "b": 1, "c": 1, "d": 2, "e": 2}, "de", "pppii"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "d", "pppf"),
        ({"a": 0, "b": 0, "c": 0, "d": 0}, "d", "pppf"),
    ],
    ids=["alone on its leaf", "each alone", "two of another leaf", "one leaf", "no leaf is known"],
)
def test_a_node_whose_partners_are_all_of_other_leaves_is_not_blamed_for_the_path(
    leaves: dict[str, int], slow: str, verdicts: str
) -> None:
    places = {host: f"leaf{number}" if number else "" for host, number in leaves.items()}
    edges = [pair for one in pairs(places) for pair in one]
    found = shown({pair: 90.0 for pair in edges if set(pair) & set(slow)}, *edges)
    settled = [settle(host, CELL, found, places) for host in places]
    assert "".join(one.verdict[0] for one in settled) == verdicts, settled
    assert all(one.remedy == "fabric" for host, one in zip(places, settled) if one.verdict[0] == "i" and host in slow)


VALUES = st.sampled_from([390.0, 90.0, None])


@given(st.lists(VALUES, min_size=5, max_size=5))
def test_nobody_passes_who_reached_nothing_and_nobody_fails_who_did(values: list[float | None]) -> None:
    found = shown(dict(zip(RING, values)), *RING)
    for host in "abcde":
        own = [value for pair, value in zip(RING, values) if host in pair]
        verdict = settle(host, CELL, found, LEAF).verdict
        assert verdict != "pass" or 390.0 in own
        assert verdict != "fail" or own == [90.0, 90.0]


@given(st.lists(VALUES, min_size=5, max_size=5), st.integers(0, 4))
def test_what_is_lost_of_a_batch_makes_no_pass_of_a_failure(values: list[float | None], gone: int) -> None:
    whole = shown(dict(zip(RING, values)), *RING)
    less = {pair: {} if at == gone else figures for at, (pair, figures) in enumerate(whole.items())}
    for host in "abcde":
        if settle(host, CELL, whole, LEAF).verdict == "fail":
            assert settle(host, CELL, less, LEAF).verdict != "pass"


def test_of_several_legs_the_worst_counts_and_none_is_left_out() -> None:
    good, slow, unknown = Figure(390.0, True), Figure(91.0, False, "slow"), Figure(why="hangs")
    assert merged([good, Figure(388.0, True)]) == Figure(388.0, True)
    assert merged([good, slow]) == slow and merged([slow, unknown, good]) == unknown
    assert merged([]).good is None


def test_all_together_blame_nobody() -> None:
    figures = {("a", CELL): Figure(200.0, False, "slow"), ("b", CELL): Figure(390.0, True)}
    told = [together(host, CELL, figures) for host in "abc"]
    assert [(one.verdict, one.remedy) for one in told] == [
        ("inconclusive", "fabric"), ("pass", "none"), ("inconclusive", "retest")
    ]  # fmt: skip
