# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_bandwidth_gate: what nvbandwidth measured against the floors of the SKU, and what it calls passed and is not."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth import claimed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.gate import gpu_bandwidth_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.on_bus import on_bus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Sheet, Tool, as_verdict, digest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nvbw
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled

PROFILE = nvbw.profile()
DONE = Run(("nvbandwidth", "-j"), 0, b"", b"", "exit", 1.0)


def judged(text: str, bus: int = 8) -> Sheet:
    wanted = wanted_of(PROFILE)
    return judge(read(text), DONE, wanted, floors_of(wanted), bus)


def told(sheet: Sheet) -> str:
    return "; ".join(finding.text for finding in sheet.findings)


@pytest.mark.parametrize(
    "text", [nvbw.document(), nvbw.text(), "WARNING: Failed to acquire log file lock\n" + nvbw.document()]
)
def test_a_healthy_machine_passes_in_each_form(text: str) -> None:
    sheet = judged(text)
    assert sheet.verdict == PASS, told(sheet)
    cells = [(check.id, check.unit) for check in sheet.rows() if check.entity == "GPU 3"]
    assert cells == [(f"bandwidth.{nvbw.HOST}", "GB/s"), (f"bandwidth.{nvbw.PEERS}", "GB/s")]


HOST, PEERS = nvbw.case(nvbw.HOST, nvbw.host()), nvbw.case(nvbw.PEERS, nvbw.peers())


@pytest.mark.parametrize(
    ("text", "verdict", "word", "remedy"),
    [
        (
            nvbw.document(nvbw.case(nvbw.HOST, nvbw.host(slow=5)), PEERS),
            "fail",
            "GPU 5: 20.5 GB/s in host_to",
            "reseat",
        ),
        (nvbw.text(slow=5), "fail", "GPU 5: 20.5 GB/s", "reseat"),
        (
            nvbw.document(HOST, nvbw.case(nvbw.PEERS, nvbw.peers(slow=(2, 6)))),
            "fail",
            "GPU 6: 120 GB/s in device_to_device_memcpy_read_ce with GPU 2, wanted 335",
            "field_diag",
        ),
        (nvbw.document(HOST), "inconclusive", f"{nvbw.PEERS} was not run", "retest"),
        (nvbw.document(HOST, nvbw.case(nvbw.PEERS, None, "Waived")), "inconclusive", "was waived", "remediate_config"),
        (
            nvbw.document(HOST, nvbw.case(nvbw.PEERS, None, "Not Found")),
            "inconclusive",
            "is unknown",
            "remediate_config",
        ),
        (nvbw.document(HOST, nvbw.case(nvbw.PEERS, None, "Dancing")), "inconclusive", "says Dancing", "retest"),
        (
            nvbw.document(HOST, nvbw.case(nvbw.PEERS, None, "Running"), nvbw.case(nvbw.PEERS, None, "Error")),
            "fail",
            "ended with an error",
            "retest",
        ),
        (nvbw.document(HOST, PEERS, nvbw.case("host_to_all", None, "ERROR")), "fail", "host_to_all ended", "retest"),
        (nvbw.document(HOST, HOST, PEERS), "inconclusive", "told twice", "retest"),
        (nvbw.document(HOST, PEERS, error="no CUDA device"), "inconclusive", "no CUDA device", "retest"),
        (nvbw.document(gpus=7), "fail", "7 of 8 GPUs", "power_cycle"),
        (nvbw.document(gpus=9), "inconclusive", "9 GPUs, and the profile", "remediate_config"),
        (nvbw.document(nvbw.case(nvbw.HOST, nvbw.host(7)), PEERS), "fail", "7 of 8 GPUs", "power_cycle"),
        (nvbw.document(nvbw.case(nvbw.HOST, nvbw.host() * 2), PEERS), "inconclusive", "matrix of 2 rows", "retest"),
        (nvbw.document(HOST, nvbw.case(nvbw.PEERS, nvbw.host())), "inconclusive", "matrix of 1 rows", "retest"),
        (nvbw.document().replace('"371.2"', '"N/A"', 1), "inconclusive", "has no number for it", "retest"),
        (nvbw.document().replace('"371.2"', '"nan"', 1), "inconclusive", "its matrix holds nan", "retest"),
        (nvbw.document().replace('"371.2"', '"1e9"', 1), "inconclusive", "its matrix holds 1e9", "retest"),
        (nvbw.document().replace('"N/A"', '"371.2"', 1), "inconclusive", "has no number for it", "retest"),
        (nvbw.document()[:700], "inconclusive", "cannot be read", "retest"),
        (nvbw.document() * 2, "inconclusive", "more than one document", "retest"),
        (nvbw.document().replace('"version"', '"git_version"'), "inconclusive", "a key stands twice", "retest"),
        (nvbw.document().replace("(GB/s)", "(MB/s)"), "inconclusive", "are in GB/s", "retest"),
        (nvbw.document().replace("bandwidth_description", "what", 1), "inconclusive", "are in GB/s", "retest"),
        (nvbw.text().replace("(GB/s)", "(MB/s)"), "inconclusive", "are in GB/s", "retest"),
        (nvbw.document().replace('"3: ', '"2: '), "inconclusive", "names one of them twice", "retest"),
        (nvbw.document().replace("0000:0b:00", "0000:0a:00"), "inconclusive", "names one of them twice", "retest"),
        (nvbw.text().replace("0000:0b:00", "0000:0a:00"), "inconclusive", "names one of them twice", "retest"),
        (nvbw.text().replace(f"SUM {nvbw.PEERS} 441.00", ""), "fail", "ended with an error", "retest"),
        (nvbw.text().replace(" 7  371.20", " 6  371.20"), "inconclusive", "its matrix is cut", "retest"),
    ],
)
def test_what_is_no_pass(text: str, verdict: str, word: str, remedy: str) -> None:
    sheet = judged(text)
    assert (sheet.verdict, sheet.remedy) == (verdict, remedy), told(sheet)
    assert word in told(sheet)


