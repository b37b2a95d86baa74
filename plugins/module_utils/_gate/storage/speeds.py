# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the speeds of drives, each at a place that lies on it, and judges them. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.document import (
    LONG_ENOUGH,
    MIB,
    Ask,
    Seen,
    command,
    filling,
    measuring,
    read,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.drives import Drive, moved
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.errors import OF_THE_DRIVE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.places import Place, Places
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import ALL, WRITE, Section, Speed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS, Check, Sheet

#: Of what fio says that it moved the kernel must have seen so much go over the drive.
_SEEN_BY_THE_KERNEL = 0.9
_REMEDY = "field_diag"


@dataclass(frozen=True)
class Wish:
    """A speed of one entity, over these drives."""

    speed: Speed
    entity: str
    drives: tuple[Drive, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(drive.name for drive in self.drives)


@dataclass(frozen=True)
class Taken:
    """One measurement. problem: why it could not be taken. counted: bytes that the kernel saw, where it tells."""

    wishes: Sequence[Wish]
    run: Optional[Run] = None
    seen: Seen = field(default_factory=Seen)
    ask: Optional[Ask] = None
    counted: Optional[int] = None
    problem: str = ""


def wishes(section: Section, groups: Mapping[str, Sequence[Drive]]) -> list[Wish]:
    """Each cell of a speed whose drives are there."""
    found = []
    for speed in section.speeds:
        drives, entities = tuple(groups[speed.drives]), section.entities(speed)
        parts = [drives] if speed.over == ALL else [(drive,) for drive in drives]
        found += [Wish(speed, entity, part) for entity, part in zip(entities, parts)]
    return found


def measure(asked: Sequence[Wish], places: Places, fio: str, end: float) -> Iterator[Taken]:
    """One after the other: two at once would share what leads to the drives."""
    by_place: dict[int, list[Wish]] = {}
    for wish in asked:
        place = places.over(wish.names, wish.speed.at)
        if place is None:
            yield Taken([wish], problem=_nowhere(wish, places))
        else:
            by_place.setdefault(places.found.index(place), []).append(wish)
    for at, of_place in by_place.items():
        yield from _at(places.found[at], of_place, fio, end)


def _nowhere(wish: Wish, places: Places) -> str:
    drives = ", ".join(sorted(wish.names)) or "them"
    return f"no {wish.speed.at} is on {drives} ({places.told or 'no place is known'}): name one there in places"


def _at(place: Place, of_place: Sequence[Wish], fio: str, end: float) -> Iterator[Taken]:
    if not place.device:
        size = max(wish.speed.size for wish in of_place) * MIB
        problem = place.reserve(size)
        filled = Taken(of_place, problem=problem) if problem else _taken(of_place, filling(size), place, fio, end)
        yield filled
        if not sound(filled):
            return
    for wish in of_place:
        yield _taken([wish], measuring(wish.speed), place, fio, end)


def _taken(of: Sequence[Wish], ask: Ask, place: Place, fio: str, end: float) -> Taken:
    drives = of[0].drives
    before = moved(drives)
    done = run(command(fio, ask, place.file), timeout=max(1.0, end - time.monotonic()))
    after = moved(drives)
    seen = read(done.text, ask)
    counted = None
    if before is not None and after is not None:
        counted = after.written - before.written if ask.pattern == WRITE else after.read - before.read
    found = Taken(of, done, seen, ask, counted)
    return replace(found, problem=_doubt(found))


def _doubt(taken: Taken) -> str:
    """Why a figure that fio tells is none; empty where it is one."""
    ask, done, seen = taken.ask, taken.run, taken.seen
    if ask is None or done is None:
        return taken.problem
    if seen.problems:
        said = short(done.stderr, 200)
        return f"fio: {'; '.join(dict.fromkeys(seen.problems))}" + (f" ({said})" if said else "")
    if done.seconds < ask.seconds * LONG_ENOUGH:
        return f"fio ended after {done.seconds:.1f} s, and was asked to measure for {ask.seconds:g} s"
    if taken.counted is None:
        return "the kernel does not count what goes over the drive"
    if taken.counted < seen.moved * _SEEN_BY_THE_KERNEL:
        return (
            f"fio tells of {seen.moved} bytes, and the kernel saw {taken.counted} go over the drive; where"
            " queue/iostats is 0 it counts none"
        )
    return ""


def sound(taken: Taken) -> bool:
    """May what follows build on it?"""
    ended = taken.run is not None and taken.run.ended == "exit" and taken.run.rc == 0
    return ended and not taken.problem and not taken.seen.errors


# -- what it proves ----------------------------------------------------------------------------------------------------


def judge(sheet: Sheet, taken: Taken) -> None:
    if taken.run is not None:
        record_end(sheet, taken.run)
    for wish in taken.wishes:
        for number in taken.seen.errors:
            _error(sheet, wish, number)
        if taken.problem:
            remedy = "retest" if taken.run else "remediate_config"
            sheet.unsettled(wish.speed.cell, wish.entity, f"{wish.entity}: {taken.problem}", remedy)
        elif taken.ask == measuring(wish.speed) and taken.seen.value is not None and sound(taken):
            _floor(sheet, wish, taken.seen.value)


def _error(sheet: Sheet, wish: Wish, number: int) -> None:
    row = OF_THE_DRIVE.get(number)
    cell, entity = wish.speed.cell, wish.entity
    if row is None:
        sheet.unsettled(cell, entity, f"{entity}: a job of fio failed with error {number}", "remediate_config")
        return
    sheet.find(f"{cell}.error", entity, f"{entity} ({', '.join(sorted(wish.names))}): {row.text}", row.remedy)
    sheet.record(Check(cell, entity, FAIL, f"error {number}", wish.speed.minimum, wish.speed.unit, wish.speed.source))


def _floor(sheet: Sheet, wish: Wish, value: float) -> None:
    speed = wish.speed
    verdict = PASS if value >= speed.minimum else FAIL
    if verdict == FAIL:
        names = ", ".join(sorted(wish.names))
        text = f"{wish.entity} ({names}): {value:.4g} {speed.unit}, wanted {speed.minimum:g}"
        sheet.find(speed.cell, wish.entity, text, _REMEDY)
    sheet.record(Check(speed.cell, wish.entity, verdict, value, speed.minimum, speed.unit, speed.source))
