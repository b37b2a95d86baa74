# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks stress-ng for one load, and reads its answer. PRIVATE to the collection.

stress-ng ends with 0 and calls a run successful in which it could not get the memory that it was to fill, and leaves
out a load that it does not know for this machine. So the row of the load must be there, alone and whole, with all of
its time and with something done in it.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import math
import re
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import VM, Load
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.seen import Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run

#: Of the time that was asked for so much must have been measured, and of the memory so much filled.
LONG_ENOUGH = FULL_ENOUGH = 0.9
_DONE, _RATE, _SECONDS, _FILLED = "bogo-ops", "bogo-ops-per-second-real-time", "wall-clock-time", "max-rss"
#: What it says to people; from 0.16 on beside what it prints.
_MESSAGE = re.compile(r"stress-ng: (\w+): +\[\d+\] (.*)")
_VERSION = re.compile(r"      stress-ng-version: '?(\d+(?:\.\d+)+)'?\Z")
_ROW = re.compile(r"    - stressor: (\S+)\Z")
_MEMBER = re.compile(r"      ([a-z0-9-]+): (\S+)\Z")
#: How it counts its instances, where it does.
_COUNTED = re.compile(r"(skipped|failed|metrics untrustworthy): ([1-9]\d*)\b")
#: A system call that failed is no wrong result (Linux errno in each such message of stress-ng 0.15 to 0.22).
_CALL = re.compile(r"\berrno=\d+|out of memory|alloc failed|mmap failed")
#: What makes the result of a load no result of this machine's.
_LEFT_OUT = re.compile(r"skipp|gave up|not implemented|unsupported|no available memory|terminated|killed", re.I)


def command(stress_ng: str, load: Load, instances: int, size: int) -> list[str]:
    """size: bytes of memory that all instances together fill. Less than a second would be none, which has no end."""
    argv = [stress_ng, f"--{load.stressor}", str(instances), f"--{load.stressor}-method", load.method, "--verify"]
    argv += [f"--{VM}-bytes", str(size)] if load.stressor == VM else []
    return argv + ["--timeout", f"{math.ceil(load.seconds)}s", "--metrics", "--yaml", "/dev/stdout"]


def read(done: Run, load: Load, share: int = 0) -> Seen:
    """share: bytes that each instance was to fill."""
    seen = Seen()
    printed, told = done.text.splitlines(), done.cries.splitlines()
    for match in filter(None, map(_MESSAGE.match, printed + told)):
        _heard(seen, load, match.group(1), match.group(2))
    _document(seen, [line for line in printed if not _MESSAGE.match(line)], load, share)
    seen.rate = None if seen.problems or seen.wrong else seen.rate
    return seen


def _heard(seen: Seen, load: Load, level: str, words: str) -> None:
    if level == "fail" and words.startswith(f"{load.stressor}: ") and not _CALL.search(words):
        seen.wrong.append(short(words, 160))
    elif (
        level in ("fail", "error")
        or _LEFT_OUT.search(re.sub(r"\b(skipped|failed|metrics untrustworthy): 0\b", "", words))
        or _COUNTED.search(words)
    ):
        seen.problems.append(short(words, 160))


def _document(seen: Seen, lines: list[str], load: Load, share: int) -> None:
    whole = [line.rstrip() for line in lines if line.strip()]
    if not whole:
        seen.problems.append("it printed no metrics")
        return
    if whole[0] != "---" or whole[-1] != "..." or whole.count("---") != 1 or whole.count("...") != 1:
        seen.problems.append("its metrics are cut, or told twice")
        return
    versions = [match.group(1) for match in map(_VERSION.match, whole) if match]
    seen.version = versions[0] if len(versions) == 1 else ""
    rows = _rows(_metrics(whole))
    if [name for name, _members in rows] != [load.stressor]:
        told = ", ".join(name for name, _members in rows) or "nothing"
        seen.problems.append(f"it tells of {told}, and {load.stressor} was asked for")
        return
    _judged(seen, rows[0][1], load, share)


def _metrics(lines: list[str]) -> list[str]:
    """The lines of that one part; of two parts of the name none."""
    if lines.count("metrics:") != 1:
        return []
    rest = lines[lines.index("metrics:") + 1 :]
    end = next(at for at, line in enumerate(rest) if not line.startswith(" "))
    return rest[:end]


def _rows(lines: list[str]) -> list[tuple[str, dict[str, str]]]:
    """A member that stands twice in its row is told by none of them."""
    found: list[tuple[str, dict[str, str]]] = []
    for line in lines:
        row, member = _ROW.match(line), _MEMBER.match(line)
        if row:
            found.append((row.group(1), {}))
        elif member and found:
            members = found[-1][1]
            members[member.group(1)] = "" if member.group(1) in members else member.group(2)
    return found


def _judged(seen: Seen, members: dict[str, str], load: Load, share: int) -> None:
    done, rate, seconds, filled = (_number(members.get(name)) for name in (_DONE, _RATE, _SECONDS, _FILLED))
    if not seen.version:
        seen.problems.append("it does not tell its version")
    if not done or not rate or not seconds:
        seen.problems.append(f"{load.stressor} did nothing, or does not tell how much")
        return
    if seconds < load.seconds * LONG_ENOUGH:
        seen.problems.append(f"it ran for {seconds:g} s, and {load.seconds:g} s were asked for")
    if load.stressor == VM and (filled is None or filled * 1024 < share * FULL_ENOUGH):
        told = "does not tell how much" if filled is None else f"{filled * 1024:.0f} bytes"
        seen.problems.append(f"of the memory it filled {told}, and {share} bytes an instance were asked for")
    # Of two figures of the same thing the lower one.
    seen.rate = min(rate, done / seconds)


def _number(word: Optional[str]) -> Optional[float]:
    try:
        value = float(word or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
