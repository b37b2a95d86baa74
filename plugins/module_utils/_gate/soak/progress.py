# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a soak has come, and what was seen in it; kept on the node, so that it goes on after a reboot. PRIVATE.

PRIVATE to the collection. Time counts between two good samples that are no further apart than the profile lets pass, by
the clock of the boot, which nobody sets, and while a round of the load ran that has passed. What lies before the first
sample, between two rounds, between two boots, or in a gap, is none.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak import grid, series
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import iso, json_digest

SCHEMA = 3
#: How a part of a soak ended that did not end by itself.
CUT_OFF, STOPPED, UNSETTLED, OVER, FAILED = "", "stopped", "unsettled", "over", "failed"
#: Nothing was loaded, for what a verdict needs besides was not there.
NOT_BEGUN = "not begun"
#: What a GPU keeps over a reboot: more of it after one than before it came while nobody looked.
LASTING: Mapping[str, str] = {
    "ecc_aggregate_dram": "uncorrected errors in DRAM",
    "ecc_aggregate_sram": "uncorrected errors in SRAM",
    "remap_uncorrectable": "rows remapped for uncorrected errors",
}
_DIGESTS = 1000


@dataclass
class Progress:
    """seconds: what counts as soaked. gap: the longest time without a good sample, of one boot. step: the most that the
    clock of the day was set by. unseen: by GPU what it counted while the soak was cut off. parts: each stretch by one
    process: its boot, when it began, also by the clock of that boot (up), how it ended.

    The clock of the day can be set: began is the earliest time at which the soak may have begun by it, wall what it
    told last, and offset what it was ahead of the clock of the boot then. forgotten: how often it was cut off beside
    what its parts tell."""

    schema: int = SCHEMA
    began: float = 0.0
    uuids: list[str] = field(default_factory=list)
    seconds: float = 0.0
    samples: int = 0
    loaded: int = 0
    blind: int = 0
    gap: float = 0.0
    step: float = 0.0
    rounds: dict[str, int] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)
    totals: list[dict[str, series.Figure]] = field(default_factory=list)
    counted: list[dict[str, int]] = field(default_factory=list)
    unseen: list[list[Any]] = field(default_factory=list)
    rows: list[series.Row] = field(default_factory=list)
    wall: float = 0.0
    offset: Optional[float] = None
    forgotten: int = 0

    @property
    def interruptions(self) -> int:
        """Parts that something cut off, or that could not be measured, and that went on. A shutdown tells each process
        to end, as somebody does who ends the soak: what went on after another boot was cut off."""
        return self.forgotten + sum(
            part["ended"] in (CUT_OFF, UNSETTLED) or (part["ended"] == STOPPED and part["boot_id"] != later["boot_id"])
            for part, later in zip(self.parts, self.parts[1:])
        )

    @property
    def digest(self) -> str:
        """Of the series as it is kept."""
        return json_digest(self.rows)

    @property
    def ended(self) -> str:
        """How its last part did."""
        return str(self.parts[-1]["ended"]) if self.parts else CUT_OFF

    @property
    def failed(self) -> bool:
        return any(part["ended"] == FAILED for part in self.parts)

    @property
    def unheard(self) -> str:
        """The boot of the part before this one, where it is another and nobody has read its log to the end."""
        before, now = self.parts[-2:] if len(self.parts) > 1 else ({}, {})
        return str(before["boot_id"]) if before and before["boot_id"] != now["boot_id"] and not before["heard"] else ""

    def begin(self, boot_id: str, wall: float, up: Optional[float] = None) -> None:
        """Another part. What the kernel said at the end of an earlier boot is in no log of this one: where nobody has
        read it, nothing that was soaked until then counts, and no mean is of it."""
        if self.parts:
            self._compare(boot_id, wall, up)
        else:
            self.began = wall
        found: list[Any] = []
        about = {"boot_id": boot_id, "began": iso(wall), "up": up, "ended": CUT_OFF, "heard": False}
        self.parts.append({**about, "found": found})
        if up is not None:
            self.clocked(wall, up)
        if self.unheard and not self.failed:  # by these figures it may have failed
            self.seconds, self.rounds, self.loaded, self.totals = 0.0, {}, 0, []

    def _compare(self, boot_id: str, wall: float, up: Optional[float]) -> None:
        """Was the clock of the day set while nobody looked? Over a boot that shows only where it went back, and then
        nobody knows which record of a crash is of before."""
        same = self.parts[-1]["boot_id"] == boot_id
        if same and up is not None and self.offset is not None:
            self.step = max(self.step, round(abs(wall - up - self.offset), 3))
        elif not same and self.wall - wall > grid.CLOCK_SECONDS:
            self.step, self.began = max(self.step, round(self.wall - wall, 3)), 0.0

    def clocked(self, wall: float, up: float) -> None:
        """What both clocks tell now."""
        first = self.parts[0]
        if first["boot_id"] == self.parts[-1]["boot_id"] and first["up"] is not None:
            self.began = min(self.began, first["up"] + wall - up)
        self.wall, self.offset = wall, wall - up

    def window(self, boot_id: str, up: float) -> str:
        """Since when what the kernel logged in this boot is the soak's, as a log is asked for it."""
        began = self._began_in(boot_id)
        return "boot" if began is None else f"{max(0.0, up - began):.1f}"

    def began_in(self, boot_id: str) -> float:
        """From when on a boot is the soak's, by the clock of that boot."""
        return self._began_in(boot_id) or 0.0

    def _began_in(self, boot_id: str) -> Optional[float]:
        """None where all of it is, or nobody knows more."""
        first = self.parts[0]
        return first["up"] if first["boot_id"] == boot_id else None

    def told_of(self, interruptions: int) -> None:
        """Others may know of more: a node that keeps nothing over a boot has forgotten them."""
        self.forgotten += max(0, interruptions - self.interruptions)

    def end(self, how: str) -> None:
        self.parts[-1]["ended"] = how

    def heard(self, whole: bool) -> None:
        """Was the kernel's log read whole after the last sample of this part?"""
        self.parts[-1]["heard"] = whole

    def passed(self, name: str, digest: str) -> None:
        """One round of the load."""
        self.rounds[name] = self.rounds.get(name, 0) + 1
        if digest not in self.digests:
            self.digests = [*self.digests, digest][-_DIGESTS:]

    def sample(
        self,
        wall: float,
        readings: Sequence[Mapping[str, float]],
        counted: Sequence[Mapping[str, int]],
        *,
        loaded: bool = True,
    ) -> None:
        """What all GPUs showed at one moment. loaded: were they under load? Of others only a peak counts."""
        self.samples += 1
        self.loaded += loaded
        self.totals = self.totals or [{} for _gpu in readings]
        for total, shown in zip(self.totals, readings):
            (series.add if loaded else series.peak)(total, shown)
        self.counted = [dict(one) for one in counted]
        self.rows = series.extended(self.rows, series.row(iso(wall), zip(readings, self.counted)))

    def grew(self, counted: Sequence[Mapping[str, int]]) -> None:
        """Note what GPUs counted since the last sample of all and keep over a reboot: a look at one boot does not see
        it."""
        self.unseen += [
            [number, f"GPU {number}: {now[name] - before[name]} {words} while it was cut off"]
            for number, (before, now) in enumerate(zip(self.counted, counted))
            for name, words in LASTING.items()
            if name in before and now.get(name, before[name]) > before[name]
        ]


