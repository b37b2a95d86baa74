# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_burn_gate: what gpu-burn prints that is no pass, whatever its exit status and its OK say."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn import claimed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.gate import gpu_burn_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.judge import begin, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import burns_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool, as_verdict, now_utc, sentence
from ansible_collections.gpufleet.baremetal.tests.unit.gate import burning
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled

PROFILE = burning.profile()
WANTED = wanted_of(PROFILE)
[BURN] = burns_of(WANTED)


def judged(text: str, *, rc: int = 0, seconds: float = 1.0, cries: str = "") -> dict[str, Any]:
    """What the gate says of a run that printed this."""
    done = Run(("gpu_burn",), rc, text.encode(), cries.encode(), "exit", seconds)
    sheet = begin(WANTED, [BURN], WANTED.gpu_count)
    judge(sheet, read(done.text, done.cries), done, WANTED, BURN)
    return as_verdict("gpu_burn_gate", sheet, tool=Tool("gpu-burn"), started=now_utc(), evidence="sha256:")


def said(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["verdict"], found["remedy"], "; ".join(finding["text"] for finding in found["findings"])


@pytest.mark.parametrize(("precision", "words"), [("tensor", "-tc "), ("double", "-d "), ("float", "")])
def test_a_machine_that_is_well_passes(tmp_path: Path, precision: str, words: str) -> None:
    profile = burning.profile(burning.row(precision=precision))
    params = {**burning.params(tmp_path), "compare": "/opt/compare.ptx", "profile": profile}
    found = dict(gpu_burn_gate(params, Context()).data)
    assert found["verdict"] == "pass", found["msg"]
    assert (tmp_path / "calls").read_text(encoding="utf-8") == f"{words}-m 90% -c /opt/compare.ptx 1\n"
    [row] = [row for row in found["checks"] if (row["id"], row["entity"]) == ("burn.speed", "GPU 7")]
    assert (row["measured"], row["unit"]) == (500000, f"Gflop/s, gpu-burn {precision}, 90 % of memory")


def test_the_digest_of_the_evidence_is_of_each_burn(tmp_path: Path) -> None:
    body = f'case "$*" in -tc*) ;; *) cat {tmp_path}/second;; esac; exit 3'
    params = burning.params(tmp_path, body=body)
    params["profile"] = burning.profile(burning.row(), burning.row(name="double", precision="double"))
    found = set()
    for text in ("one", "another", "one"):
        (tmp_path / "second").write_text(text, encoding="utf-8")
        found.add(gpu_burn_gate(params, Context()).data["evidence_digest"])
    assert len(found) == 2


INIT = 'Couldn\'t init a GPU test: Error in "load module": '
ABORT = "\nNo clients are alive!  Aborting\n"
#: GPU 5 keeps its last speed in each line; computes less than half as much; tells no speed any more. All say OK.
PARTS = (20.0, 40.0, 60.0, 80.0, 90.0, 100.0)
HANGS = burning.burn_of(*(burning.progress(part, 8, int(part), did={5: int(min(part, 40))}) for part in PARTS))
IDLE = burning.burn_of(*(burning.progress(part, 8, int(part), did={5: int(part * 0.49)}) for part in PARTS))
FADES = burning.burn_of(
    *(burning.progress(part, 8, int(part), speed={5: "500000" if part < 50 else "0"}) for part in PARTS)
)
#: The first report holds the time in which a GPU was set up.
SLOW_AT_FIRST = burning.burn_of(
    *(burning.progress(part, 8, int(part), speed={5: "9000" if part < 90 else "500000"}) for part in (80.0, 100.0))
)
#: Of a hundred reports: GPU 5 stops four fifths through; is slow for half of the time, in which it comes to a seventh
#: of them; or reports once.
EACH = tuple(round(at / 36, 1) for at in range(36, 3601, 36))
HANGS_LATE = burning.burn_of(
    *(burning.progress(part, 8, int(part * 9), did={5: int(min(part, 80) * 9)}) for part in EACH)
)
HALF_THE_TIME = burning.burn_of(
    *(
        burning.progress(part, 8, number, did={5: did}, speed={5: speed})
        for number, (part, did, speed) in enumerate(
            [(at, at, "500000") for at in range(1, 51)] + [(at, 50 + (at - 50) // 7, "71429") for at in range(51, 101)],
            1,
        )
    )
)
ONCE = burning.burn_of(*(burning.progress(part, 8, int(part), did={5: 60 if part > 90 else 0}) for part in PARTS))
DIED = dict.fromkeys(range(8), "-533715488  (DIED!)")


@pytest.mark.parametrize(
    ("text", "verdict", "remedy", "word"),
    [
        (burning.output(errors={5: "12 (WARNING!)"}), "fail", "field_diag", "GPU 5: 12 wrong results in burn"),
        (burning.output(errors={5: "12"}), "fail", "field_diag", "GPU 5: 12 wrong results"),
        (burning.output(errors={5: "-2147483000 (WARNING!)"}), "fail", "field_diag", "2147483000 wrong results"),
        (burning.output(errors={5: "0 (WARNING!)"}), "fail", "field_diag", "GPU 5: 1 wrong results"),
        (burning.output(errors={5: "77 (DIED!)"}), "fail", "field_diag", "GPU 5: its worker died in burn"),
        (burning.output(errors=DIED), "fail", "field_diag", "GPU 0: its worker died"),
        (
            burning.output(first="cat: compare.ptx: No such file or directory"),
            "inconclusive",
            "remediate_config",
            "No such file or directory: was it built for these GPUs",
        ),
        (burning.output(results={5: "FAULTY"}), "fail", "field_diag", "GPU 5: gpu-burn says FAULTY"),
        (burning.output(results={5: "MAYBE"}), "inconclusive", "field_diag", "GPU 5: gpu-burn says MAYBE"),
        (burning.output(speed={5: "300000"}), "fail", "field_diag", "GPU 5: 300000 Gflop/s in burn, wanted 400000"),
        (burning.output(speed={5: "0"}), "inconclusive", "retest", "GPU 5 computed nothing in burn"),
        (burning.output(parts=(0.0,)), "inconclusive", "retest", "computed nothing"),
        (HANGS, "inconclusive", "retest", "GPU 5 computed nothing after 40 % of the time in burn"),
        (IDLE, "inconclusive", "retest", "GPU 5 computed 49 iterations while its neighbours did 100 in burn"),
        (FADES, "fail", "field_diag", "GPU 5: 0 Gflop/s in burn, wanted 400000"),
        (SLOW_AT_FIRST, "pass", "none", ""),
        (burning.output(speed={5: "fast"}), "inconclusive", "retest", "cannot be read"),
        (burning.output(gpus=7), "fail", "power_cycle", "ran on 7 of 8 GPUs"),
        (burning.output(gpus=9), "inconclusive", "remediate_config", "ran on 9 of 8 GPUs"),
        (burning.output(tested=7), "fail", "power_cycle", "ran on 7 of 8 GPUs"),
        (HANGS_LATE, "inconclusive", "retest", "GPU 5 computed nothing after 80 % of the time in burn"),
        (HALF_THE_TIME, "fail", "field_diag", "GPU 5: 285715 Gflop/s in burn, wanted 400000"),
        (
            ONCE,
            "inconclusive",
            "retest",
            "GPU 5 computed so slowly or so briefly that it told no speed but that of its",
        ),
        (burning.output(parts=(50.0,)), "inconclusive", "retest", "it came to 50 % of its time"),
        (burning.output(parts=()), "inconclusive", "retest", "it came to 0 % of its time"),
        (burning.output().partition("Tested")[0], "inconclusive", "retest", "its last lines are not there"),
        (burning.output() * 2, "inconclusive", "retest", "named twice"),
        (burning.output().replace("GPU-00000005", "GPU-00000004"), "inconclusive", "retest", "two of its GPUs are one"),
        (burning.output().replace("\tGPU 5: OK\n", ""), "inconclusive", "remediate_config", "the result of 7"),
        ("lorem ipsum", "inconclusive", "retest", "its last lines are not there"),
        ("", "inconclusive", "retest", "its last lines are not there"),
    ],
)
def test_what_is_no_pass_though_the_exit_status_is_0(text: str, verdict: str, remedy: str, word: str) -> None:
    found = judged(text)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], sentence(found, shown=20)


@pytest.mark.parametrize("speed", ["-5000", "90000"])
def test_a_clock_that_was_set_meanwhile_condemns_no_gpu(speed: str) -> None:
    """gpu-burn reckons by the time of day, and ends by it."""
    parts = [(part, dict.fromkeys(range(8), speed) if part == 60.0 else {}) for part in (20.0, 40.0, 60.0, 80.0, 100.0)]
    text = burning.burn_of(*(burning.progress(part, 8, int(part), speed=set_by) for part, set_by in parts))
    found = judged(text, seconds=1.0 if speed.startswith("-") else 0.5)
    assert said(found)[:2] == ("inconclusive", "retest"), sentence(found, shown=20)
    word = "the clock was set meanwhile" if speed.startswith("-") else "wanted 400000"
    assert word in said(found)[2] and judged(text.replace("(-5000 ", "(450000 "))["verdict"] != "inconclusive"


def test_a_gpu_that_hangs_at_two_thirds_of_a_burn_of_three_reports_is_no_pass() -> None:
    lines = [burning.progress(part, 8, number) for number, part in enumerate((33.0, 66.0), 1)]
    found = judged(burning.burn_of(*lines, burning.progress(99.0, 8, 3, did={5: 2})))
    assert said(found)[0] == "inconclusive" and "GPU 5 computed nothing after 66 % of the time" in said(found)[2]


def test_a_burn_that_its_clock_cut_short_condemns_nobody() -> None:
    long = burns_of(wanted_of(burning.profile(burning.row(seconds=300))))[0]
    text = burning.output(speed=dict.fromkeys(range(8), "390000"))
    for seconds, verdict in ((286.0, "inconclusive"), (300.1, "fail")):
        done = Run(("gpu_burn",), 0, text.encode(), b"", "exit", seconds)
        sheet = begin(WANTED, [long], WANTED.gpu_count)
        judge(sheet, read(text), done, WANTED, long)
        assert sheet.verdict == verdict


def test_reports_may_take_a_third_of_the_time_each() -> None:
    text = burning.burn_of(*(burning.progress(part, 8, int(part)) for part in (37.4, 74.8, 100.0)))
    late = text.replace("100 (500000", "74 (500000")
    assert judged(late)["verdict"] == judged(text)["verdict"] == "pass"


@pytest.mark.parametrize(
    ("text", "rc"), [(burning.output(), 0), (burning.output(errors=DIED).partition("\tSummary")[0], 123)]
)
def test_what_is_wrong_with_the_site_is_cried_and_condemns_no_node(tmp_path: Path, text: str, rc: int) -> None:
    """A compare kernel that is not there, or is of other GPUs: gpu-burn says so among its errors."""
    found = judged(text, rc=rc, cries=f"{INIT}\n{ABORT}")
    assert said(found)[:2] == ("inconclusive", "remediate_config") and "Couldn't init a GPU test" in said(found)[2]
    (tmp_path / "cries").write_text(f"{INIT}\n{ABORT}", encoding="utf-8")
    params = burning.params(tmp_path, text, rc=rc, body=f"cat {tmp_path}/cries >&2")
    assert said(dict(gpu_burn_gate(params, Context()).data)) == said(found)


def test_a_run_that_ended_early_or_with_another_status_is_none() -> None:
    assert "ended after 0.2 s" in said(judged(burning.output(), seconds=0.2))[2]
    assert "exit status 1" in said(judged(burning.output(), rc=1))[2]


def test_gpus_that_the_kernel_does_not_know_are_no_pass(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    found = gpu_burn_gate({**burning.params(tmp_path), "pci_path": str(tmp_path / "none")}, Context()).data
    assert found["verdict"] == "inconclusive" and "the kernel knows 0 GPUs" in found["msg"]


def test_check_mode_burns_nothing(tmp_path: Path) -> None:
    dry = gpu_burn_gate(burning.params(tmp_path), Context(check_mode=True)).data
    assert dry["findings"][0]["id"] == "check_mode" and not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"minimum": 0},
        {"precision": "half"},
        {"memory_percent": 96},
        {"memory_percent": 0},
        {"seconds": 0},
        {"minimum": None},
    ],
)
def test_the_burns_are_those_that_the_profile_knows(wrong: dict[str, Any]) -> None:
    profiles.check(PROFILE, made.PROFILE_SCHEMA)
    with pytest.raises(ConfigError):
        burns_of(wanted_of(burning.profile(burning.row(**wrong))))
    with pytest.raises(ConfigError):
        profiles.check(burning.profile(burning.row(**wrong)), made.PROFILE_SCHEMA)
    for other, names in (
        (made.profile(), []),
        (PROFILE, ["none"]),
        (burning.profile(burning.row(), burning.row()), []),
    ):
        with pytest.raises(ConfigError):
            burns_of(wanted_of(other), names)


