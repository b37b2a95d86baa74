# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind provisioner_node: begin what leads one node towards a state. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotOurs, NotProven, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import quarantine as marks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import (
    BOOT,
    DONE,
    NO_REQUEST,
    STOP,
    WAIT,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    READY,
    Changes,
    Driver,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import (
    agreed,
    can,
    demand_deployable,
    demand_its_card,
    found,
    not_ours,
    right_machine,
    undeployable,
    unrecordable,
    verified,
    writing,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.move import left, moved
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.one_bmc import other_system
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.power import switched
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.recorded import recorded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.told import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import untaken


def node(params: Mapping[str, Any], ctx: Context) -> Result:
    """Begin the next transition towards ``state``; never wait for its end."""
    if params["state"] == "readmitted" and params.get("known_mark") == "":
        return marks.never_marked()
    with connected(params, ctx) as driver:
        wanted = wants.of_task(params, driver.name, driver.image_needs, ctx.node)
        wanted = _ordered(driver, wanted, ctx)
        try:
            can(driver, params)
            result = _heard(driver, wanted, params, ctx)
        except FleetError as exc:
            exc.located(node=wanted.host)
            untaken(ctx.ordered, wanted.host, exc)
            # What went wrong since takes nothing back.
            told = {"begun": ctx.begun, "ordered": _order(driver, ctx)}
            exc.details.update({key: word for key, word in told.items() if word})
            raise
        result.data["ordered"] = _order(driver, ctx)
        result.events[:0] = ctx.told
        return result


def _heard(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    """What leads to the state, begun anew while the provisioner is away and nothing was asked of it but to be read.

    The hosts of a run wait together, so that one that stays away costs a batch no more than a host.
    From the first write on nobody can tell here how far that came: the next run reads it back.
    """
    return Away(str(params.get("run_cache") or ""), wanted.host).heard(
        driver.address,
        lambda: _STATES[params["state"]](driver, wanted, params, ctx),
        beat=ctx.lifeline.beat,
        final=lambda: ctx.asked,
    )


# -- the states ------------------------------------------------------------------------------------------------


def _enrolled(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    there = found(driver, wanted)
    why = undeployable(driver, there, wanted)
    before, after, changes = recorded(driver, there, wanted)
    result = _result(driver, wanted, before, after, changes, goal="")
    if ctx.check_mode and before is not None:  # a record that was made right agrees with us
        result.data["agrees"] = list(agreed(driver, before, wanted))
        alone = not result.data["agrees"]
        result.data["bmc_system"] = other_system(driver.bmc(before), wanted.bmc) if alone else ""
        why = why or (unrecordable(driver, before, wanted) if alone else None)
    result.data["undeployable"] = {"kind": why.kind, "reason": str(why)} if why else {}
    ctx.warnings += [f"it cannot be deployed as it is declared: {why}"] if why else []
    return result


def _ready(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    there = found(driver, wanted)
    demand_deployable(driver, there, wanted)
    before, enrolled, changes = recorded(driver, there, wanted)
    after, step = _towards(driver, enrolled, READY, wanted, ctx)
    return _result(driver, wanted, before, after, changes, goal=READY, step=step)


def _deployed(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    require(params, "image", node=wanted.host)
    if wanted.flaw is not None:
        raise wanted.flaw
    before = _known(driver, wanted)
    after, step = _towards(driver, before, "deployed", wanted, ctx)
    wanted = _ordered(driver, wanted, ctx)
    changes = _annotated(driver, after, wanted)
    if changes.after and not ctx.check_mode:
        after = driver.reread(after, wanted)
    return _result(driver, wanted, before, after, changes, goal="deployed", step=step)


def _released(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    before = _known(driver, wanted)
    after, step = _towards(driver, before, "released", wanted, ctx)
    return _result(driver, wanted, before, after, Changes(), goal="released", step=step)


def _maintenance(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    moment = ctx.moment()
    before = after = _known(driver, wanted)
    own = wanted.token(str(params.get("why") or "maintenance"))
    token = _in_maintenance(before) or marks.laid_over(own, before)
    if not _in_maintenance(before):
        with writing(driver, before, wanted) as before:
            token = _in_maintenance(before) or marks.laid_over(own, before)
            if not _in_maintenance(before):
                driver.hold(before, token, wanted)
        after = _held(driver, before, wanted, token, ctx)
    result = _result(driver, wanted, before, after, Changes(), goal="")
    told = {"hold_token": token, "provisioner": driver.name, **moves.noted(params), **moment}
    result.events.append(Event("maintenance", "held", told))
    return result


def _serviceable(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    moment = ctx.moment()
    before = after = _known(driver, wanted)
    looked = {} if _is_held(before) else moment
    if _is_held(before):
        with writing(driver, before, wanted) as before:
            mark = marks.beneath(before.hold)
            if mark:
                driver.hold(before, mark, wanted)
            elif _is_held(before):
                driver.lift(before, wanted)
        after = before if marks.is_marked(before) else _held(driver, before, wanted, mark, ctx)
    result = _result(driver, wanted, before, after, Changes(), goal="")
    told = {"hold_token": before.hold, "provisioner": driver.name, **looked}
    stands = after if marks.is_marked(after) else before
    marked = marks.stays(stands, {**told, "hold_token": stands.hold, **moves.noted(params), **moment}, ctx)
    result.events += marked if marks.is_marked(stands) else [Event("maintenance", "lifted", told)]
    return result


def _annotated_there(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    """Marks of a node wherever it stands; what cannot be written there now is told as deferred."""
    before = after = _known(driver, wanted)
    changes = _annotated(driver, before, wanted)
    if changes.after and not ctx.check_mode:
        after = driver.reread(before, wanted)
    return _result(driver, wanted, before, after, changes, goal="")


def _worked(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    """Begin work of the provisioner's own with the machine, or find it under way."""
    work = str(params["state"])
    driver.demand_works(work)
    before = _known(driver, wanted)
    after, step = _towards(driver, before, work, wanted, ctx)
    ours = replace(wanted, works=wanted.works | {work}) if step not in NO_REQUEST else wanted
    result = _result(driver, ours, before, after, Changes(), goal=work, step=step)
    result.data["pending"] = driver.next_step(after, names.SETTLED, wanted) == WAIT
    if step not in NO_REQUEST and not ctx.check_mode and driver.begun(after) == driver.begun(before):
        raise NotProven(
            f"{driver.name} took the order, and shows nothing of it",
            node=wanted.host,
            wanted=f"another state than {before.native}, or that it was in one since",
            seen=f"{after.native}: {after.last_error}" if after.last_error else after.native,
            do="look at it there, and run again",
        )
    return result


def _powered(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    """On, off or anew, where the provisioner insists that nobody else does it."""
    state = str(params["state"])
    driver.demand_switches(state)
    there = _known(driver, wanted)
    before, after = switched(driver, there, wanted, state, ctx)
    result = _result(driver, wanted, there, there, Changes(), goal="")
    result.before["power"], result.after["power"] = before, after
    result.changed, result.data["power"] = bool(ctx.begun), after
    return result


_STATES: Mapping[str, Callable[[Driver, Wanted, Mapping[str, Any], Context], Result]] = {
    "enrolled": _enrolled,
    "ready": _ready,
    "deployed": _deployed,
    "released": _released,
    "maintenance": _maintenance,
    "serviceable": _serviceable,
    "quarantined": marks.quarantined,
    "readmitted": marks.readmitted,
    "annotated": _annotated_there,
    **dict.fromkeys(names.WORKS, _worked),
    **dict.fromkeys(names.POWERS, _powered),
    "left": left,
    "moved": moved,
}


# -- parts -----------------------------------------------------------------------------------------------------


def _standing(node: NodeState) -> str:
    """The token of the maintenance that stands; empty where there is none of this collection's."""
    return node.hold if node.maintenance and has_form(node.hold) else ""


def _in_maintenance(node: NodeState) -> str:
    """The same, where it is one for work, and no mark of quarantine, which ends with its remedy."""
    return "" if marks.is_marked(node) else _standing(node)


def _is_held(node: NodeState) -> bool:
    return (node.maintenance or has_form(node.hold)) and not marks.is_marked(node)


def _order(driver: Driver, ctx: Context) -> str:
    """What this call has ordered, also in an earlier part of it, or where the answer was lost."""
    return driver.orders.get(ctx.begun) or next(iter(ctx.ordered.values()), "")


def _ordered(driver: Driver, wanted: Wanted, ctx: Context) -> Wanted:
    """Once this call has ordered it, what is deployed there, or just being, is ours."""
    if _order(driver, ctx) != DEPLOYED:
        return wanted
    return replace(wanted, deployed=True, deploy_ids=frozenset(), stamps=frozenset())


def _known(driver: Driver, wanted: Wanted) -> NodeState:
    node = found(driver, wanted)
    if node is None:
        raise Refused(
            f"{driver.name} does not know the node {wanted.key}",
            node=wanted.host,
            seen=driver.hidden,
            do="enrol it first: provisioner_node with state ready",
        )
    return node


def _annotated(driver: Driver, node: NodeState, wanted: Wanted) -> Changes:
    if not wanted.annotations:
        return Changes()
    with writing(driver, node, wanted) as now:
        return driver.annotate(now, wanted)


def _towards(driver: Driver, node: NodeState, goal: str, wanted: Wanted, ctx: Context) -> tuple[NodeState, str]:
    """Begin the next step towards a goal, if there is one to begin; wherever it has led meanwhile, once a call."""
    if ctx.begun:
        return node, ctx.begun
    step = _next(driver, node, goal, wanted)
    if step in NO_REQUEST:
        if step in (DONE, BOOT) and node.id:
            right_machine(driver, node, wanted)
        return marks.let_go(driver, node, step, wanted, ctx), step
    verified(driver, wanted, goal)
    if goal == DEPLOYED:
        demand_deployable(driver, node, wanted)
    # In check mode the record is not made right first, by which it is known.
    with writing(driver, node, wanted, hits=not ctx.check_mode) as now:
        step = step if now is node else _next(driver, now, goal, wanted)
        if step in NO_REQUEST:  # somebody else began it while we waited for our turn
            return now, step
        demand_its_card(driver, step, now, wanted)
        with marks.remedied(driver, now, wanted, ctx) as now, ctx.ordering(driver.orders.get(step, "")):
            driver.start(step, now, wanted)
        ctx.begun = step
    if ctx.check_mode:
        return driver.predicted(step, now), step
    ctx.say(f"{now.native}: {step}")
    return driver.reread(now, wanted), step


def _next(driver: Driver, node: NodeState, goal: str, wanted: Wanted) -> str:
    """The next step towards a goal.

    :raises NotOurs: where only a person can go on. :raises Refused: where our own maintenance stands in the way.
    """
    step = driver.next_step(node, goal, wanted)
    if step == STOP:
        raise NotOurs(
            f"a node in this state needs a person: {node.native}",
            node=wanted.host,
            wanted=goal,
            seen=node.native + (f": {node.last_error}" if node.last_error else ""),
            do=f"bring it out of {node.native} with {driver.name}'s own tools, then run again",
            details={"provision_state": node.native, "state": node.state},
        )
    if step not in NO_REQUEST - {BOOT} and _standing(node) and not (driver.left_over(node) or marks.is_marked(node)):
        raise Refused(
            "the node is in maintenance under our own token; the provisioner starts nothing meanwhile",
            node=wanted.host,
            wanted=goal,
            seen=node.hold,
            do="lift it first: provisioner_node with state serviceable",
        )
    return step


def _held(driver: Driver, node: NodeState, wanted: Wanted, token: str, ctx: Context) -> NodeState:
    """The node after a hold was written or lifted: predicted in check mode, else read back."""
    if ctx.check_mode:
        return replace(node, maintenance=bool(token), hold=token)
    after = driver.reread(node, wanted)
    if after.maintenance != bool(token) or after.hold != token:
        raise NotProven(
            "the maintenance was written, and does not read back",
            node=wanted.host,
            wanted=token or "no maintenance",
            seen=after.hold if after.maintenance else "no maintenance",
        )
    return after


def _result(
    driver: Driver,
    wanted: Wanted,
    before: NodeState | None,
    after: NodeState,
    changes: Changes,
    *,
    goal: str,
    step: str = "",
) -> Result:
    """What is told of a node; ``changed`` follows from what was asked for, not from what moved by itself."""
    seen_before = {**_seen(before), **changes.before}
    seen_after = {**_seen(after), **changes.after}
    started = step not in NO_REQUEST | {""}
    held = before is not None and (before.maintenance, before.hold) != (after.maintenance, after.hold)
    # A missing id is a predicted node: it has no record that a step table could be asked about.
    coming = driver.next_step(after, goal, _once(wanted)) if goal and after.id else ""
    return Result(
        before=seen_before,
        after=seen_after,
        changed=before is None or started or held or bool(changes.after),
        data={
            **record(after, changes.deferred),
            "pending": bool(goal) and coming != DONE,
            "step": BOOT if coming == BOOT else step if started else "",
            "foreign": not_ours(driver, after, wanted),
            "inspection": after.inspection,
            "image": dict(after.image),
            "deploy_id": wanted.image.deploy_id if wanted.image else "",
            "deploy_proof": driver.deploy_proof,
            "stamp": before.stamp if before is not None else "",
            "last_error": after.last_error,
        },
    )


def _once(wanted: Wanted) -> Wanted:
    """A redeployment was asked for once; whether more is to come is judged without it."""
    return replace(wanted, redeploy=False)


def _seen(node: NodeState | None) -> dict[str, Any]:
    if node is None:
        return {"state": "absent"}
    return {"state": node.state, "provision_state": node.native, "maintenance": node.hold if node.maintenance else ""}
