# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges bandwidths against a profile, and says which cells they must fill. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED, record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.document import (
    BROKE,
    RAN,
    UNKNOWN_CASE,
    WAIVED,
    Case,
    Seen,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import Floor
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import Required, demand
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

UNIT = "GB/s"
_TOOL = "nvbandwidth"
_REMEDY = {"host": "reseat", "gpus": "field_diag"}


def required(wanted: Wanted, floors: Sequence[Floor]) -> Iterator[Required]:
    yield Required(ENDED, NODE, "exit [0]", "", "own rule: an unknown end is none")
    yield Required("gpu_count", NODE, wanted.gpu_count, "", wanted.gpu_count_source)
    yield Required("device_id", NODE, wanted.gpu_count, "", "sysfs")
    for floor in floors:
        for number in range(wanted.gpu_count):
            yield Required(cell_of(floor), f"GPU {number}", floor.minimum, UNIT, floor.source)


def cell_of(floor: Floor) -> str:
    return f"bandwidth.{floor.name}"


def judge(seen: Seen, run: Run, wanted: Wanted, floors: Sequence[Floor], on_bus: int) -> Sheet:
    """Everything that one run says. on_bus: how many GPUs of the SKU the kernel knows."""
    sheet = Sheet()
    demand(sheet, required(wanted, floors))
    record_end(sheet, run)
    for at, text in enumerate(seen.problems):
        sheet.unsettled(f"output.{at}" if at else "output", NODE, f"{_TOOL}: {short(text, 300)}")
    _devices(sheet, wanted, on_bus)
    _count(sheet, seen, wanted)
    for floor in floors:
        _floor(sheet, seen.cases.get(floor.name), floor, wanted)
    for name, case in seen.cases.items():
        if case.status == BROKE and name not in {floor.name for floor in floors}:
            _broke(sheet, name, case)
    return sheet


def _devices(sheet: Sheet, wanted: Wanted, on_bus: int) -> None:
    """nvbandwidth tells no device ids: what stands in the machine, the kernel tells."""
    fits = on_bus == wanted.gpu_count
    if not fits:
        text = f"the kernel knows {on_bus} GPUs of the profile {wanted.sku}, which counts {wanted.gpu_count}"
        sheet.find("device_id", NODE, text, "remediate_config")
    sheet.record(Check("device_id", NODE, PASS if fits else INCONCLUSIVE, on_bus, wanted.gpu_count, "", "sysfs"))


def _count(sheet: Sheet, seen: Seen, wanted: Wanted) -> None:
    """By its list of devices, and by the columns of each matrix: all must say the same."""
    counts = {len(case.rows[0]) for case in seen.cases.values() if case.rows}
    if seen.devices is not None:
        counts.add(seen.devices)
    if not counts:
        return
    least, most = min(counts), max(counts)
    verdict = PASS
    if least < wanted.gpu_count:
        verdict = FAIL
        sheet.find("gpu_count", NODE, f"{least} of {wanted.gpu_count} GPUs", "power_cycle")
    elif most > wanted.gpu_count:
        verdict = INCONCLUSIVE
        sheet.find(
            "gpu_count", NODE, f"{most} GPUs, and the profile {wanted.sku} knows {wanted.gpu_count}", "remediate_config"
        )
    shown = least if verdict == FAIL else most
    sheet.record(Check("gpu_count", NODE, verdict, shown, wanted.gpu_count, "", wanted.gpu_count_source))


def _broke(sheet: Sheet, name: str, case: Case) -> None:
    sheet.find(f"{name}.error", NODE, f"{name} ended with an error ({case.word or 'Error'})", "retest")
    sheet.record(Check(f"{name}.error", NODE, FAIL, case.word, RAN, "", _TOOL))


def _floor(sheet: Sheet, case: Case | None, floor: Floor, wanted: Wanted) -> None:
    cell = cell_of(floor)
    if case is None or case.status != RAN or case.problem:
        _not_measured(sheet, case, floor)
        return
    square = len(case.rows) == len(case.rows[0])
    if (floor.between == "gpus" and not square) or (floor.between == "host" and len(case.rows) != 1):
        sheet.unsettled(cell, NODE, f"{floor.name} has a matrix of {len(case.rows)} rows", "retest")
        return
    for number in range(min(wanted.gpu_count, len(case.rows[0]))):
        _gpu(sheet, number, _slowest(case, floor, number), floor)


def _not_measured(sheet: Sheet, case: Case | None, floor: Floor) -> None:
    told = {
        None: ("was not run", "retest"),
        WAIVED: ("was waived: it does not apply to what the tool sees of this machine", "remediate_config"),
        UNKNOWN_CASE: ("is unknown to this nvbandwidth", "remediate_config"),
        RAN: (case.problem if case else "", "retest"),
        "": (f"says {short(case.word, 40) or 'nothing'}" if case else "", "retest"),
    }
    if case is not None and case.status == BROKE:
        _broke(sheet, floor.name, case)
        return
    words, remedy = told[case.status if case else None]
    sheet.unsettled(cell_of(floor), NODE, f"{floor.name} {words}", remedy)


def _slowest(case: Case, floor: Floor, number: int) -> tuple[float | None, str]:
    """What this GPU reaches at least, and with whom; None where one of its cells is none."""
    if floor.between == "host":
        return case.rows[0][number], ""
    pairs = [(case.rows[number][other], other) for other in range(len(case.rows)) if other != number]
    pairs += [(case.rows[other][number], other) for other in range(len(case.rows)) if other != number]
    if not pairs or any(value is None for value, _other in pairs) or case.rows[number][number] is not None:
        return None, ""
    value, other = min((value, other) for value, other in pairs if value is not None)
    return value, f" with GPU {other}"


def _gpu(sheet: Sheet, number: int, found: tuple[float | None, str], floor: Floor) -> None:
    value, peer = found
    entity, cell = f"GPU {number}", cell_of(floor)
    if value is None:
        sheet.unsettled(cell, entity, f"{entity}: {floor.name} has no number for it")
        return
    verdict = PASS if value >= floor.minimum else FAIL
    if verdict == FAIL:
        text = f"{entity}: {value:g} {UNIT} in {floor.name}{peer}, wanted {floor.minimum:g}"
        sheet.find(cell, entity, text, _REMEDY[floor.between])
    sheet.record(Check(cell, entity, verdict, value, floor.minimum, UNIT, floor.source))
