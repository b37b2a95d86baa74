# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The algebra that decides: pass only on a full sheet."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _verdict as algebra
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Check, Sheet
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.sampled_from(["pass", "fail", "inconclusive", "skip", "", "PASS", "ok"])


@given(st.lists(WORDS, min_size=1))
def test_worst_is_pass_only_if_all_pass(words: list[str]) -> None:
    assert (algebra.worst(words) == "pass") == all(word == "pass" for word in words)
    assert (algebra.worst(words) == "fail") == ("fail" in words)


def test_worst_of_nothing_is_not_pass() -> None:
    assert algebra.worst([]) == "inconclusive"


def test_a_sheet_without_requirements_never_passes() -> None:
    sheet = Sheet()
    assert sheet.verdict == "inconclusive"
    sheet.record(Check("memory", "GPU 0", "pass"))
    assert sheet.verdict == "inconclusive"


@given(st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=1), st.data())
def test_a_sheet_passes_only_when_each_required_cell_passes(cells: set[tuple[str, str]], data: Any) -> None:
    sheet = Sheet()
    for name, entity in cells:
        sheet.require(name, entity)
    given_cells = data.draw(st.dictionaries(st.sampled_from(sorted(cells)), WORDS))
    for (name, entity), word in given_cells.items():
        sheet.record(Check(name, entity, word))
    assert (sheet.verdict == "pass") == (set(given_cells) == cells and set(given_cells.values()) == {"pass"})


def test_a_second_look_never_makes_a_cell_better() -> None:
    sheet = Sheet()
    sheet.require("memory", "GPU 0")
    sheet.record(Check("memory", "GPU 0", "fail"))
    sheet.record(Check("memory", "GPU 0", "pass"))
    assert sheet.verdict == "fail"


def test_a_finding_that_asks_for_something_keeps_a_full_sheet_from_passing() -> None:
    sheet = Sheet()
    sheet.require("memory", "GPU 0")
    sheet.record(Check("memory", "GPU 0", "pass"))
    sheet.find("note", "node", "nothing to do", "none")
    assert sheet.verdict == "pass"
    sheet.find("dcgm:29", "GPU 0", "persistence mode is off", "remediate_config")
    assert sheet.verdict == "inconclusive"


def test_what_is_no_pass_always_has_a_remedy_and_a_reason() -> None:
    sheet = Sheet()
    sheet.require("memory", "GPU 0")
    result = algebra.as_verdict(
        "g", sheet, tool=algebra.Tool("t"), started=algebra.now_utc(), evidence="sha256:" + "0" * 64
    )
    assert (result["verdict"], result["remedy"]) == ("inconclusive", "retest")
    assert "memory of GPU 0" in result["findings"][0]["text"]


def test_the_ladder_of_remedies() -> None:
    assert algebra.worst_remedy([]) == "none"
    assert algebra.worst_remedy(["reset_gpu", "rma", "reboot"]) == "rma"
    assert algebra.worst_remedy(["fabric", "power_cycle"]) == "fabric"
    assert algebra.worst_remedy(["none", "a word that nobody knows"]) == "field_diag"


@pytest.mark.parametrize(
    ("fail_on", "stopped"),
    [
        ("inconclusive", {"fail", "inconclusive"}),
        ("fail", {"fail"}),
        ("never", set()),
        ("nonsense", {"fail", "inconclusive"}),
    ],
)
def test_fail_on(fail_on: str, stopped: set[str]) -> None:
    assert {word for word in ("pass", "fail", "inconclusive") if algebra.blocks(word, fail_on)} == stopped


def test_digest_keeps_parts_apart() -> None:
    assert algebra.digest(b"ab", b"c") != algebra.digest(b"a", b"bc")
    assert algebra.json_digest({"a": 1, "b": 2}) == algebra.json_digest({"b": 2, "a": 1})


def test_the_sentence_names_the_worst_first() -> None:
    sheet = Sheet()
    sheet.require("x", "node")
    sheet.record(Check("x", "node", "fail"))
    sheet.find("a", "node", "persistence mode is off", "remediate_config")
    sheet.find("dcgm:80", "GPU 3", "GPU 3: row remap failure (DCGM 80)", "rma")
    result = algebra.as_verdict("dcgm_gate", sheet, tool=algebra.Tool("t"), started="", evidence="")
    assert algebra.sentence(result) == (
        "dcgm_gate: fail. GPU 3: row remap failure (DCGM 80); persistence mode is off. Remedy: rma"
    )


def test_a_clock_that_was_set_meanwhile_moves_no_end() -> None:
    tool, sheet = algebra.Tool("t"), algebra.Sheet()

    def told(seconds: Optional[float], started: str) -> tuple[str, float]:
        verdict = algebra.as_verdict("g", sheet, tool=tool, started=started, evidence="", seconds=seconds)
        return verdict["ended"], verdict["duration"]

    assert told(90.5, "2026-11-29T10:00:00Z") == ("2026-11-29T10:01:30Z", 90.5)
    assert told(None, "2999-01-01T00:00:00Z") == ("2999-01-01T00:00:00Z", 0.0)
