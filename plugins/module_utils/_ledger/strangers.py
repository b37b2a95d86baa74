# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes does our ledger know from its own work on them? PRIVATE to the collection.

What serves or is deployed, and is none of these, works for somebody else until a person adopts it. A node that was
retired is a stranger again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotAdopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import ADOPTED, STAMP
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: The verbs that send a provisioner its steps, the option that tells each where the node shall come to, and where that
#: is an image of ours, and none of ours any more.
_SENDS: Mapping[str, str] = {"provisioner_node": "state", "provisioner_wait": "until"}
_DEPLOYED, _RELEASED = "deployed", "released"

_SINCE_RETIRED = (
    " AND id > coalesce((SELECT max(gone.id) FROM events gone WHERE gone.node_id = events.node_id"
    " AND gone.kind = 'state' AND gone.name = 'retired'), 0)"
)
_OURS = (
    "SELECT DISTINCT node_id FROM events WHERE node_id IN :nodes"
    " AND kind = 'state' AND name IN ('validating', 'admitted')" + _SINCE_RETIRED
)
_NOTES = (
    "SELECT node_id, run_id, id, kind, name, data FROM events WHERE node_id IN :nodes"
    " AND (kind = 'state' AND name IN ('imaging', 'admitted')"
    " OR kind IN ('intent', 'outcome') AND name IN ('provisioner_node', 'provisioner_wait'))" + _SINCE_RETIRED
)


@dataclass
class Noted:
    """What the ledger has of one node's deployments. ids: of those that day 0 and day 2 began, whatever became of them.
    stamps: what its provisioner told of those that were adopted.

    An order that is given on the controller is told right before its request. One that goes to another machine is told
    before anybody knows whether it will arrive: it counts once its answer is told, or one that the order was given,
    whatever went wrong after it.
    """

    ids: list[str] = field(default_factory=list)
    stamps: list[str] = field(default_factory=list)
    _notes: dict[int, str] = field(default_factory=dict)
    _ends: dict[int, str] = field(default_factory=dict)
    _sent: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def stands(self) -> bool:
        """Was it deployed by us, or adopted, and not given back by us since?"""
        return max(self._notes, default=0) > max(self._ends, default=0)

    def add(self, row: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        run, kind = str(row["run_id"]), row["kind"]
        if kind == "intent":
            self._ordered(row, data, run)
        elif kind == "outcome":
            self._answered((run, str(row["name"])), data.get("kind"), bool(data.get("begun")))
        elif row["name"] == "admitted":
            self._notes[row["id"]] = ""
            self.stamps += filter(None, [str(data.get(STAMP) or "") if data.get(ADOPTED) else ""])
        else:  # it is recorded before anybody is asked to deploy, so it is no order
            self.ids += filter(None, [str(data.get("deploy_id") or "")])

    def _ordered(self, row: Mapping[str, Any], data: Mapping[str, Any], run: str) -> None:
        goal = (data.get("options") or {}).get(_SENDS[row["name"]])
        if goal == _RELEASED:
            self._ends[row["id"]] = run
        elif goal == _DEPLOYED and str(data.get("write") or "").startswith(f"{row['name']} on "):
            self._sent[run, row["name"]] = row["id"]
        elif goal == _DEPLOYED:
            self._notes[row["id"]] = run

    def _answered(self, key: tuple[str, str], kind: Any, begun: bool) -> None:
        sent = self._sent.pop(key, 0)
        if sent and (begun or not kind):
            self._notes[sent] = key[0]
        if kind == NotAdopted.kind:
            for orders in (self._notes, self._ends):
                for number in [number for number, run in orders.items() if run == key[0]]:
                    del orders[number]


def ours(ledger: Ledger, node_ids: Collection[str]) -> set[str]:
    """Those that were admitted, or adopted, or came so far that a run may have given them back before it was ended.

    A hold of ours is no such note: while it stands, its scheduler shows it; whoever lifts it has taken the node back.
    """
    return _ids(ledger, _OURS, node_ids)


def noted(ledger: Ledger, node_ids: Collection[str]) -> dict[str, Noted]:
    """By node, what there is of our deployments of it."""
    found = {node_id: Noted() for node_id in node_ids}
    asked = [node_id for node_id in found if node_id]
    for row in ledger._many(f"{_NOTES} ORDER BY id", "nodes", asked, {}) if asked else ():
        found[str(row["node_id"])].add(row, json.loads(row["data"]))
    return found


def _ids(ledger: Ledger, query: str, node_ids: Collection[str]) -> set[str]:
    return {str(row["node_id"]) for row in ledger._many(query, "nodes", [one for one in node_ids if one] or [""], {})}
