# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs were tested, whether the document is whole, and what an error beside another word than fail says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.discovery import Found, parse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.errors import look_up
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made


def look(document: Any, *, rc: int = 0, level: int = 2, found: Optional[Found] = None) -> Sheet:
    wanted = wanted_of(made.profile())
    output = document if isinstance(document, str) else made.text(document)
    seen = read(output)
    tests = wanted_tests(wanted, level, [], (4, 6, 0) if seen.shape != 3 else (3, 3, 9))
    return judge(seen, Run(("dcgmi",), rc, output.encode(), b"", "exit", 1.0), wanted, tests, found=found or Found())


def told(sheet: Sheet) -> dict[str, str]:
    return {f"{finding.id} {finding.entity}": finding.remedy for finding in sheet.findings}


def listing(*devices: str, level: int = 2) -> dict[str, Any]:
    return {**made.dcgm3(level), "GPU Device IDs": list(devices)}


# -- V4: which GPUs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2])
def test_v4_a_list_of_other_gpus_is_no_pass_however_many_there_are(level: int) -> None:
    assert look(listing(*["2330"] * 8, level=level), level=level).verdict == "pass"
    sheet = look(listing(*["2330"] * 7, "20b2", level=level), level=level)
    assert (sheet.verdict, told(sheet)) == ("inconclusive", {"device_id GPU 7": "remediate_config"})


@pytest.mark.parametrize("device", [None, "", "none", "233", "2330ffff", 2330, "<<<NOT_SUPPORTED>>>"])
def test_v4_a_gpu_without_an_identity_leaves_an_open_cell(device: Any) -> None:
    document = made.dcgm4()
    document["entity_groups"][0]["entities"][3]["device_id"] = device
    sheet = look(document)
    assert sheet.verdict == "inconclusive"
    assert {row.entity for row in sheet.rows() if row.id == "device_id" and row.verdict != "pass"} == {"GPU 3"}
    del document["entity_groups"]
    assert look(document).verdict == "inconclusive"


def test_v4_a_document_that_names_no_device_is_helped_out_by_discovery_and_the_kernel(tmp_path: Path) -> None:
    document = made.dcgm4()
    for entity in document["entity_groups"][0]["entities"]:
        del entity["device_id"]
    for output in (document, made.dcgm3(), made.dcgm3(level=1)):
        level = 1 if output == made.dcgm3(level=1) else 2
        tool = made.dcgmi(tmp_path, made.text(output), version="4.6.0" if output is document else "2.4.7")
        params = {"dcgmi": tool, "level": level, "timeout": 20, "busy_timeout": 0, "profile": made.profile()}
        pci = made.pci(tmp_path)
        assert dcgm_gate({**params, "pci_path": pci}, Context()).data["verdict"] == "pass"
        assert dcgm_gate({**params, "pci_path": str(tmp_path / "no")}, Context()).data["verdict"] == "inconclusive"
        (Path(pci) / "0000:0c:00.0" / "device").write_text("0x20b2\n", encoding="ascii")
        result = dcgm_gate({**params, "pci_path": pci}, Context()).data
        assert result["verdict"] == "inconclusive" and "GPU 2: device 20b2" in result["msg"]


def test_v4_what_document_and_kernel_tell_must_both_be_of_the_profile() -> None:
    assert look(made.dcgm4(), found=made.found(8)).verdict == "pass"
    assert look(made.dcgm4(), found=made.found(8, device="20b2")).verdict == "inconclusive"


def test_v4_discovery_is_read_by_the_line(tmp_path: Path) -> None:
    pci = made.pci(tmp_path, 2)
    assert parse(made.discovery(2), pci) == Found(2, {0: "2330", 1: "2330"})
    assert parse(made.discovery(2).replace("| 1 ", "| 0 "), pci).devices == {0: ""}, "a number that stands twice"
    (tmp_path / "pci" / "0000:0a:00.0" / "vendor").write_text("0x1002\n", encoding="ascii")
    assert parse(made.discovery(2), pci).devices == {0: "", 1: "2330"}
    assert parse("", pci) == Found(None, {})
    assert parse("| 0 | PCI Bus ID: 00000000:../../x |\n", pci).devices == {}


# -- V5: cut, wrapped, doubled, partial -------------------------------------------------------------------------------


