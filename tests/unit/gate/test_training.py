# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training is judged by its steps, of which each must be there; what is another run's condemns nobody."""

from __future__ import annotations

import re
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import sentence
from ansible_collections.gpufleet.baremetal.tests.unit.gate.trained import (
    ECC,
    END,
    FORMATS,
    IB,
    LOSSES,
    NO_END,
    ONE_SLOW,
    REFERENCE,
    SLOW_AT_LAST,
    WATCHDOG,
    XID,
    judged,
    line,
    log,
    row,
    said,
)


@pytest.mark.parametrize(
    ("text", "asked", "verdict", "remedy", "word"),
    [
        (log(), {}, "pass", "none", ""),
        (log(ms="5.0/5.1"), {}, "pass", "none", ""),
        (log(ms=8.0), {}, "pass", "none", ""),
        (log(ms=8.1), {}, "fail", "field_diag", "gpt: 8.1 ms a step, wanted 8"),
        (log(), {"step_ms": None}, "inconclusive", "remediate_config", "5 ms a step, and the profile has no step_ms"),
        (log({1: line(1, ms=900), 3: line(3, ms=60)}), {"p99_to_median": 1.1}, "pass", "none", ""),
        (log(ONE_SLOW), {}, "pass", "none", ""),
        (log(ONE_SLOW), {"p99_to_median": 2}, "fail", "field_diag", "slow steps take 8 times as long as its median"),
        (log(SLOW_AT_LAST), {}, "pass", "none", ""),
        (log(SLOW_AT_LAST), {"drift_percent": 10}, "fail", "field_diag", "last third is 50 % slower than its first"),
        (log({5: line(5, "nan")}), {}, "fail", "field_diag", "loss or gradients of step 5 are no number, as of 1"),
        (log({at: line(at, "1e308") for at in range(1, 13)}), {}, "fail", "field_diag", "as of 12 steps"),
        (log({at: line(at, ms="1e306") for at in range(1, 13)}), {}, "inconclusive", "retest", "cannot be read"),
        (log({5: line(5, "-inf")}), {}, "fail", "field_diag", "step 5"),
        (log({5: line(5).replace("grad norm: 1.500", "grad norm: nan")}), {}, "fail", "field_diag", "step 5"),
        (log({5: line(5, None, nan=1)}), {}, "fail", "field_diag", "step 5 are no number"),
        (log({5: line(5, nan=1)}), {}, "fail", "field_diag", "1 iterations were skipped, or had no number, wanted 0"),
        (log({5: line(5, None, skipped=1)}), {}, "fail", "field_diag", "1 iterations were skipped"),
        (log({5: line(5, None, skipped=1)}), {"skipped": 1}, "pass", "none", ""),
        (log({at: line(at, 11.0) for at in range(1, 13)}), {}, "inconclusive", "retest", "loss does not come down"),
        (log(), REFERENCE, "pass", "none", ""),
        (log({12: line(12, LOSSES[-1] * 1.019)}), REFERENCE, "pass", "none", ""),
        (log({12: line(12, LOSSES[-1] * 1.03)}), REFERENCE, "fail", "field_diag", "step 12 is 3 % off its reference"),
        (log({6: line(6, LOSSES[5] * 0.9)}), REFERENCE, "fail", "field_diag", "step 6 is 10 % off its reference"),
        (log({6: line(6, None, skipped=1)}), {**REFERENCE, "skipped": 1}, "inconclusive", "retest", "tells no loss of"),
        (log(), {"floors": {"tflops": 300}}, "inconclusive", "retest", "9 of its steps do not tell tflops"),
        (
            log({at: line(at, more=" throughput per GPU (TFLOP/s/GPU): 290.5 |") for at in range(1, 13)}),
            {"floors": {"tflops": 300}},
            *("fail", "field_diag", "290.5 Tflop/s, wanted 300"),
        ),
        (log(without=[7]), {}, "inconclusive", "retest", "11 steps from 1 to 12, wanted 12 to 12: step 7 is missing"),
        (log(without=[12]), {}, "inconclusive", "retest", "step 12 is missing"),
        (log(without=[1]), {}, "inconclusive", "retest", "step 1 is missing"),
        (log(), {"steps": 11}, "inconclusive", "retest", "12 steps from 1 to 12, wanted 11 to 11: there are others"),
        (log(), {"first_step": 2}, "inconclusive", "retest", "step 13 is missing"),
        (log(), {"interval": 10}, "inconclusive", "retest", "step 20 is missing"),
        (log({7: f"{line(7)}\n{line(7)}"}), {}, "inconclusive", "retest", "step 7 is told twice"),
        (log({7: line(8), 8: line(7)}), {}, "inconclusive", "retest", "out of their order"),
        (log({7: line(7) + line(8)}, without=[8]), {}, "inconclusive", "retest", "cannot be read"),
        (log({7: line(7).partition("number of nan")[0]}), {}, "inconclusive", "retest", "cannot be read"),
        (log({7: line(7, ms="fast")}), {}, "inconclusive", "retest", "cannot be read"),
        (log({7: line(7, ms=0)}), {}, "inconclusive", "retest", "cannot be read"),
        (log({7: line(7, ms="inf")}), {}, "inconclusive", "retest", "cannot be read"),
        (log({7: line(7, skipped=-1)}), {}, "inconclusive", "retest", "cannot be read"),
        (log({7: line(7) + " x" * 3000}), {}, "inconclusive", "retest", "cannot be read"),
        (log() * 2, {}, "inconclusive", "retest", "told twice"),
        ("lorem ipsum\n", {}, "inconclusive", "retest", "no step was seen"),
        ("", {}, "inconclusive", "retest", "no step was seen"),
        (log(first=[ECC]), {}, "fail", "reset_gpu", "an uncorrectable memory error: RuntimeError: CUDA error"),
        (log(first=[XID]), {}, "fail", "power_cycle", "fallen off the bus (Xid 79)"),
        (log(first=[XID.replace("79", "13")]), {}, "inconclusive", "retest", "Xid 13"),
        (
            log(first=["GPU 0000:9B:00.0 has fallen off the bus"]),
            {},
            "fail",
            "power_cycle",
            "a GPU that is lost: GPU 0000",
        ),
        (log(first=[IB]), {}, "inconclusive", "fabric", "a transfer between nodes that was given up"),
        (log(first=[WATCHDOG]), {}, "inconclusive", "retest", "a collective operation that failed"),
        (log(first=["CUDA error: an illegal memory access"]), {}, "inconclusive", "retest", "an error of CUDA"),
        (log(first=["ModuleNotFoundError: No module named 'apex'"]), {}, "pass", "none", ""),
    ],
)
def test_what_is_no_pass_though_the_exit_status_is_0(
    text: str, asked: dict[str, Any], verdict: str, remedy: str, word: str
) -> None:
    found = judged(text, row(**asked))
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], sentence(found, shown=20)


