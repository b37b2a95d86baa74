# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``storage`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "storage"
#: The name of the look at each drive, beside those of the speeds.
HEALTH = "health"
READ, WRITE, RANDREAD = "read", "write", "randread"
PATTERNS = (READ, WRITE, RANDREAD)
#: Where a speed is measured: on each drive by itself, or over all of them as one, as in an array.
EACH, ALL = "each", "all"
#: At what: a file in a directory, or the device itself, which is only read. What was never written a drive reads faster
#: than it can, so that a floor of one is never held against the other.
DIRECTORY, DEVICE = "directory", "device"
#: What a speed is counted in.
_UNITS: Mapping[str, str] = {READ: "GB/s", WRITE: "GB/s", RANDREAD: "IOPS"}


@dataclass(frozen=True)
class Drives:
    """Drives of one kind. size: in GB, as their makers count. worn: at most so many per cent of their endurance."""

    name: str
    count: int
    size: float
    model: str
    worn: int
    media_errors: int
    source: str

    def entity(self, number: int) -> str:
        return f"{self.name} {number}"

    @property
    def entities(self) -> list[str]:
        return [self.entity(number) for number in range(self.count)]


@dataclass(frozen=True)
class Speed:
    """A floor, and all that it holds for. size: MiB that are written and read. jobs: threads that ask at once."""

    name: str
    drives: str
    over: str
    at: str
    pattern: str
    block_kib: int
    depth: int
    jobs: int
    size: int
    seconds: float
    minimum: float
    source: str

    @property
    def unit(self) -> str:
        """What the figure is, so that nobody compares it with another one."""
        jobs = f" x {self.jobs}" if self.jobs > 1 else ""
        device = ", of a device" if self.at == DEVICE else ""
        return f"{_UNITS[self.pattern]}, {self.pattern} {self.block_kib} KiB, depth {self.depth}{jobs}{device}"

    @property
    def cell(self) -> str:
        return f"speed.{self.name}"


@dataclass(frozen=True)
class Section:
    drives: tuple[Drives, ...]
    speeds: tuple[Speed, ...]

    def entities(self, speed: Speed) -> list[str]:
        """What the speed is measured of."""
        [group] = [one for one in self.drives if one.name == speed.drives]
        return [group.name] if speed.over == ALL else group.entities

    @property
    def tests(self) -> list[str]:
        return sorted([HEALTH, *(speed.name for speed in self.speeds)])


def _drives(section: Mapping[str, Any]) -> tuple[Drives, ...]:
    found = tuple(
        Drives(
            str(row["name"]),
            int(row["count"]),
            float(row["size_gb"]),
            " ".join(str(row.get("model") or "").split()),
            int(row["percentage_used"]),
            int(row["media_errors"]),
            str(row["source"]),
        )
        for row in section["drives"]
    )
    names = [one.name for one in found]
    if not found or len(set(names)) != len(names) or any(one.count < 1 or one.size <= 0 for one in found):
        raise ValueError("drives without a name of their own, a count or a size")
    return found


def _speeds(section: Mapping[str, Any]) -> tuple[Speed, ...]:
    kinds = {one.name for one in _drives(section)}
    found = tuple(_speed(row) for row in section.get("speeds") or [])
    names = [one.name for one in found]
    if len(set(names)) != len(names) or HEALTH in names or any(not _measurable(one, kinds) for one in found):
        raise ValueError("a speed without a name of its own, drives, a pattern, a size or a minimum")
    return found


def _speed(row: Mapping[str, Any]) -> Speed:
    return Speed(
        str(row["name"]),
        str(row["drives"]),
        str(row["over"]),
        str(row.get("at") or DIRECTORY),
        str(row["pattern"]),
        int(row["block_kib"]),
        int(row["depth"]),
        int(row.get("jobs") or 1),
        int(row["size_mib"]),
        float(row["seconds"]),
        float(row["minimum"]),
        str(row["source"]),
    )


def _measurable(one: Speed, kinds: set[str]) -> bool:
    """Several threads would read the same sequence, each after the other from the drive's own memory."""
    whole = min(one.block_kib, one.depth, one.jobs, one.size) >= 1 and min(one.seconds, one.minimum) > 0
    named = one.drives in kinds and one.over in (EACH, ALL) and one.pattern in PATTERNS
    read_only = one.at == DIRECTORY or (one.at == DEVICE and one.pattern != WRITE)
    alone = one.jobs == 1 or one.pattern == RANDREAD
    return whole and named and read_only and alone and one.block_kib <= one.size * 1024


def section_of(wanted: Wanted, names: Sequence[str] = ()) -> Section:
    """The drives of the profile with the speeds of it, all or those named; of ``health`` alone none.

    :raises ConfigError: where the profile has no such section, or no floor for a speed that is named.
    """
    drives = wanted.section(NAME, _drives)
    speeds = [name for name in names if name != HEALTH]
    if names and not speeds:
        return Section(drives, ())
    return Section(drives, tuple(chosen(wanted, NAME, _speeds, speeds)))
