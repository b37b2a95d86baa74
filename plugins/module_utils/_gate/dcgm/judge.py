# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a DCGM diagnosis against a profile. PRIVATE to the collection.

Nothing is run here: in go what was read, how dcgmi ended, and what the profile wants; out comes a sheet. Exit status
and document must say the same: dcgmi ends with 0 when only an NVSwitch failed, when a test failed without an error
object, and when every test was skipped (NVIDIA/DCGM v4.6.0 Diag.cpp, GetFailureResult).

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import exits
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import NODE, Cell, Diagnosis, Fault
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.errors import look_up
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import DEPLOYMENT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import WantedTest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Check,
    Sheet,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

#: What a status word says. A word that is not here says nothing, and so does an empty one.
WORDS = {"pass": PASS, "fail": FAIL, "warn": FAIL}
#: Words for "did not happen": they matter where the test was wanted.
ABSENT = frozenset({"skip", "skipped", "not run"})
#: Where a test failed without any error object: the error that its name stands for.
_BY_TEST = {
    "denylist": 23,
    "nvml_library": 22,
    "cuda_main_library": 22,
    "permissions": 18,
    "persistence_mode": 29,
    "environment": 28,
    "page_retirement": 6,
    "graphics_processes": 25,
    "inforom": 9,
}
#: How a run that did not end by itself is told to a person.
_ENDED = {
    "timeout": ("dcgmi was still running after {seconds:.0f} s and was killed; restart nvidia-dcgm first", "retest"),
    "flood": ("dcgmi printed more than any diagnosis and was killed", "retest"),
    "missing": ("{tool} is not installed", "remediate_config"),
    "denied": ("{tool} cannot be run", "remediate_config"),
}


def judge(
    seen: Diagnosis, run: Run, wanted: Wanted, tests: Sequence[WantedTest], *, counted: Optional[int] = None
) -> Sheet:
    """Everything that one run of the diagnostic says.

    :param counted: GPUs that DCGM itself counted elsewhere, for documents that number none.
    """
    sheet = Sheet()
    ids = _require(sheet, seen, wanted, tests)
    if seen.cells or seen.summaries:
        _count(sheet, seen, wanted, counted)
        _devices(sheet, seen, wanted)
    names = {test.name for test in tests}
    for cell in seen.cells:
        _cell(sheet, cell, names, seen.version)
    for cell in seen.summaries:
        _summary(sheet, cell, names, seen)
    _document(sheet, seen, ids)
    _ending(sheet, run, sheet.verdict)
    return sheet


def _require(sheet: Sheet, seen: Diagnosis, wanted: Wanted, tests: Sequence[WantedTest]) -> set[int]:
    """State what must be there: the full grid of tests and entities, the count, a clean end."""
    ids = seen.gpu_ids()
    if len(ids) < wanted.gpu_count:
        ids = ids | set(range(wanted.gpu_count))
    sheet.require("exit_status", NODE, wanted=0, source=exits.EXITS[0].source)
    sheet.require("gpu_count", NODE, wanted=wanted.gpu_count, source=wanted.gpu_count_source)
    for test in tests:
        if test.name == "software" and seen.shape == 3:
            for part in DEPLOYMENT:
                sheet.require(f"dcgm.{part}", NODE, source=test.source)
        elif test.scope == "node":
            sheet.require(f"dcgm.{test.name}", NODE, source=test.source)
        else:
            for number in sorted(ids):
                sheet.require(f"dcgm.{test.name}", f"GPU {number}", source=test.source)
        if seen.shape == 4:
            sheet.require(f"dcgm.{test.name}.summary", NODE, source=test.source)
    if not tests:
        sheet.unsettled("tests", NODE, "the profile names no DCGM test for this level", "remediate_config")
    return ids


def _count(sheet: Sheet, seen: Diagnosis, wanted: Wanted, counted: Optional[int]) -> None:
    ids = seen.gpu_ids()
    numbers = [number for number in (len(ids) or None, seen.listed, counted) if number is not None]
    count = min(numbers) if numbers else None
    verdict = PASS if count == wanted.gpu_count else INCONCLUSIVE
    if count is None:
        sheet.find("gpu_count", NODE, "DCGM does not say how many GPUs there are", "retest")
    elif count < wanted.gpu_count:
        verdict = FAIL
        lost = sorted(set(range(wanted.gpu_count)) - ids) if ids else []
        named = f": GPU {', '.join(map(str, lost))} is missing" if len(lost) == wanted.gpu_count - count else ""
        sheet.find("gpu_count", NODE, f"{count} of {wanted.gpu_count} GPUs{named}", "power_cycle")
    elif count > wanted.gpu_count or max(numbers) != count:
        verdict = INCONCLUSIVE
        text = f"{max(numbers)} GPUs, and the profile {wanted.sku} knows {wanted.gpu_count}"
        sheet.find("gpu_count", NODE, text, "remediate_config")
    sheet.record(Check("gpu_count", NODE, verdict, count, wanted.gpu_count, "", wanted.gpu_count_source))


def _devices(sheet: Sheet, seen: Diagnosis, wanted: Wanted) -> None:
    for number, gpu in sorted(seen.gpus.items()):
        device, entity = gpu["device_id"][-4:], f"GPU {number}"
        if not device:
            continue
        fits = device in wanted.device_ids
        if not fits:
            text = f"{entity}: device {device} is not a GPU of the profile {wanted.sku}"
            sheet.find("device_id", entity, text, "remediate_config")
        verdict = PASS if fits else INCONCLUSIVE
        sheet.record(Check("device_id", entity, verdict, device, list(wanted.device_ids), "", "profile"))


