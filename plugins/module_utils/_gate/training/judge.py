# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the steps of a reference training, and says which cells must be filled. PRIVATE to the collection.

What is slow is judged of a whole training alone. A loss that is no number fails however the training ended. Neither
condemns a node by a log that may be another run's, nor by one of several nodes: which of them it was nobody knows.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cries import OF_NODE, heard
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED, record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.document import Seen, Step
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.formats import SPEEDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import Training
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.taken import Taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

DEVICES, STEPS, BELONGS, FINITE, SKIPPED, LOSS = "device_id", "steps", "belongs", "finite", "skipped", "loss"
STEP_TIME, JITTER, DRIFT, ERRORS = "step_time", "jitter", "drift", "errors"
THIS_RUN = "this run"
#: Its steps cannot have taken longer than the run itself, but for how their times are rounded.
_ROUNDED, _AND_MORE = 1.02, 1.0
#: So many places of a figure are kept, and by so much a loss comes down at least, as it is told.
_PLACES, _LEAST = 4, 1e-6
#: Per cent off a reference, so that what is told of a loss is a number in any case.
_FARTHEST = 1e9
_OWN = "own rule: a number of a training that is none was computed wrong"
_LOG = "own rule: an unknown end is none"
_WHOLE = "own rule: a step that is not told was not seen"
_REMEDY = "field_diag"


