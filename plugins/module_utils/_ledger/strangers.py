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

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NOT_TAKEN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import ADOPTED, RECORD, STAMP
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: The verbs that send a provisioner its steps, the option that tells each where the node shall come to, and where that
#: is an image of ours, and none of ours any more.
_SENDS: Mapping[str, str] = {"provisioner_node": "state", "provisioner_wait": "until"}
_DEPLOYED, _RELEASED = "deployed", "released"
_RETIRED = "retired"
#: Work that a provisioner does on a deployed machine, whose deployment it keeps. The second one ends the first.
_WORKS = (_RESCUED, _UNRESCUED, _SERVICED) = ("rescued", "unrescued", "serviced")

_SINCE = (
    " AND id > coalesce((SELECT max(gone.id) FROM events gone WHERE gone.node_id = events.node_id"
    " AND gone.kind = 'state' AND gone.name IN ({states})), 0)"
)
_SINCE_RETIRED = _SINCE.format(states="'retired'")
_NEVER_IMAGED = (
    "SELECT node_id, data FROM events WHERE node_id IN :nodes"
    " AND kind = 'state' AND name = 'admitted'" + _SINCE.format(states="'retired', 'imaging'")
)
_OURS = (
    "SELECT DISTINCT node_id FROM events WHERE node_id IN :nodes"
    " AND kind = 'state' AND name IN ('validating', 'admitted')" + _SINCE_RETIRED
)
_FIRST_SERVED = (
    "SELECT node_id, id, data FROM events WHERE id IN (SELECT max(seen.id) FROM events seen"
    " WHERE seen.node_id IN :nodes AND seen.kind = 'evidence' AND seen.name = 'in_service'"
    " AND seen.id < (SELECT min(let.id) FROM events let WHERE let.node_id = seen.node_id"
    " AND let.kind = 'state' AND let.name = 'admitted' AND let.id > {gone}) AND seen.id > {gone} GROUP BY seen.node_id)"
).format(
    gone="coalesce((SELECT max(gone.id) FROM events gone WHERE gone.node_id = seen.node_id"
    " AND gone.kind = 'state' AND gone.name = 'retired'), 0)"
)
_NOTES = (
    "SELECT node_id, run_id, id, kind, name, data FROM events WHERE node_id IN :nodes"
    " AND (kind = 'state' AND name IN ('imaging', 'admitted')"
    " OR kind = 'identity' AND name = 'replaced'"
    " OR kind = 'provisioner' AND name IN ('moved', 'renamed')"
    " OR kind IN ('intent', 'outcome') AND name IN ('provisioner_node', 'provisioner_wait'))" + _SINCE_RETIRED
)


