# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scheduler's node a machine is by our ledger, and where it is one no more. PRIVATE to the collection.

Two facts, of which the ledger may have one alone: the node's name in its scheduler, and which scheduler that is. What
befell a stranger binds no name, for it may have followed a slip in its row; where it befell it, it was all the same.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import newest_holds, seen
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
_HOLDS = "SELECT id, node_id, name, data FROM events WHERE node_id IN :nodes AND kind = 'hold' ORDER BY id"

#: By the index of nodes and kinds, a few rows of each node: all that was ever noted is too much for each first hold of
#: a day 0. What binds a node is the newest of these that names one.
_NEWEST = "(SELECT max(id) FROM events WHERE node_id = n.node_id AND kind = {kind})"
_NAMES = (
    "SELECT n.node_id FROM nodes n WHERE EXISTS (SELECT 1 FROM events e WHERE e.data LIKE :words AND e.id IN ("
    + ", ".join(_NEWEST.format(kind=kind) for kind in ("'hold'", "'named'", "'state' AND name = 'admitted'"))
    + "))"
)

_Event = Mapping[str, Any]
_Events = Mapping[str, _Event]
_Binding = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Bound:
    """What the ledger has of one machine and its schedulers.

    name, place: the scheduler's node that it is, and of which scheduler; each empty where that is not known. hold: the
    newest event of a hold of ours. left: was that taken, or lifted, where the machine is no node any more? standing:
    the tokens, each with its author, of holds of ours that nobody has lifted in one of the schedulers that it was a
    node of. admitted: was it ever, and neither retired nor taken out of its scheduler since? here: is it ours?
    """

    name: str = ""
    place: Place = Place()
    hold: _Event | None = None
    left: bool = False
    standing: tuple[tuple[str, str], ...] = ()
    admitted: bool = False
    here: bool = False


def bindings(ledger: Ledger, nodes: Sequence[str]) -> dict[str, Bound]:
    """By node, in a few queries for all."""
    holds, named = newest_holds(ledger, nodes), ledger.latest(nodes, "named")
    gone = ledger.latest(nodes, "state", ("retired",))
    admitted, known = since_retired(ledger, nodes, "admitted"), ours(ledger, nodes)
    told = _told(ledger, nodes, (holds, admitted, named, gone), known)
    since = {node: (_left(named.get(node)), gone.get(node)) for node in nodes}
    places = {node: _place(told.get(node)) for node in nodes}
    places.update(_seen_in(ledger, [node for node in nodes if not told.get(node)], holds, since))
    away = [node for node in holds if _is_away(holds[node], since[node], places[node])]
    others = _standing(ledger, {node: max(map(_number, since[node])) for node in away})
    # Whom a person has taken out of its scheduler has served none since.
    out = {node for node, event in named.items() if event["data"].get(GIVEN_UP)}
    serves = {node for node, event in admitted.items() if node not in out or event["id"] > named[node]["id"]}
    return {
        node: Bound(
            _name(told.get(node)), places[node], holds.get(node), node in away, others.get(node, ()), node in serves,
            node in known,
        )
        for node in nodes
    }  # fmt: skip


def others(ledger: Ledger, name: str, node_id: str) -> list[dict[str, str]]:
    """The other living machines that are a node of this name by our ledger, each with where: ``host`` and the keys of a
    place. Asked for where a machine is about to become that node."""
    words = {"words": f'%"scheduler_node": {json.dumps(name)}%'}
    rows = ledger._rows(_NAMES, words)
    found = bindings(ledger, [one for one in dict.fromkeys(str(row["node_id"]) for row in rows) if one != node_id])
    same = {one: bound for one, bound in found.items() if bound.name == name}
    return [{"host": ledger.name(one), **bound.place.data()} for one, bound in same.items()]


def namesake(ledger: Ledger, name: str, node_id: str) -> str:
    """The host of the machine that is the scheduler's node of this name by our ledger, where this one is not."""
    if bindings(ledger, [node_id])[node_id].name == name:
        return ""
    return next((one["host"] for one in others(ledger, name, node_id)), "")


# -- what binds it -------------------------------------------------------------------------------------------------


def _told(
    ledger: Ledger, nodes: Sequence[str], events: tuple[_Events, _Events, _Events, _Events], known: Collection[str]
) -> dict[str, _Binding]:
    """By node, what tells of the scheduler's node that the machine is, the newest first.

    :param events: the newest of its holds, its admission since it was last retired, what it was named last, and when it
        was retired. :param known: those that are ours.
    """
    newest, admitted, last, gone = events
    # What it was before its retirement it is no more; a stranger is what the machine or a person has said alone, for a
    # hold may have followed a slip in its row.
    held, named = (
        {node: event for node, event in of.items() if event["id"] > _number(gone.get(node))} for of in (newest, last)
    )
    sources = {node: (admitted, held, named) if node in known else (named,) for node in {*known, *named}}
    told = {node: _binding(*(of.get(node) for of in events)) for node, events in sources.items()}
    # One that was admitted and never held is what it was seen in service as right before that. Any other look may have
    # been the inventory's slip. All looks of a node are read for it.
    left = {node for node, event in named.items() if event["data"].get(GIVEN_UP)}
    nameless = [node for node in admitted if not _name(told.get(node)) and node not in left]
    told.update({node: _binding(event) for node, event in first_served(ledger, nameless).items()})
    return {**told, **{node: [*told[node], *more] for node, more in _looks(ledger, told).items()}}


