# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind provisioner_node: begin what leads one node towards a state. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotOurs, NotProven, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DONE,
    READY,
    STOP,
    WAIT,
    Changes,
    Driver,
    Image,
    NodeState,
    Wanted,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import PREFIX, has_form, known_runs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result


def node(params: Mapping[str, Any], ctx: Context) -> Result:
    """Begin the next transition towards ``state``; never wait for its end."""
    wanted = wanted_from(params, ctx)
    with connected(params, ctx) as driver:
        try:
            return _STATES[params["state"]](driver, wanted, params, ctx)
        except FleetError as exc:
            exc.located(node=wanted.host)
            raise


def wanted_from(params: Mapping[str, Any], ctx: Context) -> Wanted:
    """The options of a task, as the drivers read them."""
    if not params.get("provisioner_id") and not params.get("name"):
        require(params, "provisioner_id", node=ctx.node)
    return Wanted(
        host=ctx.node or str(params.get("name") or params["provisioner_id"]),
        provisioner_id=str(params.get("provisioner_id") or ""),
        name=str(params.get("name") or params.get("provisioner_id") or ""),
        boot_mac=str(params.get("boot_mac") or ""),
        serial=str(params.get("serial") or ""),
        bmc={key: params.get(key) for key in BMC},
        image=Image.of(with_deploy_id(params.get("image"), params.get("deploy_id")), node=ctx.node),
        properties=dict(params.get("properties") or {}),
        extras=own_extras(params, str(params.get("provisioner") or "")),
        annotations={key: str(value) for key, value in (params.get("annotations") or {}).items()},
        erase=bool(params.get("erase")),
        redeploy=bool(params.get("redeploy")),
        update_password=params.get("update_password") == "always",
        run=str(params.get("run_id") or "module"),
        runs=known_runs(params),
    )


def with_deploy_id(image: Mapping[str, Any] | None, deploy_id: Any) -> Mapping[str, Any] | None:
    return {**image, "deploy_id": deploy_id} if image and deploy_id else image


# -- the states ------------------------------------------------------------------------------------------------