def of_many(steps: range, *slow: int, ms: float = 5.0) -> str:
    """A whole log; slow: the steps that take eight times as long."""
    return "".join(f"step {at} took {ms * (8 if at in slow else 1)}ms loss={11 - at / 200}\n" for at in steps)


def test_of_more_than_a_hundred_steps_one_that_is_slow_is_chance_and_two_are_not() -> None:
    asked = {**FORMATS["pattern"][0], "steps": 113, "p99_to_median": 2}
    once, twice = judged(of_many(range(1, 114), 50), asked), judged(of_many(range(1, 114), 50, 60), asked)
    assert once["verdict"] == "pass", sentence(once, shown=9)
    assert twice["verdict"] == "fail" and "slow steps take 8 times as long" in said(twice)[2]


def test_a_line_for_each_ten_steps_tells_the_time_of_ten() -> None:
    asked = {**FORMATS["pattern"][0], "steps": 12, "interval": 10, "step_ms": 40}
    good, foreign = (judged(of_many(range(10, 130, 10), ms=ms), asked) for ms in (5.0, 30.0))
    assert good["verdict"] == "pass", sentence(good, shown=9)
    assert foreign["verdict"] == "inconclusive" and "its steps took 3.6 s, and this run 1.0 s" in said(foreign)[2]


@pytest.mark.parametrize(
    ("cry", "word"),
    [
        ("ModuleNotFoundError: No module named 'apex'", "that is not there: ModuleNotFoundError"),
        ("sh: 1: torchrun: not found", "that is not there"),
        ("OSError: [Errno 28] No space left on device: 'ckpt'", "no room to write"),
        ("RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version", "does not fit"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "does not fit"),
        ("RuntimeError: No CUDA GPUs are available", "sees no GPU"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "too little memory"),
        ("[Errno 98] Address already in use", "no way for its processes to meet"),
        ("train.py: error: unrecognized arguments: --x", "does not know"),
        ("PermissionError: [Errno 13]", "without access"),
    ],
)
def test_what_the_site_lacks_condemns_no_node(cry: str, word: str) -> None:
    """However slow the steps before it were."""
    found = judged(log(ms=30, last=[cry], without=[9, 10, 11, 12]), rc=1)
    assert said(found)[:2] == ("inconclusive", "remediate_config") and word in said(found)[2], sentence(found, shown=9)


