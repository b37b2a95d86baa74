# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node claims of a training, and what whatever is done to a log makes of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training import claimed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.taken import told
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import sentence
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import trained
from ansible_collections.gpufleet.baremetal.tests.unit.gate.trained import (
    FORMATS,
    LOSSES,
    NO_END,
    ONE_SLOW,
    PROFILE,
    REFERENCE,
    SLOW_AT_LAST,
    STEPS,
    cell,
    judged,
    line,
    log,
    row,
)
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled, tried
from hypothesis import given
from hypothesis import strategies as st

# -- what a node claims ------------------------------------------------------------------------------------------------

FULL = row(p99_to_median=1.5, drift_percent=5, skipped=1, floors={"tflops": 300}, **REFERENCE)
FAST = log({at: line(at, more=" throughput per GPU (TFLOP/s/GPU): 310.0 |") for at in range(1, 13)})


@pytest.mark.parametrize("ran", [True, False])
def test_a_pass_has_every_cell_within_its_limits(ran: bool) -> None:
    profile = trained.profile(FULL)
    good = judged(FAST, FULL, ran=ran)
    assert good["verdict"] == "pass", sentence(good, shown=9)
    assert claimed.lacking(profile, "", good, ran=ran) == "" and strange(good, claimed.own(profile, "", ran=ran)) == ""
    kept = written(good, claimed.own(profile, "", ran=ran))["checks"]
    assert {one["id"] for one in kept} == {one["id"] for one in good["checks"]}
    beyond = {"step_time": 8.1, "jitter": 1.6, "drift": 5.1, "tflops": 299, "loss": 2.1, "skipped": 2, "steps": 11}
    for name, value in {**beyond, "finite": 1, "errors": 1, "belongs": "another"}.items():
        for lie in (value, None, True, float("nan"), "1"):
            lied = json.loads(json.dumps(good))
            next(one for one in lied["checks"] if one["id"] == f"gpt.{name}")["measured"] = lie
            assert f"it passes gpt.{name} with" in claimed.lacking(profile, "", lied, ran=ran), (name, lie)
    for at in range(len(good["checks"])):
        assert "required cells" in claimed.lacking(profile, "", {**good, "checks": good["checks"][:at]}, ran=ran)
    assert claimed.lacking(profile, "", good, ran=not ran), "a log's end is no run's"


def test_a_profile_without_a_limit_for_a_step_believes_no_pass() -> None:
    profile = trained.profile(row(step_ms=None))
    assert "no step_ms" in claimed.lacking(profile, "", judged(log()), ran=True)
    assert "not known" in claimed.lacking(made.profile(), "", judged(log()), ran=True)


def test_a_loss_that_did_not_come_down_is_no_claim() -> None:
    good = judged(log())
    assert cell(good, "loss")["measured"] < 0
    for lie in (0, 0.5):
        next(one for one in good["checks"] if one["id"] == "gpt.loss")["measured"] = lie
        assert "it passes gpt.loss" in claimed.lacking(PROFILE, "", good, ran=True)


def test_a_run_of_ones_own_asks_more_than_a_log() -> None:
    assert claimed.asked(PROFILE, "", ran=True) == {"tests": ["gpt", "gpt_run"]}
    assert claimed.asked(PROFILE, "gpt", ran=False) == {"tests": ["gpt"]}


@pytest.mark.parametrize(
    ("findings", "site"),
    [
        ([("training:missing", "remediate_config"), ("ended", "retest")], True),
        ([("gpt.step_time", "remediate_config")], True),
        ([("ended", "retest")], False),
        ([("training:missing", "remediate_config"), ("training:ib", "fabric")], False),
        ([("training:missing", "remediate_config"), ("device_id", "remediate_config")], False),
        ([], False),
    ],
)
def test_whose_failure_it_is(findings: list[tuple[str, str]], site: bool) -> None:
    rows = [{"id": id, "remedy": remedy} for id, remedy in findings]
    assert claimed.of_the_site({"verdict": "inconclusive", "findings": rows}) is site
    assert not claimed.of_the_site({"verdict": "fail", "findings": rows})


def test_what_looks_like_a_secret_in_a_command_is_not_told() -> None:
    command = [
        "train",
        "--api-key",
        "hunter2",
        "--wandb-token=hunter2",
        "--tokenizer-type",
        "GPT",
        "https://u:hunter2@h",
    ]
    words = told([*command, "WANDB_API_KEY=hunter2"])
    assert "hunter2" not in " ".join(words) and words[0] == "train" and words[5] == "GPT", words


# -- whatever is done to a log -----------------------------------------------------------------------------------------

FAILING = [
    (log(ms=30), row()),
    (log({5: line(5, "nan")}), row()),
    (log({5: line(5, nan=1)}), row()),
    (log(ONE_SLOW), row(p99_to_median=2)),
    (log(SLOW_AT_LAST), row(drift_percent=10)),
    (log({12: line(12, LOSSES[-1] * 1.1)}), row(**REFERENCE)),
    (log({at: line(at, 11.0 + at) for at in range(1, 13)}), row()),
    (NO_END.partition("       12/")[0], row()),
    *((text(ms=30.0), asked) for asked, text in FORMATS.values()),
    *((text(losses=[*LOSSES[:8], "nan", *LOSSES[9:]]), asked) for asked, text in FORMATS.values()),
]


def test_none_of_these_logs_passes_as_it_is() -> None:
    assert {judged(text, asked, ran=ran)["verdict"] for text, asked in FAILING for ran in (True, False)} <= {
        "fail",
        "inconclusive",
    }


@tried(300)
@given(st.sampled_from(FAILING), st.integers(0, 2**32), st.integers(1, 3), st.booleans())
def test_no_mutation_of_a_failing_log_is_a_pass(
    failing: tuple[str, dict[str, Any]], seed: int, times: int, ran: bool
) -> None:
    """Lines that are lost, doubled, moved, or a part of them that is cut out or off."""
    (text, asked), dice = failing, random.Random(seed)
    for _time in range(times):
        text = shuffled(text, dice) if text else text
    assert judged(text, asked, ran=ran)["verdict"] != "pass"


@tried(200)
@given(st.sampled_from(sorted(FORMATS)), st.floats(0, 1), st.booleans())
def test_a_log_that_is_cut_anywhere_passes_only_where_all_steps_are_whole(name: str, part: float, ran: bool) -> None:
    asked, text = FORMATS[name]
    whole = text()
    found = judged(whole[: int(part * len(whole))], asked, ran=ran)
    if found["verdict"] == "pass":
        assert cell(found, "steps")["measured"] == STEPS and cell(found, "step_time")["measured"] == 5


@tried(200)
@given(st.sampled_from(sorted(FORMATS)), st.text(max_size=300), st.integers(0, 12))
def test_words_of_whatever_kind_break_nothing(name: str, words: str, at: int) -> None:
    asked, text = FORMATS[name]
    lines = text().splitlines()
    found = judged("\n".join([*lines[:at], words, *lines[at:], ""]), asked)
    assert found["verdict"] in ("pass", "fail", "inconclusive")
