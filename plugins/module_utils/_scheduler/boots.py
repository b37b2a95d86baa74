# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a node run a boot that began after the last look at it? No gate has seen it. PRIVATE to the collection."""

from __future__ import annotations

import time
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView

#: A scheduler reckons a boot from the node's uptime, at each registration anew and by its own clock: seconds apart.
#: Between a boot and the look at it lie its gates, and they take longer.
_APART = 10.0


class LastLook:
    """ago: for how many seconds it has been over; None where nobody has looked, and no boot is asked for."""

    def __init__(self, ago: Optional[float]) -> None:
        self._at = None if ago is None else time.time() - ago

    def check(self, before: NodeView, now: NodeView) -> None:
        """:raises EvidenceMissing: which says nothing of the node, and quarantines it not."""
        if self._missed(before.booted, now.booted):
            raise EvidenceMissing(
                "the node was booted after the last look at it, and no gate has seen this boot",
                node=now.name,
                wanted="the boot that was looked at",
                seen=f"{now.native}, booted {now.booted} (before: {before.booted or 'not known'})",
                do="run the playbook revalidate, which has the gates see this boot, then readmit",
            )

    def _missed(self, before: str, now: str) -> bool:
        if self._at is None or not now:
            return False
        began, earlier = _seconds(now), _seconds(before)
        if began is None:
            return bool(before) and now != before
        if began <= time.time() + _APART:
            return began > self._at + _APART
        # It lies ahead, so the scheduler's clock or zone is another one, and says nothing of our look.
        return earlier is not None and abs(began - earlier) > _APART


def _seconds(booted: str) -> Optional[float]:
    """Slurm's standard time is local where its command runs; None for a boot that is no time."""
    try:
        return time.mktime(time.strptime(booted, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