def _looks(ledger: Ledger, told: Mapping[str, _Binding]) -> dict[str, _Binding]:
    """Of machines that were bound before clusters were noted, the newest look that saw them in service as that node."""
    nowhere = [node for node, binding in told.items() if _name(binding) and _place(binding) == Place()]
    looks = ledger.latest(nowhere, "evidence", ("in_service",)) if nowhere else {}
    same = {node: one for node, one in looks.items() if one["data"].get("scheduler_node") == _name(told[node])}
    return {node: [one["data"]] for node, one in same.items()}


def _binding(*events: _Event | None) -> _Binding:
    """What these tell of the scheduler's node that the machine is, the newest first: it was adopted as that, held, or
    named so; nothing where it was said since that it is none any more."""
    told = [event for event in events if event is not None and any(event["data"].get(key) for key in _TELLS)]
    newest = [event["data"] for event in sorted(told, key=lambda event: int(event["id"]), reverse=True)]
    gone = next((at for at, data in enumerate(newest) if data.get(GIVEN_UP)), len(newest))
    return newest[:gone]


def _name(binding: _Binding | None) -> str:
    return str(binding[0].get("scheduler_node") or "") if binding else ""


# -- where ---------------------------------------------------------------------------------------------------------


def _place(binding: _Binding | None) -> Place:
    """Which scheduler's node it is; what was noted before that was noted says nothing of it, and what was noted by
    whoever tells less takes nothing away."""
    found = Place()
    for older in filter(lambda one: one != Place(), map(Place.told, binding or ())):
        if found != Place() and older.is_other(found):
            break
        found = found.filled(older)
    return found


def _seen_in(
    ledger: Ledger, nodes: Sequence[str], holds: _Events, since: Mapping[str, Iterable[_Event | None]]
) -> dict[str, Place]:
    """Of machines that nothing binds, where each was held or seen in service last, unless it has left that since: there
    a namesake's word elsewhere is none about it."""
    looks = ledger.latest(nodes, "evidence", ("in_service",)) if nodes else {}
    found = {}
    for node in nodes:
        begun = max(map(_number, since[node]))
        told = [one for one in (holds.get(node), looks.get(node)) if _number(one) > begun]
        newest = [one["data"] for one in sorted(filter(None, told), key=_number, reverse=True)]
        found[node] = _place(newest)
    return found


# -- where it is none any more -------------------------------------------------------------------------------------


def _left(named: _Event | None) -> _Event | None:
    """That a person said that the machine is no node there any more, or is one of another cluster, where that was said
    last."""
    return named if named is not None and (named["data"].get(GIVEN_UP) or named["data"].get(WAS_OF)) else None


def _is_away(hold: _Event, since: Iterable[_Event | None], place: Place) -> bool:
    """Was it taken, or lifted, where the machine is no node any more? One that is bound to nothing yet is where it was
    held first."""
    if any(_number(one) > _number(hold) for one in since):
        return True
    return place != Place() and place.is_other(Place.told(hold["data"]))


def _standing(ledger: Ledger, left: Mapping[str, int]) -> dict[str, tuple[tuple[str, str], ...]]:
    """All holds of these nodes are read, of which there are few. :param left: as below, by node."""
    told: dict[str, list[_Event]] = {}
    for row in ledger._many(_HOLDS, "nodes", list(left), {}) if left else ():
        told.setdefault(str(row["node_id"]), []).append({**row, "data": json.loads(row["data"])})
    return {node: standing(events, left[node]) for node, events in told.items()}


def standing(holds: Sequence[_Event], left: int = 0) -> tuple[tuple[str, str], ...]:
    """Of all events of holds of one node, in their order: token and author of those that nobody has lifted.

    :param left: the event by which it last left where it was a node.
    """
    by_place: dict[Place, tuple[_Event, str]] = {}
    for event in holds:
        data, place = event["data"], Place.told(event["data"])
        token = str(data.get("hold_token") or "")
        if event["name"] == "taken":
            # One of before clusters were noted was of the same node, where the machine has not left that since.
            before = by_place.get(Place())
            if place != Place() and before and int(before[0]["id"]) > left and _is_node(before[0], event):
                del by_place[Place()]
            same = _same(place, by_place)
            by_place.pop(same, None)
            by_place[place.filled(same)] = (event, token)
            continue
        # One of before clusters were noted may have been taken anywhere: its token alone tells it.
        ended = [known for known, (_taken, one) in by_place.items() if one == token or known == _same(place, by_place)]
        for known in [one for one in ended if int(by_place[one][0]["id"]) <= seen(event)]:
            del by_place[known]
    return tuple((token, str(event["data"].get("hold_author") or "")) for event, token in by_place.values() if token)


def _is_node(one: _Event, other: _Event) -> bool:
    return bool(one["data"].get("scheduler_node") == other["data"].get("scheduler_node"))


def _same(place: Place, known: Iterable[Place]) -> Place:
    """As which of those a scheduler is known, the newest last: one that tells less of itself is the one that the
    machine was a node of before that. What was noted before that was noted may have been any, and is none of them."""
    return next((one for one in reversed([*known]) if one != Place() and not place.is_other(one)), place)


def _number(event: _Event | None) -> int:
    return int(event["id"]) if event else 0
