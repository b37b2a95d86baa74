# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the machine that answers called like another node of its scheduler? PRIVATE to the collection.

A row may be called exactly like the scheduler's node, and lead to another machine by its address or its BMC. The node
by whose name that machine calls itself is then the one whose jobs run on it. One that is silent, or is called like no
node, says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.absence import (
    Known,
    another,
    demand_nobodys,
    is_called,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import KEEP, kind_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event

#: The name of the event that binds a machine to another node of its scheduler.
NAMED = "scheduler_node"
#: Key of its data: a person has said that the machine belongs to no scheduler any more.
GIVEN_UP = "given_up"
#: And that it has moved to the cluster that was asked then, from this one.
WAS_OF = "was_of"
#: The event of what a machine was heard to call itself, and the key of its data, also in that of a last look.
LOOK, CALLED, OWN_NAME = "look", "called", "own_name"


class _Asks(Protocol):
    """A call about one node."""

    params: Mapping[str, Any]
    ctx: Context
    driver: Scheduler
    known: Known
    claim: Claim


def demand(node: _Asks, view: NodeView) -> None:
    """A person's word counts before a hold. It is remembered, and counts before the resume.

    :raises WrongMachine: where the machine that answers bears another node's name.
    """
    if not node.driver.KEEPS_NODES or (node.params.get("force_reason") and node.params["state"] != "resumed"):
        return
    own = str(node.params.get("known_own") or "")
    if not own and node.claim.stranger and node.ctx.own_name is not None:
        own = node.ctx.own_name()
    other = another(node.known, view.name, own)
    if other:
        node.ctx.told.append(Event(LOOK, CALLED, {OWN_NAME: own}))
        raise _refused(node.driver, view, own, other)


def _refused(driver: Scheduler, view: NodeView, own: str, other: str) -> WrongMachine:
    return WrongMachine(
        "the machine that answers bears the name of another node of the scheduler",
        node=view.name,
        address=driver.address,
        wanted=f"a machine that is {view.name} there",
        seen=f"it calls itself {own}, and is {other} there",
        do="correct ansible_host, gpufleet_bmc_address or gpufleet_scheduler_node in the inventory, or the machine's"
        " hostname; where the site has named them so, say so: scheduler_node with state=held and force_reason"
        " (hold_force_reason), which is remembered",
    )


def named(node: _Asks, view: NodeView) -> list[Event]:
    """Which node of the scheduler the machine is now, if any, by whose word, and what it is called beside that;
    remembered until it is said anew.

    :raises NotOurs: where a person keeps the machine, and it would leave their hold behind.
    """
    claim, params = node.claim, node.params
    gives_up = not node.driver.KEEPS_NODES and claim.belongs and bool(claim.renamed)
    moved = claim.moves_to(view) and view.place.is_other(claim.place)
    if gives_up or moved:
        _leaves(node, view)
    if gives_up:
        return [Event("named", NAMED, {"was": claim.bound, "reason": claim.renamed, GIVEN_UP: True})]
    own, forced = str(params.get("known_own") or ""), str(params.get("force_reason") or "")
    vouched = own if forced and params["state"] == "held" and not is_called([own], [view.name]) else ""
    if view.absent or not (claim.renamed or vouched or moved):
        return []
    demand_nobodys(node.driver, view, claim)
    told = {"scheduler_node": view.name, "was": claim.bound, "reason": claim.renamed or forced}
    told.update(view.place.data(), **({WAS_OF: str(claim.place)} if moved else {}))
    return [Event("named", NAMED, {**told, OWN_NAME: vouched} if vouched else told)]


def _leaves(node: _Asks, view: NodeView) -> None:
    """Our hold stays where it was taken, and nobody asks that scheduler about this machine any more."""
    claim = node.claim
    told = (claim.token, *(token for token, _author in claim.standing), *claim.unnoted_keeps)
    left = [token for token in dict.fromkeys(told) if token]
    kept = [token for token in left if kind_of(token) == KEEP]
    if kept and not node.params.get("over_keep"):
        raise NotOurs(
            "a person keeps this machine, and whoever takes it elsewhere would do so under their hands",
            node=view.name,
            address=node.driver.address,
            wanted="no keep hold where the machine leaves its scheduler",
            seen=f"{kept[0]}, at {claim.bound or view.name} of {claim.place}",
            do="ask them, and end it with the row as it was: playbook maintenance with -e maintenance=off; where that"
            " scheduler is gone, over_keep says that you have asked",
        )
    for token in left if claim.place != Place() else ():
        line = f"{claim.bound or view.name} of {claim.place} stays held there ({token}): lift that by hand in it"
        node.ctx.warnings.append(line)
