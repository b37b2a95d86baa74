# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dcgmi printed, against the profile."""

from __future__ import annotations

import copy
import json
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most


def look(
    output: str, *, rc: Optional[int] = 0, level: int = 2, ended: str = "exit", counted: Optional[int] = None
) -> Sheet:
    wanted = wanted_of(made.profile())
    seen = read(output)
    run = Run(("dcgmi",), rc, output.encode(), b"", ended, 1.0)
    return judge(
        seen,
        run,
        wanted,
        wanted_tests(wanted, level, [], (4, 6, 0) if seen.shape != 3 else (3, 3, 9)),
        found=made.found(counted),
    )


def texts(sheet: Sheet) -> str:
    return " | ".join(finding.text for finding in sheet.findings)


HEALTHY = made.dcgm4()


def test_healthy_documents_of_all_generations_pass() -> None:
    assert look(made.text(HEALTHY)).verdict == "pass"
    assert look(made.text(made.dcgm3(key="gpu_ids")), counted=8).verdict == "pass"
    assert look(made.text(made.dcgm3(key="gpu_id")), counted=8).verdict == "pass"
    by_number = made.dcgm3()
    for test in by_number["DCGM GPU Diagnostic"]["test_categories"][0]["tests"]:
        for result in test["results"]:
            if "gpu_id" in result:
                result["gpu_id"] = int(result["gpu_id"])
    assert look(made.text(by_number), counted=8).verdict == "pass"
    assert look(made.text(made.dcgm3(level=1)), level=1, counted=8).verdict == "pass"


def test_level_1_of_dcgm_3_without_any_count_is_no_proof_of_eight_gpus() -> None:
    output = made.text(made.dcgm3(level=1))
    assert look(output, level=1).verdict == "inconclusive"
    assert look(output, level=1, counted=7).verdict == "fail"
    listed = made.dcgm3(level=1)
    listed["GPU Device IDs"] = ["2330"] * 8
    assert look(made.text(listed), level=1).verdict == "pass"
    listed["GPU Device IDs"] = ["2330"] * 7
    assert look(made.text(listed), level=1).verdict == "fail"


def test_one_string_of_gpus_and_upper_case_words_as_nvvs_prints_them() -> None:
    document = made.dcgm3(level=1)
    for test in document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"]:
        test["results"] = [{"gpu_ids": "0,1,2,3,4,5,6,7", "status": "PASS"}]
    assert look(made.text(document), level=1, counted=8).verdict == "pass"
    document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"][4]["results"][0]["status"] = "FAIL"
    assert look(made.text(document), level=1).verdict == "fail"


def test_noise_around_the_document_is_noise() -> None:
    output = 'WARNING: {see below}\nDefaulted container "dcgm"\n' + made.text(HEALTHY) + "\nbye {}\n"
    assert look(output).verdict == "pass"


def test_holes_in_lists_as_3_x_leaves_them() -> None:
    document = copy.deepcopy(HEALTHY)
    tests = document["DCGM Diagnostic"]["test_categories"][0]["tests"]
    tests.insert(1, None)
    tests[0]["results"].append(None)
    assert look(made.text(document)).verdict == "pass"


@pytest.mark.parametrize(
    ("warnings", "more"),
    [
        ("GPU 5 Detected faulty memory", {}),  # up to 3.2.5
        ("GPU 5 is unhappy", {"error_id": 52}),  # 3.2.6
        ([made.fault("GPU 5 Detected faulty memory", 52)], {}),  # 3.3 and on
        ([{"warnings": "GPU 5 Detected faulty memory", "error_id": 52}], {}),  # the deployment tests of 3.3
    ],
)
def test_errors_in_all_their_shapes(warnings: Any, more: dict[str, Any]) -> None:
    document = made.dcgm3()
    memory = document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"][-1]
    memory["results"][5].update(status="Fail", warnings=warnings, **more)
    sheet = look(made.text(document), rc=205)
    assert sheet.verdict == "fail"
    assert sheet.remedy == "field_diag"
    assert "GPU 5: faulty memory" in texts(sheet)


def test_a_finding_reads_well() -> None:
    document = made.failing(HEALTHY, "memory", 3, made.fault("row remap failed", 80, severity=6))
    sheet = look(made.text(document), rc=226)
    assert [finding.text for finding in sheet.findings] == ["GPU 3: row remap failure (DCGM 80)"]
    assert sheet.remedy == "rma"


def test_exit_0_with_a_failing_entity_is_a_failure() -> None:
    sheet = look(made.text(made.failing(HEALTHY, "memory", 2)))
    assert sheet.verdict == "fail"
    assert "ended with 0 although" in texts(sheet)


@pytest.mark.parametrize("rc", [1, 199, 205, 212, 217, 237, 238, 245, 255])
def test_a_bad_end_beside_a_perfect_document_is_a_failure(rc: int) -> None:
    assert look(made.text(HEALTHY), rc=rc).verdict == "fail"


