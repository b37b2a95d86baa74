# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks fio for one measurement, and reads its answer. PRIVATE to the collection.

fio ends with 0 and tells an error of 0 over a file that it made itself where a drive was meant, and over jobs of which
one is missing. So each job must be there, as it was asked, without an error, for as long as it was asked, and its
figures must fit each other.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import RANDREAD, WRITE, Speed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.whole import document, number

MIB = 1024 * 1024
#: Of the time that was asked for so much must have been measured.
LONG_ENOUGH = 0.9
_SIDES = ("read", "write", "trim")


@dataclass(frozen=True)
class Ask:
    """One run. seconds: 0 for one pass over all of it."""

    name: str
    pattern: str
    block: int
    depth: int
    jobs: int
    size: int
    seconds: float

    @property
    def side(self) -> str:
        return WRITE if self.pattern == WRITE else "read"


@dataclass
class Seen:
    """errors: of jobs that tell one, by errno. value: in the unit of the floor, None where nobody knows it."""

    version: str = ""
    moved: int = 0
    value: Optional[float] = None
    errors: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def measuring(speed: Speed) -> Ask:
    block = speed.block_kib * 1024
    return Ask(speed.name, speed.pattern, block, speed.depth, speed.jobs, speed.size * MIB, speed.seconds)


def filling(size: int) -> Ask:
    """What was never written is read from nowhere, and fast: so all of it is written once before."""
    return Ask("fill", WRITE, MIB, 16, 1, size, 0)


def command(fio: str, ask: Ask, path: str) -> list[str]:
    """It makes no file, and writes to none where it was asked to read."""
    argv = [fio, f"--name={ask.name}", f"--filename={path}", "--ioengine=libaio", "--direct=1", "--thread"]
    argv += [f"--rw={ask.pattern}", f"--bs={ask.block}", f"--iodepth={ask.depth}", f"--numjobs={ask.jobs}"]
    argv += [f"--size={ask.size}", "--allow_file_create=0", "--output-format=json"]
    argv += [] if ask.pattern == WRITE else ["--readonly"]
    timed = ["--time_based", f"--runtime={int(ask.seconds * 1000)}ms", "--norandommap", "--randrepeat=0"]
    return argv + (timed if ask.seconds else ["--end_fsync=1"])


def read(text: str, ask: Ask) -> Seen:
    try:
        found = document(text)
    except ValueError as exc:
        return Seen(problems=[short(exc, 100)])
    seen = Seen(str(found.get("fio version") or "").partition("-")[2])
    jobs = found.get("jobs")
    rows = [row for row in jobs if isinstance(row, Mapping)] if isinstance(jobs, list) else []
    if len(rows) != ask.jobs or not isinstance(jobs, list) or len(jobs) != len(rows):
        seen.problems.append(f"it tells of {len(rows)} jobs, and {ask.jobs} were asked for")
    values = [_job(seen, row, ask) for row in rows]
    if not seen.problems and not seen.errors:
        seen.value = sum(value for value in values if value is not None)
    return seen


def _job(seen: Seen, row: Mapping[str, Any], ask: Ask) -> Optional[float]:
    """What one job reached."""
    _errors(seen, row)
    if not _as_asked(row, ask):
        seen.problems.append("it ran something else than was asked")
    sides = {side: row.get(side) for side in _SIDES}
    told = sides.pop(ask.side)
    others = [_figure(side, "io_bytes") for side in sides.values()]
    if any(others) or None in others:
        seen.problems.append(f"it did not {ask.side} alone")
    bytes_, rate, runtime, count, iops = (
        _figure(told, name) for name in ("io_bytes", "bw_bytes", "runtime", "total_ios", "iops")
    )
    if not (bytes_ and rate and runtime and count and iops):
        seen.problems.append("a job moved nothing, or does not tell how much")
        return None
    seen.moved += int(bytes_)
    _whole(seen, ask, told, bytes_, count, runtime)
    # Of two figures of the same thing the lower one: neither may be the better for the other's loss.
    return min(iops, count * 1000 / runtime) if ask.pattern == RANDREAD else min(rate, bytes_ * 1000 / runtime) / 1e9


def _errors(seen: Seen, row: Mapping[str, Any]) -> None:
    for name, demanded in (("error", True), ("total_err", False)):
        value = number(row.get(name))
        if value is None and (demanded or name in row):
            seen.problems.append("a job does not tell whether it failed")
        elif value:
            seen.errors.append(int(value if name == "error" else number(row.get("first_error")) or value))


def _as_asked(row: Mapping[str, Any], ask: Ask) -> bool:
    told = row.get("job options")
    wanted = {"rw": ask.pattern, "bs": str(ask.block), "size": str(ask.size), "direct": "1"}
    fits = isinstance(told, Mapping) and all(told.get(key) == value for key, value in wanted.items())
    return fits and row.get("jobname") == ask.name


def _figure(told: Any, name: str) -> Optional[float]:
    return number(told.get(name)) if isinstance(told, Mapping) else None


def _whole(seen: Seen, ask: Ask, told: Any, bytes_: float, count: float, runtime: float) -> None:
    if _figure(told, "short_ios") != 0 or _figure(told, "drop_ios") != 0:
        seen.problems.append("blocks came short or were dropped, or nobody tells whether")
    if abs(bytes_ - count * ask.block) > ask.depth * ask.block:
        seen.problems.append("bytes and blocks do not fit each other")
    if runtime < ask.seconds * 1000 * LONG_ENOUGH:
        seen.problems.append(f"a job ran for {runtime / 1000:g} s, and {ask.seconds:g} s were asked for")
    if not ask.seconds and bytes_ < ask.size:
        seen.problems.append(f"it wrote {int(bytes_)} of {ask.size} bytes")
