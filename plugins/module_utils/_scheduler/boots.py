# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a node run a boot that began after the last look at it? No gate has seen it. PRIVATE to the collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView

#: A scheduler reckons a boot from the node's uptime, at each registration anew and by its own clock: seconds apart.
#: Between a boot and the look at it lie its gates, and they take longer.
_APART = 10.0
#: A controller that is stopped for longer is not just stopped.
_STOPPED = 900.0


class LastLook:
    """ago: for how many seconds it has been over; None where nobody has looked, and no boot is asked for.

    clock: what time it is at the scheduler, in the words in which it tells of a boot; empty where it does not tell.
    boot_id: the boot that was looked at, in the node's own words. probe: asks the node for these; None where there is
    no way to it. Where a scheduler tells nothing that can be held against the time of the look, the node itself is
    asked, right before it is given work and right after that.
    """

    def __init__(
        self,
        ago: Optional[float],
        clock: Callable[[], str] = str,
        boot_id: str = "",
        probe: Optional[Callable[[], Optional[Mapping[str, str]]]] = None,
    ) -> None:
        self._at = None if ago is None else time.time() - ago
        self._clock = clock
        self._boot_id, self._probe = boot_id, probe
        self._skew: Optional[float] = None

    def check(self, before: NodeView, now: NodeView) -> None:
        """:raises EvidenceMissing: which says nothing of the node, and quarantines it not."""
        missed = self._missed(before, now)
        if missed and not self._late(now):
            raise _another(now, f"{now.native}, booted {now.booted} (before: {before.booted or 'not known'})")
        if missed is None:
            self._by_the_node(now)

    def _late(self, now: NodeView) -> bool:
        """Is it the boot that was looked at, which the scheduler reckons from when a registration came to it?

        What lay before a controller that was stopped comes to it minutes later, and that much later the boot seems to
        have begun. The node itself says which boot it is, and since when; hours apart, it is hardly the same machine.
        """
        answer = (self._probe() if self._probe and self._boot_id else None) or {}
        if answer.get("boot_id") != self._boot_id:
            return False
        began, skew = seconds_of(now.booted), self._ahead() or 0.0
        try:
            runs = float(answer.get("uptime") or "")
        except ValueError:
            return False
        return began is not None and abs(began - skew - (time.time() - runs)) <= _STOPPED

    def _missed(self, before: NodeView, now: NodeView) -> Optional[bool]:
        """None where the scheduler does not tell."""
        if self._at is None:
            return False
        began, earlier = seconds_of(now.booted), seconds_of(before.booted)
        if began is None and now.answers and self._boot_id and now.booted == self._boot_id:
            return False  # told by the node's agent in the node's own words: the boot that was looked at
        if began is None:
            return True if before.booted and now.booted and now.booted != before.booted else None
        other = earlier is not None and abs(began - earlier) > _APART
        if other and before.answers:  # of an agent that is silent, the scheduler may tell the boot of long ago
            return True
        skew = self._ahead()
        if skew is not None or began <= time.time() + _APART:
            return began - (skew or 0.0) > self._at + _APART
        # It lies ahead, so the scheduler's clock or zone is another one, and says nothing of our look.
        return True if other else None

    def began(self, view: NodeView) -> float:
        """When the node's boot began, in seconds since the epoch; 0 where the scheduler does not tell, or not by what
        clock it does."""
        at = seconds_of(view.booted)
        skew = None if at is None else self._ahead()
        return 0.0 if at is None or skew is None else at - skew

    def _ahead(self) -> Optional[float]:
        """By how many seconds the scheduler's clock, or the zone in which it tells, is ahead of ours."""
        if self._skew is None:
            told = seconds_of(self._clock())
            self._skew = None if told is None else told - time.time()
        return self._skew

    def _by_the_node(self, now: NodeView) -> None:
        answer = self._probe() if self._probe else None
        boot_id = (answer or {}).get("boot_id") or ""
        if boot_id and boot_id == self._boot_id:
            return
        if boot_id:
            raise _another(now, f"boot {boot_id} by the node itself (looked at: {self._boot_id or 'not known'})")
        why = (
            "does not answer over its own connection"
            if self._probe
            else "cannot be asked over the connection of this task"
        )
        raise EvidenceMissing(
            "nobody tells whether the node was booted after the last look at it",
            node=now.name,
            wanted=f"the boot that was looked at: {self._boot_id or 'not known'}",
            seen=f"its scheduler tells no time of boot that says so ({now.booted or 'none'}), and the node {why}",
            do=_DO[bool(self._probe)],
        )


_DO = {
    True: "look at the way to the node (a jump host, the key, ansible_user), then run the playbook readmit",
    False: "resume it by a task of the node's own, over the connection that leads to it and without delegate_to"
    " (playbook readmit), or give force_reason, which is recorded",
}


def _another(now: NodeView, seen: str) -> EvidenceMissing:
    return EvidenceMissing(
        "the node was booted after the last look at it, and no gate has seen this boot",
        node=now.name,
        wanted="the boot that was looked at",
        seen=seen,
        do="run the playbook revalidate, which has the gates see this boot, then readmit",
    )


def seconds_of(booted: str) -> Optional[float]:
    """Slurm's standard time is local where its command runs; None for a boot that is no time."""
    try:
        return time.mktime(time.strptime(booted, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