@pytest.mark.parametrize(
    ("rc", "ended", "word"),
    [
        (1, "exit", "ended with exit status 1"),
        (-9, "exit", "was ended by signal 9"),
        (-15, "timeout", "was still running"),
        (-15, "flood", "printed without an end"),
        (None, "missing", "is not installed"),
        (None, "denied", "cannot be run"),
    ],
)
def test_a_perfect_log_is_no_pass_whatever_ended_the_run(rc: Optional[int], ended: str, word: str) -> None:
    found = judged(log(), rc=rc, ended=ended)
    assert said(found)[0] == "inconclusive" and word in said(found)[2]


@pytest.mark.parametrize("rc", [0, 1, -6])
def test_a_loss_that_is_no_number_fails_however_the_run_ended(rc: int) -> None:
    found = judged(log({9: line(9, "nan")}, last=["loss is nan, stopping"], without=[10, 11, 12]), rc=rc)
    assert said(found)[:2] == ("fail", "field_diag") and "step 9 are no number" in said(found)[2]
    slow = judged(log(ms=30, without=[10, 11, 12]), rc=rc)
    assert said(slow)[0] == "inconclusive", "how fast a run is that did not end is not known"


BAD_NODES = [log(ms=30), log({5: line(5, "nan")}), log(first=[ECC]), log({5: line(5, nan=2)}), log(first=[XID])]


@pytest.mark.parametrize("text", BAD_NODES)
def test_a_training_over_several_nodes_condemns_none_of_them(text: str) -> None:
    assert said(judged(text))[0] == "fail"
    found = judged(text, row(nodes=2))
    assert said(found)[:2] == ("inconclusive", "retest"), sentence(found, shown=9)
    assert judged(log(), row(nodes=2))["verdict"] == "pass"


@pytest.mark.parametrize("text", BAD_NODES)
def test_another_runs_log_condemns_nobody_and_passes_nobody(text: str) -> None:
    """Its steps took longer than the run that prints them."""
    for one in (text, log()):
        found = judged(re.sub(r"\(ms\): [\d.]+", "(ms): 5000", one), row(step_ms=4000))
        assert said(found)[0] == "inconclusive", sentence(found, shown=9)
    assert "its steps took 60.0 s, and this run 1.0 s" in said(found)[2]
    assert judged(log(), seconds=0.0)["verdict"] == "pass", "60 ms are within what is rounded"


def test_what_stands_before_the_mark_of_a_run_is_another_runs() -> None:
    asked = row(start_mark="gpufleet run {run}")
    mine = "gpufleet run 4711"
    assert judged(log(first=[mine]), asked, mark=mine)["verdict"] == "pass"
    for text, word in (
        (log(), "the mark of this run does not stand in it"),
        (log(first=["gpufleet run 4710"]), "the mark of this run does not stand"),
        (log({7: f"{mine}\n{line(7)}"}), "6 steps stand before the mark"),
        (f"{log()}{mine}\n{log()}", "12 steps stand before the mark"),
        (f"{log()}{mine}\n", "no step was seen"),
    ):
        found = judged(text, asked, mark=mine)
        assert said(found)[0] == "inconclusive" and word in said(found)[2], sentence(found, shown=9)
    appended = f"{log(BAD)}{mine}\n{log()}"
    assert judged(appended, asked, mark=mine, ran=False)["verdict"] == "pass", "a job may write on in its file"
    assert judged(f"{log()}{mine}\n{log(BAD)}", asked, mark=mine, ran=False)["verdict"] == "fail"


BAD = {5: line(5, "nan")}


def test_of_a_file_the_end_must_be_told_after_the_last_step() -> None:
    assert judged(log(), ran=False)["verdict"] == "pass"
    for text in (NO_END, log(first=[END], last=())):
        found = judged(text, ran=False)
        assert said(found)[:2] == ("inconclusive", "retest") and "does not tell its end" in said(found)[2]
    asked, text_of = FORMATS["pattern"]
    assert "give it an end_mark" in said(judged(text_of(), asked, ran=False))[2]
    marked = {**asked, "end_mark": "all done"}
    assert judged(text_of() + "all done\n", marked, ran=False)["verdict"] == "pass"
    assert judged(text_of(), marked, ran=False)["verdict"] == "inconclusive"
