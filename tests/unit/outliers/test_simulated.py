# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page's tables are what the simulation draws, and the rule is better in them than those beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import outliers  # noqa: E402

PAGE = outliers.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("nodes", "spread"), [(9, 0.5), (16, 1.0)])
def test_a_row_of_the_page_is_drawn_anew_as_it_stands_there(nodes: int, spread: float) -> None:
    accepted, rejected = outliers.row(nodes, spread)
    assert accepted in PAGE.splitlines() and rejected in PAGE.splitlines()


def test_a_row_of_several_slow_nodes_is_drawn_anew_as_it_stands_there() -> None:
    assert outliers.row_of_many(8, 4) in PAGE.splitlines()


def test_the_page_has_all_that_is_asked() -> None:
    lines = PAGE.splitlines()
    assert [sum(line.startswith(f"| {nodes} | ") for line in lines) for nodes in outliers.SIZES] == [4] * 6
    assert PAGE.count(outliers.BEGIN) == PAGE.count(outliers.END) == 1


def test_the_rule_finds_what_the_others_miss_and_rejects_hardly_anybody() -> None:
    for nodes, slow, loss in ((9, 1, 4), (32, 8, 6), (128, 1, 4)):
        found = outliers.counted(nodes, 0.5, slow, loss, runs=60)
        missed, rejected = found["gate_outliers"]
        assert missed <= 5 and rejected <= 0.1
        assert found["-5 %"][0] > missed or loss > 5
    assert outliers.counted(32, 0.5, 8, 6, runs=60)["3 sigma"][0] == 100


def test_a_fleet_with_too_few_peers_is_not_judged() -> None:
    assert outliers.ours([100.0] * 7 + [1.0]) == outliers.NOBODY
    assert outliers.row(8, 0.5, runs=3)[1] == "| 8 | – | 0 | 0 |"
