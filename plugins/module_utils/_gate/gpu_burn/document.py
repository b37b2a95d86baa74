# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what gpu-burn prints. PRIVATE to the collection.

gpu-burn always ends with 0. It says OK of a GPU on which nothing was computed, since nothing was wrong there, and its
count of errors runs over into numbers below nothing. So a GPU has its result, its errors and its speed, each read by
itself, and what is not told of a GPU is not filled in.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

_GPU = re.compile(r"GPU (\d+): (.+) \(UUID: (GPU-[0-9a-f-]+)\)\s*\Z")
_PROGRESS = re.compile(r"\s*(\d+(?:\.\d+)?)%\s+proc'd: (.*?)\s+errors: (.*?)\s*(?:temps: .*)?\Z")
_DONE = re.compile(r"(-?\d+) \((-?\d+(?:\.\d+)?) Gflop/s\)")
_ERRORS = re.compile(r"(-?\d+)\s*(?:\((WARNING!|DIED!)\))?")
_TESTED = re.compile(r"Tested (\d+) GPUs?:\s*\Z")
_RESULT = re.compile(r"\s+GPU (\d+): (\S+)\s*\Z")
#: What it says where a worker did not come up, or none is left.
_SETUP = re.compile(r"Couldn't init a GPU test.*|No clients are alive!.*|.*\bcompare(?:\.\w+)?: (?:No such|cannot).*")
#: What only its own progress holds.
_MARK = "proc'd:"


@dataclass
class Seen:
    """By GPU. speeds: each that it reported, which stands there again until its next one. done: how much it has
    computed, in iterations, and grown: at which per cent of the time that last became more. errors: the worst count
    that was ever told, whatever its sign."""

    uuids: dict[int, str] = field(default_factory=dict)
    speeds: dict[int, list[float]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    grown: dict[int, float] = field(default_factory=dict)
    errors: dict[int, int] = field(default_factory=dict)
    died: set[int] = field(default_factory=set)
    results: dict[int, str] = field(default_factory=dict)
    tested: int = 0
    progress: float = 0.0
    setup: str = ""
    problems: list[str] = field(default_factory=list)


def read(text: str, cries: str = "") -> Seen:
    """:param cries: what it printed as errors: that a worker did not come up, which its results do not tell."""
    seen = Seen()
    for line in filter(_SETUP.match, re.split(r"[\r\n]+", cries)):
        seen.setup = seen.setup or short(line, 120).rstrip(" :")
    tables = 0
    for line in re.split(r"[\r\n]+", text):
        gpu, tested, result = _GPU.match(line), _TESTED.match(line), _RESULT.match(line)
        if gpu:
            _once(seen, seen.uuids, int(gpu.group(1)), gpu.group(3), "named")
        elif tested:
            tables += 1
            seen.tested = int(tested.group(1))
        elif result and tables:
            _once(seen, seen.results, int(result.group(1)), result.group(2), "judged")
        elif _MARK in line:
            _progress(seen, line)
        elif _SETUP.match(line):
            seen.setup = seen.setup or short(line, 120).rstrip(" :")
    if tables != 1:
        seen.problems.append("its last lines are not there" if not tables else "it tells two results")
    if len(set(seen.uuids.values())) != len(seen.uuids):
        seen.problems.append("two of its GPUs are one")
    return seen


def _once(seen: Seen, table: dict[int, str], number: int, word: str, what: str) -> None:
    if number in table:
        seen.problems.append(f"GPU {number} is {what} twice")
    table[number] = word


def _progress(seen: Seen, line: str) -> None:
    """One line, with as many parts as there are GPUs; else nobody knows whose they are."""
    match = _PROGRESS.match(line)
    done, errors = (_DONE.findall(match.group(2)), _ERRORS.findall(match.group(3))) if match else ([], [])
    if not match or not done or len(done) != len(errors) or (seen.uuids and len(done) != len(seen.uuids)):
        seen.problems.append(f"a line of its progress cannot be read: {short(line, 60)}")
        return
    seen.progress = max(seen.progress, float(match.group(1)))
    for number, ((count, speed), (wrong, mark)) in enumerate(zip(done, errors)):
        if mark == "DIED!" or int(count) < 0:
            seen.died.add(number)
        else:
            seen.errors[number] = max(seen.errors.get(number, 0), abs(int(wrong)), 1 if mark else 0)
            _computed(seen, number, int(count), float(speed))


def _computed(seen: Seen, number: int, count: int, speed: float) -> None:
    if speed < 0:  # it reckons by the time of day
        seen.problems.append("a speed below nothing: the clock was set meanwhile")
        return
    before, told = seen.done.get(number, 0), seen.speeds.setdefault(number, [])
    if count > before:
        seen.grown[number] = seen.progress
        told.append(speed)
    seen.done[number] = max(before, count)
