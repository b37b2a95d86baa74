# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for a power state that stays. PRIVATE to the collection."""

from __future__ import annotations

import time

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.contract import OFF, ON, Power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: How often a BMC is asked: often while a change is fresh, then rarely. Pairs of seconds: for how long, how often.
PACE = ((2.0, 0.2), (10.0, 0.5), (float("inf"), 2.0))
#: A state counts when it was read so many times in a row: PoweringOn may fall back to Off.
READS = 2
NO_ANSWER = "no answer"


def look(power: Power) -> str:
    """One look at the power state. A BMC that drops off while it switches says nothing, and is asked on."""
    try:
        return power.state()
    except Unreachable:
        return NO_ANSWER


def settled(
    power: Power, ctx: Context, wanted: tuple[str, ...], *, timeout: float, reads: int = READS, do: str = ""
) -> str:
    """Wait until one of the wanted states was read ``reads`` times in a row; returns it.

    :raises DeadlineExceeded: with the last state seen.
    """
    in_a_row: list[str] = []

    def read() -> str:
        state = look(power)
        if state not in in_a_row:
            in_a_row.clear()
        in_a_row.append(state)
        return state

    end = time.monotonic() + timeout
    for span, interval in PACE:
        left = max(0.0, end - time.monotonic())
        try:
            return ctx.wait(
                read,
                lambda state: state in wanted and len(in_a_row) >= reads,
                timeout=min(span, left),
                interval=interval,
                wanted=f"power {' or '.join(wanted)}, read {reads} times in a row",
                seen=lambda state: f"power {state}",
                do=do,
            )
        except DeadlineExceeded as exc:
            exc.what = f"waited {timeout:g} s in vain"
            exc.address = exc.address or power.address
            if span >= left:
                raise
    raise AssertionError("the last pace has no end")


def stable_now(power: Power, ctx: Context, *, timeout: float) -> str:
    """The power state, once it is plainly on or off. A first look at a machine that is not switching is one read."""
    state = power.state()
    if state in (ON, OFF):
        return state
    return settled(power, ctx, (ON, OFF), timeout=timeout, do="look at the BMC itself: it tells neither on nor off")