def _enrolled(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    before = driver.find(wanted)
    if before is not None:
        leave_foreign_alone(before, wanted, ctx)
    after, changes = driver.enrol(wanted, before)
    return _result(driver, wanted, before, after, changes, goal="")


def _ready(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    before = driver.find(wanted)
    if before is not None:
        leave_foreign_alone(before, wanted, ctx)
    enrolled, changes = driver.enrol(wanted, before)
    after, step = _towards(driver, enrolled, READY, wanted, ctx)
    return _result(driver, wanted, before, after, changes, goal=READY, step=step)


def _deployed(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    require(params, "image", node=wanted.host)
    before = _known(driver, wanted)
    leave_foreign_alone(before, wanted, ctx)
    after, step = _towards(driver, before, "deployed", wanted, ctx)
    changes = driver.annotate(after, wanted) if wanted.annotations else Changes()
    if changes.after and not ctx.check_mode:
        after = driver.reread(after, wanted)
    return _result(driver, wanted, before, after, changes, goal="deployed", step=step)


def _released(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    before = _known(driver, wanted)
    leave_foreign_alone(before, wanted, ctx)
    after, step = _towards(driver, before, "released", wanted, ctx)
    return _result(driver, wanted, before, after, Changes(), goal="released", step=step)


def _maintenance(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    before = _known(driver, wanted)
    leave_foreign_alone(before, wanted, ctx)
    after = before
    token = (
        before.hold
        if before.maintenance and has_form(before.hold)
        else wanted.token(str(params.get("why") or "maintenance"))
    )
    if token != before.hold or not before.maintenance:
        driver.hold(before, token, wanted)
        after = _held(driver, before, wanted, token, ctx)
    result = _result(driver, wanted, before, after, Changes(), goal="")
    result.events.append(Event("maintenance", "held", {"hold_token": token, "provisioner": driver.name}))
    return result


def _serviceable(driver: Driver, wanted: Wanted, params: Mapping[str, Any], ctx: Context) -> Result:
    before = _known(driver, wanted)
    leave_foreign_alone(before, wanted, ctx)
    after = before
    if before.maintenance or has_form(before.hold):
        driver.lift(before, wanted)
        after = _held(driver, before, wanted, "", ctx)
    result = _result(driver, wanted, before, after, Changes(), goal="")
    result.events.append(Event("maintenance", "lifted", {"hold_token": before.hold, "provisioner": driver.name}))
    return result


_STATES: Mapping[str, Callable[[Driver, Wanted, Mapping[str, Any], Context], Result]] = {
    "enrolled": _enrolled,
    "ready": _ready,
    "deployed": _deployed,
    "released": _released,
    "maintenance": _maintenance,
    "serviceable": _serviceable,
}


# -- parts -----------------------------------------------------------------------------------------------------


def _known(driver: Driver, wanted: Wanted) -> NodeState:
    found = driver.find(wanted)
    if found is None:
        raise Refused(
            f"{driver.name} does not know the node {wanted.key}",
            node=wanted.host,
            do="enrol it first: provisioner_node with state ready",
        )
    return found


def leave_foreign_alone(node: NodeState, wanted: Wanted, ctx: Context) -> None:
    """:raises NotOurs: naming whose it is."""
    foreign = wanted.not_ours(node)
    if foreign:
        raise NotOurs(
            f"the provisioner's node is not ours to touch: {foreign}",
            node=wanted.host,
            wanted=f"no hold, or one of ours ({PREFIX}...)",
            seen=foreign,
            do="ask whoever holds it; nothing was changed",
            details={
                "foreign": foreign,
                "provisioner_id": node.id,
                "provision_state": node.native,
                "state": node.state,
            },
        )


def _towards(driver: Driver, node: NodeState, goal: str, wanted: Wanted, ctx: Context) -> tuple[NodeState, str]:
    """Begin the next step towards a goal, if there is one to begin."""
    step = driver.next_step(node, goal, wanted)
    if step in (DONE, WAIT):
        return node, step
    if step == STOP:
        raise NotOurs(
            f"a node in this state needs a person: {node.native}",
            node=wanted.host,
            wanted=goal,
            seen=node.native + (f": {node.last_error}" if node.last_error else ""),
            do=f"bring it out of {node.native} with {driver.name}'s own tools, then run again",
            details={"provision_state": node.native, "state": node.state},
        )
    if node.maintenance and has_form(node.hold) and not driver.left_over(node):
        raise Refused(
            "the node is in maintenance under our own token; the provisioner starts nothing meanwhile",
            node=wanted.host,
            wanted=goal,
            seen=node.hold,
            do="lift it first: provisioner_node with state serviceable",
        )
    driver.start(step, node, wanted)
    if ctx.check_mode:
        return driver.predicted(step, node), step
    ctx.say(f"{node.native}: {step}")
    return driver.reread(node, wanted), step


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
    started = step not in ("", DONE, WAIT)
    held = before is not None and (before.maintenance, before.hold) != (after.maintenance, after.hold)
    # A missing id is a predicted node: it has no record that a step table could be asked about.
    pending = bool(goal) and (not after.id or driver.next_step(after, goal, _once(wanted)) != DONE)
    return Result(
        before=seen_before,
        after=seen_after,
        changed=before is None or started or held or bool(changes.after),
        data={
            "provisioner_id": after.id,
            "name": after.name,
            "provision_state": after.native,
            "state": after.state,
            "pending": pending,
            "step": step if started else "",
            "maintenance": after.maintenance,
            "hold": after.hold,
            "owner": after.owner,
            "foreign": wanted.not_ours(after),
            "inspection": after.inspection,
            "image": dict(after.image),
            "deploy_id": wanted.image.deploy_id if wanted.image else "",
            "last_error": after.last_error,
            "deferred": list(changes.deferred),
        },
    )


def _once(wanted: Wanted) -> Wanted:
    """A redeployment was asked for once; whether more is to come is judged without it."""
    return replace(wanted, redeploy=False)


def _seen(node: NodeState | None) -> dict[str, Any]:
    if node is None:
        return {"state": "absent"}
    return {"state": node.state, "provision_state": node.native, "maintenance": node.hold if node.maintenance else ""}