@pytest.mark.parametrize("rc", [-9, -15, 124, 137, 203])
def test_a_killed_run_beside_a_perfect_document_proves_nothing(rc: int) -> None:
    assert look(made.text(HEALTHY), rc=rc).verdict == "inconclusive"


@pytest.mark.parametrize("ended", ["timeout", "flood"])
def test_a_run_that_was_cut_off_proves_nothing(ended: str) -> None:
    assert look(made.text(HEALTHY), rc=-9, ended=ended).verdict == "inconclusive"


@pytest.mark.parametrize("word", ["Skip", "Not Run", "", "Passed", "pass?", "Warning", None, 1, True])
def test_any_other_word_than_pass_is_no_pass(word: Any) -> None:
    document = copy.deepcopy(HEALTHY)
    made.result_of(document, "memory", 4)["status"] = word
    assert look(made.text(document)).verdict != "pass"


def test_all_skipped_with_exit_0() -> None:
    document = copy.deepcopy(HEALTHY)
    for name in made.LEVELS[2]:
        for gpu in range(8):
            made.result_of(document, name, gpu)["status"] = "Skip"
    assert look(made.text(document)).verdict == "inconclusive"


def test_warn_is_no_pass() -> None:
    document = made.dcgm3(level=1)
    document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"][4]["results"][0]["status"] = "Warn"
    sheet = look(made.text(document), level=1, counted=8)
    assert (sheet.verdict, sheet.remedy) == ("fail", "remediate_config")


def test_a_test_of_the_node_needs_no_result_for_each_gpu_and_takes_the_worst() -> None:
    profile = made.profile()
    profile["dcgm"]["tests"][1]["scope"] = "node"
    wanted = wanted_of(profile)

    def verdict(document: dict[str, Any]) -> str:
        output = made.text(document)
        run = Run(("dcgmi",), 0, output.encode(), b"", "exit", 1.0)
        return judge(read(output), run, wanted, wanted_tests(wanted, 2, [], (4, 6, 0))).verdict

    document = copy.deepcopy(HEALTHY)
    memory = document["DCGM Diagnostic"]["test_categories"][0]["tests"][2]
    assert verdict(document) == "pass"
    memory["results"] = memory["results"][:1]
    assert verdict(document) == "pass"
    memory["results"][0]["status"] = "Skip"
    assert verdict(document) == "inconclusive"
    memory["results"] = []
    assert verdict(document) == "inconclusive"


def test_seven_of_eight() -> None:
    sheet = look(made.text(made.dcgm4(gpus=7)))
    assert sheet.verdict == "fail"
    assert "7 of 8 GPUs: GPU 7 is missing" in texts(sheet)
    assert sheet.remedy == "power_cycle"


def test_nine_of_eight_is_another_machine() -> None:
    assert look(made.text(made.dcgm4(gpus=9))).verdict == "inconclusive"


def test_gpus_that_are_not_numbered_from_zero() -> None:
    document = copy.deepcopy(HEALTHY)
    for test in document["DCGM Diagnostic"]["test_categories"][0]["tests"]:
        for result in test["results"]:
            result["entity_id"] += 4
    for entity in document["entity_groups"][0]["entities"]:
        entity["entity_id"] += 4
    assert look(made.text(document)).verdict == "pass"


def test_another_device_than_the_profile_knows() -> None:
    document = copy.deepcopy(HEALTHY)
    document["entity_groups"][0]["entities"][0]["device_id"] = "20b2"
    assert look(made.text(document)).verdict == "inconclusive"


def test_an_error_beside_a_pass_is_no_pass() -> None:
    document = copy.deepcopy(HEALTHY)
    made.result_of(document, "memory", 1)["warnings"] = [made.fault("could not allocate", 56, severity=4)]
    sheet = look(made.text(document))
    assert sheet.verdict == "inconclusive"
    assert "GPU 1: GPU memory cannot be allocated (DCGM 56)" in texts(sheet)


def test_a_summary_that_knows_more_than_its_results() -> None:
    """Errors of NVSwitches stand in the summary alone."""
    document = copy.deepcopy(HEALTHY)
    summary = document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["test_summary"]
    summary.update(status="Fail", warnings=[made.fault("NVSwitch 1 has a fatal error", 15)])
    sheet = look(made.text(document))
    assert sheet.verdict == "fail"
    assert "fatal NVSwitch error (DCGM 15)" in texts(sheet)


def test_a_failure_of_a_test_that_nobody_asked_for_counts() -> None:
    document = made.dcgm4(["software", "pcie", "memory", "eud"])
    assert look(made.text(document)).verdict == "pass"
    assert look(made.text(made.failing(document, "eud", 0, made.fault("failed", 95)))).verdict == "fail"
    for gpu in range(8):
        made.result_of(document, "eud", gpu)["status"] = "Skip"
    document["DCGM Diagnostic"]["test_categories"][0]["tests"][3]["test_summary"]["status"] = "Skip"
    assert look(made.text(document)).verdict == "pass"


