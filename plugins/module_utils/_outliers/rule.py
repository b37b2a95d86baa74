# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a figure is an outlier among its peers, and when it has drifted from its own past. PRIVATE to the collection.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple, Optional

#: In which direction a figure is bad.
BAD = (LOW, HIGH) = ("low", "high")
#: A figure is an outlier beyond so many times the spread of its peers. The median of the distances from the median is
#: no standard deviation; times this factor it is one where figures are spread normally, and half of them may be wrong
#: without moving it.
SPREADS, TO_DEVIATION = 3.5, 1.4826
#: Where all peers are nearly the same, the spread is nothing: what differs by less is no outlier.
MARGIN = 0.02
#: Fewer peers tell nothing of a node.
PEERS = 8
#: Of its own figures the first ones are what a part once was, and the newest ones what it is. Own rule: the middle one
#: of three is none that was disturbed once, and five have a spread.
BEGINNING, NEWEST = 5, 3


class Limit(NamedTuple):
    """Beyond ``at`` a figure is an outlier. made_of: how many figures."""

    middle: float
    spread: float
    at: float
    made_of: int

    def beyond(self, value: float, bad: str) -> bool:
        return value < self.at if bad == LOW else value > self.at

    def off(self, value: float) -> float:
        """By which part of the median it lies away from it."""
        return (value - self.middle) / self.middle


def limit_of(values: Sequence[float], bad: str) -> Optional[Limit]:
    """The limit among these figures; None where their median is nothing that a part of it could be taken of."""
    middle = median(values)
    if middle <= 0:
        return None
    spread = TO_DEVIATION * median(abs(value - middle) for value in values)
    way = max(SPREADS * spread, MARGIN * middle)
    return Limit(middle, spread, middle - way if bad == LOW else middle + way, len(values))


class Drift(NamedTuple):
    """The past of one part. now: the middle one of its newest figures."""

    limit: Limit
    now: float
    drifted: bool


def drift_of(values: Sequence[float], bad: str) -> Optional[Drift]:
    """Of the figures of one part, oldest first; None where they are too few."""
    if len(values) < BEGINNING + NEWEST:
        return None
    limit, now = limit_of(values[:BEGINNING], bad), median(values[-NEWEST:])
    return None if limit is None else Drift(limit, now, limit.beyond(now, bad))
