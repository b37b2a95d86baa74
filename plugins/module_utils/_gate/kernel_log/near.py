# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When each kind of error was logged, so that a storm of them is looked through once. PRIVATE to the collection.

A job that crashes again and again logs a hundred thousand errors, and each of them asks which others were near it.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from typing import Optional


class Times:
    """By key the times of what was noted, in order; what has no time may have been at any."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: dict[Hashable, list[float]] = {}
        self._untimed: set[Hashable] = set()

    def note(self, key: Hashable, at: Optional[float]) -> None:
        if at is None:
            self._untimed.add(key)
        else:
            insort(self._known.setdefault(key, []), at)  # a log is in order but for a few: at the end

    def near(self, key: Hashable, at: Optional[float]) -> bool:
        """Was any of this key logged within these seconds?"""
        if key in self._untimed or at is None:
            return key in self._untimed or key in self._known
        times = self._known.get(key, [])
        place = bisect_left(times, at)
        return any(abs(one - at) <= self._seconds for one in times[max(0, place - 1) : place + 1])
