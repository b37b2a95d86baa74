# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb ``node_identity``: which aliases a node has, and what becomes of them when hardware is swapped. PRIVATE.

It plans, and reads alone: the action writes the plan in the transaction in which it was made. A board is a part of its
machine, whose history goes on with another one; where the whole chassis is swapped, another machine begins.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import IDENTITY, MOVED, REPLACED, Row
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.known_as import Asked, Plan, listed, state_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import WAYS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import newest_holds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.spelling import JOINING, Pair, compared, gpu_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.whose import (
    UNTOUCHED,
    before_the_swap,
    demand_free,
    donor,
    here,
    meant,
    names_host,
    refuse_shared,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result

PRESENT, RETIRED = "present", "retired"
BOARD, CHASSIS = "board", "chassis"
#: A serial goes with its chassis: that is no part which moves.
MOVABLE = ("system_uuid", "mac", "gpu")
SPEC = spec(
    FLEET,
    state={"type": "str", "choices": [PRESENT, MOVED, REPLACED, RETIRED], "default": PRESENT},
    part={"type": "str", "choices": [BOARD, CHASSIS]},
    kind={"type": "str", "choices": ["serial", *MOVABLE]},
    value={"type": "str"},
    reason={"type": "str"},
    was={"type": "str"},
    bmc={"type": "dict"},
)
RULES = {
    "required_if": [
        ("state", REPLACED, ("part", "reason")),
        ("state", MOVED, ("kind", "value", "reason")),
        ("state", RETIRED, ("kind", "value", "reason")),
    ]
}


def node_identity(params: Mapping[str, Any], ctx: Context) -> Result:
    """What a module on another machine says: it has no ledger."""
    raise ConfigError(
        "only the controller has the ledger",
        node=ctx.node,
        do="call node_identity as an ordinary task of the play; its action works on the controller",
    )


def plan(ledger: Ledger, asked: Asked) -> Plan:
    """:raises FleetError: where the swap cannot be what happened."""
    if asked.params["state"] != PRESENT and not asked.text("reason"):
        raise ConfigError(
            "what was swapped is said for a reason", node=asked.host, do='give reason (-e \'{"identity_why": "WHY"}\')'
        )
    if asked.params["state"] != PRESENT and asked.machine.get("contradicts"):
        raise WrongMachine(
            "the BMC tells another machine than the inventory; nothing was written",
            node=asked.host,
            wanted=listed(asked.says),
            seen=listed(asked.told),
            do="name in the inventory what the rack has now (bmc_info shows it), or correct gpufleet_bmc_address",
        )
    made = _PLANS[asked.params["state"]](ledger, asked)
    _out_of_service(ledger, asked, made)
    forced = asked.text("force_reason")
    return replace(made, events=[(node, _forced(event, forced)) for node, event in made.events]) if forced else made


def _forced(event: Event, reason: str) -> Event:
    return replace(event, data={**event.data, "forced": reason}) if event.kind == IDENTITY else event


def _out_of_service(ledger: Ledger, asked: Asked, made: Plan) -> None:
    """What is judged anew is given no work by its scheduler meanwhile: this verb writes to the ledger alone.

    :raises NotOurs: naming the first that the ledger has in service.
    """
    serving = [node for node, event in made.events if event.data.get("from") == "admitted" and _scheduled(ledger, node)]
    if not serving or asked.text("force_reason"):
        return
    host = ledger.name(serving[0]) or asked.host
    raise NotOurs(
        "hardware is swapped in a node that is out of service, and the ledger has this one in service",
        node=host,
        wanted="a person's hold, which no run lifts, until the swap is told",
        seen="admitted",
        do=f"keep it first: ansible-playbook gpufleet.baremetal.maintenance -i INVENTORY --limit {host} -e"
        ' maintenance=on -e \'{"maintenance_why": "WHY"}\', with its row as it was and also where the machine is gone;'
        ' then run again, and end the maintenance. Or give force_reason (-e \'{"identity_force_reason": "WHY"}\'),'
        " which is recorded",
    )


def _scheduled(ledger: Ledger, node: str) -> bool:
    """Not where it has none that could give it work."""
    seen = ledger.latest([node], "evidence").get(node)
    return seen is None or seen["data"].get("scheduler") != "none"


# -- the states --------------------------------------------------------------------------------------------------------


def _present(ledger: Ledger, asked: Asked) -> Plan:
    return Plan(here(ledger, asked))


def _replaced(ledger: Ledger, asked: Asked) -> Plan:
    return (_chassis if asked.params["part"] == CHASSIS else _board)(ledger, asked)


def _board(ledger: Ledger, asked: Asked) -> Plan:
    """The node goes on with its history: what it ran, what was tried on it, what was found. Nothing that was measured
    or signed with the old board holds for the new one."""
    node = before_the_swap(ledger, asked)
    refuse_shared(ledger, asked, asked.says, [node])
    taken = demand_free(ledger, asked, node)
    said = {compared(pair) for pair in asked.says}
    kinds = {kind for kind, value in asked.says}
    rows = [row for row in ledger.aliases(node) if row["kind"] in kinds]
    drops = [row for row in rows if compared((row["kind"], row["value"])) not in said]
    known = {compared((row["kind"], row["value"])) for row in rows}
    puts = [pair for pair in asked.says if compared(pair) not in known]
    told = {"part": BOARD, "reason": asked.text("reason"), "now": listed(asked.says)}
    if not drops and not puts and _said_already(ledger, node, told):
        return Plan(node)
    was = listed([(row["kind"], row["value"]) for row in ledger.aliases(node)])
    lost = [[row["kind"], row["value"]] for row in drops]
    old = {"was": was, "serials": [value for kind, value in lost if kind == "serial"], "lost": lost}
    events = [Event(IDENTITY, REPLACED, {**told, **old}), *_judged_again(ledger, node, BOARD, told)]
    drops += [row for one in taken for row in ledger.aliases(one)]
    return Plan(node, drops, {node: puts}, [(node, event) for event in events], [node, *taken])


def _chassis(ledger: Ledger, asked: Asked) -> Plan:
    """Another machine stands there: it begins its own history, and the one that left ends. What was tried on that one
    says nothing of it; the position's hold goes on, so that its scheduler gives the new one no work before day 0."""
    proper = [pair for pair in asked.says if pair[0] != "mac"]
    its = next(filter(None, (ledger.owner(*pair) for pair in proper)), "")
    old = _leaving(ledger, asked, its)
    if not old:
        return Plan(its)
    if asked.node_id == old:
        raise ConfigError(
            "gpufleet_node_id is the node of the machine that left", node=asked.host, do="take it out of the inventory"
        )
    if its == old or not proper:
        raise ConfigError(
            "the inventory names neither serial nor UUID of another machine than the one that left",
            node=asked.host,
            wanted="gpufleet_serial of the machine that came",
            seen=listed(asked.says) or "nothing",
            do="name it there; where the chassis alone was swapped around the same boards, say part board",
        )
    refuse_shared(ledger, asked, asked.says, [old, its], leaves=old)
    demand_free(ledger, asked, old, its)
    new = its or str(uuid.uuid4())
    reason = asked.text("reason")
    told = {"part": CHASSIS, "reason": reason, "was": old, "now": new}
    left = [Event(IDENTITY, REPLACED, told), *_out_of_the_fleet(ledger, old, f"chassis replaced: {reason}")]
    # One that served elsewhere is judged here as any other: its place, its power and its cables are new.
    again = _judged_again(ledger, new, "chassis moved here", told)
    came = [Event(IDENTITY, REPLACED, told), *_back_in_the_fleet(ledger, new), *again, *_held_on(ledger, old)]
    events = [*((old, event) for event in left), *((new, event) for event in came)]
    puts = [pair for pair in asked.says if ledger.owner(*pair) != new]
    return Plan(new, [], {new: puts}, events, [old, new], {"retired_node": old})


def _leaving(ledger: Ledger, asked: Asked, its: str) -> str:
    """The node that the chassis was; empty where it was retired already, and the host is the new one."""
    if asked.text("was"):
        old = meant(ledger, asked)
        return "" if ledger.retired(old) and its and its != old else old
    living = [node for node in ledger.claimed_by(asked.host) if node != its and names_host(ledger, node, asked.host)]
    if len(living) == 1:
        return living[0]
    if its and not living and _began_here(ledger, its):
        return ""
    return before_the_swap(ledger, asked)


def _began_here(ledger: Ledger, node: str) -> bool:
    """Has this very swap been recorded?"""
    swaps = ledger.history(node, kinds=(IDENTITY,), names=(REPLACED,))
    return any(one["data"].get("now") == node for one in swaps) and not ledger.retired(node)


def _moved(ledger: Ledger, asked: Asked) -> Plan:
    """A part came from another machine: both are others than the ones that were judged."""
    pair = asked.pair
    _demand_value(asked, pair)
    node = here(ledger, asked, without=pair)
    if not node or ledger.retired(node):
        raise ConfigError(
            "the ledger has no living node of this host",
            node=asked.host,
            do="name gpufleet_serial in the inventory and bring it up first, or its old serial in was",
        )
    refuse_shared(ledger, asked, [*asked.says, pair], [node])
    owner = donor(ledger, asked, node)
    if owner == node:
        return Plan(node)
    if not owner and not asked.text("force_reason"):
        raise ConfigError(
            "the ledger has this part in no machine, so none can have given it",
            node=asked.host,
            seen=f"{pair[0]} {pair[1]}",
            do="correct identity_value, or the machine that gave it goes on serving; of a part from the shelf nothing"
            " need be said. Where it came out of a machine that the ledger has without it, give force_reason"
            ' (-e \'{"identity_force_reason": "WHY"}\'), which is recorded, and take that one out of service',
        )
    reason = asked.text("reason")
    told = {"kind": pair[0], "value": pair[1], "from": owner, "to": node, "reason": reason}
    touched = [one for one in (owner, node) if one]
    events = [
        (one, event)
        for one in touched
        for event in (Event(IDENTITY, MOVED, told), *_judged_again(ledger, one, f"{pair[0]} moved", told))
    ]
    return Plan(node, _spelled_otherwise(ledger, [pair]), {node: [pair]}, events, touched, {"from_node": owner})


def _spelled_otherwise(ledger: Ledger, pairs: Iterable[Pair]) -> list[Row]:
    """What these are written as beside the way in which they are put down anew: one machine's would be of two nodes."""
    return [row for pair in pairs for row in ledger._aliases([pair]) if (row["kind"], row["value"]) != pair]


def _retired(ledger: Ledger, asked: Asked) -> Plan:
    """Nobody's any more; whose it was stays in that node's history."""
    pair = asked.pair
    _demand_value(asked, pair)
    node = here(ledger, asked, without=pair)
    rows = [row for row in ledger._aliases([pair]) if row["kind"] == pair[0]]
    if not rows:
        _demand_retired(ledger, asked, pair)
        return Plan(node)
    row = rows[0]
    refuse_shared(ledger, asked, [pair] if row["host"] != asked.host else [])
    state = state_of(ledger, row["node_id"])
    known_by_it = row["confirmed_by"] and row["kind"] in JOINING and state not in (*UNTOUCHED, RETIRED)
    if known_by_it and not asked.text("force_reason"):
        raise ConfigError(
            f"its {row['kind']} was confirmed by a peer ({row['confirmed_by']}), and what the ledger has of the node"
            f" stands by it ({state})",
            node=asked.host,
            seen=f"node {row['node_id']} ({ledger.name(row['node_id'])})",
            do="say what was swapped (state replaced or moved), or give force_reason"
            ' (-e \'{"identity_force_reason": "WHY"}\'), which is recorded',
        )
    told = {"reason": asked.text("reason"), "forced": asked.text("force_reason")}
    return Plan(node, [row], {}, [], [row["node_id"]], {"from_node": row["node_id"], "told": told})


def _demand_retired(ledger: Ledger, asked: Asked, pair: Pair) -> None:
    """It is nobody's already, which may have been said before.

    :raises ConfigError: where nobody ever lost it: what was meant, and mistyped, is somebody's still.
    """
    lost = (gone for one in ledger.of_all(IDENTITY) for gone in _lost(one["data"]))
    if compared(pair) in map(compared, lost):
        return
    raise ConfigError(
        "nobody has this, and nobody lost it",
        node=asked.host,
        seen=f"{pair[0]} {pair[1]}",
        do="correct identity_kind and identity_value; identity=show tells by what the host's node is known",
    )


def _lost(told: Mapping[str, Any]) -> list[Pair]:
    """What came out of a machine by such an event. One of before that was told has the serials of a board alone."""
    alone = [(str(told["kind"]), str(told.get("value")))] if told.get("kind") else []
    swapped = [(str(kind), str(value)) for kind, value in told.get("lost") or ()]
    return [*alone, *swapped, *(("serial", str(one)) for one in told.get("serials") or ())]


_PLANS: Mapping[str, Callable[[Ledger, Asked], Plan]] = {
    PRESENT: _present,
    MOVED: _moved,
    REPLACED: _replaced,
    RETIRED: _retired,
}


# -- what follows ------------------------------------------------------------------------------------------------------


def _demand_value(asked: Asked, pair: Pair) -> None:
    if asked.params["state"] == MOVED and pair[0] == "gpu" and not gpu_of(pair[1]):
        raise ConfigError(
            f"gpu {asked.text('value')!r} is not the name of a GPU",
            node=asked.host,
            wanted="GPU- and a UUID, as nvidia-smi -L tells it",
            do="correct identity_value",
        )
    if not pair[1] or (asked.params["state"] == MOVED and pair[0] not in MOVABLE):
        raise ConfigError(
            f"{pair[0]} {asked.text('value')!r} is nothing that can be {asked.params['state']}",
            node=asked.host,
            wanted=f"one of {', '.join(MOVABLE)}, no placeholder"
            if asked.params["state"] == MOVED
            else "no placeholder",
            do="a serial goes with its chassis: where that was swapped, say state replaced with part chassis",
        )


def _judged_again(ledger: Ledger, node: str, part: str, told: Mapping[str, Any]) -> list[Event]:
    """What was imaged or judged goes through quarantine, which no passport of before survives."""
    state = state_of(ledger, node)
    if state in UNTOUCHED:
        return []
    reason = f"{part} replaced: {told['reason']}" if part == BOARD else f"{part}: {told['reason']}"
    return [Event("state", "quarantined", {"from": state, "reason": reason, "remedy": "reimage", "swapped": True})]


def _out_of_the_fleet(ledger: Ledger, node: str, reason: str) -> list[Event]:
    state = state_of(ledger, node)
    by_way = [] if state in WAYS[RETIRED].sources else [("quarantined", state)]
    last = by_way[0][0] if by_way else state
    steps = [] if state == RETIRED else [*by_way, (RETIRED, last)]
    return [Event("state", name, {"from": before, "reason": reason}) for name, before in steps]


def _back_in_the_fleet(ledger: Ledger, node: str) -> list[Event]:
    state = state_of(ledger, node)
    return [Event("state", "discovered", {"from": RETIRED})] if state == RETIRED else []


def _held_on(ledger: Ledger, old: str) -> list[Event]:
    """Where a person has said since that the position is of another scheduler, or of none, that is true of the new
    machine as well."""
    hold, named = newest_holds(ledger, [old]).get(old), ledger.latest([old], "named").get(old)
    held = [Event("hold", "taken", dict(hold["data"]))] if hold and hold["name"] == "taken" else []
    moved = [named] if held and hold and named and named["id"] > hold["id"] else []
    return [*held, *(Event("named", str(one["name"]), dict(one["data"])) for one in moved)]


def _said_already(ledger: Ledger, node: str, told: Mapping[str, Any]) -> bool:
    """Was this very swap recorded, and nothing come of the node since?"""
    events = ledger.history(node, kinds=(IDENTITY, "state"))
    swap = next((one for one in reversed(events) if one["kind"] == IDENTITY), None)
    later = [one for one in events if swap and one["id"] > swap["id"] and not one["data"].get("swapped")]
    return bool(swap) and not later and all((swap or {})["data"].get(key) == value for key, value in told.items())