@dataclass
class Noted:
    """What the ledger has of one node's deployments. ids: of those that were ordered, but not of one that was refused;
    an empty one where the newest order named none, and was given. stamps: what its provisioner told of those that were
    adopted. works: what we have begun on it since it was deployed or adopted, and not ended. serials: of boards that
    were swapped out of it. place: the provisioner that has it, and what it tells by
    which it is known.

    An order counts, and no step on the way to it. One that is given on the controller is told right before its request.
    What goes to another machine is told before anybody knows to what it will come there: that the order was given
    counts once it is told, whatever went wrong after it.
    """

    ids: list[str] = field(default_factory=list)
    stamps: list[str] = field(default_factory=list)
    works: set[str] = field(default_factory=set)
    serials: list[str] = field(default_factory=list)
    _notes: set[int] = field(default_factory=set)
    _places: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    _ends: set[int] = field(default_factory=set)
    _newest: tuple[str, str] = "", ""
    _begun: list[str] = field(default_factory=list)
    _intents: dict[tuple[str, str], tuple[int, str, str]] = field(default_factory=dict)
    _work: dict[tuple[str, str], str] = field(default_factory=dict)
    #: Of which orders the work stands by their intent alone.
    _added: set[tuple[str, str]] = field(default_factory=set)

    @property
    def stands(self) -> bool:
        """Was it deployed by us, or adopted, and not given back by us since?"""
        return max(self._notes, default=0) > max(self._ends, default=0)

    @property
    def place(self) -> Mapping[str, Any]:
        """Where what stands was deployed, or adopted; empty where nothing stands, or an older version has noted it."""
        return self._places.get(max(self._notes), {}) if self.stands else {}

    @property
    def known_ids(self) -> list[str]:
        """By which a deployment is known as ours. The note of an order that was refused may lie beside an older one of
        ours, and says then that the node is whose it was."""
        return list(dict.fromkeys([*self.ids, *self._begun])) if self.stands else self.ids

    def add(self, row: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        if row["kind"] == "intent":
            self._ordered(row, data)
        elif row["kind"] == "outcome":
            self._answered(row, data)
        elif row["name"] == moves.RENAMED:
            self._places.update({one: {**self._places.get(one, {}), **_place(data, "to")} for one in self._notes})
        elif row["kind"] == "provisioner":  # what was deployed at the old one is nothing that the new one has
            self._ends.add(row["id"])
            self.ids, self.stamps, self._begun = [], [], []
            self.works.clear()
        elif row["kind"] == "identity":
            self.serials += map(str, data.get("serials") or ())
        elif row["name"] == "admitted":
            # One that is admitted again is where it was.
            self._places[row["id"]] = _place(data, moves.PLACE, data.get(STAMP)) if data.get(ADOPTED) else self.place
            # Whoever enrols a machine of which there was no record, and deploys it, does not do so for us.
            self._notes |= set() if data.get(ADOPTED) and data.get(RECORD) == "absent" else {row["id"]}
            self.stamps += filter(None, [str(data.get(STAMP) or "") if data.get(ADOPTED) else ""])
            self.works -= set(_WORKS) if data.get(ADOPTED) else set()
        else:  # it is recorded before anybody is asked to deploy, so it is no order
            self._newest = str(row["run_id"]), str(data.get("deploy_id") or "")
            self._begun += filter(None, self._newest[1:])

    def _ordered(self, row: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        order = str(data.get("orders") or "")
        sent = str(data.get("write") or "").startswith(f"{row['name']} on ")
        options = data.get("options") or {}
        goal = str(options.get(_SENDS[row["name"]]) or "") if sent else order
        self._notes |= {row["id"]} if order == _DEPLOYED else set()
        self._ends |= {row["id"]} if goal == _RELEASED else set()
        run, begun = self._newest
        alone = row["name"] == "provisioner_node"  # a wait gives the order that another task has begun, for a batch
        of_its_run = begun if run == str(row["run_id"]) or not alone else ""
        deploy_id = str((options.get("deploy_id") if alone else "") or of_its_run)
        if goal == _DEPLOYED and (deploy_id or order):
            self.ids = [*(one for one in self.ids if one not in ("", deploy_id)), deploy_id]
        elif goal == _RELEASED:  # what bears no id is ours by the newest order alone
            self.ids = [one for one in self.ids if one]
        self._works_on(row, str(options.get("state") or ""), goal, sent)
        self._places[row["id"]] = _place(data, moves.PLACE, deploy_id)
        self._intents[_of(row)] = row["id"], goal, deploy_id

    def _works_on(self, row: Mapping[str, Any], state: str, goal: str, sent: bool) -> None:
        """A deployment, or the end of one, ends what was done on it. Of what goes to another machine the answer tells
        whether it was begun."""
        if goal in (_DEPLOYED, _RELEASED):
            self.works.clear()
        elif row["name"] == "provisioner_node" and state in _WORKS:
            self._work[_of(row)] = state
            self._added.discard(_of(row))
            if not sent and state not in self.works:
                self._added.add(_of(row))
                self.works.add(state)

    def _work_answered(self, row: Mapping[str, Any], kind: str, begun: Any) -> None:
        """Of whose end nobody knows whether it was taken, it goes on. One that was refused ends nothing that an earlier
        order has begun."""
        work, alone = self._work.pop(_of(row), ""), _of(row) in self._added
        self._added.discard(_of(row))
        if NOT_TAKEN.get(kind) and not begun:
            self.works -= {work} if alone else set()
            return
        self._added -= {of for of, other in self._work.items() if other == work}
        self.works |= {work} - {""}
        if work == _UNRESCUED and not kind:
            self.works.discard(_RESCUED)

    def _answered(self, row: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """An order that was refused neither made the node ours nor ended that it is. What it was to deploy may still be
        noted at the provisioner, and the next deployment, whoever's it is, would bear that note."""
        self._work_answered(row, str(data.get("kind") or ""), data.get("begun"))
        number, goal, deploy_id = self._intents.get(_of(row), (0, "", ""))
        told = {_DEPLOYED: self._notes, _RELEASED: self._ends}.get(str(data.get("ordered")))
        if told is not None:
            told.add(row["id"])
            self._places[row["id"]] = self._places.get(number, {})
            self.ids += [""] if told is self._notes and not deploy_id and "" not in self.ids else []
        elif NOT_TAKEN.get(str(data.get("kind"))) and not data.get("begun"):
            self._notes.discard(number)
            self._ends.discard(number)
            self.ids = [one for one in self.ids if goal != _DEPLOYED or one != deploy_id]
        if told is self._notes:  # with what else this task ends says nothing of that any more
            self._intents.pop(_of(row), None)


def _place(data: Mapping[str, Any], key: str, tells: Any = "") -> Mapping[str, Any]:
    """tells: of the deployment there."""
    place = data.get(key)
    return {**place, **({moves.TELLS: str(tells)} if tells else {})} if isinstance(place, Mapping) and place else {}


def _of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Whose answer belongs to whose intent."""
    return str(row["run_id"]), str(row["name"])


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


def former_serials(ledger: Ledger, node_id: str, known: Noted) -> list[str]:
    """Of boards that were swapped out of this node, without one that is in another machine by now."""
    return [one for one in known.serials if ledger.owner("serial", one) in ("", node_id)]


def since_retired(ledger: Ledger, node_ids: Collection[str], state: str) -> dict[str, dict[str, Any]]:
    """By node, the newest event of this state; a node that was retired since has none."""
    newest = ledger.latest(list(node_ids), "state", (state, _RETIRED))
    return {node_id: event for node_id, event in newest.items() if event["name"] == state}


def first_served(ledger: Ledger, node_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """By node, the last look that saw it in service before it was admitted first: by it the scheduler's node was
    admitted. A later look may have been at whatever its row names by then."""
    asked = [node_id for node_id in dict.fromkeys(node_ids) if node_id]
    rows = ledger._many(_FIRST_SERVED, "nodes", asked, {}) if asked else ()
    return {str(row["node_id"]): {"id": row["id"], "data": json.loads(row["data"])} for row in rows}


def as_adopted(ledger: Ledger, node_ids: Collection[str]) -> set[str]:
    """Those that run what they ran when they were adopted, however often they were admitted again: no run has imaged
    them since."""
    asked = [node_id for node_id in dict.fromkeys(node_ids) if node_id]
    rows = ledger._many(_NEVER_IMAGED, "nodes", asked, {}) if asked else ()
    return {str(row["node_id"]) for row in rows if json.loads(row["data"]).get(ADOPTED)}


def _ids(ledger: Ledger, query: str, node_ids: Collection[str]) -> set[str]:
    return {str(row["node_id"]) for row in ledger._many(query, "nodes", [one for one in node_ids if one] or [""], {})}
