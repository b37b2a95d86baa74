# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the fleet that an inventory does not have: of another slice, or another controller's. PRIVATE.

A budget is the fleet's, whatever part of it a run was given. Of the others the ledger alone tells: whether they are in
service, and in which domains they were when a run that had them planned its waves. What a scheduler says of them nobody
here can ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import newest_holds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import NEVER_SERVED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import since_retired
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import FLEET, Member
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import KIND

#: The event that tells in which domains a node is, as the inventory of a run that plans has it.
PLACED = "placed"
_WITH_OTHERS = "with other inventories"
_NAMES = "SELECT node_id, name FROM nodes WHERE node_id IN :nodes"

Domain = tuple[str, str]
Domains = tuple[Domain, ...]


@dataclass(frozen=True)
class Other:
    """event: the number of its newest state. out: by the ledger, which also knows who holds it."""

    node_id: str
    name: str
    event: int
    out: bool
    domains: Domains = ()


def whole(domain: Domain) -> Domain:
    """The same domain over the whole ledger; the one of the inventory's own nodes stands beside it. Of what was taken
    down for good, and is not retired, a percentage would be one of the nodes that are left otherwise."""
    key, value = domain
    return key, f"{value} {_WITH_OTHERS}".strip()


def others(ledger: Ledger, known: Collection[str]) -> list[Other]:
    """Those that were admitted once: what is brought up for the first time is no capacity that is out.

    :param known: ids of the nodes that the inventory has.
    """
    ids = sorted(set(ledger.everybody()) - set(known))
    admitted = since_retired(ledger, ids, "admitted") if ids else {}
    states = ledger.latest(sorted(admitted), "state") if admitted else {}
    serving = [node for node, state in states.items() if state["name"] not in NEVER_SERVED]
    if not serving:
        return []
    holds = newest_holds(ledger, serving)
    names = {str(row["node_id"]): str(row["name"]) for row in ledger._many(_NAMES, "nodes", serving, {})}
    found = [Other(node, names[node], int(states[node]["id"]), _out(states[node], holds.get(node))) for node in serving]
    return with_places(ledger, found)


def with_places(ledger: Ledger, found: Sequence[Other]) -> list[Other]:
    """In the domains that they are told to be in by now."""
    told = placed(ledger, [one.node_id for one in found])
    return [replace(one, domains=told.get(one.node_id, ())) for one in found]


def _out(state: Mapping[str, Any], hold: Mapping[str, Any] | None) -> bool:
    """Also where it is held by us, as one that a person keeps is, and nothing has admitted it since."""
    held = hold is not None and hold["name"] == "taken" and int(hold["id"]) > int(state["id"])
    return state["name"] != "admitted" or held


def placed(ledger: Ledger, node_ids: Sequence[str]) -> dict[str, Domains]:
    """By id of a node, the domains in which a run had it last."""
    events = ledger.latest(list(node_ids), KIND, (PLACED,)) if node_ids else {}
    return {node: _domains(event["data"].get("domains")) for node, event in events.items()}


def _domains(told: Any) -> Domains:
    return tuple((str(key), str(value)) for key, value in told or ())


def members(found: Iterable[Other], promised: Collection[str], budgets: Collection[str]) -> list[Member]:
    """:param promised: ids of nodes that another run is about to take."""
    fleet = ((FLEET, ""),) if FLEET in budgets else ()
    return [
        Member(
            f"{one.name} (not in the inventory)",
            one.out or one.node_id in promised,
            tuple(whole(domain) for domain in (*fleet, *one.domains) if domain[0] in budgets),
        )
        for one in found
    ]


def beside(own: Iterable[Member], others: Iterable[Member]) -> list[Member]:
    """The inventory's own nodes: where there are others, they count in the whole as well."""
    shared = {domain for one in others for domain in one.domains}
    return [replace(one, domains=(*one.domains, *sorted(shared & set(map(whole, one.domains))))) for one in own]


def to_tell(own: Iterable[Member], told: Mapping[str, Domains], budgets: Collection[str]) -> dict[str, Domains]:
    """By host of the inventory, the domains that are to be told of it. What was told of what has no budget here stays.

    :param told: by host, what was told last.
    """
    found = {}
    for node in own:
        before = told.get(node.host, ())
        kept = [domain for domain in before if domain[0] not in budgets]
        now = tuple(sorted({*kept, *(domain for domain in node.domains if domain[0] != FLEET)}))
        if now != before:
            found[node.host] = now
    return found
