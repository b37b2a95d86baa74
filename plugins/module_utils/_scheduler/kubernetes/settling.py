# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a hold has to stand before what is bound to the node can be believed to be all. PRIVATE to the collection.

Neither cordon nor taint is looked at when a pod is bound: one that the scheduler chose the node for before the hold
was written is bound after it, milliseconds later as a rule, and as late as its gang, or its volumes, are waited for.
Both moments are the API server's own, so that no clock of ours has to be right.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Optional


def unsettled(since: str, date: str, settling: float) -> str:
    """Why a hold does not settle anything yet; empty where it does.

    since: when it was written, by the API server's book. date: of the answer that showed it, as its header says; empty
    where it has none, and then it is never settled.
    """
    written, now = _written(since), _date(date)
    if written is None or now is None:
        return "the API server tells no time, so nobody knows for how long the hold has stood"
    if (now - written).total_seconds() >= settling:
        return ""
    return f"its hold is younger than {settling:g} s, so that a pod may still be bound that was given to it before"


def _written(text: str) -> Optional[datetime]:
    with suppress(ValueError):
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return None


def _date(text: str) -> Optional[datetime]:
    with suppress(ValueError, TypeError, IndexError):
        told = parsedate_to_datetime(text)
        return told if told.tzinfo else told.replace(tzinfo=timezone.utc)
    return None
