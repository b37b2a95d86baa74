# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the look began that a verdict ends. PRIVATE to the collection.

A verdict is written down after its look, hours after it where nobody came for a diagnosis. What was imaged between the
two is not what was looked at, and the age of a verdict is that of its look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: In the ledger's copy of a verdict: the newest event that the ledger had when the node began to be looked at, and the
#: ledger's time then, in seconds since the epoch.
AFTER_EVENT, LOOKED_AT = "after_event", "looked_at"
#: The newest event when that was read by which the look judges whose the node is, where others had come by the look: a
#: service that is away may lie between the two.
JUDGED_AFTER = "judged_after"


class Moment(NamedTuple):
    """Where the ledger stood: its newest event, and its time in seconds since the epoch."""

    event: int = 0
    at: float = 0.0

    def as_data(self) -> dict[str, Any]:
        return {AFTER_EVENT: self.event, LOOKED_AT: self.at}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Moment:
        """What was written down by :meth:`as_data`; the beginning of all time for what was not."""
        event, at = data.get(AFTER_EVENT), data.get(LOOKED_AT)
        return cls(event if isinstance(event, int) else 0, at if isinstance(at, float) else 0.0)


def judged_after(judged: int, look: Moment) -> dict[str, int]:
    """:param judged: where the ledger stood when it was read. :param look: the moment of the look by that."""
    return {JUDGED_AFTER: judged} if judged < look.event else {}


def looked_at(verdict: Mapping[str, Any]) -> float:
    """When the look began that ended in this event, by the ledger's clock; 0.0 where nobody has said so."""
    return min(Moment.of(verdict["data"]).at, float(verdict["at"]))


def seen_at(event: Mapping[str, Any]) -> Moment:
    """When the look began that ended in this evidence: what happened since may not have been seen by it."""
    told = Moment.of(event["data"])
    return Moment(min(told.event or event["id"], event["id"]), min(told.at or event["at"], event["at"]))
