# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the gates that fail closed beside others that do so as well: each is held by itself."""

from __future__ import annotations

import copy
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _verdict as algebra
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.errors import look_up
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Check, Sheet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made


def look(
    document: Any, *, rc: int = 0, tests: Optional[list[str]] = None, counted: Optional[int] = None, level: int = 2
) -> Sheet:
    wanted = wanted_of(made.profile())
    output = document if isinstance(document, str) else made.text(document)
    seen = read(output)
    chosen = wanted_tests(wanted, level, tests or [], (4, 6, 0) if seen.shape != 3 else (3, 3, 9))
    return judge(
        seen, Run(("dcgmi",), rc, output.encode(), b"", "exit", 1.0), wanted, chosen, found=made.found(counted)
    )


def open_cells(sheet: Sheet) -> set[tuple[str, str]]:
    return {(row.id, row.entity) for row in sheet.rows() if row.verdict == "inconclusive"}


def texts(sheet: Sheet) -> str:
    return " | ".join(finding.text for finding in sheet.findings)


def test_t1_what_was_in_the_way_leaves_an_open_cell_and_not_a_finding_alone() -> None:
    sheet = Sheet()
    sheet.require("memory", "GPU 0")
    sheet.record(Check("memory", "GPU 0", "pass"))
    sheet.unsettled("output", "node", "half of it is missing", "none")
    assert sheet.verdict == "inconclusive"


@pytest.mark.parametrize(("word", "remedy"), [("fail", "field_diag"), ("inconclusive", "retest"), ("pass", "none")])
def test_t1_what_does_not_pass_has_a_remedy_also_without_a_finding(word: str, remedy: str) -> None:
    sheet = Sheet()
    sheet.require("memory", "GPU 0")
    sheet.record(Check("memory", "GPU 0", word))
    assert (sheet.verdict, sheet.remedy) == (word, remedy)


@pytest.mark.parametrize("word", ["ok", "PASS", "", "skip"])
def test_t1_a_word_that_is_no_verdict_stops_its_host(word: str) -> None:
    assert algebra.blocks(word, "inconclusive")
    assert not algebra.blocks(word, "fail")


def test_t1_a_test_is_wanted_in_the_releases_that_have_it_and_in_no_other() -> None:
    profile = made.profile()
    profile["dcgm"]["tests"][1].update(since="3.1", until="4.2")
    wanted = wanted_of(profile)
    versions = [(3, 0, 9), (3, 1, 0), (4, 1, 9), (4, 2, 0)]
    assert ["memory" in {test.name for test in wanted_tests(wanted, 2, [], version)} for version in versions] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("schema", [0, 2, "2"])
def test_t1_a_profile_of_another_schema_is_none(schema: Any) -> None:
    with pytest.raises(ConfigError, match="schema"):
        wanted_of({**made.profile(), "schema": schema})


def test_t1_a_gpu_that_is_missing_is_an_open_cell_of_each_test() -> None:
    sheet = look(made.dcgm4(gpus=7))
    assert {("dcgm.memory", "GPU 7"), ("dcgm.pcie", "GPU 7"), ("dcgm.software", "GPU 7")} <= open_cells(sheet)


def test_t1_count_and_end_are_cells_that_must_be_filled() -> None:
    assert look("").wants("exit_status", "node")
    assert ("gpu_count", "node") in open_cells(look(""))


def test_t1_a_question_without_any_test_is_never_passed() -> None:
    document = made.dcgm4()
    wanted = wanted_of(made.profile())
    run = Run(("dcgmi",), 0, b"", b"", "exit", 1.0)
    sheet = judge(read(made.text(document)), run, wanted, [])
    assert (sheet.verdict, sheet.remedy) == ("inconclusive", "remediate_config")


def test_t1_of_several_counts_of_gpus_the_smallest_is_believed() -> None:
    document = made.dcgm4()
    assert look(document, counted=8).verdict == "pass"
    fewer = look(document, counted=7)
    assert fewer.verdict == "fail" and "7 of 8 GPUs" in texts(fewer)
    more = look(document, counted=9)
    assert more.verdict == "inconclusive" and "9 GPUs, and the profile test-sku knows 8" in texts(more)


def test_t1_a_gpu_too_many_is_told_as_another_machine() -> None:
    sheet = look(made.dcgm4(gpus=9))
    assert (sheet.verdict, sheet.remedy) == ("inconclusive", "remediate_config")
    assert "9 GPUs, and the profile test-sku knows 8" in texts(sheet)


def test_t1_a_gpu_of_another_kind_is_an_open_cell() -> None:
    document = made.dcgm4()
    document["entity_groups"][0]["entities"][3]["device_id"] = "20b2"
    assert open_cells(look(document)) == {("device_id", "GPU 3")}


def test_t1_a_skipped_test_says_that_it_was_skipped() -> None:
    document = made.dcgm4()
    made.result_of(document, "memory", 4)["status"] = "Skip"
    sheet = look(document)
    assert "GPU 4: the test memory says skip" in texts(sheet)


@pytest.mark.parametrize("word", ["Passed", "", "OK"])
def test_t1_a_word_that_nobody_knows_is_an_open_cell_of_its_own(word: str) -> None:
    document = made.dcgm4()
    made.result_of(document, "memory", 4)["status"] = word
    assert open_cells(look(document)) == {("dcgm.memory", "GPU 4")}