def test_thirty_two_errors_may_be_more() -> None:
    document = copy.deepcopy(HEALTHY)
    for gpu in range(8):
        result = made.result_of(document, "memory", gpu)
        result.update(status="Fail", warnings=[made.fault(f"{gpu} {at}", 52) for at in range(4)])
    sheet = look(made.text(document), rc=205)
    assert sheet.verdict == "fail"
    assert "at most 32 errors" in texts(sheet)


def test_a_runtime_error_is_no_verdict_on_the_hardware() -> None:
    sheet = look(made.text({"DCGM Diagnostic": {"runtime_error": "no driver"}}), rc=226)
    assert (sheet.verdict, sheet.remedy) == ("inconclusive", "remediate_config")
    assert look(made.text({"DCGM Diagnostic": {"runtime_error": "no driver"}}), rc=0).remedy == "remediate_config"


def test_a_failed_iteration_before_a_stale_copy_of_a_good_one() -> None:
    broken = made.text({"DCGM Diagnostic": {"runtime_error": "the host engine is gone"}})
    good = {"DCGM Diagnostic": HEALTHY["DCGM Diagnostic"]}
    rest = {**HEALTHY, "iterations": [good, good], "Overall Result": "Fail"}
    del rest["DCGM Diagnostic"]
    assert look(broken + "\n" + made.text(rest)).verdict == "fail"
    rest["Overall Result"] = "Pass"
    assert look(made.text(rest)).verdict == "inconclusive", "one run was asked for"
    assert look(broken + "\n" + made.text(rest)).verdict == "inconclusive"
    bare = made.text({"runtime_error": "the host engine is gone"})
    assert look(bare + "\n" + made.text(rest)).verdict == "inconclusive"


def test_a_key_twice_is_no_document() -> None:
    output = made.text(made.failing(HEALTHY, "memory", 3)).replace(
        '"status": "Fail"', '"status": "Fail", "status": "Pass"'
    )
    assert look(output).verdict == "inconclusive"


def test_a_good_document_beside_a_cut_one() -> None:
    whole = made.text(HEALTHY)
    assert look(whole + whole[: len(whole) // 2]).verdict == "inconclusive"
    assert look(whole[: len(whole) // 2] + whole).verdict == "inconclusive"


def test_deep_nesting_is_noise() -> None:
    assert look('{"a":' * 100000).verdict == "inconclusive"
    assert look("{" * 200000).verdict == "inconclusive"


# -- mutations of a passing document, and anything at all ------------------------------------------------------------

WHOLE = made.text(HEALTHY)


@given(st.integers(min_value=0, max_value=len(WHOLE) - 3))
@settings(max_examples=at_most(60), deadline=None)
def test_a_truncated_document_never_passes(length: int) -> None:
    assert look(WHOLE[:length]).verdict != "pass"


@given(st.sampled_from(made.LEVELS[2]), st.integers(0, 7), st.text(max_size=8))
@settings(max_examples=at_most(80), deadline=None)
def test_a_changed_word_never_passes(test: str, gpu: int, word: str) -> None:
    document = copy.deepcopy(HEALTHY)
    made.result_of(document, test, gpu)["status"] = word
    assert (look(made.text(document)).verdict == "pass") == (" ".join(word.split()).lower() == "pass")


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All members of a document that say what was tested, on what, with what result."""
    found: list[tuple[Any, ...]] = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        found.append((*path, key))
        found += _places(item, (*path, key))
    return found


PLACES = [place for place in _places(HEALTHY["DCGM Diagnostic"]) if place[-1] not in ("category", "entity_group_id")]


@given(st.sampled_from(PLACES))
@settings(max_examples=at_most(150), deadline=None)
def test_whatever_is_dropped_from_a_diagnosis_it_never_passes(place: tuple[Any, ...]) -> None:
    document = copy.deepcopy(HEALTHY)
    inner = document["DCGM Diagnostic"]
    for step in place[:-1]:
        inner = inner[step]
    del inner[place[-1]]
    assert look(made.text(document)).verdict != "pass"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(["Pass", "Fail", "software", "memory"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["DCGM Diagnostic", "DCGM GPU Diagnostic", "test_categories", "tests", "results", "status", "name"]
                + ["entity_id", "entity_group", "entity_groups", "entities", "warnings", "iterations", "test_summary"]
                + ["gpu_id", "gpu_ids", "GPU Device IDs", "Overall Result", "metadata", "error_id", "runtime_error"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON, st.sampled_from([0, 205, 226, -9]))
@settings(max_examples=at_most(200), deadline=None)
def test_nothing_else_ever_passes_or_crashes(value: Any, rc: int) -> None:
    assert look(json.dumps(value), rc=rc).verdict != "pass"


@given(st.text(max_size=200))
@settings(max_examples=at_most(100), deadline=None)
def test_no_text_passes(output: str) -> None:
    assert look(output).verdict != "pass"
