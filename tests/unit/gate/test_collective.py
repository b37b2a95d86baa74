# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""collective_gate: what nccl-tests measured against the floors of the SKU, and what would pass elsewhere."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective import claimed, judge, known_good
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.gate import collective_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Sheet, Tool, as_verdict, digest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nccl
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled

PROFILE = nccl.profile()
DONE = Run(("all_reduce_perf",), 0, b"", b"", "exit", 1.0)
GOOD = nccl.table()


def judged(text: str, bus: int = 8) -> Sheet:
    wanted = wanted_of(PROFILE)
    [floor] = floors_of(wanted)
    sheet = judge.begin(wanted, [floor], bus)
    judge.judge(sheet, read(text), DONE, wanted, floor)
    return sheet


def told(sheet: Sheet) -> str:
    return "; ".join(finding.text for finding in sheet.findings)


#: As nccl-tests of 2.16 and later tell where a GPU stands.
WHOLE = re.sub(r"\[0x(\w\w)\]", r"[0000:\1:00]", GOOD)
TAGGED = [nccl.table(tag=tag) for tag in ("[1,0]<stdout>:", "[0] ")]


@pytest.mark.parametrize("text", [GOOD, WHOLE, nccl.table(iters=True), *TAGGED])
def test_a_healthy_machine_passes_in_each_form(text: str) -> None:
    sheet = judged(text)
    assert sheet.verdict == PASS, told(sheet)
    [cell] = [check for check in sheet.rows() if check.id == "all_reduce.busbw"]
    assert (cell.measured, cell.wanted, cell.unit) == (476.1, 460, "GB/s busbw, 8 to 16 GiB, default")


@pytest.mark.parametrize(
    ("text", "verdict", "word"),
    [
        (nccl.table(busbw=(459.0, 480.0)), "fail", "all_reduce: 459 GB/s busbw, 8 to 16 GiB, default, wanted 460"),
        (nccl.table(busbw=(600.0, 480.0)), "fail", "the largest size reaches 80% of the best one"),
        (nccl.table(wrong="3"), "fail", "values arrived wrong"),
        (nccl.table(in_place_wrong="3"), "fail", "all_reduce: 6 values arrived wrong"),
        (nccl.table(wrong="3", in_place_wrong="0"), "fail", "all_reduce: 6 values arrived wrong"),
        (nccl.table(in_place=(459.0, 480.0)), "fail", "all_reduce: 459 GB/s"),
        (nccl.table(busbw=(480.0, 459.0), in_place=(480.0, 480.0)), "fail", "all_reduce: 459 GB/s"),
        (nccl.table(busbw=(600.0, 600.0), in_place=(600.0, 480.0)), "fail", "largest size reaches 80% of the best"),
        (nccl.table(wrong="N/A"), "inconclusive", "did not look whether the values arrived"),
        (GOOD.replace("validation: 1", "validation: 0"), "inconclusive", "did not look whether"),
        (GOOD.replace("values : 0 OK", "values : 2 FAILED"), "fail", "values arrived wrong (2 FAILED)"),
        (GOOD.replace(": 478.150", ": 478.150 FAILED"), "fail", "its own limit of bandwidth was not met"),
        (GOOD.replace("# Out of", "# "), "inconclusive", "its last lines are not there"),
        (GOOD[: GOOD.index("# Avg")], "inconclusive", "its last lines are not there"),
        (nccl.table(gpus=7), "fail", "ran on 7 of 8 GPUs"),
        (nccl.table(gpus=9), "inconclusive", "ran on 9 of 8 GPUs"),
        (GOOD.replace("on node1 device  7", "on node2 device  7"), "inconclusive", "on 2 hosts"),
        (GOOD.replace("device  7", "device  6"), "inconclusive", "stands on another's GPU"),
        (nccl.table(busbw=(476.0,)), "inconclusive", "shows no sizes"),
        (GOOD.replace("  8589934592 ", " 17179869184 "), "inconclusive", "shows no sizes"),
        (GOOD.replace("  476.10 ", "  nan "), "inconclusive", "without a bandwidth"),
        (GOOD.replace("  476.10 ", "  "), "inconclusive", "a line of its table cannot be read"),
        (GOOD.replace("  8589934592 ", "  x8589934592 "), "inconclusive", "a line of its table cannot be read"),
        (GOOD.replace("  8589934592 ", "  node1:4711 "), "inconclusive", "a line of its table cannot be read"),
        (GOOD + GOOD, "inconclusive", "several tables"),
        (GOOD.replace("(GB/s)", "(MB/s)"), "inconclusive", "does not say that its bandwidths are in GB/s"),
        (GOOD.replace("(GB/s)", "(MB/s)", 1), "inconclusive", "does not say that its bandwidths are in GB/s"),
        (GOOD.replace("(B)", "(b)"), "inconclusive", "does not say that its bandwidths are in GB/s"),
        (WHOLE.replace("[0000:0b:00]", "[0000:0a:00]"), "inconclusive", "stands on another's GPU"),
        ("lorem ipsum\n", "inconclusive", "printed no table"),
    ],
)
def test_what_is_no_pass(text: str, verdict: str, word: str) -> None:
    sheet = judged(text)
    assert sheet.verdict == verdict, told(sheet)
    assert word in told(sheet)