def test_t1_an_error_beside_a_pass_is_an_open_cell_of_its_own() -> None:
    document = made.dcgm4()
    made.result_of(document, "memory", 1)["warnings"] = [made.fault("could not allocate", 56, severity=4)]
    assert ("dcgm.memory", "GPU 1") in open_cells(look(document))


def test_t1_a_document_that_ran_into_an_error_has_an_open_cell_for_it() -> None:
    document = copy.deepcopy(made.dcgm4())
    document["DCGM Diagnostic"]["runtime_error"] = "the host engine is gone"
    sheet = look(document)
    assert ("runtime_error", "node") in open_cells(sheet)
    assert "the host engine is gone" in texts(sheet)


def test_t1_what_could_not_be_read_has_an_open_cell() -> None:
    sheet = look(made.text(made.dcgm4()) + '{"DCGM Diagnostic": ')
    assert ("output", "node") in open_cells(sheet)


@pytest.mark.parametrize("word", ["Fail", "Skip", ""])
def test_t1_the_overall_result_is_a_cell(word: str) -> None:
    document = {**made.dcgm4(), "Overall Result": word}
    assert look({**document, "Overall Result": "Pass"}).verdict == "pass"
    assert look(document).verdict == ("fail" if word == "Fail" else "inconclusive")


def test_t1_as_many_errors_as_dcgm_can_report_leave_an_open_cell() -> None:
    document = copy.deepcopy(made.dcgm4())
    for gpu in range(8):
        made.result_of(document, "memory", gpu).update(
            status="Fail", warnings=[made.fault(f"{gpu} {at}", 52) for at in range(4)]
        )
    assert ("errors_truncated", "node") in open_cells(look(document, rc=205))


@pytest.mark.parametrize("ended", ["timeout", "flood", "missing", "denied"])
def test_t1_a_run_that_did_not_end_by_itself_has_an_open_end(ended: str) -> None:
    wanted = wanted_of(made.profile())
    output = made.text(made.dcgm4())
    run = Run(("dcgmi",), None, output.encode(), b"", ended, 1.0)
    sheet = judge(read(output), run, wanted, wanted_tests(wanted, 2, [], (4, 6, 0)))
    assert open_cells(sheet) == {("exit_status", "node")}


@pytest.mark.parametrize(
    ("rc", "verdict"), [(226, "inconclusive"), (238, "fail"), (42, "fail"), (203, "inconclusive"), (-9, "inconclusive")]
)
def test_t1_a_bad_end_is_a_cell_whatever_the_document_says(rc: int, verdict: str) -> None:
    cells = {row.id: row.verdict for row in look(made.dcgm4(), rc=rc).rows()}
    assert cells["exit_status"] == verdict


@pytest.mark.parametrize(
    ("rc", "verdict"), [(226, "inconclusive"), (238, "fail"), (227, "inconclusive"), (42, "inconclusive")]
)
def test_t1_a_bad_end_beside_an_open_cell_is_no_pass_of_its_cell(rc: int, verdict: str) -> None:
    document = made.dcgm4()
    made.result_of(document, "memory", 4)["status"] = "Skip"
    cells = {row.id: row.verdict for row in look(document, rc=rc).rows()}
    assert cells["exit_status"] == verdict


def test_t1_one_result_for_several_gpus_counts_for_each() -> None:
    document = made.dcgm3(level=1)
    document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"].append(
        {"name": "Memory", "results": [{"gpu_ids": "0,1,2", "status": "Fail"}]}
    )
    failed = {row.entity for row in look(document, counted=8, level=1).rows() if row.id == "dcgm.memory"}
    assert failed == {"GPU 0", "GPU 1", "GPU 2"}


@pytest.mark.parametrize("number", [2**31 - 16, 0x7FFFFFF0, -1, True, "many"])
def test_t1_a_blank_of_dcgm_is_no_gpu(number: Any) -> None:
    document = made.dcgm4()
    made.result_of(document, "memory", 7)["entity_id"] = number
    sheet = look(document)
    assert sheet.verdict == "inconclusive"
    assert "does not say which entity" in texts(sheet)


def test_t1_a_result_that_names_no_gpu_is_told() -> None:
    document = made.dcgm3()
    document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"][-1]["results"][7]["gpu_id"] = "seven"
    assert "does not say which GPU" in texts(look(document))


@pytest.mark.parametrize(
    ("rc", "remedy"), [(199, "reboot"), (205, "field_diag"), (237, "reset_gpu"), (238, "power_cycle")]
)
def test_t1_an_exit_status_of_broken_hardware_is_a_failure_whatever_else_is_open(rc: int, remedy: str) -> None:
    document = made.dcgm4()
    made.result_of(document, "memory", 4)["status"] = "Skip"
    sheet = look(document, rc=rc)
    assert (sheet.verdict, sheet.remedy) == ("fail", remedy)


@pytest.mark.parametrize("severity", [None, 0, 1, 2, 3, 4, 99])
def test_t1_a_failure_that_nobody_knows_is_for_a_person(severity: Optional[int]) -> None:
    assert look_up(None, severity=severity, text="something new").remedy == "field_diag"
    if severity not in (1,):  # "monitor": measure again
        assert look_up(9999, severity=severity, version="4.6.0").remedy in ("field_diag", "remediate_config")


@pytest.mark.parametrize(("version", "remedy"), [("2.4.7", "field_diag"), ("4.6.0", "retest")])
def test_t1_severities_mean_what_their_release_meant(version: str, remedy: str) -> None:
    assert look_up(9999, severity=1, version=version).remedy == remedy
