# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges what gpu-burn printed, and says which cells must be filled. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import harmonic_mean, median

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED, record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.document import Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import Burn
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

DEVICES, GPUS, RESULT, ERRORS, SPEED = "device_id", "gpus", "result", "errors", "speed"
OK, FAULTY = "OK", "FAULTY"
#: So far its progress must have come, and for so much of the time it must have run.
_FAR_ENOUGH, _LONG_ENOUGH = 95.0, 0.95
#: It never ends early, but by so many seconds, unless its clock was set.
_EARLY = 2.0
#: A report is of so much work, and takes as long as that does: seconds, of double precision minutes. One that works has
#: reported within so many of its reports before the end, but never so many per cent of the time. A GPU that hangs keeps
#: its last speed, and is told to be OK; so it must also have computed so much of what its neighbours have.
_REPORTS, _LATEST, _EARLIEST, _ITS_SHARE = 3, 5.0, 25.0, 0.5
#: How much longer than the others the report may take that is under way at the end.
_AND_MORE = 1.2
_OWN = "own rule: what computes wrong is broken"
_REMEDY = "field_diag"


def required(wanted: Wanted, burns: Sequence[Burn]) -> Iterator[Required]:
    count = wanted.gpu_count
    yield Required(ENDED, NODE, "exit [0]", "", "own rule: an unknown end is none", "exit 0")
    yield Required(DEVICES, NODE, count, "", "sysfs", count)
    for burn in burns:
        yield Required(burn.cell(GPUS), NODE, count, "", wanted.gpu_count_source, count)
        for number in range(count):
            yield Required(burn.cell(RESULT), f"GPU {number}", OK, "", _OWN, OK)
            yield Required(burn.cell(ERRORS), f"GPU {number}", 0, "", _OWN, 0)
            yield Required(burn.cell(SPEED), f"GPU {number}", burn.minimum, burn.unit, burn.source)


def begin(wanted: Wanted, burns: Sequence[Burn], on_bus: int) -> Sheet:
    """on_bus: how many GPUs of the SKU the kernel knows; gpu-burn tells no device ids."""
    sheet = Sheet()
    demand(sheet, required(wanted, burns))
    fits = on_bus == wanted.gpu_count
    if not fits:
        text = f"the kernel knows {on_bus} GPUs of the profile {wanted.sku}, which counts {wanted.gpu_count}"
        sheet.find(DEVICES, NODE, text, "remediate_config")
    sheet.record(Check(DEVICES, NODE, PASS if fits else INCONCLUSIVE, on_bus, wanted.gpu_count, "", "sysfs"))
    return sheet


def judge(sheet: Sheet, seen: Seen, done: Run, wanted: Wanted, burn: Burn) -> None:
    """Everything that one run says."""
    record_end(sheet, done)
    doubts = _doubts(seen, done, burn)
    for at, text in enumerate(doubts):
        sheet.unsettled(burn.cell("output") + (f".{at}" if at else ""), NODE, f"gpu-burn: {text}")
    if seen.setup:
        text = f"gpu-burn: {seen.setup}: was it built for these GPUs, and is its compare kernel beside it?"
        sheet.unsettled(burn.cell("setup"), NODE, text, "remediate_config")
    _count(sheet, seen, wanted, burn)
    for number in range(wanted.gpu_count):
        _gpu(sheet, seen, burn, number, sure=not doubts)


def _doubts(seen: Seen, done: Run, burn: Burn) -> list[str]:
    doubts = list(dict.fromkeys(seen.problems[:4]))
    if seen.progress < _FAR_ENOUGH:
        doubts.append(f"it came to {seen.progress:g} % of its time")
    if done.seconds < max(burn.seconds * _LONG_ENOUGH, burn.seconds - _EARLY):
        doubts.append(f"it ended after {done.seconds:.1f} s, and was asked to run for {burn.seconds} s")
    return doubts


