# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a figure is an outlier, and when a part has drifted."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.baremetal.plugins.filter.gate_outliers import gate_outliers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.rule import (
    BAD,
    HIGH,
    LOW,
    drift_of,
    limit_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS
from hypothesis import given
from hypothesis import strategies as st

NINE = (100.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9, 100.4, 99.6)


def verdicts(figures: Any, **options: Any) -> dict[str, str]:
    return {entity: one["verdict"] for entity, one in gate_outliers(figures, **options).items()}


def fleet(*values: Any) -> dict[str, Any]:
    return {f"n{number}": value for number, value in enumerate(values, 1)}


def test_both_must_be_exceeded_the_spread_and_the_margin() -> None:
    # All the same: the spread is nothing, and 2 % are still allowed.
    assert verdicts(fleet(*[100.0] * 8, 98.0))["n9"] == PASS
    assert verdicts(fleet(*[100.0] * 8, 97.99))["n9"] == FAIL
    # A wide spread allows more than 2 %.
    wide = (96.0, 104.0, 97.0, 103.0, 98.0, 102.0, 99.0, 101.0)
    assert verdicts(fleet(*wide, 90.0))["n9"] == PASS
    assert verdicts(fleet(*wide, 80.0))["n9"] == FAIL


def test_the_limit_is_the_median_less_three_and_a_half_spreads() -> None:
    limit = limit_of([90.0, 94.0, 98.0, 100.0, 100.0, 102.0, 106.0, 110.0, 104.0], LOW)
    assert limit is not None and limit.middle == 100.0 and limit.made_of == 9
    assert limit.spread == pytest.approx(1.4826 * 4.0) and limit.at == pytest.approx(100.0 - 3.5 * 1.4826 * 4.0)


@pytest.mark.parametrize(("bad", "value"), [(LOW, 90.0), (HIGH, 110.0)])
def test_only_one_direction_is_bad(bad: str, value: float) -> None:
    assert verdicts(fleet(*NINE, value), bad=bad)["n10"] == FAIL
    assert verdicts(fleet(*NINE, 200.0 - value), bad=bad)["n10"] == PASS


def test_eight_others_are_enough_and_seven_are_not() -> None:
    assert set(verdicts(fleet(*NINE[:8])).values()) == {INCONCLUSIVE}
    assert gate_outliers(fleet(*NINE[:8]))["n1"]["reason"] == "7 peers, wanted 8"
    assert set(verdicts(fleet(*NINE)).values()) == {PASS}
    assert set(verdicts(fleet(*NINE), peers=9).values()) == {INCONCLUSIVE}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "", "n/a", True, [], {}, "nan", [100.0, None]])
def test_what_is_no_number_is_inconclusive_and_nobodys_peer(value: Any) -> None:
    told = gate_outliers(fleet(*NINE, value))
    assert told["n10"]["verdict"] == INCONCLUSIVE and told["n10"]["reason"] == "no number"
    assert {one["verdict"] for name, one in told.items() if name != "n10"} == {PASS}
    assert set(verdicts(fleet(*NINE[:8], value)).values()) == {INCONCLUSIVE}


def test_of_several_numbers_the_newest_counts() -> None:
    assert verdicts(fleet(*NINE, [100.0, 100.0, 80.0]))["n10"] == FAIL
    assert verdicts(fleet(*NINE, [80.0, "100.1"]))["n10"] == PASS


@pytest.mark.parametrize("values", [[0.0] * 9, [-1.0] * 9])
def test_a_median_of_nothing_has_no_part(values: list[float]) -> None:
    assert set(verdicts(fleet(*values)).values()) == {INCONCLUSIVE}


def test_a_third_of_the_fleet_may_be_slow_without_hiding_each_other() -> None:
    chance = random.Random(7)
    values = [chance.gauss(100.0, 0.5) for _ in range(24)] + [92.0] * 8
    found = verdicts(fleet(*values))
    assert all(found[f"n{number}"] == FAIL for number in range(25, 33))
    assert all(found[f"n{number}"] == PASS for number in range(1, 25))


@pytest.mark.parametrize(
    "wrong", [("x", {}), ({}, {"bad": "slow"}), ({}, {"peers": 3}), ({}, {"peers": "8"}), ({}, {"peers": True})]
)
def test_a_question_that_is_none_is_refused(wrong: Any) -> None:
    figures, options = wrong
    with pytest.raises(AnsibleFilterError, match="gate_outliers"):
        gate_outliers(figures, **options)


@given(st.lists(st.floats(1.0, 1e6), min_size=9, max_size=40), st.sampled_from(BAD), st.randoms())
def test_order_and_scale_do_not_matter_and_nobody_better_than_the_median_is_an_outlier(
    values: list[float], bad: str, chance: random.Random
) -> None:
    found = gate_outliers(fleet(*values), bad=bad)
    for one in found.values():
        better = one["off"] >= 0 if bad == LOW else one["off"] <= 0
        assert not (better and one["verdict"] == FAIL)
    names = list(found)
    chance.shuffle(names)
    assert gate_outliers({name: found[name]["measured"] for name in names}, bad=bad) == found
    doubled = gate_outliers({name: one["measured"] * 2 for name, one in found.items()}, bad=bad)
    assert {name: one["verdict"] for name, one in doubled.items()} == {n: one["verdict"] for n, one in found.items()}


def test_a_part_that_has_become_slower_has_drifted_and_one_disturbed_look_is_none() -> None:
    good = [100.0, 100.2, 99.9, 100.1, 99.8]
    late = ([99, 97.5, 97.0, 96.5], [100, 99.9, 100.1], [100, 80, 100])
    slow, steady, once = (drift_of([*good, *values], LOW) for values in late)
    assert slow is not None and slow.drifted and slow.now == 97.0
    assert steady is not None and not steady.drifted and once is not None and not once.drifted
    assert drift_of([*good, 90.0, 90.0], LOW) is None and drift_of([0.0] * 8, LOW) is None
    grown = drift_of([*good, 104.0, 104.0, 104.0], HIGH)
    assert grown is not None and grown.drifted