def iterations() -> str:
    whole = made.dcgm4()
    inner = {"DCGM Diagnostic": whole.pop("DCGM Diagnostic")}
    return made.text({"iterations": [inner, inner], **whole, "Overall Result": "Pass"})


@pytest.mark.parametrize("wrapper", ["iterations", "data", "DCGM"])
def test_v5_a_diagnosis_inside_something_else_is_no_pass(wrapper: str) -> None:
    assert look(
        {wrapper: [made.dcgm4()], **{k: v for k, v in made.dcgm4().items() if k != "DCGM Diagnostic"}}
    ).verdict == ("inconclusive")
    assert look(iterations()).verdict == "inconclusive"


def test_v5_no_cut_of_a_wrapped_document_passes() -> None:
    """Each place where an object ends, and some around it; a cut from the front as well."""
    text = iterations()
    places = {at + shift for at, sign in enumerate(text) if sign in "{}[]" for shift in (-1, 0, 1, 2)}
    wrong = [at for at in sorted(places) if 0 < at < len(text) and look(text[:at]).verdict == "pass"]
    wrong += [-at for at in sorted(places) if 0 < at < len(text) and look(text[at:]).verdict == "pass"]
    assert not wrong


def test_v5_what_fails_inside_iterations_is_a_failure() -> None:
    bad = made.failing(made.dcgm4(), "memory", 3, made.fault("faulty", 52))
    assert look({"iterations": [{"DCGM Diagnostic": bad["DCGM Diagnostic"]}]}, rc=205).verdict == "fail"


@pytest.mark.parametrize("between", ["", "\n", "\nwords\n"])
def test_v5_a_document_twice_is_none(between: str) -> None:
    whole = made.text(made.dcgm4())
    assert look(whole).verdict == "pass"
    assert look(whole + between + whole).verdict == "inconclusive"
    assert look({**made.dcgm4(), "DCGM GPU Diagnostic": made.dcgm3()["DCGM GPU Diagnostic"]}).verdict == "inconclusive"


def test_v5_a_test_or_a_result_or_a_gpu_twice_is_no_pass() -> None:
    for spoil in (
        lambda tests, _gpus: tests.append(copy.deepcopy(tests[1])),
        lambda tests, _gpus: tests[1]["results"].append(copy.deepcopy(tests[1]["results"][0])),
        lambda _tests, gpus: gpus.append(copy.deepcopy(gpus[0])),
    ):
        document = made.dcgm4()
        tests = document["DCGM Diagnostic"]["test_categories"][0]["tests"]
        spoil(tests, document["entity_groups"][0]["entities"])
        sheet = look(document)
        assert sheet.verdict == "inconclusive" and "twice" in " ".join(row.text for row in sheet.findings)


@pytest.mark.parametrize("part", ["words", 1, [], {"category": "Hardware"}, {"category": "Stress", "tests": None}])
def test_v5_half_a_category_is_no_pass(part: Any) -> None:
    document = made.dcgm4()
    document["DCGM Diagnostic"]["test_categories"].append(part)
    assert look(document).verdict == "inconclusive"


@pytest.mark.parametrize(
    "noise", ['{"status": "Fail"}', '"results" : [', "]", "}", '"Overall Result": "Fail"', '{"a": 1}', "] }"]
)
def test_v5_what_is_left_of_another_document_is_no_noise(noise: str) -> None:
    whole = made.text(made.dcgm4())
    assert look(f"{noise}\n{whole}").verdict == "inconclusive"
    assert look(f"{whole}\n{noise}").verdict == "inconclusive"


# -- V5: what an error says -------------------------------------------------------------------------------------------


def with_eud(word: str, *faults: dict[str, Any]) -> dict[str, Any]:
    """A test that nobody asked for, in which GPU 2 says this."""
    document = made.dcgm4(["software", "pcie", "memory", "eud"])
    for gpu in range(8):
        made.result_of(document, "eud", gpu)["status"] = "Skip"
    made.result_of(document, "eud", 2).update(status=word, warnings=list(faults))
    summary = {"status": "Skip", "warnings": list(faults)}
    document["DCGM Diagnostic"]["test_categories"][0]["tests"][3]["test_summary"] = summary
    return document


