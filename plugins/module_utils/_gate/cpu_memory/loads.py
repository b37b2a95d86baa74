# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loads CPUs and memory, one load after the other, and judges what came of it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.document import (
    LONG_ENOUGH,
    command,
    read,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.judge import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.machine import (
    Worked,
    available,
    idlest,
    worked,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import (
    VM,
    Load,
    Machine,
    Section,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.seen import Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

#: Each CPU has an instance of its own, so that one that idled for longer has lost it.
_BUSY = 0.8
#: How much longer than asked a run may take, with the seconds to come up and go: beyond that nobody knows what it did.
_LONGEST, _SLACK = 2, 5.0
_REMEDY = "field_diag"
_GIB = 1 << 30


@dataclass(frozen=True)
class Taken:
    """One load. problem: why its result is none. saw: what the kernel saw of it, as evidence. filled: GiB of memory, of
    a load that fills it."""

    load: Load
    run: Optional[Run] = None
    seen: Seen = field(default_factory=Seen)
    problem: str = ""
    saw: Mapping[str, Any] = field(default_factory=dict)
    filled: Optional[float] = None


def take(section: Section, stress_ng: str, proc: str, end: float) -> Iterator[Taken]:
    for load in section.loads:
        yield _taken(load, section.machine.threads, stress_ng, proc, end)


def _taken(load: Load, threads: int, stress_ng: str, proc: str, end: float) -> Taken:
    share = 0
    if load.stressor == VM:
        free = available(proc)
        if free is None:
            return Taken(load, problem="the kernel does not tell how much memory can be filled")
        share = free * 1024 * load.memory // 100 // threads
    before = worked(proc)
    done = run(command(stress_ng, load, threads, share * threads), timeout=max(1.0, end - time.monotonic()))
    saw = _saw(before, worked(proc), done.seconds / load.seconds)
    seen = read(done, load, share)
    filled = round(share * threads / _GIB, 2) if load.stressor == VM else None
    doubt = _doubt(load, done, seen, saw)
    return Taken(load, done, seen, doubt, {"load": load.name, "share": share, **saw}, filled)


def _saw(before: Worked, after: Worked, longer: float) -> dict[str, Any]:
    """What the kernel saw: of the CPU that worked the least, for how much of the time that was asked for; how many
    processes it killed.

    :param longer: how many times that time it took. To come up and to go, stress-ng needs its own, and no CPU works.
    """
    told = before.killed is not None and after.killed is not None
    busy = idlest(before, after)
    return {
        "worked": None if busy is None else round(min(1.0, busy * max(1.0, longer)), 3),
        "killed": int(after.killed or 0) - int(before.killed or 0) if told else None,
    }


def _doubt(load: Load, done: Run, seen: Seen, saw: Mapping[str, Any]) -> str:
    """Why what stress-ng tells is no result; empty where it is one."""
    if seen.problems:
        return f"stress-ng: {'; '.join(dict.fromkeys(seen.problems))}"
    if done.seconds > load.seconds * _LONGEST + _SLACK:
        return f"stress-ng took {done.seconds:.0f} s, and was asked to run for {load.seconds:g} s"
    if done.seconds < load.seconds * LONG_ENOUGH:
        return f"stress-ng ended after {done.seconds:.1f} s, and was asked to run for {load.seconds:g} s"
    if saw["killed"] is None:
        return "the kernel does not tell whether it killed a process for want of memory"
    if saw["killed"]:
        return "the kernel killed a process for want of memory meanwhile"
    if saw["worked"] is None:
        return "the kernel does not tell how much each CPU worked"
    if saw["worked"] < _BUSY:
        return f"a CPU worked for {saw['worked']:.0%} of the time, and each was to work for all of it"
    return ""


# -- what it proves ----------------------------------------------------------------------------------------------------


def judge(sheet: Sheet, taken: Taken, machine: Machine) -> None:
    load, seen = taken.load, taken.seen
    if taken.filled is not None:
        _filled(sheet, load, taken.filled, load.least(machine))
    if taken.run is not None:
        record_end(sheet, taken.run)
    if seen.wrong:
        text = f"wrong results in {load.name}: {'; '.join(dict.fromkeys(seen.wrong[:3]))}"
        sheet.find(f"{load.cell}.wrong", NODE, text, _REMEDY)
        sheet.record(Check(load.cell, NODE, FAIL, "wrong results", wanted_of(load), load.unit, load.source))
    elif taken.problem:
        sheet.unsettled(load.cell, NODE, f"{load.name}: {taken.problem}", "retest" if taken.run else "remediate_config")
    elif load.version and seen.version != load.version:
        text = f"{load.name}: stress-ng {seen.version}, and the floor is of {load.version}: their figures differ"
        sheet.unsettled(load.cell, NODE, text, "remediate_config")
    elif seen.rate is not None and taken.run is not None and taken.run.ended == "exit" and taken.run.rc == 0:
        _floor(sheet, load, seen.rate)


def _filled(sheet: Sheet, load: Load, filled: float, least: float) -> None:
    """What somebody else holds was not tested, however well the rest did."""
    verdict = PASS if filled > 0 and filled >= least else INCONCLUSIVE
    if verdict != PASS:
        text = f"{load.name}: {filled:.2f} GiB of memory could be filled, and the profile wants {least:g}: who has it?"
        sheet.find(load.filled_cell, NODE, text, "remediate_config")
    sheet.record(Check(load.filled_cell, NODE, verdict, filled, least, "GiB", load.source))


def _floor(sheet: Sheet, load: Load, rate: float) -> None:
    verdict = PASS if load.minimum is None or rate >= load.minimum else FAIL
    if verdict == FAIL:
        sheet.find(load.cell, NODE, f"{load.name}: {rate:.4g} {load.unit}, wanted {load.minimum:g}", _REMEDY)
    sheet.record(Check(load.cell, NODE, verdict, rate, wanted_of(load), load.unit, load.source))
