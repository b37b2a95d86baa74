# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node goes from one provisioner to another: the states ``left`` and ``moved`` of provisioner_node. PRIVATE.

First the old one is proven to boot it no more, and keeps a note that says where it went; then the new one is told of
it. Each is a task of its own, since each may be asked from another machine: what the first one saw, the ledger keeps,
and the second one goes by that. Of two places that each would boot a machine, nobody knows which one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    EvidenceMissing,
    NotProven,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.carried import carried, lines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT,
    Changes,
    Driver,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import (
    agreed,
    demand_known,
    found,
    writing,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.recorded import both, recorded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.standing import demand_shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.told import record, seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import MOVED, kind_of, make_token, says_just
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result

Params = Mapping[str, Any]


# -- from --------------------------------------------------------------------------------------------------------------


def left(driver: Driver, wanted: Wanted, params: Params, ctx: Context) -> Result:
    """Nothing there boots or wipes it any more, and its record says where it went: read back."""
    here, there = moves.place_of(params), _there(params, wanted)
    _demand_no_other_move(params, here, there, wanted)
    wanted = replace(wanted, elsewhere=None, passes=MOVED)
    moment = ctx.moment()
    node = found(driver, wanted) or _as_it_left(driver, wanted, params, here)
    if node is None:
        return _gone(driver, wanted, params, here, there)
    demand_known(driver, node, wanted)
    same = sorted(agreed(driver, node, wanted))
    tells, armed = _tells(driver, node), driver.boots(node)
    why = f"to {moves.words(there)}"
    after = node
    if armed and not ctx.check_mode:
        raise _armed(driver, wanted, armed)
    if not _says(node, why):
        after = _noted(driver, node, wanted, why, ctx)
    place = {**here, "address": driver.address, "name": node.name, "id": node.id}
    told = {"from": place, "to": there, "agrees": same, "hold_token": after.hold, "boots": "nothing", **moment}
    events = [] if _stands(params, here, there) else [Event(moves.KIND, moves.LEFT, told)]
    data = {"tells": tells, "agrees": same, "release": bool(armed), "boots": armed}
    return _result(node, after, Changes(), data, events, changed=not _says(node, why))


def _there(params: Params, wanted: Wanted) -> dict[str, str]:
    """
    :raises ConfigError: where nobody says where it goes, or it would go nowhere.
    """
    given = params.get("moved_to") or {}
    there = {**moves.place_of(given), "name": str(given.get("provisioner_id") or wanted.name)}
    if not there["provisioner"] or moves.same(there, moves.place_of(params)):
        raise ConfigError(
            "nothing says to which other provisioner the node goes",
            node=wanted.host,
            wanted="moved_to with provisioner, and provisioner_url or provisioner_cloud, of another one",
            seen=moves.words(there) if there["provisioner"] else "none",
            do="say moved_to (in the playbook migrate_provisioner: migrate_to)",
        )
    return there


def _demand_no_other_move(params: Params, here: moves.Place, there: moves.Place, wanted: Wanted) -> None:
    """A move is ended before another one begins, and begins where the node is."""
    event = params.get("known_move") or {}
    origin, target = moves.ends(event)
    if not event or wanted.forced:
        return
    this_one = moves.same(here, origin) and moves.same(there, target)
    if this_one or (event.get("name") == moves.MOVED and moves.same(here, target)):
        return
    raise ConfigError(
        "the ledger has the node elsewhere, or on another way",
        node=wanted.host,
        wanted=f"from {moves.words(here)} to {moves.words(there)}",
        seen=f"{event.get('name')} from {moves.words(origin)} to {moves.words(target)}",
        do="end that move with its own migrate_to, name in the inventory where the node is then, and move it on from"
        " there",
    )


def _stands(params: Params, here: moves.Place, there: moves.Place) -> bool:
    """Has it come to its end? What was proven then is not told again, nor what this run has told."""
    event = params.get("known_move") or {}
    origin, target = moves.ends(event)
    ended = event.get("name") == moves.MOVED or event.get("run_id") == params.get("run_id")
    return bool(event) and ended and moves.same(here, origin) and moves.same(there, target)


def _as_it_left(driver: Driver, wanted: Wanted, params: Params, here: moves.Place) -> NodeState | None:
    """By what it was called there when it left: a row that calls it otherwise since finds no record, and the one that
    is there may be armed again."""
    origin = moves.ends(params.get("known_move") or {})[0]
    names = dict.fromkeys(str(origin.get(key) or "") for key in ("id", "name")) if moves.same(here, origin) else {}
    asked = (found(driver, replace(wanted, provisioner_id=name)) for name in names if name not in ("", wanted.key))
    return next((node for node in asked if node is not None), None)


def _gone(driver: Driver, wanted: Wanted, params: Params, here: moves.Place, there: moves.Place) -> Result:
    """Who deletes the record there after the node has left takes nothing back: what is not there boots nothing.

    :raises Refused: where it may be there, and at work.
    """
    demand_shown(driver, wanted)
    event = params.get("known_move") or {}
    origin, target = moves.ends(event)
    if not event or not moves.same(here, origin) or not moves.same(there, target):
        raise Refused(
            f"{driver.name} does not know the node {wanted.key}, so there is nothing to move",
            node=wanted.host,
            address=driver.address,
            do="correct gpufleet_provisioner_id; of a node that it never had, name the other provisioner in the"
            " inventory and run day0_bringup",
        )
    told = {"from": {**origin}, "to": dict(there), "agrees": [], "boots": "nothing: it has no record of it"}
    events = [] if _stands(params, here, there) else [Event(moves.KIND, moves.LEFT, told)]
    absent = NodeState(id="", name="", native=ABSENT, state=ABSENT)
    data = {"tells": {}, "agrees": [], "release": False, "boots": ""}
    return _result(absent, absent, Changes(), data, events, changed=False)


def _tells(driver: Driver, node: NodeState) -> dict[str, Any]:
    """What another one may take over of it; no secret, and nothing that is only this one's."""
    network = driver.network(node, ask=True)
    return {
        "name": node.name,
        "macs": sorted(network.macs),
        "addresses": sorted(network.addresses),
        "bmc_address": driver.bmc(node)[0],
        "annotations": dict(driver.marks(node)),
        "image": str(node.image.get("label") or ""),
    }


def _says(node: NodeState, why: str) -> bool:
    return node.maintenance and kind_of(node.hold) == MOVED and says_just(node.hold, why)


def _armed(driver: Driver, wanted: Wanted, armed: str) -> Refused:
    return Refused(
        f"{driver.name} may still boot this node, or wipe it",
        node=wanted.host,
        address=driver.address,
        wanted="that nothing there boots it, before another provisioner may",
        seen=armed,
        do="release it there first (provisioner_node with state released, as migrate_provisioner does); where that is"
        " done, do what was seen above; run again then. Nothing was told to the other provisioner",
    )


def _noted(driver: Driver, node: NodeState, wanted: Wanted, why: str, ctx: Context) -> NodeState:
    """
    :raises NotProven: where what was written does not read back, or the node was armed meanwhile.
    """
    token = make_token(wanted.run, why, MOVED)
    with writing(driver, node, wanted) as now:
        if driver.boots(now) and not ctx.check_mode:
            raise _armed(driver, wanted, driver.boots(now))
        if not _says(now, why):
            driver.hold(now, token, wanted)
    if ctx.check_mode:
        return replace(now, maintenance=True, hold=token)
    after = driver.reread(now, wanted)
    if not _says(after, why) or driver.boots(after):
        raise NotProven(
            "that the node has left was written, and does not read back",
            node=wanted.host,
            address=driver.address,
            wanted=f"{token}, and nothing that boots it",
            seen=driver.boots(after) or after.hold or "no hold",
            do="see what keeps changing the record there, and run again; nothing was told to the other provisioner",
        )
    return after


# -- to ----------------------------------------------------------------------------------------------------------------


def moved(driver: Driver, wanted: Wanted, params: Params, ctx: Context) -> Result:
    """The new one has it, as the machine that left the old one."""
    here = moves.place_of(params)
    event = params.get("known_move") or {}
    is_here = event.get("name") == moves.MOVED and moves.same(here, moves.ends(event)[1])
    if not is_here:
        _demand_left(event, here, wanted, params, ctx)
        wanted = _of_nobody(wanted)
    wanted = replace(_with_card(wanted, params), elsewhere=None, stray=None, passes=MOVED)
    node = found(driver, wanted)
    if node is not None:
        demand_known(driver, node, wanted)
    if is_here and node is not None and kind_of(node.hold) != MOVED:
        return _result(node, node, Changes(), {"here": True, **_told(event)}, [], changed=False)
    after, changes, marked = _entered(driver, node, wanted, params, ctx)
    same = sorted(agreed(driver, after, wanted)) if after.id else []
    named: moves.Place = params.get("known_place") or {}
    origin = moves.ends(event)[0] if event else {} if moves.same(named, here) else named
    place = {**here, "address": driver.address, "name": after.name or wanted.name, "id": after.id}
    told = {
        "from": dict(origin),
        "to": place,
        "agrees": same,
        **carried(driver, wanted, params, marked),
        "inventory": lines(driver, params, origin, wanted),
    }
    data = {"here": False, **{key: told[key] for key in ("carried", "not_carried", "inventory", "agrees")}}
    changed = node is None or bool(changes.after) or bool(marked.after) or node.hold != after.hold
    return _result(node, after, both(changes, marked), data, [Event(moves.KIND, moves.MOVED, told)], changed=changed)


def _demand_left(event: Mapping[str, Any], here: moves.Place, wanted: Wanted, params: Params, ctx: Context) -> None:
    """
    :raises EvidenceMissing: where nobody has proven in this run that the old one boots it no more.
    """
    proven = event.get("name") == moves.LEFT and moves.same(here, moves.ends(event)[1])
    if ctx.check_mode or wanted.forced or (proven and event.get("run_id") == params.get("run_id")):
        return
    raise EvidenceMissing(
        "refused: another provisioner may still boot this node, or wipe it",
        node=wanted.host,
        wanted=f"proof of this run that it has left where it was for {moves.words(here)}",
        seen=f"{event['name']} to {moves.words(moves.ends(event)[1])}, in run {event.get('run_id')}"
        if event
        else "none",
        do="run the playbook gpufleet.baremetal.migrate_provisioner, or give force_reason, which is recorded",
    )


def _of_nobody(wanted: Wanted) -> Wanted:
    """What is deployed at the new one before the node came there is none of what we deployed at the old one."""
    if wanted.deployed is None or wanted.forced:
        return wanted
    return replace(wanted, deployed=False, deploy_ids=frozenset(), stamps=frozenset())


def _with_card(wanted: Wanted, params: Params) -> Wanted:
    """Where the inventory does not say by which card it boots, and the old one knew one card alone."""
    macs = [str(one) for one in (params.get("carry") or {}).get("macs") or []]
    return wanted if wanted.boot_mac or len(macs) != 1 else replace(wanted, boot_mac=macs[0])


def _entered(
    driver: Driver, node: NodeState | None, wanted: Wanted, params: Params, ctx: Context
) -> tuple[NodeState, Changes, Changes]:
    _before, after, changes = recorded(driver, node, wanted)
    if kind_of(after.hold) == MOVED:  # it comes back to where it has been
        with writing(driver, after, wanted) as now:
            driver.lift(now, wanted)
        after = replace(after, maintenance=False, hold="") if ctx.check_mode else driver.reread(after, wanted)
    marks = (params.get("carry") or {}).get("annotations") or {}
    marked = _marked(driver, after, wanted, {str(key): str(value) for key, value in marks.items()}, ctx)
    if ctx.check_mode:
        return after, changes, marked
    after = driver.reread(after, wanted)
    demand_known(driver, after, wanted)
    if after.state == ABSENT or kind_of(after.hold) == MOVED:
        raise NotProven(
            f"the node was enrolled in {driver.name}, and does not read back",
            node=wanted.host,
            address=driver.address,
            seen=after.hold or after.native,
        )
    return after, changes, marked


def _marked(driver: Driver, node: NodeState, wanted: Wanted, marks: Mapping[str, str], ctx: Context) -> Changes:
    """Those that it takes; one that it cannot keep stops no move, and is told."""
    if not marks or not driver.annotates:
        return Changes(deferred=tuple(sorted(marks)))
    if not node.id:  # check mode foretells a record that is not there
        return Changes({}, dict(marks))
    wanted = replace(wanted, annotations=marks)
    try:
        with writing(driver, node, wanted) as now:
            return driver.annotate(now, wanted)
    except (ConfigError, Refused) as exc:
        ctx.warnings.append(f"its annotations were not carried over: {exc}")
        return Changes(deferred=tuple(sorted(marks)))


# -- results -----------------------------------------------------------------------------------------------------------


def _told(event: Mapping[str, Any]) -> dict[str, Any]:
    """What was recorded when it came."""
    data = event.get("data") or {}
    empty: dict[str, Any] = {"carried": {}, "not_carried": [], "inventory": [], "agrees": []}
    return {key: data.get(key) or value for key, value in empty.items()}


def _result(
    before: NodeState | None,
    after: NodeState,
    changes: Changes,
    data: Mapping[str, Any],
    events: list[Event],
    *,
    changed: bool,
) -> Result:
    return Result(
        before={**seen(before), **changes.before},
        after={**seen(after), **changes.after},
        changed=changed,
        data={**record(after, changes.deferred), **data},
        events=events,
    )
