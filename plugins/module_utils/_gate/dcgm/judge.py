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

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import exits, health, link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.discovery import NOT_ASKED, Found
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Cell, Diagnosis, Fault
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.errors import (
    is_hardware,
    isolates,
    look_up,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.grid import required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import DEPLOYMENT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import WantedTest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import demand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

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
_UNKNOWN_END = ("nobody knows how dcgmi ended", "retest")


def judge(
    seen: Diagnosis,
    run: Run,
    wanted: Wanted,
    tests: Sequence[WantedTest],
    *,
    found: Found = NOT_ASKED,
    watched: bool = False,
    linked: bool = False,
) -> Sheet:
    """Everything that one run of the diagnostic says.

    :param found: the GPUs that DCGM counts elsewhere, for documents that do not say which GPUs they are of.
    :param linked: was the test pcie told what each link has to be?
    :param watched: will DCGM's health watches be asked as well? What they say is recorded by whoever asks them.
    """
    sheet = Sheet()
    ids = seen.gpu_ids() | set(found.devices)
    if len(ids) < wanted.gpu_count:
        ids = ids | set(range(wanted.gpu_count))
    demand(sheet, required(wanted, tests, ids, seen.shape, watched=watched))
    if not tests:
        sheet.unsettled("tests", NODE, "the profile names no DCGM test for this level", "remediate_config")
    if seen.cells or seen.summaries:
        _count(sheet, seen, wanted, found)
        _devices(sheet, seen, wanted, found)
        _not_run(sheet, seen, ids)
    names = {test.name for test in tests}
    for cell in seen.cells:
        _cell(sheet, cell, names, seen.version)
        if linked and link.unseen(cell):
            _unseen(sheet, cell)
    for cell in seen.summaries:
        _summary(sheet, cell, names, seen)
    _document(sheet, seen)
    _ending(sheet, run, sheet.verdict)
    return sheet


def _count(sheet: Sheet, seen: Diagnosis, wanted: Wanted, found: Found) -> None:
    """How many GPUs there are is said by lists of them; a GPU without results may be there all the same."""
    lists = (len(seen.gpus) or None, len(seen.listed) if seen.listed else None, found.gpus)
    numbers = [number for number in lists if number is not None]
    tested = len(seen.tested())
    if not numbers or tested > max(numbers):
        numbers.append(tested)
    count = min(numbers)
    verdict = PASS if count == wanted.gpu_count else INCONCLUSIVE
    if not count:
        sheet.find("gpu_count", NODE, "DCGM does not say how many GPUs there are", "retest")
    elif count < wanted.gpu_count and not any(lists):
        text = f"{count} of {wanted.gpu_count} GPUs have results, and DCGM does not say whether the others are there"
        sheet.find("gpu_count", NODE, text, "reset_gpu")
    elif count < wanted.gpu_count:
        verdict = FAIL
        ids = seen.gpu_ids() | set(found.devices)
        lost = sorted(set(range(wanted.gpu_count)) - ids) if ids else []
        named = f": GPU {', '.join(map(str, lost))} is missing" if len(lost) == wanted.gpu_count - count else ""
        sheet.find("gpu_count", NODE, f"{count} of {wanted.gpu_count} GPUs{named}", "power_cycle")
    elif count > wanted.gpu_count or max(numbers) != count:
        verdict = INCONCLUSIVE
        text = f"{max(numbers)} GPUs, and the profile {wanted.sku} knows {wanted.gpu_count}"
        sheet.find("gpu_count", NODE, text, "remediate_config")
    sheet.record(Check("gpu_count", NODE, verdict, count or None, wanted.gpu_count, "", wanted.gpu_count_source))


def _devices(sheet: Sheet, seen: Diagnosis, wanted: Wanted, found: Found) -> None:
    """Which GPU each of them is, by the document and by the kernel; both must be of the profile."""
    for source, devices in (("dcgmi diag", seen.devices()), ("sysfs", found.devices)):
        for number, device in sorted(devices.items()):
            if not device:
                continue
            entity, fits = f"GPU {number}", device in wanted.device_ids
            if not fits:
                text = f"{entity}: device {device} is not a GPU of the profile {wanted.sku}"
                sheet.find("device_id", entity, text, "remediate_config")
            verdict = PASS if fits else INCONCLUSIVE
            sheet.record(Check("device_id", entity, verdict, device, list(wanted.device_ids), "", source))


def _not_run(sheet: Sheet, seen: Diagnosis, gpus: Iterable[int]) -> None:
    """A GPU that is there, and on which nothing was run while the others were tested: it does not take work."""
    words = {number: {cell.word for cell in seen.cells if cell.entity == f"GPU {number}"} for number in gpus}
    if not any(words.values()):
        return  # a level that names no GPUs
    for number, said in sorted(words.items()):
        if not said - {"not run"} and not sheet.found("gpu_count"):
            sheet.find("not_run", f"GPU {number}", f"GPU {number}: no test ran on it", "reset_gpu")


def _weighed(cell: Cell, version: str) -> str:
    """What one result says.

    An error beside a pass is no pass: DCGM passes a memory test that could not allocate (#284). An error for which
    DCGM itself wants the GPU isolated fails, and so does one of the hardware that made a test be skipped.
    """
    verdict = WORDS.get(cell.word, INCONCLUSIVE)
    if any(isolates(fault.error_id, severity=fault.severity, version=version) for fault in cell.faults):
        return FAIL
    if cell.word in ABSENT and any(is_hardware(fault.error_id) for fault in cell.faults):
        return FAIL
    return INCONCLUSIVE if verdict == PASS and cell.faults else verdict


def _cell(sheet: Sheet, cell: Cell, names: set[str], version: str) -> None:
    """One result. That of a test that was not asked for counts where it happened, or failed."""
    deployment = cell.test in DEPLOYMENT
    needed = cell.test in names or (deployment and "software" in names)
    verdict = _weighed(cell, version)
    if not needed and cell.word in ABSENT and verdict != FAIL:
        return
    _explain(sheet, cell, verdict, version)
    said = cut("; ".join(fault.text for fault in cell.faults), 300)
    measured = f"{cell.word or 'no status'}: {said}" if said else (cell.word or "no status")
    entity = NODE if deployment else cell.entity
    sheet.record(Check(f"dcgm.{cell.test}", entity, verdict, measured, PASS, "", "dcgmi diag"))
    # A test of the whole machine that names each GPU counts for the machine as well.
    if entity != NODE and sheet.wants(f"dcgm.{cell.test}", NODE):
        sheet.record(Check(f"dcgm.{cell.test}", NODE, verdict, measured, PASS, "", "dcgmi diag"))


def _unseen(sheet: Sheet, cell: Cell) -> None:
    words = "DCGM did not look at its PCIe link, as it was not in state P0 after the transfers"
    sheet.find(f"dcgm.{cell.test}.link", cell.entity, f"{cell.entity}: {words}", "retest")
    sheet.record(Check(f"dcgm.{cell.test}", cell.entity, INCONCLUSIVE, cell.word, PASS, "", "dcgmi diag"))


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
    verdict = _weighed(cell, seen.version)
    if cell.test not in names and cell.word in ABSENT and verdict != FAIL:
        return
    told = {fault.error_id for other in seen.cells if other.test == cell.test for fault in other.faults}
    fresh: tuple[Fault, ...] = tuple(fault for fault in cell.faults if fault.error_id not in told)
    explained = any(other.test == cell.test and other.word != "pass" for other in seen.cells)
    if fresh or not explained:
        _explain(sheet, Cell(cell.test, NODE, cell.word, fresh), verdict, seen.version)
    name = f"dcgm.{cell.test}.summary"
    sheet.record(Check(name, NODE, verdict, cell.word or "no status", PASS, "", "dcgmi diag"))


def _document(sheet: Sheet, seen: Diagnosis) -> None:
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
        template, remedy = _ENDED.get(run.ended, _UNKNOWN_END)
        text = template.format(seconds=run.seconds, tool=run.argv[0] if run.argv else "dcgmi")
        sheet.find("exit_status", NODE, text, remedy)
        sheet.record(Check("exit_status", NODE, INCONCLUSIVE, run.ended, 0))
        return
    said = exits.meaning(run.rc)
    others = [row for row in sheet.rows() if row.id not in ("exit_status", health.CELL)]
    complete = all(row.verdict == PASS for row in others)
    verdict = PASS
    if said.kind == exits.OK and document == FAIL:
        sheet.find("exit_conflict", NODE, "dcgmi ended with 0 although a test failed", "none")
    elif said.kind != exits.OK and complete:
        verdict = INCONCLUSIVE if said.kind in (exits.KILLED, exits.REPORTED) else FAIL
        text = f"dcgmi ended with {run.rc} ({said.words}) although every test passed"
        sheet.find("exit_conflict", NODE, text, said.remedy)
    elif said.kind != exits.OK:
        verdict = FAIL if said.kind == exits.HARDWARE or document == FAIL else INCONCLUSIVE
        if document != FAIL:
            sheet.find("exit_status", NODE, f"dcgmi ended with {run.rc}: {said.words}", said.remedy)
    sheet.record(Check("exit_status", NODE, verdict, run.rc, 0, "", said.source))
