# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provisioners and schedulers: each is asked once for all of its hosts, and changes nothing. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, PROVISIONER, value_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    FleetError,
    NotOurs,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import (
    demand_its_record,
    leave_foreign_alone,
    right_machine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.standing import demand_its_place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted, of_task
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.absence import demand_named, doubts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import FOREIGN, Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._stranger import not_adopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_clock as clock
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _schedulers as schedulers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import (
    NOTE,
    ONE_NODE,
    SITE,
    THEIRS,
    Cause,
    cause_of,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import of_the_row
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch

#: All that a scheduler has: by a node's name, whatever else it is called or reached by.
Nodes = Mapping[str, tuple[str, ...]]
PROVISIONER_CHECK, SCHEDULER_CHECK = "provisioner", "scheduler"
#: Who leaves this look out deploys nothing: what the provisioner lacks for an image stands in nobody's way then.
_IMAGE_CHECK = "image"
#: Of a node, beside the connection: option of the verb, variable.
_OF_NODE = {
    **{name: f"gpufleet_{name}" for name in ("provisioner_id", "boot_mac", "serial", "image")},
    "properties": "enroll_properties",
    "driver": "enroll_driver",
}


# -- provisioner ---------------------------------------------------------------------------------------------------


def provisioner(batch: Batch) -> None:
    def connection(host: str) -> dict[str, Any]:
        given = {name: batch.value(host, f"gpufleet_{name}") for name in PROVISIONER}
        options = {name: value_of(given, name, provisioners.OPTIONS) for name in given}
        return {**options, "driver": batch.value(host, "enroll_driver") or {}}

    for options, hosts in batch.alike(batch.with_all("gpufleet_provisioner"), connection).values():
        batch.try_for(hosts, PROVISIONER_CHECK, _one_provisioner, batch, options, hosts)


def _one_provisioner(batch: Batch, options: Mapping[str, Any], hosts: Sequence[str]) -> None:
    with connected(options, Context(check_mode=True)) as driver:
        wanted: dict[str, Wanted] = {}
        known = batch.deployments()
        for host in _there(batch, options, hosts):
            batch.try_for(
                [host],
                PROVISIONER_CHECK,
                lambda one: wanted.update({one: _wanted(batch, one, driver, options, known.get(one, {}))}),
                host,
            )
        for one in wanted.values() if _deploys(batch) else ():
            _other_bytes(batch, driver, one)
            if one.flaw is not None:
                batch.tell([one.host], cause_of(PROVISIONER_CHECK, one.flaw))
        batch.heard(driver.address, lambda: _asked(batch, driver, wanted))


def _deploys(batch: Batch) -> bool:
    return _IMAGE_CHECK not in batch.skipped


def _there(batch: Batch, options: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    """Without those that went to another provisioner, or are on their way there: they are told so."""
    away = {host: moves.elsewhere(batch.moves().get(host), moves.place_of(options)) for host in hosts}
    for host, why in away.items():
        if why is not None:
            told = {"wanted": why.wanted, "seen": why.seen, "do": why.do}
            batch.tell([host], Cause(PROVISIONER_CHECK, ONE_NODE, why.what, **told))
    return [host for host in hosts if away[host] is None]


def _asked(batch: Batch, driver: Driver, wanted: Mapping[str, Wanted]) -> None:
    nodes = _records(batch, driver, wanted)
    sound = [(wanted[host], node) for host, node in nodes.items() if wanted[host].flaw is None]
    for host, exc in driver.prerequisites(sound):
        batch.tell([host], cause_of(PROVISIONER_CHECK, exc))
    clock.by_provisioner(batch, driver, wanted)


def _wanted(batch: Batch, host: str, driver: Driver, options: Mapping[str, Any], known: Mapping[str, Any]) -> Wanted:
    params = {option: batch.value(host, variable) for option, variable in _OF_NODE.items()}
    if not _deploys(batch):
        params["image"] = None
    return of_task(
        {**options, **params, **batch.options(host, BMC), "name": host, **known},
        driver.name,
        driver.image_needs,
        host,
    )


def _records(batch: Batch, driver: Driver, wanted: Mapping[str, Wanted]) -> dict[str, NodeState | None]:
    """By host, its record, found as a run finds it, and asked for all at once.

    A provisioner that goes away meanwhile is not waited for by each host."""
    found = driver.find_many(list(wanted.values()))
    nodes = {host: None if isinstance(one, FleetError) else one for host, one in found.items()}
    away: list[Unreachable] = []

    def look(host: str) -> None:
        one = found[host]
        try:
            if isinstance(one, FleetError):
                raise one
            _the_nodes(batch, driver, one, wanted[host])
        except Unreachable as exc:
            away.append(exc)
            raise

    for host in nodes:
        batch.try_for([host], PROVISIONER_CHECK, look, host)
        if away:
            raise away[0]
    return nodes


def _the_nodes(batch: Batch, driver: Driver, node: NodeState | None, wanted: Wanted) -> None:
    """Is the record this machine's, and nobody else's hand on it?"""
    demand_its_place(driver, node, wanted)
    if node is None:
        return
    right_machine(driver, node, wanted, ask=False)
    try:
        leave_foreign_alone(driver, node, wanted)
    except NotOurs as exc:
        batch.tell([wanted.host], cause_of(PROVISIONER_CHECK, exc.located(address=driver.address)))
    else:
        # As day 0 finds it out at each node. By then a row without a serial has the one that its BMC tells (oob_ready).
        known = wanted.serial and node.id
        (demand_its_record if known else right_machine)(driver, node, wanted)


def _other_bytes(batch: Batch, driver: Driver, wanted: Wanted) -> None:
    other = driver.other_bytes(wanted)
    if other:
        what = f"what {driver.name} would deploy is not what image_verify verifies"
        do = "correct gpufleet_image and enroll_driver"
        batch.tell([wanted.host], Cause(PROVISIONER_CHECK, SITE, what, seen=other, do=do))


# -- scheduler -----------------------------------------------------------------------------------------------------


def scheduler(batch: Batch) -> None:
    failed: dict[str, FleetError] = {}
    hosts = list(batch.with_all("gpufleet_scheduler"))
    for driver, named in schedulers.each(hosts, lambda host: schedulers.settings(batch.variable, host), failed):
        if named:
            batch.try_for(named, SCHEDULER_CHECK, _one_scheduler, batch, driver, named)
    for host, exc in failed.items():
        batch.tell([host], cause_of(SCHEDULER_CHECK, exc))


def _one_scheduler(batch: Batch, driver: Scheduler, named: Mapping[str, str]) -> None:
    """:param named: by host, the name of its node there."""
    held, claims = batch.holds(), dict[str, Claim]()
    for host, name in named.items():
        try:
            known = held.get(host, {})
            claims[name] = Claim.of({**of_the_row(batch.variable, host, known), **known})
        except FleetError as exc:
            batch.tell([host], cause_of(SCHEDULER_CHECK, exc))
    named = {host: name for host, name in named.items() if name in claims}
    if named:
        batch.heard(f"{driver.NAME} {driver.address}", lambda: _looked(batch, driver, named, claims))


def _looked(batch: Batch, driver: Scheduler, named: Mapping[str, str], claims: Mapping[str, Claim]) -> None:
    for exc in driver.prerequisites():
        batch.tell(named, cause_of(SCHEDULER_CHECK, exc))
    clock.by_scheduler(batch, driver, named)
    views = driver.states(list(claims))
    doubted = doubts(driver, views, claims)
    known = lru_cache(maxsize=1)(driver.known)
    _would_stand_idle(batch, driver, named)
    for host, name in named.items():
        if name in doubted:
            batch.tell([host], cause_of(SCHEDULER_CHECK, doubted[name]))
            continue
        if not driver.KEEPS_NODES:  # no node is expected to be there
            continue
        cause = _cause(driver, host, views[name], claims[name]) or _unnamed(driver, views[name], claims[name], known)
        if cause is not None:
            batch.tell([host], cause)


def _would_stand_idle(batch: Batch, driver: Scheduler, named: Mapping[str, str]) -> None:
    """Not in the way of a run: where a new node is, it tells itself once it runs; and admitted it is not before."""
    unplaced, unread = driver.unplaced()
    if unread:
        what, do = "whom the scheduler's topology lacks is not told", "see that it has each node of this run"
        batch.tell(list(named), Cause(SCHEDULER_CHECK, NOTE, what, seen=unread, do=do, address=driver.address))
    for host in [host for host, name in named.items() if name in unplaced]:
        what = "it will not be admitted before the scheduler's topology has it, and would stand idle for good"
        do = "once it runs: the playbook topology, first to look and then with -e topology=write"
        batch.tell(
            [host], Cause(SCHEDULER_CHECK, NOTE, what, seen=unplaced[named[host]], do=do, address=driver.address)
        )


def _cause(driver: Scheduler, host: str, view: NodeView, claim: Claim) -> Cause | None:
    if view.unread:
        return Cause(SCHEDULER_CHECK, ONE_NODE, f"what the scheduler tells of this node cannot be read: {view.unread}")
    if view.absent:
        what, do = f"the scheduler does not know the node {view.name}", driver.REMEDIES.absent
        return Cause(SCHEDULER_CHECK, SITE, what, do=do, address=driver.address)
    if claim.stranger and claim.serves(view):
        return cause_of(SCHEDULER_CHECK, not_adopted(host, view.native, address=driver.address))
    if claim.owner(view) == FOREIGN:
        what, do = "somebody else holds it at its scheduler", "talk to them: no run lifts what others hold"
        return Cause(SCHEDULER_CHECK, THEIRS, what, seen=f"{view.native}: {view.reason}", do=do, address=driver.address)
    return None


def _unnamed(driver: Scheduler, view: NodeView, claim: Claim, known: Callable[[], Nodes]) -> Cause | None:
    """Its first hold asks the machine for its name where it is ours, so this leaves no node out."""
    try:
        demand_named(driver, view, claim, known)
    except WrongMachine as exc:
        return replace(cause_of(SCHEDULER_CHECK, exc), kind=THEIRS)
    return None
