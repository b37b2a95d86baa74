# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of trust that fail closed beside others that do so as well: each is held by itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import combined
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement, result_of

RANK = ("pass", "inconclusive", "fail")


def judged(*words: str) -> Judgement:
    judgement = Judgement("image_verify")
    for number, word in enumerate(words):
        judgement.check(f"c{number}", entity="node", measured=1, wanted=1, source="s", verdict=word)
    return judgement


@pytest.mark.parametrize("words", list(itertools.product(RANK, repeat=2)))
def test_t1_the_worst_check_decides(words: tuple[str, ...]) -> None:
    assert judged(*words).verdict == max(words, key=RANK.index)


@pytest.mark.parametrize(
    ("word", "fail_on", "failed"),
    [("fail", "inconclusive", True), ("inconclusive", "inconclusive", True), ("inconclusive", "fail", False)]
    + [("fail", "fail", True), ("fail", "never", False), ("pass", "inconclusive", False)],
)
def test_t1_a_verdict_stops_its_node_and_is_recorded_all_the_same(word: str, fail_on: str, failed: bool) -> None:
    result = result_of(judged(word), fail_on=fail_on, more={})
    assert bool(result.data.get("failed")) is failed
    assert [(event.kind, event.data["verdict"]) for event in result.events] == [("verdict", word)]


def node(word: str) -> dict[str, Any]:
    return {**judged(word).as_dict(), "identity": {"serial": "GF0001"}}


@pytest.mark.parametrize(
    ("controller", "on_node", "offset", "whole"),
    [
        ("pass", "pass", (0.0, 0.1), "pass"),
        ("fail", "pass", (0.0, 0.1), "fail"),
        ("pass", "fail", (0.0, 0.1), "fail"),
        ("pass", "inconclusive", (0.0, 0.1), "inconclusive"),
        ("pass", "pass", (60.0, 60.1), "fail"),
        ("pass", "pass", None, "inconclusive"),
    ],
)
def test_t1_signature_node_and_clock_are_one_verdict(controller: str, on_node: str, offset: Any, whole: str) -> None:
    result = combined(
        judged(controller), {"name": "hpc"}, node(on_node), offset=offset, max_clock_skew=2.0, fail_on="inconclusive"
    )
    assert result.data["verdict"] == whole
    assert bool(result.data.get("failed")) is (whole != "pass")


@pytest.mark.parametrize(
    ("measured", "wanted", "word"), [(1, 1, "pass"), (1, 2, "fail"), ("", "x", "fail"), ("x", "", "fail")]
)
def test_t1_only_what_is_equal_is_the_same(measured: Any, wanted: Any, word: str) -> None:
    judgement = Judgement("image_verify")
    assert judgement.same("c", entity="node", measured=measured, wanted=wanted, source="s") == word
    assert judgement.verdict == word and bool(judgement.findings) is (word != "pass")
