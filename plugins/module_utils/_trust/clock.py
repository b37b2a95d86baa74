# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a node's clock is from the controller's, from a question and its answer. PRIVATE to the collection.

The controller asks at ``asked``, the node reads its clock as ``read``, the answer is there at ``answered``. The node's
offset then lies between ``read - answered`` and ``read - asked``: a slow answer makes that window wide, and never
wrong. Several windows together are as narrow as their common part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS


def window(asked: float, read: float, answered: float, *, grain: float = 0.0) -> tuple[float, float]:
    """The offset's window of one question.

    :param grain: how much later than shown the node's clock may have been read, for one that shows whole seconds.
    """
    return read - answered, read + grain - asked


def common(windows: Iterable[Sequence[float]]) -> tuple[float, float] | None:
    """What all windows have in common; None where there are none, or where they contradict each other."""
    known = list(windows)
    if not known:
        return None
    low, high = max(item[0] for item in known), min(item[1] for item in known)
    return (low, high) if low <= high else None


def judge_offset(found: Sequence[float] | None, limit: float) -> str:
    """Pass only where the whole window is within the limit, fail only where all of it is outside."""
    if found is None:
        return INCONCLUSIVE
    low, high = found
    if -limit <= low and high <= limit:
        return PASS
    return FAIL if low > limit or high < -limit else INCONCLUSIVE


def check_clock(judgement: Judgement, found: Sequence[float] | None, limit: float) -> None:
    """Add the check ``clock``, without which no verdict on a node is whole."""
    judgement.require(("clock", "node"))
    measured = None if found is None else [round(found[0], 3), round(found[1], 3)]
    told = "could not be measured" if found is None else f"lies between {found[0]:+.3f} s and {found[1]:+.3f} s"
    judgement.check(
        "clock",
        entity="node",
        measured=measured,
        wanted=limit,
        unit="s",
        source="the controller's clock",
        verdict=judge_offset(found, limit),
        finding="clock_skew",
        text=f"the node's clock against the controller's {told}, allowed are {limit:g} s",
    )