def _cell(sheet: Sheet, cell: Cell, names: set[str], version: str) -> None:
    """One result. An error beside a pass is no pass: DCGM passes a memory test that could not allocate (#284)."""
    deployment = cell.test in DEPLOYMENT
    needed = cell.test in names or (deployment and "software" in names)
    if not needed and cell.word in ABSENT:
        return
    verdict = WORDS.get(cell.word, INCONCLUSIVE)
    if verdict == PASS and cell.faults:
        verdict = INCONCLUSIVE
    _explain(sheet, cell, verdict, version)
    said = cut("; ".join(fault.text for fault in cell.faults), 300)
    measured = f"{cell.word or 'no status'}: {said}" if said else (cell.word or "no status")
    entity = NODE if deployment else cell.entity
    sheet.record(Check(f"dcgm.{cell.test}", entity, verdict, measured, PASS, "", "dcgmi diag"))
    # A test of the whole machine that names each GPU counts for the machine as well.
    if entity != NODE and sheet.wants(f"dcgm.{cell.test}", NODE):
        sheet.record(Check(f"dcgm.{cell.test}", NODE, verdict, measured, PASS, "", "dcgmi diag"))


def _explain(sheet: Sheet, cell: Cell, verdict: str, version: str) -> None:
    """Findings of one result: an error object each, or the result itself where there is none."""
    where = "" if cell.entity == NODE else f"{cell.entity}: "
    for fault in cell.faults:
        row = look_up(fault.error_id, severity=fault.severity, version=version, text=fault.text)
        if fault.error_id is None:
            text = f"{where}{row.words} in the test {cell.test}: {cut(fault.text, 200)}"
            sheet.find(f"dcgm.{cell.test}", cell.entity, text, row.remedy)
        else:
            text = f"{where}{row.words} (DCGM {fault.error_id})"
            sheet.find(f"dcgm:{fault.error_id}", cell.entity, text, row.remedy)
    if cell.faults or verdict == PASS:
        return
    known = look_up(_BY_TEST.get(cell.test))
    word = f"says {cell.word}" if cell.word else "has no status"
    remedy = known.remedy if verdict == FAIL else "retest"
    sheet.find(f"dcgm.{cell.test}", cell.entity, f"{where}the test {cell.test} {word}", remedy)


def _summary(sheet: Sheet, cell: Cell, names: set[str], seen: Diagnosis) -> None:
    """The summary of a test holds errors of entities that have no result of their own, such as NVSwitches."""
    if cell.test not in names and cell.word in ABSENT:
        return
    verdict = WORDS.get(cell.word, INCONCLUSIVE)
    told = {fault.error_id for other in seen.cells if other.test == cell.test for fault in other.faults}
    fresh: tuple[Fault, ...] = tuple(fault for fault in cell.faults if fault.error_id not in told)
    if verdict == PASS and cell.faults:
        verdict = INCONCLUSIVE
    explained = any(other.test == cell.test and other.word != "pass" for other in seen.cells)
    if fresh or not explained:
        _explain(sheet, Cell(cell.test, NODE, cell.word, fresh), verdict, seen.version)
    name = f"dcgm.{cell.test}.summary"
    sheet.record(Check(name, NODE, verdict, cell.word or "no status", PASS, "", "dcgmi diag"))


def _document(sheet: Sheet, seen: Diagnosis, ids: Iterable[int]) -> None:
    for text in seen.runtime_errors:
        sheet.unsettled(
            "runtime_error", NODE, f"DCGM could not run the diagnostic: {cut(text, 300)}", "remediate_config"
        )
    for number, text in enumerate(seen.problems):
        sheet.unsettled(f"output.{number}" if number else "output", NODE, f"dcgmi: {cut(text, 300)}")
    for word in seen.overall:
        verdict = WORDS.get(word.strip().lower(), INCONCLUSIVE)
        sheet.record(Check("overall_result", NODE, verdict, word, PASS, "", "dcgmi diag"))
    if seen.truncated():
        text = "DCGM reports at most 32 errors, and reported that many: there may be more"
        sheet.unsettled("errors_truncated", NODE, text)


def _ending(sheet: Sheet, run: Run, document: str) -> None:
    """How dcgmi ended, against what it printed. document: the verdict of the sheet without this last cell.

    With the end still open the sheet cannot be a pass; what counts is whether any other cell speaks against one.
    """
    if run.ended != "exit" or run.rc is None:
        template, remedy = _ENDED[run.ended]
        text = template.format(seconds=run.seconds, tool=run.argv[0] if run.argv else "dcgmi")
        sheet.find("exit_status", NODE, text, remedy)
        sheet.record(Check("exit_status", NODE, INCONCLUSIVE, run.ended, 0))
        return
    said = exits.meaning(run.rc)
    others = [row for row in sheet.rows() if row.id != "exit_status"]
    complete = all(row.verdict == PASS for row in others)
    verdict = PASS
    if said.kind == exits.OK and document == FAIL:
        sheet.find("exit_conflict", NODE, "dcgmi ended with 0 although a test failed", "none")
    elif said.kind != exits.OK and complete:
        verdict = INCONCLUSIVE if said.kind == exits.KILLED else FAIL
        text = f"dcgmi ended with {run.rc} ({said.words}) although every test passed"
        sheet.find("exit_conflict", NODE, text, said.remedy)
    elif said.kind != exits.OK:
        # 226 only says that something failed somewhere: without a failing test in the document it proves nothing.
        alone = said.kind == exits.HARDWARE and run.rc != 226
        verdict = FAIL if alone or document == FAIL else INCONCLUSIVE
        if document != FAIL:
            sheet.find("exit_status", NODE, f"dcgmi ended with {run.rc}: {said.words}", said.remedy)
    sheet.record(Check("exit_status", NODE, verdict, run.rc, 0, "", said.source))
