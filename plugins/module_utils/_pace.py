# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How people are told that something long still moves: when, at what rate, and who is waited for. PRIVATE."""

from __future__ import annotations

from collections.abc import Sequence

NAMES_SHOWN = 6
#: Seconds between two lines grow with the age of what is told of: a deploy of an hour fills no screen.
GROWTH = 1.5
LONGEST_PAUSE = 60.0
FIRST_AFTER = 5.0


def pause(age: float, first_after: float = FIRST_AFTER) -> float:
    """Seconds until the next line. :param age: of what is told of, now."""
    return min(max(age * (GROWTH - 1), first_after), LONGEST_PAUSE)


def duration_text(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def rate_text(count: int, seconds: float) -> str:
    """How many have ended in the shortest of a second, a minute and an hour in which one has."""
    for unit, length in (("a second", 1), ("a minute", 60), ("an hour", 3600)):
        if count * length >= max(seconds, 1.0):
            return f"{count * length / max(seconds, 1.0):.0f} {unit}"
    return "less than one an hour"


def names_text(names: Sequence[str]) -> str:
    """The first few names and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return " ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


class Progress:
    """What is told of hosts that are served side by side, in lines that fit."""

    def __init__(self, total: int, now: float) -> None:
        self._total, self._since, self._due = total, now, now + FIRST_AFTER

    def line(self, done: int, at_work: Sequence[str], now: float, width: int) -> str:
        """The line that is due; empty where none is.

        :param at_work: those that are served now, the one that was begun first at the head. :param width: its columns.
        """
        age = now - self._since
        if now < self._due or done >= self._total:
            return ""
        self._due = now + pause(age)
        head = f"{done} of {self._total} done" + (f", {rate_text(done, age)}" if done else "")
        left = self._total - done
        for names in (at_work[:most] for most in range(min(NAMES_SHOWN, len(at_work)), 0, -1)):
            line = f"{head}, waits for {' '.join(names)}" + (" ..." if len(names) < left else "")
            if len(line) <= width:
                return line
        return head
