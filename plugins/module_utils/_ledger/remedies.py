# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often day 2 takes a quarantined node up of its own accord. PRIVATE to the collection.

A recycle takes work away, writes the image anew, which restarts the machine, and measures again. It is none of the
remedies that need hands, and none is tried for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import UNKNOWN, UNSERVED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: What is due where a stage failed that names no remedy: no finding does.
REIMAGE = "reimage"


@dataclass(frozen=True)
class Budget:
    """So many recycles may fail since the node was last in service, by whose word."""

    tries: int
    source: str


_TWICE = "own rule: a second try rules out chance; what fails a third time is a matter for people"
_RESTARTS = f"{_TWICE}. A deploy restarts the machine, which resets its GPUs"
_HANDS = "own rule: nothing that a run can do is this remedy"
BUDGETS: Mapping[str, Budget] = {
    "none": Budget(2, _TWICE),
    "retest": Budget(2, _TWICE),
    "remediate_config": Budget(2, f"{_TWICE}. The image brings the set-up"),
    "reset_gpu": Budget(2, _RESTARTS),
    "reboot": Budget(2, _RESTARTS),
    "power_cycle": Budget(2, _RESTARTS),
    REIMAGE: Budget(2, _TWICE),
    "fabric": Budget(0, _HANDS),
    "reseat": Budget(0, _HANDS),
    "field_diag": Budget(0, _HANDS),
    "rma": Budget(0, _HANDS),
}
#: Of a newer release that shares this ledger, or of one before remedies were a list.
_UNHEARD_OF = Budget(0, "own rule: what this release does not know is a matter for people")

#: Day 2 looks at these first, whosever they are.
_LOOKED_AT = frozenset({"admitted", UNSERVED, UNKNOWN})
_AS_ADOPTED = "it runs what it ran when it was adopted, and no run images that of its own accord"


def tries(ledger: Ledger, node_ids: Sequence[str]) -> dict[str, int]:
    """By node id, how many recycles since it was last admitted, or a part of it was swapped, ended in quarantine; a
    node with none is left out. One that a service stopped, or a kill, says nothing of the node."""
    sql = (
        "SELECT node_id, count(*) AS tries FROM attempts WHERE node_id IN :nodes AND at > coalesce((SELECT max(at) FROM"
        " events WHERE events.node_id = attempts.node_id AND (kind = 'state' AND name = 'admitted'"
        " OR kind = 'identity' AND name IN ('replaced', 'moved'))), 0)"
        " AND EXISTS (SELECT 1 FROM events WHERE events.node_id = attempts.node_id AND kind = 'state'"
        " AND name = 'quarantined' AND events.at >= attempts.at AND events.at < coalesce((SELECT min(later.at) FROM"
        " attempts later WHERE later.node_id = attempts.node_id AND later.id > attempts.id), events.at + 1))"
        " GROUP BY node_id"
    )
    return {row["node_id"]: int(row["tries"]) for row in ledger._many(sql, "nodes", list(node_ids) or [""], {})}


def left(one: Mapping[str, Any], tried: int) -> dict[str, Any]:
    """What was tried on a node, and why day 2 leaves it to people; empty where it does not.

    :param one: as ``report.status`` tells it.
    """
    why = _AS_ADOPTED if one["adopted"] and one["state"] not in _LOOKED_AT and not one["kept"] else ""
    if one["state"] == "quarantined":
        remedy = one["remedy"] or REIMAGE
        budget = BUDGETS.get(remedy, _UNHEARD_OF)
        if not budget.tries:
            why = f"no run is the remedy {remedy}: apply it first"
        elif tried >= budget.tries:
            why = f"{tried} recycles did not bring it back, and {remedy} is due: look at it first"
    return {"attempts": tried, "left": why}
