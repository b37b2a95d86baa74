# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that pass, serve and fail again: whose recycles help, and not for long. PRIVATE to the collection.

What was tried in vain counts since the node was last in service (:mod:`.remedies`); these came back into service each
time. So all recycles for a failure count here, whatever came of them, as many as lie in a window of days. One that
ended before its imaging began, by a kill or a service that was away, was none. They begin anew where a part was
swapped, the machine was moved, or a person takes the node out of its quarantine by request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

_DAY = 86400.0
#: The host variables by which a site says it otherwise.
RECYCLES, DAYS = "flap_recycles", "flap_days"
#: What is due then: the gates found a healthy node each time, and more than a gate has to look.
REMEDY = "field_diag"
SOURCE = "own rule: a fault that returns after three images within a month is none of the image, nor of chance"
#: In the data of an attempt, and of a state out of service: something failed the node. In that of an attempt: a person
#: asked for it, out of the node's quarantine.
FAILED, ASKED = "failed", "asked"
_IMAGING = "state"
_SINCE = (
    "SELECT node_id, at, kind, data FROM events WHERE node_id IN :nodes AND (kind = 'attempt' OR kind = 'state'"
    " AND name = 'imaging') AND id > coalesce((SELECT"
    " max(turn.id) FROM events turn WHERE turn.node_id = events.node_id AND turn.kind = 'identity'"
    " AND turn.name IN ('replaced', 'moved')), 0) ORDER BY id"
)


@dataclass(frozen=True)
class Limit:
    """So many recycles for a failure within so many days, and the next failure is a person's."""

    recycles: int = 3
    days: float = 30.0

    @classmethod
    def told(cls, recycles: Any, days: Any) -> Limit:
        """:raises ConfigError: for what is no limit; None is the one that is shipped."""
        usual = cls()
        try:
            made = cls(
                usual.recycles if recycles is None else int(recycles), usual.days if days is None else float(days)
            )
        except (TypeError, ValueError):
            made = cls(0, 0)
        if made.recycles < 1 or not 0 < made.days < 36500:
            raise ConfigError(
                "how often a node may be recycled before a person looks at it cannot be read",
                wanted="gpufleet_flap_recycles: a whole number from 1 on; gpufleet_flap_days: a number of days",
                seen=f"{recycles!r} within {days!r} days",
                do="correct gpufleet_flap_recycles and gpufleet_flap_days",
            )
        return made


def flapping(ledger: Ledger, node_ids: Sequence[str], limits: Mapping[str, Limit]) -> dict[str, str]:
    """By node id, in words, how often those were recycled that have reached their limit.

    :param limits: by node id; of others the limit is the one that is shipped.
    """
    counted: dict[str, int] = {}
    tried: dict[str, float] = {}
    now, limits = ledger.now(), {**dict.fromkeys(node_ids, Limit()), **limits}
    for row in ledger._many(_SINCE, "nodes", list(node_ids), {}) if node_ids else ():
        node_id, data = row["node_id"], json.loads(row["data"])
        if row["kind"] == _IMAGING:
            if tried.pop(node_id, 0.0) > now - limits[node_id].days * _DAY:
                counted[node_id] = counted.get(node_id, 0) + 1
            continue
        tried.pop(node_id, None)
        if data.get(ASKED) is True:
            counted[node_id] = 0
        if data.get(FAILED) is True:
            tried[node_id] = row["at"]
    reached = {one: times for one, times in counted.items() if times >= limits[one].recycles}
    return {one: f"{times} recycles within {limits[one].days:g} days" for one, times in reached.items()}