SIZES = tuple(2**30 * gib for gib in (1, 2, 4, 8))


@pytest.mark.parametrize(("gone", "verdict"), [(None, PASS), *((at, "inconclusive") for at in range(len(SIZES)))])
def test_each_size_is_missed(monkeypatch: Any, gone: Any, verdict: str) -> None:
    """A slow size whose line is not there is no fast one."""
    row = {**PROFILE["collective"]["tests"][0], "from_gib": 1, "to_gib": 8}
    wanted = wanted_of({**PROFILE, "collective": {"tests": [row]}})
    [floor] = floors_of(wanted)
    monkeypatch.setattr(nccl, "SIZES", [size for at, size in enumerate(SIZES) if at != gone])
    log = "node1:4711:4720 [0] NCCL INFO 24 coll channels, 24 collnet channels, 32 p2p channels per peer"
    text = nccl.table(busbw=(476.1,) * len(nccl.SIZES)).replace("# Out", f"{log}\n# Out")
    sheet = judge.begin(wanted, [floor], 8)
    judge.judge(sheet, read(text), DONE, wanted, floor)
    assert sheet.verdict == verdict, told(sheet)


def test_each_rank_has_a_gpu_of_its_own_among_those_that_the_kernel_knows(tmp_path: Path) -> None:
    """Where the bus alone is told, several GPUs may have one of that number, each in a domain of its own."""
    twice = collective_gate(nccl.params(tmp_path, GOOD.replace("[0x0b]", "[0x0a]")), Context()).data
    assert (twice["verdict"], twice["remedy"]) == ("inconclusive", "remediate_config")
    assert "ran on bus 0a more often" in twice["msg"]
    folder = tmp_path / "domains"
    folder.mkdir()
    params = nccl.params(folder, re.sub(r"\[0x\w\w\]", "[0x00]", GOOD))
    for at, place in enumerate(sorted((folder / "pci").iterdir())):
        place.rename(folder / "pci" / f"{at + 1:04x}:00:00.0")
    assert collective_gate(params, Context()).data["verdict"] == PASS


CRY = "node1:4711:4711 [3] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'"


@pytest.mark.parametrize(
    ("output", "body", "verdict", "remedy"),
    [
        (GOOD.replace("# Out", f"{CRY}\n# Out"), "", "fail", "reset_gpu"),
        (GOOD, f'echo "{CRY}" >&2', "fail", "reset_gpu"),
        (GOOD, "echo NET/IB : Got completion with status=12 >&2", "inconclusive", "fabric"),
        (GOOD, "echo ImportError: a plugin >&2", PASS, "none"),
    ],
)
def test_what_nccl_cries_while_it_runs_on_is_the_nodes(
    tmp_path: Path, output: str, body: str, verdict: str, remedy: str
) -> None:
    found = collective_gate(nccl.params(tmp_path, output, body=body), Context()).data
    assert (found["verdict"], found["remedy"]) == (verdict, remedy), found["msg"]