@pytest.mark.parametrize(("error", "severity", "remedy"), [(80, 6, "rma"), (95, 2, "rma"), (120, 2, "power_cycle")])
def test_v5_a_skip_for_broken_hardware_counts_also_where_nobody_asked(error: int, severity: int, remedy: str) -> None:
    sheet = look(with_eud("Skip", made.fault("x", error, severity)))
    assert (sheet.verdict, sheet.remedy) == ("fail", remedy)
    only_summary = with_eud("Skip", made.fault("x", error, severity))
    del made.result_of(only_summary, "eud", 2)["warnings"]
    assert look(only_summary).verdict == "fail"


@pytest.mark.parametrize(("error", "severity"), [(90, 4), (89, 4), (117, 5), (48, 5), (122, 2)])
def test_v5_a_skip_for_want_of_a_set_up_that_nobody_asked_for_does_not_count(error: int, severity: int) -> None:
    assert look(with_eud("Skip", made.fault("x", error, severity))).verdict == "pass"


@pytest.mark.parametrize("word", ["Pass", "Skip", "Not Run"])
def test_v5_what_dcgm_wants_isolated_fails_whatever_the_word_beside_it(word: str) -> None:
    document = made.dcgm4()
    made.result_of(document, "memory", 1).update(status=word, warnings=[made.fault("x", 9999, 2)])
    sheet = look(document)
    assert (sheet.verdict, sheet.remedy) == ("fail", "field_diag")
    made.result_of(document, "memory", 1)["warnings"] = [made.fault("x", 9999, 1)]
    assert look(document).verdict == "inconclusive"


def test_v5_what_dcgm_wants_isolated_is_not_merely_measured_again() -> None:
    assert look_up(12, severity=1, version="4.6.0").remedy == "retest"
    assert look_up(12, severity=2, version="4.6.0").remedy == "field_diag"
    assert look_up(12, severity=1, version="2.4.7").remedy == "field_diag", "isolate was 1 in 2.x"
    assert look_up(80, severity=2, version="4.5.3").remedy == "rma"
    assert look_up(122, severity=2, version="4.6.0").remedy == "remediate_config"


@pytest.mark.parametrize("skipped", [False, True])
def test_v5_exit_226_without_a_failing_test_is_a_matter_of_the_set_up(skipped: bool) -> None:
    document = made.dcgm4()
    if skipped:
        made.result_of(document, "memory", 4)["status"] = "Skip"
    sheet = look(document, rc=226)
    assert (sheet.verdict, sheet.remedy) == ("inconclusive", "remediate_config")
    failing = look(made.failing(made.dcgm4(), "memory", 3, made.fault("x", 52)), rc=226)
    assert (failing.verdict, failing.remedy) == ("fail", "field_diag")


def without_results(document: dict[str, Any], gpu: int) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    for test in changed["DCGM GPU Diagnostic"]["test_categories"][0]["tests"]:
        test["results"] = [row for row in test["results"] if row.get("gpu_id") != str(gpu)]
    return changed


def test_v5_a_gpu_that_is_there_and_was_not_tested_is_not_missing() -> None:
    eight, seven = listing(*["2330"] * 8), listing(*["2330"] * 7)
    sheet = look(without_results(eight, 5))
    assert (sheet.verdict, sheet.remedy) == ("inconclusive", "reset_gpu")
    assert told(sheet) == {"not_run GPU 5": "reset_gpu"}
    counted = look(without_results(made.dcgm3(), 5), found=made.found(8))
    assert (counted.verdict, told(counted)) == ("inconclusive", {"not_run GPU 5": "reset_gpu"})
    missing = look(without_results(seven, 5))
    assert (missing.verdict, missing.remedy) == ("fail", "power_cycle")
    assert look(without_results(made.dcgm3(), 5), found=made.found(7)).remedy == "power_cycle"
    unknown = look(without_results(made.dcgm3(), 5))
    assert (unknown.verdict, unknown.remedy) == ("inconclusive", "reset_gpu")


def test_v5_a_gpu_on_which_every_test_says_not_run_is_reset() -> None:
    document = listing(*["2330"] * 8)
    for test in document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"]:
        for row in test["results"]:
            if row.get("gpu_id") == "5":
                row["status"] = "Not Run"
    sheet = look(json.loads(made.text(document)))
    assert (sheet.verdict, sheet.remedy) == ("inconclusive", "reset_gpu")