class Required(NamedTuple):
    """One cell that must be there. least, most: within which a figure passes; None where there is no such limit."""

    id: str
    wanted: Any
    unit: str
    source: str
    known: Any = None
    least: Optional[float] = None
    most: Optional[float] = None

    def fits(self, value: Any) -> bool:
        if self.known is not None:
            return bool(value == self.known)
        figure = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        return figure and (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


@dataclass(frozen=True)
class Judged:
    """sure: is the log this run's, so that it may condemn its node? whole: has it come to its end, and told all?"""

    sheet: Sheet
    training: Training
    rows: dict[str, Required]
    sure: bool = True
    whole: bool = True

    @property
    def worst(self) -> str:
        return FAIL if self.sure and self.training.nodes == 1 else INCONCLUSIVE

    def bad(self, what: str, value: Any, text: str, remedy: str = _REMEDY) -> None:
        """What speaks against the node, or leaves it in doubt where it cannot."""
        row = self.rows[self.training.cell(what)]
        doubt = self.worst != FAIL
        self.sheet.find(row.id, NODE, text + self._which(), "retest" if doubt else remedy)
        self.sheet.record(Check(row.id, NODE, self.worst, value, row.wanted, row.unit, row.source))

    def _which(self) -> str:
        return f"; which of its {self.training.nodes} nodes it was nobody knows" if self.training.nodes > 1 else ""

    def figure(self, what: str, value: float, text: str) -> None:
        """Hold it against its cell; text: what it is, for a person."""
        row = self.rows[self.training.cell(what)]
        if row.fits(value):
            self.sheet.record(Check(row.id, NODE, PASS, value, row.wanted, row.unit, row.source))
        else:
            self.bad(what, value, f"{self.training.name}: {text}, wanted {row.wanted:g}")

    def doubt(self, what: str, text: str, remedy: str = "retest") -> None:
        self.sheet.unsettled(self.training.cell(what), NODE, f"{self.training.name}: {text}", remedy)


# -- what must be seen -------------------------------------------------------------------------------------------------


def required(wanted: Wanted, one: Training, *, ran: bool) -> Iterator[Required]:
    """ran: by the gate itself; of a log the end is what stands in it."""
    count, source = wanted.gpu_count, one.source
    yield Required(ENDED, "exit [0]" if ran else "its end", "", _LOG, "exit 0" if ran else "its end")
    yield Required(DEVICES, count, "", "sysfs", count)
    yield Required(one.cell(STEPS), one.steps, "", _WHOLE, one.steps)
    yield Required(one.cell(BELONGS), THIS_RUN, "", _WHOLE, THIS_RUN)
    yield Required(one.cell(ERRORS), 0, "", _OWN, 0)
    yield Required(one.cell(FINITE), 0, "steps", _OWN, 0)
    yield Required(one.cell(SKIPPED), one.skipped, "iterations", source, least=0, most=one.skipped)
    yield _of_loss(one)
    yield Required(one.cell(STEP_TIME), one.step_ms, one.unit, source, least=0, most=one.step_ms)
    yield from _of_limits(one)


def _of_loss(one: Training) -> Required:
    """By its reference, or, where there is none, it must have come down."""
    if one.reference:
        return Required(one.cell(LOSS), one.tolerance, "% off its reference", one.source, least=0, most=one.tolerance)
    return Required(one.cell(LOSS), "below 0", "from its first third to its last", _OWN, most=-_LEAST)


def _of_limits(one: Training) -> Iterator[Required]:
    if one.p99 is not None:
        yield Required(one.cell(JITTER), one.p99, "99th of 100 steps to the median", one.source, least=1, most=one.p99)
    if one.drift is not None:
        yield Required(one.cell(DRIFT), one.drift, "% of its first third", one.source, most=one.drift)
    for key, floor in one.floors.items():
        yield Required(one.cell(key), floor, f"{SPEEDS[key]} as the training reckons it", one.source, least=floor)


def begin(wanted: Wanted, one: Training, on_bus: int, *, ran: bool) -> Sheet:
    """on_bus: how many GPUs of the SKU the kernel knows; a training tells of none."""
    sheet = Sheet()
    for row in required(wanted, one, ran=ran):
        sheet.require(row.id, NODE, wanted=row.wanted, unit=row.unit, source=row.source)
    fits = on_bus == wanted.gpu_count
    if not fits:
        text = f"the kernel knows {on_bus} GPUs of the profile {wanted.sku}, which counts {wanted.gpu_count}"
        sheet.find(DEVICES, NODE, text, "remediate_config")
    sheet.record(Check(DEVICES, NODE, PASS if fits else INCONCLUSIVE, on_bus, wanted.gpu_count, "", "sysfs"))
    return sheet


# -- what was seen -----------------------------------------------------------------------------------------------------


def judge(sheet: Sheet, taken: Taken, seen: Seen, wanted: Wanted, one: Training) -> None:
    rows = {row.id: row for row in required(wanted, one, ran=taken.run is not None)}
    first = Judged(sheet, one, rows)
    ended, strange = _ended(first, taken, seen), _strange(first, taken, seen)
    gaps = list(_gaps(first, seen))
    mixed = _mixed([step.number for step in seen.steps])
    judged = Judged(sheet, one, rows, sure=not strange and not mixed, whole=ended and not gaps)
    _cries(judged, taken)
    _finite(judged, seen.steps)
    if judged.whole and judged.sure:
        _figures(judged, seen.steps)


def _ended(judged: Judged, taken: Taken, seen: Seen) -> bool:
    """Did it come to its end? A run tells by its exit status, a log by what its program says last."""
    if taken.left:
        text = f"{len(taken.left)} processes of it could not be ended"
        judged.sheet.unsettled("left", NODE, text, "reboot")
    if taken.run is not None:
        record_end(judged.sheet, taken.run)
        return taken.run.ended == "exit" and taken.run.rc == 0
    mark = judged.training.end_mark
    row = judged.rows[ENDED]
    if seen.ended:
        judged.sheet.record(Check(row.id, NODE, PASS, row.known, row.wanted, row.unit, row.source))
    elif mark:
        judged.sheet.unsettled(ENDED, NODE, f"the log does not tell its end after its last step: {mark}")
    else:
        text = "nothing says how this training ended: give it an end_mark that its program prints last"
        judged.sheet.unsettled(ENDED, NODE, text, "remediate_config")
    return seen.ended


def _strange(judged: Judged, taken: Taken, seen: Seen) -> bool:
    """Can these steps be another run's?"""
    doubts = [(doubt.text, doubt.remedy) for doubt in taken.doubts]
    doubts += [(text, "retest") for text in _of_another(judged.training, taken, seen)]
    for text, remedy in doubts:
        judged.doubt(BELONGS, text, remedy)
    if len(doubts) > 1:
        texts = "; ".join(text for text, _remedy in doubts[1:])
        judged.sheet.find(judged.training.cell("strange"), NODE, f"{judged.training.name}: {texts}", doubts[-1][1])
    if not doubts:
        row = judged.rows[judged.training.cell(BELONGS)]
        judged.sheet.record(Check(row.id, NODE, PASS, THIS_RUN, row.wanted, row.unit, row.source))
    return bool(doubts)


def _of_another(one: Training, taken: Taken, seen: Seen) -> Iterator[str]:
    if taken.mark and not seen.marked:
        yield "the mark of this run does not stand in it"
    if taken.run is None:
        return
    if seen.before:
        yield f"{seen.before} steps stand before the mark of this run"
    took = sum(step.ms for step in seen.steps) * one.interval / 1000
    if took > taken.run.seconds * _ROUNDED + _AND_MORE:
        yield f"its steps took {took:.1f} s, and this run {taken.run.seconds:.1f} s"


def _gaps(judged: Judged, seen: Seen) -> Iterator[str]:
    """What keeps its steps from being just those that must be there, in their order."""
    one, numbers = judged.training, [step.number for step in seen.steps]
    gaps = [*dict.fromkeys(seen.problems), *_misplaced(numbers, one.numbers)]
    row = judged.rows[one.cell(STEPS)]
    if not gaps:
        judged.sheet.record(Check(row.id, NODE, PASS, len(numbers), row.wanted, row.unit, row.source))
    for at, text in enumerate(gaps):
        judged.doubt(STEPS + (f".{at}" if at else ""), text)
    yield from gaps


def _mixed(numbers: Sequence[int]) -> bool:
    """Are there steps of two runs among them? Which of the two is this one nobody knows."""
    return numbers != sorted(set(numbers))


def _misplaced(numbers: Sequence[int], wanted: range) -> Iterator[str]:
    seen = Counter(numbers)
    twice = [number for number, times in seen.items() if times > 1]
    if not numbers:
        yield "no step was seen"
    elif twice:
        yield f"step {twice[0]} is told twice"
    elif numbers != sorted(numbers):
        yield "its steps are out of their order"
    elif numbers != list(wanted):
        missing = next((number for number in wanted if number not in seen), None)
        lacks = f"step {missing} is missing" if missing is not None else "there are others"
        yield f"{len(numbers)} steps from {numbers[0]} to {numbers[-1]}, wanted {len(wanted)} to {wanted[-1]}: {lacks}"


def _cries(judged: Judged, taken: Taken) -> None:
    """What is in its log beside its steps; before its mark stands what an earlier job has written to the file."""
    own = taken.text if taken.run is not None or not taken.mark else taken.text.rpartition(taken.mark)[2]
    against = []
    for cry in heard(own, whole=judged.whole):
        fails = cry.whose == OF_NODE and judged.worst == FAIL
        remedy = "retest" if cry.whose == OF_NODE and not fails else cry.remedy
        judged.sheet.find(cry.id, cry.entity, f"{judged.training.name}: {cry.text}", remedy)
        against += [FAIL if fails else INCONCLUSIVE]
    row = judged.rows[judged.training.cell(ERRORS)]
    verdict = PASS if not against else FAIL if FAIL in against else INCONCLUSIVE
    judged.sheet.record(Check(row.id, NODE, verdict, len(against), row.wanted, row.unit, row.source))


def _finite(judged: Judged, steps: Sequence[Step]) -> None:
    """Of however many steps: one that was computed wrong is enough."""
    wrong = [step.number for step in steps if not step.finite]
    skipped = sum(step.skipped + step.nan for step in steps)
    if wrong:
        text = f"{judged.training.name}: loss or gradients of step {wrong[0]} are no number, as of {len(wrong)} steps"
        judged.bad(FINITE, len(wrong), text)
    elif judged.whole:
        judged.figure(FINITE, 0, "steps without a number")
    if judged.whole or skipped > judged.training.skipped:
        judged.figure(SKIPPED, skipped, f"{skipped} iterations were skipped, or had no number")


def _figures(judged: Judged, steps: Sequence[Step]) -> None:
    one = judged.training
    measured = [step.ms for step in steps[one.warm_up :]]
    _loss(judged, steps)
    middle = round(median(measured), _PLACES)
    if one.step_ms is None:
        judged.doubt(STEP_TIME, f"{middle:g} ms a step, and the profile has no step_ms for it", "remediate_config")
    else:
        judged.figure(STEP_TIME, middle, f"{middle:g} ms a step")
    _evenness(judged, measured)
    for key in one.floors:
        _speed(judged, key, [step.speeds.get(key) for step in steps[one.warm_up :]])


def _evenness(judged: Judged, measured: Sequence[float]) -> None:
    """A GPU that is throttled, or a link that is retrained, slows some steps, and the median does not tell it."""
    one = judged.training
    if one.p99 is not None:
        ratio = round(_percentile(measured, 99) / median(measured), _PLACES)
        judged.figure(JITTER, ratio, f"its slow steps take {ratio:g} times as long as its median")
    if one.drift is not None:
        first, last = _thirds(measured)
        slower = round(100 * (median(last) / median(first) - 1), _PLACES)
        judged.figure(DRIFT, slower, f"its last third is {slower:g} % slower than its first")


def _speed(judged: Judged, key: str, told: Sequence[Optional[float]]) -> None:
    values = [value for value in told if value is not None]
    if len(values) < len(told):
        judged.doubt(key, f"{len(told) - len(values)} of its steps do not tell {key}")
        return
    middle = round(median(values), _PLACES)
    judged.figure(key, middle, f"{middle:g} {SPEEDS[key]}")


def _loss(judged: Judged, steps: Sequence[Step]) -> None:
    one = judged.training
    told = {step.number: step.loss for step in steps if step.loss is not None}
    if not all(step.finite for step in steps):
        return  # told already, as what it is
    if one.reference:
        _against_reference(judged, told)
        return
    first, last = _thirds(list(told.values()))
    fell = round(fmean(last) - fmean(first), 6) if first else 0.0
    if fell <= -_LEAST:
        judged.figure(LOSS, fell, "its loss")
    else:
        judged.doubt(LOSS, "its loss does not come down")


def _against_reference(judged: Judged, told: dict[int, float]) -> None:
    one = judged.training
    known = {number: loss for number, loss in one.reference.items() if number in told}
    off = {number: min(100 * abs(told[number] / loss - 1), _FARTHEST) for number, loss in known.items()}
    if len(off) < len(one.reference):
        judged.doubt(LOSS, "it tells no loss of a step of its reference")
        return
    worst = max(off, key=lambda number: off[number])
    judged.figure(LOSS, round(off[worst], _PLACES), f"the loss of step {worst} is {off[worst]:.4g} % off its reference")


def _thirds(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """The first and the last third, neither with a step of the other; of too few nothing."""
    size = len(values) // 3
    return values[:size], values[len(values) - size :]


def _percentile(values: Iterable[float], part: int) -> float:
    """The nearest one that is there; of less than a hundred the 99th is the slowest."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * part / 100) - 1)]