def test_a_figure_that_fits_a_ring_is_the_set_ups_fault(tmp_path: Path) -> None:
    """Without NVLS the links carry what they should; it is a failure all the same."""
    [row] = PROFILE["collective"]["tests"]
    slow = nccl.table(busbw=(372.0, 375.0))
    for ring, sizes, remedy in ((370, 16, "remediate_config"), (373, 16, "field_diag"), (370, 32, "field_diag")):
        other = {**row, "name": "by_ring", "algorithm": "ring", "minimum": ring, "to_gib": sizes}
        profile = {**PROFILE, "collective": {"tests": [row, other]}}
        params = {**nccl.params(tmp_path, slow), "profile": profile, "tests": ["all_reduce"]}
        found = collective_gate(params, Context()).data
        assert (found["verdict"], found["remedy"]) == ("fail", remedy), found["msg"]
        assert ("meets the floor of by_ring" in found["msg"]) == (remedy == "remediate_config")


def test_of_several_nodes_nobody_knows_whose_cry_it_was() -> None:
    wanted = wanted_of(PROFILE)
    [floor] = floors_of(wanted)
    sheet = judge.begin(wanted, [floor], 8)
    done = Run(("all_reduce_perf",), 0, b"NCCL WARN Cuda failure 'uncorrectable ECC error'", b"", "exit", 1.0)
    judge.judge(sheet, read(GOOD), done, wanted, floor, nodes=2)
    assert "inconclusive" in {check.verdict for check in sheet.rows() if check.id == "all_reduce.ecc"}


def test_other_gpus_than_those_of_the_sku_are_no_pass() -> None:
    assert judged(GOOD, bus=7).verdict == "inconclusive"


@pytest.mark.parametrize(("algorithm", "environment"), [("default", ","), ("ring", "RING,0"), ("nvls", "NVLS,1")])
def test_the_algorithm_is_asked_for_and_told(
    tmp_path: Path, monkeypatch: Any, algorithm: str, environment: str
) -> None:
    for name in ("NCCL_ALGO", "NCCL_NVLS_ENABLE"):
        monkeypatch.delenv(name, raising=False)
    params = {**nccl.params(tmp_path, GOOD), "profile": nccl.profile(algorithm=algorithm)}
    found = collective_gate(params, Context()).data
    assert found["verdict"] == PASS, found["msg"]
    sizes = "-b 8589934592 -e 17179869184 -f 2 -g 8 -c 1 -w 5 -n 20"
    assert (tmp_path / "calls").read_text(encoding="utf-8") == f"{environment} {sizes}\n"
    assert any(row["unit"].endswith(f"GiB, {algorithm}") for row in found["checks"])


def test_a_section_that_cannot_be_judged_by_is_none() -> None:
    for broken in ({"minimum": 0}, {"algorithm": "tree"}, {"from_gib": 0}, {"to_gib": 4}, {"to_gib": 24}):
        row = {**PROFILE["collective"]["tests"][0], **broken}
        with pytest.raises(ConfigError):
            floors_of(wanted_of({**PROFILE, "collective": {"tests": [row]}}))
    with pytest.raises(ConfigError, match="no floor for broadcast"):
        floors_of(wanted_of(PROFILE), ["broadcast"])
    with pytest.raises(ConfigError):
        floors_of(wanted_of(made.profile()))


def test_check_mode_loads_no_gpu(tmp_path: Path) -> None:
    found = collective_gate(nccl.params(tmp_path, GOOD), Context(check_mode=True)).data
    assert found["findings"][0]["id"] == "check_mode" and not (tmp_path / "calls").exists()


def verdict() -> dict[str, Any]:
    tool, profile = Tool("nccl-tests", "2.23.4", ["all_reduce_perf"]), wanted_of(PROFILE).reference()
    return as_verdict("collective_gate", judged(GOOD), tool=tool, started="", evidence=digest(b""), profile=profile)


def test_a_pass_has_every_cell_at_or_above_its_floor() -> None:
    good = verdict()
    assert claimed.lacking(PROFILE, [], good) == "" and strange(good, claimed.own(PROFILE, [])) == ""
    kept = written(good, claimed.own(PROFILE, []))["checks"]
    assert {row["id"] for row in kept} == {row["id"] for row in good["checks"]}
    assert claimed.asked(PROFILE, []) == {"tests": [nccl.NAME]}
    for value in (459.9, "fast", None, True):
        lied = verdict()
        next(row for row in lied["checks"] if row["id"] == "all_reduce.busbw")["measured"] = value
        assert "with less than 460" in claimed.lacking(PROFILE, [], lied)
    gone = verdict()
    del gone["checks"][-1]
    assert "required cells" in claimed.lacking(PROFILE, [], gone)


