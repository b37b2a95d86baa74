# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All figures of a fleet, read out of its ledger. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import IDENTITY, SWAPS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.figures import GATES, Measured, measured

#: Verdicts of one gate on one node that are read: a past, and a present.
_LOOKS = 12
#: Verdicts are long, and a fleet has many: so many nodes are read at once, and no more than their figures kept.
_AT_ONCE = 64


def all_measured(ledger: Ledger, since: float) -> dict[str, Measured]:
    """By id of the node. since: seconds since the epoch, from which on a look counts."""
    everybody, found = ledger.everybody(), {}
    for at in range(0, len(everybody), _AT_ONCE):
        found.update(_some(ledger, everybody[at : at + _AT_ONCE], since))
    return found


def _some(ledger: Ledger, ids: list[str], since: float) -> dict[str, Measured]:
    verdicts: dict[str, list[Mapping[str, Any]]] = {}
    for event in ledger.newest(ids, "verdict", GATES, last=_LOOKS, since=since):
        verdicts.setdefault(event["node_id"], []).append(event)
    turns = [ledger.latest(ids, "state", ["imaging"]), ledger.latest(ids, IDENTITY, SWAPS)]
    return {
        one: measured(events, max(int(turn[one]["id"]) if one in turn else 0 for turn in turns))
        for one, events in verdicts.items()
    }