def _count(sheet: Sheet, seen: Seen, wanted: Wanted, burn: Burn) -> None:
    cell, count = burn.cell(GPUS), seen.tested
    if not count:
        return
    told = [sorted(seen.results), sorted(seen.uuids), *([sorted(seen.done)] if seen.done else [])]
    whole = all(one == list(range(count)) for one in told)
    verdict = PASS if count == wanted.gpu_count and whole else FAIL if count < wanted.gpu_count else INCONCLUSIVE
    if verdict != PASS:
        text = f"{burn.name} ran on {count} of {wanted.gpu_count} GPUs, and tells the result of {len(seen.results)}"
        sheet.find(cell, NODE, text, "power_cycle" if verdict == FAIL else "remediate_config")
    sheet.record(Check(cell, NODE, verdict, count, wanted.gpu_count, "", wanted.gpu_count_source))


def _gpu(sheet: Sheet, seen: Seen, burn: Burn, number: int, *, sure: bool) -> None:
    """:param sure: is there nothing odd about the whole run, such as a clock that was set? Its speeds are by that."""
    entity = f"GPU {number}"
    if number in seen.died:
        _died(sheet, seen, burn, entity)
        return
    if number in seen.results:
        _result(sheet, burn, entity, seen.results[number])
    if number in seen.errors:
        count = seen.errors[number]
        if count:
            sheet.find(burn.cell(ERRORS), entity, f"{entity}: {count} wrong results in {burn.name}", _REMEDY)
        sheet.record(Check(burn.cell(ERRORS), entity, FAIL if count else PASS, count, 0, "", _OWN))
    idle = _idle(seen, number)
    if not idle:
        # The first holds the time in which the GPU was set up. Each is of as much work, so that this is all of it
        # through all its time: of a GPU that is slow for half of the time most reports are fast ones.
        _speed(sheet, burn, entity, round(harmonic_mean(seen.speeds[number][1:]), 3), sure=sure)
    elif seen.tested:
        text = f"{entity} computed {idle} in {burn.name}, whatever is said of it"
        sheet.unsettled(burn.cell(SPEED), entity, text)


def _idle(seen: Seen, number: int) -> str:
    """Why the speed of a GPU is none; empty where it worked to the end."""
    did, most = seen.done.get(number, 0), median(seen.done.values() or [0])
    told, grown = seen.speeds.get(number, []), seen.grown.get(number, 0.0)
    if not any(told):
        return "nothing"
    each = grown / len(told)
    # A long report may be under way still, but not where others have ended theirs.
    longer = _AND_MORE * each if did == max(seen.done.values()) else 0.0
    silent = max(_LATEST, longer, min(_EARLIEST, _REPORTS * each))
    if grown < seen.progress - silent:
        return f"nothing after {grown:g} % of the time"
    if len(told) < 2:
        return "so slowly or so briefly that it told no speed but that of its start"
    return f"{did} iterations while its neighbours did {most:g}" if did < most * _ITS_SHARE else ""


def _died(sheet: Sheet, seen: Seen, burn: Burn, entity: str) -> None:
    """A worker that never came up tells nothing of its GPU; one that died under load does."""
    text = f"{entity}: its worker died in {burn.name}"
    if seen.setup.startswith("Couldn't init"):
        sheet.unsettled(burn.cell(RESULT), entity, text, "remediate_config")
        return
    sheet.find(burn.cell(RESULT), entity, text, _REMEDY)
    sheet.record(Check(burn.cell(RESULT), entity, FAIL, "died", OK, "", _OWN))


def _result(sheet: Sheet, burn: Burn, entity: str, word: str) -> None:
    verdict = PASS if word == OK else FAIL if word == FAULTY else INCONCLUSIVE
    if verdict != PASS:
        sheet.find(burn.cell(RESULT), entity, f"{entity}: gpu-burn says {word[:20]}", _REMEDY)
    sheet.record(Check(burn.cell(RESULT), entity, verdict, word[:20], OK, "", _OWN))


def _speed(sheet: Sheet, burn: Burn, entity: str, speed: float, *, sure: bool) -> None:
    verdict = PASS if speed >= burn.minimum else FAIL
    if verdict == FAIL:
        text = f"{entity}: {speed:g} Gflop/s in {burn.name}, wanted {burn.minimum:g}"
        if not sure:
            sheet.unsettled(burn.cell(SPEED), entity, text)
            return
        sheet.find(burn.cell(SPEED), entity, text, _REMEDY)
    sheet.record(Check(burn.cell(SPEED), entity, verdict, speed, burn.minimum, burn.unit, burn.source))