def test_a_pass_has_every_cell_within_its_limits() -> None:
    good = judged(burning.output())
    assert claimed.lacking(PROFILE, [], good) == "" and strange(good, claimed.own(PROFILE, [])) == ""
    kept = written(good, claimed.own(PROFILE, []))["checks"]
    assert {(row["id"], row["entity"]) for row in kept} == {(row["id"], row["entity"]) for row in good["checks"]}
    assert claimed.asked(PROFILE, []) == {"tests": ["burn"]}
    for value in (399999, True, None, float("nan")):
        for gpu in ("GPU 0", "GPU 7"):
            lied = json.loads(json.dumps(good))
            at = next(row for row in lied["checks"] if (row["id"], row["entity"]) == ("burn.speed", gpu))
            at["measured"] = value
            assert "with less than 400000 Gflop/s" in claimed.lacking(PROFILE, [], lied)
    for cell in ("burn.errors", "burn.result", "burn.gpus", "device_id", "ended"):
        lied = json.loads(json.dumps(good))
        next(row for row in lied["checks"] if row["id"] == cell)["measured"] = 3
        assert f"it passes {cell} of" in strange(lied, claimed.own(PROFILE, []))
    for at in range(len(good["checks"])):
        assert "required cells" in claimed.lacking(PROFILE, [], {**good, "checks": good["checks"][:at]})


FAILING = [
    burning.output(errors={5: "12 (WARNING!)"}),
    burning.output(speed={5: "300000"}),
    burning.output(speed={5: "0"}),
    HANGS,
    IDLE,
    burning.output(results={5: "FAULTY"}, errors={5: "1"}),
]


def test_no_mutation_of_a_failing_burn_is_a_pass() -> None:
    for seed in range(600):
        dice = random.Random(seed)
        text = shuffled(dice.choice(FAILING), dice)
        assert judged(text)["verdict"] != "pass", f"seed {seed}"