OLD = GOOD.replace("#wrong", "error").replace("      0 ", "  0e+00 ").replace("      0\n", "  0e+00\n")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (OLD, PASS),
        (OLD.replace("0e+00", "nan"), "inconclusive"),
        # Counts under the header of another release are no differences, and under none that is known nothing.
        *((nccl.table(wrong=wrong).replace("#wrong", "wrongs"), "inconclusive") for wrong in "03"),
        (nccl.table(wrong="3").replace("#wrong", "#wrong#"), "inconclusive"),
        (nccl.table(wrong="3").replace("#wrong", "error", 1), "inconclusive"),
        (GOOD.replace("algbw   busbw", "busbw   algbw"), "inconclusive"),
    ],
)
def test_what_a_column_tells_is_what_its_header_calls_it(text: str, verdict: str) -> None:
    sheet = judged(text)
    assert sheet.verdict == verdict, told(sheet)


def test_no_mutation_of_a_failing_table_is_a_pass() -> None:
    failing = [nccl.table(busbw=(459.0, 480.0)), nccl.table(wrong="3"), nccl.table(gpus=7)]
    for seed in range(600):
        dice = random.Random(seed)
        assert judged(shuffled(dice.choice(failing), dice)).verdict != PASS, f"seed {seed}"


# -- rccl-tests over GPUs of AMD ---------------------------------------------------------------------------------------


def amd(folder: Path, text: str, *, vendor: str = "0x1002", **row: Any) -> dict[str, Any]:
    """The options of a gate over eight MI300X, whose rccl-tests print this."""
    params, profile = nccl.params(folder, text), nccl.profile(algorithm="ring")
    profile["collective"]["tests"][0].update({"library": "rccl", **row})
    profile["gpu"]["device_ids"]["value"] = ["74a1"]
    for place in Path(params["pci_path"]).iterdir():
        (place / "vendor").write_text(f"{vendor}\n", encoding="ascii")
        (place / "device").write_text("0x74a1\n", encoding="ascii")
    return {**params, "profile": profile}


RCCL = GOOD.replace(
    "NCCL version 2.23.4+cuda12.6", "RCCL version : 2.21.5-HEAD:bc0c04f\nHIP version  : 6.3.42131"
).replace("# Using devices", "rccl-tests: Version develop:448c4c7\n# Using devices")


@pytest.mark.parametrize(
    ("text", "how", "verdict", "word"),
    [
        (RCCL, {}, PASS, ""),
        (
            RCCL.replace("version : ", "version ").replace("bc0c04f\n", "bc0c04f\nRCCL version 2.21.5-HEAD:bc0c04f\n"),
            {},
            PASS,
            "",
        ),
        (RCCL, {"minimum": 477}, "fail", "476.1 GB/s busbw, 8 to 16 GiB, ring, wanted 477"),
        (RCCL, {"vendor": "0x10de"}, "inconclusive", "the kernel knows 0 GPUs"),
        (RCCL.replace("# Avg bus", "# Avg"), {}, "inconclusive", "its last lines are not there"),
        (RCCL, {"algorithm": "nvls"}, "inconclusive", "cannot be read"),
    ],
)
def test_rccl_tests_are_read_and_judged_as_nccl_tests_are(
    tmp_path: Path, text: str, how: dict[str, Any], verdict: str, word: str
) -> None:
    params = amd(tmp_path, text, **how)
    found = dict(collective_gate(params, Context()).data)
    assert found["verdict"] == verdict and word in str(found["findings"]), found["msg"]
    if verdict == PASS:
        assert found["tool"] == {"name": "rccl-tests", "version": "2.21.5-HEAD:bc0c04f"}
        assert strange(found, claimed.own(params["profile"], [])) == ""
        assert "measured by" in strange({**found, "tool": {"name": "nccl-tests"}}, claimed.own(params["profile"], []))
        assert known_good.read(found)["all_reduce"].row["library"] == "rccl"
    profiles.check({**params["profile"]}, made.PROFILE_SCHEMA)


def test_collectives_of_two_libraries_are_of_no_node() -> None:
    first = PROFILE["collective"]["tests"][0]
    both = [first, {**first, "name": "gather", "library": "rccl"}]
    with pytest.raises(ConfigError, match="two libraries"):
        floors_of(wanted_of({**PROFILE, "collective": {"tests": both}}))