class Watch:
    """The clocks of one part: what lies between two samples, and whether somebody set the time of the day.

    The time of a round is kept apart until the round has passed, and a good look was taken after it.
    """

    def __init__(self, progress: Progress, longest: float, uptime: float, wall: float) -> None:
        self._progress, self._longest = progress, longest
        self._seen, self._offset, self._counts = uptime, wall - uptime, False
        self._from, self._until, self._pending = uptime, uptime, 0.0

    def loaded(self, uptime: float) -> None:
        """A round begins; that of one before it which has not passed is lost."""
        if self._until > uptime:
            self._pending = 0.0
        self._from, self._until = uptime, float("inf")

    def passed(self, uptime: float) -> None:
        """The round has ended, and passed."""
        self._until = uptime

    def look(self, uptime: float, wall: float, *, good: bool) -> float:
        """Count one look; the seconds since the last good one before it."""
        progress = self._progress
        progress.step = max(progress.step, round(abs(wall - uptime - self._offset), 3))
        self._offset = wall - uptime
        span = uptime - self._seen
        progress.gap = max(progress.gap, round(span, 3))
        if not good:
            progress.blind += 1
            return span
        if self._counts and span <= self._longest:
            self._pending += max(0.0, min(uptime, self._until) - max(self._seen, self._from))
        if self._until <= uptime:
            progress.seconds, self._pending = progress.seconds + self._pending, 0.0
        self._seen, self._counts = uptime, True
        return span
