# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger knows of holds, for the actions of scheduler and provisioner. PRIVATE to the collection."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.announced import holders
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import (
    first_served,
    ours,
    since_retired,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.called import GIVEN_UP, WAS_OF
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place

#: What an event says of the scheduler's node that a machine is: its name, or that there is none any more.
_TELLS = ("scheduler_node", GIVEN_UP)
_HOLDS = "SELECT node_id, name, data FROM events WHERE node_id IN :nodes AND kind = 'hold' ORDER BY id"
_Binding = Sequence[Mapping[str, Any]]
_Events = Mapping[str, Mapping[str, Any]]
#: A wait sends a node on, too, and may have to hold it for a moment.
_PROVISIONER_VERBS = ("provisioner_node", "provisioner_wait")


def holds(ledger: Ledger, ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The options of a scheduler's verbs that the ledger fills in, ``known_token`` and so on, by host, in a few queries
    for all.

    :param ids: node id by host.

    A run is ours when it announced a write on this very node, and was not refused: the intent stands in the ledger
    before the write, so a run that was killed right after it is known as well.
    """
    nodes = list(ids.values())
    newest = ledger.latest(nodes, "hold")
    runs = holders(ledger, nodes)
    admitted = since_retired(ledger, nodes, "admitted")
    known = ours(ledger, nodes)
    named = ledger.latest(nodes, "named")
    gone = ledger.latest(nodes, "state", ("retired",))
    bindings = _bindings(ledger, nodes, (newest, admitted, named, gone), known)
    uuids = ledger.values("system_uuid", nodes)
    since = {node: (_left(named.get(node)), gone.get(node)) for node in nodes}
    away = [node for node in newest if _is_away(newest[node], since[node], _place(bindings.get(node)))]
    standing = _standing(ledger, away)
    found = {}
    for host, node_id in ids.items():
        hold, binding = newest.get(node_id), bindings.get(node_id)
        taken = hold["data"] if hold is not None and hold["name"] == "taken" else {}
        left = node_id in away
        found[host] = {
            "known_left": bool(taken) and left,
            "known_standing": standing.get(node_id, []),
            "known_token": str(taken.get("hold_token", "")),
            "known_author": str(taken.get("hold_author", "")),
            "known_runs": sorted(runs.get(node_id, ())),
            "known_admitted": node_id in admitted,
            "known_here": node_id in known,
            "known_scheduler_node": _name(binding),
            **_place(binding).data("known_"),
            "known_incarnation": str(taken.get("incarnation", "")),
            "known_uuids": uuids.get(node_id, []),
        }
    return found


def _left(named: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """That a person said that the machine is no node there any more, or is one of another cluster, where that was said
    last."""
    return named if named is not None and (named["data"].get(GIVEN_UP) or named["data"].get(WAS_OF)) else None


def _is_away(hold: Mapping[str, Any], since: Iterable[Mapping[str, Any] | None], place: Place) -> bool:
    """Was it taken, or lifted, where the machine is no node any more? One that is bound to nothing yet is where it was
    held first."""
    if any(_number(one) > _number(hold) for one in since):
        return True
    return place != Place() and place.is_other(Place.told(hold["data"]))


def _standing(ledger: Ledger, nodes: Sequence[str]) -> dict[str, list[str]]:
    """By node, the tokens of our holds that nobody has lifted yet in one of the schedulers that it has been a node of.
    All holds of these nodes are read, of which there are few."""
    found: dict[str, dict[Place, str]] = {}
    rows = ledger._many(_HOLDS, "nodes", list(nodes), {}) if nodes else ()
    for row in rows:
        data = json.loads(row["data"])
        token = str(data.get("hold_token") or "") if row["name"] == "taken" else ""
        by_place = found.setdefault(str(row["node_id"]), {})
        place = Place.told(data)
        same = _same(place, by_place)
        by_place.pop(same, None)
        by_place[place.filled(same)] = token
    return {node: [token for token in by_place.values() if token] for node, by_place in found.items()}


def _same(place: Place, known: Iterable[Place]) -> Place:
    """As which of those a scheduler is known, the newest last: one that tells less of itself is the one that the
    machine was a node of before that. What was noted before that was noted may have been any, and is none of them."""
    return next((one for one in reversed([*known]) if one != Place() and not place.is_other(one)), place)


def _bindings(
    ledger: Ledger, nodes: Sequence[str], told: tuple[_Events, _Events, _Events, _Events], known: Collection[str]
) -> dict[str, _Binding]:
    """By node, what tells of the scheduler's node that the machine is.

    :param told: the newest of its holds, its admission since it was last retired, what it was named last, and when it
        was retired. :param known: those that are ours.
    """
    newest, admitted, last, gone = told
    # What it was before its retirement it is no more; a stranger is what the machine or a person has said alone, for a
    # hold may have followed a slip in its row.
    held, named = (
        {node: event for node, event in of.items() if event["id"] > _number(gone.get(node))} for of in (newest, last)
    )
    sources = {node: (admitted, held, named) if node in known else (named,) for node in {*known, *named}}
    bound = {node: _binding(*(of.get(node) for of in events)) for node, events in sources.items()}
    # One that was admitted and never held is what it was seen in service as right before that. Any other look may have
    # been the inventory's slip. All looks of a node are read for it.
    left = {node for node, event in named.items() if event["data"].get(GIVEN_UP)}
    nameless = [node for node in admitted if not _name(bound.get(node)) and node not in left]
    bound.update({node: _binding(event) for node, event in first_served(ledger, nameless).items()})
    return {**bound, **{node: [*bound[node], *more] for node, more in _looks(ledger, bound).items()}}


def bound(ledger: Ledger, node_id: str) -> str:
    """The scheduler's node that the machine is by our ledger; empty for none."""
    return str(holds(ledger, {"": node_id})[""]["known_scheduler_node"]) if node_id else ""


def _looks(ledger: Ledger, bound: Mapping[str, _Binding]) -> dict[str, _Binding]:
    """Of machines that were bound before clusters were noted, the newest look that saw them in service as that node."""
    nowhere = [node for node, binding in bound.items() if _name(binding) and _place(binding) == Place()]
    looks = ledger.latest(nowhere, "evidence", ("in_service",)) if nowhere else {}
    same = {node: one for node, one in looks.items() if one["data"].get("scheduler_node") == _name(bound[node])}
    return {node: [one["data"]] for node, one in same.items()}


def _number(event: Mapping[str, Any] | None) -> int:
    return int(event["id"]) if event else 0


def _binding(*events: Mapping[str, Any] | None) -> _Binding:
    """What these tell of the scheduler's node that the machine is, the newest first: it was adopted as that, held, or
    named so; nothing where it was said since that it is none any more."""
    told = [event for event in events if event is not None and any(event["data"].get(key) for key in _TELLS)]
    newest = [event["data"] for event in sorted(told, key=lambda event: int(event["id"]), reverse=True)]
    gone = next((at for at, data in enumerate(newest) if data.get(GIVEN_UP)), len(newest))
    return newest[:gone]


def _name(binding: _Binding | None) -> str:
    return str(binding[0].get("scheduler_node") or "") if binding else ""


def _place(binding: _Binding | None) -> Place:
    """Which scheduler's node it is; what was noted before that was noted says nothing of it, and what was noted by
    whoever tells less takes nothing away."""
    found = Place()
    for older in filter(lambda one: one != Place(), map(Place.told, binding or ())):
        if found != Place() and older.is_other(found):
            break
        found = found.filled(older)
    return found


def known_as(variable: Callable[[str, str], Any], host: str) -> list[str]:
    """What else a host is called or reached by in the inventory: a scheduler may have it under one of these."""
    return [host, *filter(None, [str(variable("ansible_host", host) or "")])]


def known_uuids(variable: Callable[[str, str], Any], host: str, known: Mapping[str, Any]) -> list[str]:
    """System UUIDs of the machine by the ledger, and by its row where the ledger has none: a scheduler may tell on
    which one its node runs. A row that was mixed up with its neighbour's would vouch for the neighbour's node."""
    told = list(known.get("known_uuids") or ())
    return told or [*filter(None, [str(variable("gpufleet_system_uuid", host) or "")])]


def writers(ledger: Ledger, ids: Mapping[str, str]) -> dict[str, list[str]]:
    """By host, the runs that ever announced a write to the provisioner for this node; ids: node id by host."""
    found = {host: set[str]() for host in ids}
    for verb in _PROVISIONER_VERBS:
        runs = ledger.runs([node_id for node_id in ids.values() if node_id], verb)
        for host, node_id in ids.items():
            found[host] |= runs.get(node_id, set())
    return {host: sorted(runs) for host, runs in found.items()}
