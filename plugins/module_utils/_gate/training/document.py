# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the steps out of the log of a training. PRIVATE to the collection.

A log is no document: it has no end of its own, its lines can be another run's, told twice or cut. So each step keeps
the number that its line tells, in the order of the lines, and whatever cannot be read is told; who judges counts them.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.formats import (
    GRAD_NORM,
    LOSS,
    NAN,
    SKIPPED,
    SPEEDS,
    STEP,
    TIME,
    UNITS,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import Training

#: More than any line of a step has. In what is longer nobody looks for one with an expression of a site.
_LINE = 4096
#: More lines than these are no training's log, and to look at each of them would take minutes.
_LINES = 400_000
#: An expression of a site may take so many seconds for the whole log, since some take for ever over one line.
_SECONDS = 20.0
#: No loss, norm, time or speed is as much: what is, was computed wrong, and what is reckoned from it would be.
_MOST = 1e12
#: Nor is any time or speed as little.
_LEAST = 1e-9
#: So many lines that cannot be read are told.
_TOLD = 4


@dataclass(frozen=True)
class Step:
    """One line. ms: milliseconds of a step. loss: None where the line tells none. skipped, nan: how many iterations of
    those that the line is of. speeds: by field."""

    number: int
    ms: float
    loss: Optional[float]
    grad_norm: Optional[float]
    skipped: int
    nan: int
    speeds: Mapping[str, float]

    @property
    def finite(self) -> bool:
        told = [value for value in (self.loss, self.grad_norm) if value is not None]
        return all(abs(value) < _MOST for value in told) and not (self.loss is None and not self.skipped)


@dataclass
class Seen:
    """steps: in the order of their lines. before: how many steps stand before the mark of this run. marked: does the
    mark stand there? ended: does a mark of the end stand after the last step?"""

    steps: list[Step] = field(default_factory=list)
    before: int = 0
    marked: bool = False
    ended: bool = False
    problems: list[str] = field(default_factory=list)

    def cannot(self, what: str, line: str) -> None:
        if len(self.problems) < _TOLD:
            self.problems.append(f"{what}: {short(line[:_LINE], 60)}")


def read(text: str, training: Training, *, mark: str = "", patience: float = _SECONDS) -> Seen:
    """:param mark: what this run has printed before its first step; whatever stands before it is another run's.
    :param patience: seconds that an expression of a site may take.
    """
    lines, cut = _lines(text)
    if len(lines) > _LINES:
        return Seen(problems=[f"it has more than {_LINES} lines"])
    begin = max((at for at, line in enumerate(lines) if mark and mark in line), default=-1)
    before, seen = Seen(), Seen(marked=begin >= 0)
    try:
        with _within(patience if training.format.slow else None):
            _take(before, lines[: max(0, begin)], training)
            _take(seen, lines[begin + 1 :], training)
            if cut and not training.format.closed and training.format.fields(cut[:_LINE]) is not None:
                seen.cannot("its last line is cut", cut)
    except TimeoutError:
        return Seen(marked=seen.marked, problems=[f"the pattern of the profile takes more than {patience:g} s"])
    seen.before = len(before.steps)
    return seen


def _lines(text: str) -> tuple[list[str], str]:
    """The lines, and what stands after the last end of a line, which may be a part of one."""
    lines = re.split(r"[\r\n]+", text)
    return lines, lines[-1]


def _take(seen: Seen, lines: Sequence[str], training: Training) -> None:
    for line in lines:
        step = _step(seen, line, training)
        if step is not None:
            seen.ended = False
            # By what they tell: two losses that are no number are not equal.
            if not (training.format.redrawn and seen.steps and repr(seen.steps[-1]) == repr(step)):
                seen.steps.append(step)
        elif training.end_mark and training.end_mark in line:
            seen.ended = True


def _step(seen: Seen, line: str, training: Training) -> Optional[Step]:
    form = training.format
    try:
        words = form.fields(line[:_LINE])
        if words is None:
            return None
        if len(line) > _LINE:
            raise ValueError("too long")
        return _of(words, training)
    except (ValueError, OverflowError, KeyError):
        seen.cannot("a line cannot be read", line)
        return None


def _of(words: Mapping[str, str], training: Training) -> Step:
    """:raises ValueError: where a word is no number, or one that cannot be.
    :raises KeyError: where a word is missing.
    """
    form = training.format
    if not form.tells <= set(words):
        raise KeyError(*(form.tells - set(words)))
    return Step(
        number=_whole(words[STEP]),
        ms=_positive(words[TIME]) * UNITS[form.unit],
        loss=float(words[LOSS]) if LOSS in words or not form.lossless else None,
        grad_norm=float(words[GRAD_NORM]) if GRAD_NORM in words else None,
        skipped=_whole(words.get(SKIPPED, "0")),
        nan=_whole(words.get(NAN, "0")),
        speeds={key: _positive(words[key]) for key in SPEEDS if key in words},
    )


def _whole(word: str) -> int:
    value = float(word)
    if value < 0 or value != int(value):
        raise ValueError("no count")
    return int(value)


def _positive(word: str) -> float:
    value = float(word)
    if not _LEAST < value < _MOST:
        raise ValueError("no figure")
    return value


@contextmanager
def _within(seconds: Optional[float]) -> Iterator[None]:
    """An expression is stopped by a signal, which it looks for now and then.

    :raises TimeoutError: also where no signal can come, as in a thread.
    """
    if seconds is None:
        yield
        return

    def stop(_number: int, _frame: Optional[FrameType]) -> None:
        raise TimeoutError

    try:
        before = signal.signal(signal.SIGALRM, stop)
    except ValueError as exc:
        raise TimeoutError from exc
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
