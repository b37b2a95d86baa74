# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``soak`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "soak"
#: What a soak makes series of, with the unit of each.
UNITS: Mapping[str, str] = {
    "power": "W",
    "temperature": "C",
    "memory_temperature": "C",
    "clock": "MHz",
    "memory_clock": "MHz",
}
#: Those that each GPU must tell in any case.
ALWAYS = ("power", "temperature", "clock")
STATISTICS = ("min", "mean", "max")
#: A node that is looked at more seldom, or more often, is not watched, or does nothing but look. Seconds.
_INTERVALS = (0.05, 600.0)
_MOST_INTERRUPTIONS = 20


@dataclass(frozen=True)
class Limit:
    """What one figure of each GPU must keep to over the whole soak: just one of most and least."""

    name: str
    statistic: str
    most: Optional[float]
    least: Optional[float]
    source: str

    @property
    def cell(self) -> str:
        return f"{self.name}.{self.statistic}"

    @property
    def unit(self) -> str:
        return UNITS[self.name]

    @property
    def wanted(self) -> float:
        return self.most if self.most is not None else float(self.least or 0.0)

    def keeps(self, value: Any) -> bool:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return False
        return value <= self.most if self.most is not None else value >= self.wanted


@dataclass(frozen=True)
class Plan:
    """interval: seconds between two samples. gap: the longest time without a good one. interruptions: how often the
    soak may have been cut off, by a reboot or a kill, and gone on."""

    interval: float
    gap: float
    interruptions: int
    limits: tuple[Limit, ...]
    source: str


def _limit(row: Mapping[str, Any]) -> Limit:
    most, least = row.get("most"), row.get("least")
    found = Limit(
        str(row["name"]),
        str(row["statistic"]),
        None if most is None else float(most),
        None if least is None else float(least),
        str(row["source"]),
    )
    if found.name not in UNITS or found.statistic not in STATISTICS or (most is None) == (least is None):
        raise ValueError("a limit without a figure, a statistic, or just one of most and least")
    return found


def _read(section: Mapping[str, Any]) -> Plan:
    plan = Plan(
        float(section["interval_seconds"]),
        float(section["gap_seconds"]),
        int(section["interruptions"]),
        tuple(map(_limit, section.get("limits") or ())),
        str(section["source"]),
    )
    if not _INTERVALS[0] <= plan.interval <= _INTERVALS[1] or plan.gap < plan.interval:
        raise ValueError("an interval that is none, or is longer than the gap that is let pass")
    if not 0 <= plan.interruptions <= _MOST_INTERRUPTIONS:
        raise ValueError(f"interruptions that are none of 0 to {_MOST_INTERRUPTIONS}")
    if len({one.cell for one in plan.limits}) < len(plan.limits):
        raise ValueError("a limit that stands there twice")
    return plan


def plan_of(wanted: Wanted) -> Plan:
    """:raises ConfigError: where the profile has no such section, or one that cannot be read."""
    return wanted.section(NAME, _read)
