# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb ``provisioner_info``: where the nodes of a batch stand at their provisioner. PRIVATE to the collection.

It reads, for all of them at once. What goes wrong with one of them is told of that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    Refused,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT,
    OF_ALL,
    Driver,
    Found,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import not_ours, right_machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refused

#: What is told of a host of which nothing is known.
UNKNOWN: Mapping[str, Any] = {
    "state": "unknown",
    "provision_state": "",
    "provisioner_id": "",
    "name": "",
    "power": "",
    "owner": "",
    "maintenance": False,
    "hold": "",
    "foreign": "",
    "image": {},
    "deploy_id": "",
    "inspection": "",
    "last_error": "",
    "stamp": "",
    "agrees": [],
    "network": {"macs": [], "addresses": [], "complete": False},
}


def info(params: Mapping[str, Any], ctx: Context) -> Result:
    """What the provisioner says of each node, by one look at all of them."""
    with connected(params, ctx) as driver:
        verdicts, asked = _apart(driver, params)
        if not asked and not verdicts:
            raise ConfigError("no nodes to look at", node=ctx.node, do="give nodes, or call it in a play with hosts")
        for host, found in (_seen(driver, asked, params, ctx) if asked else {}).items():
            verdicts[host] = _on_its_own(driver, asked[host], found, bool(params.get("thorough")))
        return Result(
            changed=False,
            data={
                "verdicts": {host: verdicts[host] for host in sorted(verdicts)},
                "provisioner": driver.name,
                "deploy_proof": driver.deploy_proof,
                "can": {
                    limit: bool(getattr(driver, limit))
                    for limit in ("inspects", "holds", "annotates", "erases", "owns_power", "keeps_images")
                },
            },
        )


def _apart(driver: Driver, params: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Wanted]]:
    """What is told of those that this call cannot ask for, and the others."""
    verdicts: dict[str, dict[str, Any]] = {}
    asked: dict[str, Wanted] = {}
    for item in params.get("nodes") or []:
        host = wants.host_of(item)
        why, kind = refused(item)
        wanted = wants.of_batch(item, params, driver.name, driver.image_needs)
        why = why or wants.elsewhere(item, params) or str(wanted.unread or "")
        if why:
            verdicts[host] = {**UNKNOWN, "ok": False, "reason": why, "kind": kind or ConfigError.kind}
        else:
            asked[host] = wanted
    return verdicts, asked


def _seen(driver: Driver, asked: Mapping[str, Wanted], params: Mapping[str, Any], ctx: Context) -> Found:
    found: Found = Away(str(params.get("run_cache") or ""), ctx.node).heard(
        driver.address, lambda: driver.find_many(list(asked.values())), beat=ctx.lifeline.beat
    )
    return found


def _on_its_own(
    driver: Driver, wanted: Wanted, found: Union[NodeState, FleetError, None], thorough: bool
) -> dict[str, Any]:
    """What is asked of one node goes wrong with that one, unless it concerns all."""
    if found is None:
        told = {"reason": driver.hidden, "kind": Refused.kind if driver.hidden else ""}
        return {**UNKNOWN, "ok": not driver.hidden, **({} if driver.hidden else {"state": ABSENT}), **told}
    try:
        if isinstance(found, FleetError):
            raise found
        return _told(driver, wanted, found, thorough)
    except (*OF_ALL, Unreachable):
        raise
    except FleetError as exc:
        return {**UNKNOWN, "ok": False, "reason": str(exc.located(node=wanted.host)), "kind": exc.kind}


def _told(driver: Driver, wanted: Wanted, found: NodeState, thorough: bool) -> dict[str, Any]:
    told = {**_record(found), "foreign": not_ours(driver, found, wanted), "network": _network(driver, found, thorough)}
    try:
        agrees = list(right_machine(driver, found, wanted, ask=thorough))
    except WrongMachine as exc:
        return {**told, "ok": False, "agrees": [], "reason": str(exc.located(node=wanted.host)), "kind": exc.kind}
    return {**told, "ok": True, "agrees": agrees, "reason": "", "kind": ""}


def _record(node: NodeState) -> dict[str, Any]:
    return {
        "state": node.state,
        "provision_state": node.native,
        "provisioner_id": node.id,
        "name": node.name,
        "power": node.power,
        "owner": node.owner,
        "maintenance": node.maintenance,
        "hold": node.hold,
        "image": dict(node.image),
        "deploy_id": node.deploy_id or str(node.image.get("deploy_id") or ""),
        "inspection": node.inspection,
        "last_error": node.last_error,
        "stamp": node.stamp,
    }


def _network(driver: Driver, node: NodeState, thorough: bool) -> dict[str, Any]:
    known = driver.network(node, ask=thorough)
    return {"macs": sorted(known.macs), "addresses": sorted(known.addresses), "complete": known.complete}