def test_the_kernel_says_which_gpus_they_are(tmp_path: Path) -> None:
    wanted = wanted_of(PROFILE)
    assert judged(nvbw.document(), bus=7).verdict == "inconclusive"
    assert on_bus(wanted, made.pci(tmp_path)) == 8
    other = tmp_path / "other"
    assert on_bus(wanted, made.pci(other, device="2321")) == on_bus(wanted, "/nonexistent") == 0


def test_the_cases_are_those_that_the_profile_knows(tmp_path: Path) -> None:
    params = {**nvbw.params(tmp_path, nvbw.document(HOST)), "cases": [nvbw.HOST]}
    assert gpu_bandwidth_gate(params, Context()).data["verdict"] == PASS
    assert (tmp_path / "calls").read_text(encoding="utf-8") == f"-j -t {nvbw.HOST}\n"
    unknown = gpu_bandwidth_gate({**params, "cases": ["no_such_case"]}, Context()).data
    assert unknown["verdict"] == "inconclusive" and "no floor for no_such_case" in unknown["msg"]
    bare = {**PROFILE, "gpu_bandwidth": {"cases": [{**PROFILE["gpu_bandwidth"]["cases"][0], "minimum": 0}]}}
    for profile in (bare, made.profile()):
        with pytest.raises(ConfigError):
            floors_of(wanted_of(profile))


def test_check_mode_loads_no_gpu(tmp_path: Path) -> None:
    found = gpu_bandwidth_gate(nvbw.params(tmp_path, nvbw.document()), Context(check_mode=True)).data
    assert found["findings"][0]["id"] == "check_mode" and not (tmp_path / "calls").exists()


def verdict() -> dict[str, Any]:
    tool, profile = Tool("nvbandwidth", "0.8", ["nvbandwidth", "-j"]), wanted_of(PROFILE).reference()
    return as_verdict(
        "gpu_bandwidth_gate", judged(nvbw.document()), tool=tool, started="", evidence=digest(b""), profile=profile
    )


def test_a_pass_has_every_cell_at_or_above_its_floor() -> None:
    good = verdict()
    assert claimed.lacking(PROFILE, [], good) == "" and strange(good, claimed.own(PROFILE, [])) == ""
    kept = written(good, claimed.own(PROFILE, []))["checks"]
    assert {(row["id"], row["entity"]) for row in kept} == {(row["id"], row["entity"]) for row in good["checks"]}
    assert claimed.asked(PROFILE, []) == {"tests": sorted([nvbw.HOST, nvbw.PEERS])}
    for value in (47.9, "fast", None, True):
        lied = verdict()
        next(row for row in lied["checks"] if row["id"] == f"bandwidth.{nvbw.HOST}")["measured"] = value
        assert "with less than 48" in claimed.lacking(PROFILE, [], lied)
    gone = verdict()
    del gone["checks"][-1]
    assert "required cells" in claimed.lacking(PROFILE, [], gone)


def test_no_mutation_of_a_failing_document_is_a_pass() -> None:
    failing = nvbw.document(nvbw.case(nvbw.HOST, nvbw.host(slow=5)), PEERS), nvbw.text(slow=5)
    for seed in range(200):
        dice = random.Random(seed)
        assert judged(shuffled(dice.choice(failing), dice)).verdict != PASS, f"seed {seed}"
