# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does what the scheduler says under this name concern this machine at all? PRIVATE to the collection.

One that it does not know may be there under another spelling, or the scheduler that was asked may be another one. Then
absence proves nothing, and jobs may run on the machine. And a name that is not the one by which the machine was adopted
or held may be another machine's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    NotAdopted,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import same_uuid, uuid_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._stranger import not_adopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import run_of


def doubts(driver: Scheduler, views: Mapping[str, NodeView], claims: Mapping[str, Claim]) -> dict[str, FleetError]:
    """By name, why nothing is to be done by what the scheduler says, nor told to the ledger: it is not certain that an
    absent node is none of the scheduler's, or that one is this machine. All that it has is asked for once, and only
    where one is absent."""
    if not driver.KEEPS_NODES:
        unsaid = {name: claim for name, claim in claims.items() if claim.belongs and not claim.renamed}
        return {name: _not_given_up(name, claim) for name, claim in unsaid.items()}
    absent = [name for name in claims if views[name].absent]
    known = driver.known() if absent else {}
    strange = [name for name, claim in claims.items() if _strange(name, views[name], claim)]
    found: dict[str, FleetError] = {name: _other(driver, name, claims[name]) for name in strange}
    apart = [name for name, claim in claims.items() if _another_machine(views[name], claim)]
    found.update({name: _not_it(driver, views[name], claims[name]) for name in apart})
    away = [name for name, claim in claims.items() if is_elsewhere(views[name], claim)]
    found.update({name: _elsewhere(driver, views[name], claims[name]) for name in away})
    for name in [one for one in absent if one not in away]:
        near = _near(known, [name, *claims[name].names, *claims[name].heard])
        if near or claims[name].admitted:
            found[name] = _doubt(driver, name, near)
    return found


def _strange(name: str, view: NodeView, claim: Claim) -> bool:
    return claim.bound not in ("", name) and (view.absent or not claim.renamed)


def is_elsewhere(view: NodeView, claim: Claim) -> bool:
    """By its name alone it may be the node of a machine of another cluster. A person moves it to one that is certainly
    another: who names an address alone says nothing of who answers there."""
    moves = claim.moves_to(view) and _are_apart(view.place, claim.place)
    return view.place.is_other(claim.place) and not moves


def _are_apart(one: Place, other: Place) -> bool:
    """Are they certainly two?"""
    return one.is_other(other) and other.is_other(one)


def _another_machine(view: NodeView, claim: Claim) -> bool:
    """By what the agent there tells of its machine; one that is known by no UUID, or has a placeholder, says
    nothing."""
    there = uuid_of(view.machine)
    ours = [one for one in map(uuid_of, claim.uuids) if one]
    return bool(there and ours) and not any(same_uuid(there, one) for one in ours)


def _not_it(driver: Scheduler, view: NodeView, claim: Claim) -> WrongMachine:
    return WrongMachine(
        "the scheduler's node of this name runs on another machine",
        node=view.name,
        address=driver.address,
        wanted=f"system UUID {' or '.join(claim.uuids)}",
        seen=f"{view.machine}, as its agent tells the scheduler",
        do="correct gpufleet_scheduler_node or gpufleet_system_uuid; where the node's board was swapped, tell the"
        " ledger: node_identity with state=replaced",
    )


def _elsewhere(driver: Scheduler, view: NodeView, claim: Claim) -> WrongMachine:
    same_kind = claim.place.cluster.partition(" ")[0] in ("", driver.NAME)
    leads = names.LEADS.get(driver.NAME, ()) if same_kind else ()
    settings = " or ".join(f"gpufleet_{name}" for name in leads or (names.OPTION,))
    if view.absent:  # as what it is there nobody can know it yet
        moves = f"left {claim.place} for good, say so: {_asks(claim)} \"state=present force_reason='WHY'\" -e"
        moves += f" gpufleet_{names.OPTION}={names.NONE}"
    else:
        moves = f"is a node of {view.place} now, say so: {_asks(claim)} \"state=present moved_to='{view.place}'"
        moves += " force_reason='WHY'\""
    may_move = view.absent or _are_apart(view.place, claim.place)
    return WrongMachine(
        "the scheduler that is asked is not the one whose node the machine is by our ledger",
        node=view.name,
        address=driver.address,
        wanted=f"{claim.bound or view.name} of {claim.place}, as it was adopted, held, named or last seen to serve",
        seen=f"{'no ' if view.absent else ''}{view.name} of {view.place}",
        do=f"correct {settings}"
        + (f"; where the machine {moves}" if may_move else "")
        + (f"; {driver.NAMELESS}" if driver.NAMELESS and not view.place.cluster else ""),
    )


def _not_given_up(name: str, claim: Claim) -> WrongMachine:
    """Who names no scheduler for a machine that is one's node by our ledger, asks nobody whether jobs run on it."""
    return WrongMachine(
        "our ledger has this machine as a node of a scheduler, and the inventory names none",
        node=name,
        wanted=f"gpufleet_{names.OPTION} as it was when this machine was {claim.bound or name} there",
        seen=f"gpufleet_{names.OPTION} {names.NONE}",
        do=f"correct gpufleet_{names.OPTION}; where the node was taken out of its scheduler for good, say so:"
        f" {_asks(claim)} \"state=present force_reason='WHY'\"",
    )


def _asks(claim: Claim) -> str:
    """The command by which a person says what a machine is to its scheduler."""
    return f"ansible {(*claim.names, 'HOST')[0]} -i INVENTORY -m gpufleet.baremetal.scheduler_node -a"


def _other(driver: Scheduler, name: str, claim: Claim) -> WrongMachine:
    asks = _asks(claim)
    return WrongMachine(
        "this is not the scheduler's node that the machine is by our ledger, and nothing shows that it was renamed",
        node=name,
        address=driver.address,
        wanted=f"{claim.bound}, as it was adopted or held here",
        seen=name,
        do="correct gpufleet_scheduler_node; where the site has renamed the node, and the machine calls itself so, run:"
        f" {asks} state=present (as root: -b); of one that is silent or has another name itself,"
        f" say so: {asks} \"state=present force_reason='WHY'\"",
    )


def somebody_elses(driver: Scheduler, view: NodeView, host: str) -> NotAdopted:
    """A machine that the ledger does not know is at work."""
    seen = f"the scheduler has it as {view.name}: {view.native}"
    seen += f", jobs {', '.join(view.jobs[:5])}" if view.work else ""
    told = {"native": view.native, "state": view.state, "jobs": view.jobs[:20]}
    return not_adopted(host or view.name, seen, address=driver.address, details=told)


_ASK = "run it as a task of the node's own (as root, no delegate_to), or "
#: All that a scheduler has: by name, what else each node is called or reached by there.
Known = Callable[[], Mapping[str, tuple[str, ...]]]


def demand_named(driver: Scheduler, view: NodeView, claim: Claim, known: Known | None = None) -> None:
    """By its first hold a machine becomes a node of the scheduler: one at work is somebody's, where the machine has not
    served us, and one that is called otherwise than the machine may be its neighbour's, new or down, or held by this
    run for that one.

    :param known: of a caller that asks for many, all that the scheduler has.
    :raises WrongMachine: where nothing but the inventory says that it is this machine, or it is another one.
    """
    demand_nobodys(driver, view, claim)
    if _is_nameless(driver, claim) and claim.unnamed and not claim.admitted and claim.serves(view):
        raise _unproven(driver, view, claim, "it is at work for its scheduler")
    demand_called(driver, view, claim, known)


def demand_called(driver: Scheduler, view: NodeView, claim: Claim, known: Known | None = None) -> None:
    """One that is at work may be this machine, as where it is to serve now; but not where it is called otherwise.

    A whole name or address counts before what is alike up to the first dot: there may be one such node in each domain.

    :raises WrongMachine: as above.
    """
    if claim.rather and _is_nameless(driver, claim):
        raise _unproven(driver, view, claim, f"by what it calls itself the machine is {claim.rather} there")
    if not _is_nameless(driver, claim) or is_called([view.name], claim.names):
        return
    theirs = (known or driver.known)()
    near = _rather(theirs, view.name, claim.names, claim.heard)
    if near:
        raise _unproven(driver, view, claim, f"by its name or address the machine is {near} there")
    if claim.unnamed and not alike([view.name, *theirs.get(view.name, ())], claim.names):
        raise _unproven(driver, view, claim, "the scheduler has it under no name or address of the machine's")


class _Knowing(Protocol):
    """A driver, or what asks one."""

    @property
    def known(self) -> Known: ...


def as_shown(driver: _Knowing, name: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of an ownership, without what a name of the machine's shows that is the node's only up to the first
    dot, where the scheduler has another node that could be meant. One that bears that name as a whole counts before the
    inventory's word as well (known_rather). All that it has is asked for by such a name alone."""
    called = [str(params.get("known_called") or "")]
    if called == [""] or not _rather(driver.known(), name, called):
        return params
    rather = _near(_others(driver.known(), name), called, short=False)
    return {
        **params,
        "known_rather": rather,
        "known_renamed": "",
        "known_as": [*(params.get("known_as") or ()), *called],
    }


def rather(driver: Scheduler, name: str, called: str) -> str:
    """Which other node of the scheduler a machine may be that calls itself so; empty where it can be none. All that it
    has is asked for by a name alone that is not the node's as a whole."""
    if not (called and driver.KEEPS_NODES) or is_called([called], [name]):
        return ""
    return _rather(driver.known(), name, [called])


def another(known: Known, name: str, own: str) -> str:
    """Which other node of the scheduler a machine is that calls itself so; empty where it may be this one, or is none.

    A whole name counts before what is alike up to the first dot. All that the scheduler has is asked for by a name
    alone that is not this node's.
    """
    if not own or is_called([own], [name]):
        return ""
    theirs = known()
    ours = [name, *theirs.get(name, ())]
    if is_called([own], ours):
        return ""
    others = _others(theirs, name)
    return _near(others, [own], short=False) or ("" if alike([own], ours) else _near(others, [own]))


def _rather(known: Mapping[str, tuple[str, ...]], name: str, ours: Iterable[str], heard: Iterable[str] = ()) -> str:
    """Which other node of the scheduler a machine is by these names, and by which of its own; empty where it is none.

    :param heard: what only speaks against a node.
    """
    others, against = _others(known, name), (*ours, *heard)
    near = _near(others, against, short=False)
    if not near and is_called([name, *known.get(name, ())], ours):
        return ""
    return near or _near(others, against)


def _others(known: Mapping[str, tuple[str, ...]], name: str) -> dict[str, tuple[str, ...]]:
    return {node: also for node, also in known.items() if node != name}


def _is_nameless(driver: Scheduler, claim: Claim) -> bool:
    """Is it none of the scheduler's nodes yet, and does neither the machine nor a person say that it is this one?"""
    return driver.KEEPS_NODES and not (claim.renamed or claim.bound) and (claim.unnamed or claim.stranger)


def demand_nobodys(driver: Scheduler, view: NodeView, claim: Claim) -> None:
    """Where a machine is about to become a node by a word of ours, no other one may be it: its drain would permit what
    is done to this one. What was noted before clusters were noted may be of any, and a scheduler that tells no name may
    be each one at its address.

    :raises WrongMachine: naming the other machine.
    """
    rival = next((one for one in claim.rivals if not (view.absent or _are_apart(view.place, one[1]))), None)
    if rival is None:
        return
    whose, at = rival
    where = f"{view.name} of {at}" if at != Place() else f"{view.name} of a scheduler that was not noted then"
    raise WrongMachine(
        "by our ledger this node of the scheduler is another machine",
        node=view.name,
        address=driver.address,
        wanted=f"a node that no other machine is; {whose} is {where}",
        seen=f"gpufleet_{names.OPTION}_node {view.name} for this one as well",
        do=_instead(whose, at, claim),
    )


def _instead(whose: str, at: Place, claim: Claim) -> str:
    """What makes the node free, by what may have happened."""
    if whose in claim.names:  # the row of before, with another serial
        return (
            f"where the machine of this row was exchanged, say so: playbook identity -e identity=replaced -e"
            f" identity_part=chassis; where it is another one, correct gpufleet_{names.OPTION}_node"
        )
    again = (
        f"have it noted: with {whose}'s own row in order, scheduler_node with state=held, or state=present if it serves"
        if at == Place()
        else f"say that first: a look with its own row put right (scheduler_node with state=present and force_reason);"
        f" where two have exchanged their names, take one of them out meanwhile (-e gpufleet_{names.OPTION}=none with"
        " state=present and force_reason)"
    )
    left = (
        f"where that machine has left the fleet, retire it: with a row of {whose} and its serial, ledger_event with"
        " state=quarantined, then with state=retired, each with a reason"
    )
    return f"correct gpufleet_{names.OPTION}_node; where {whose} is another node, or is it elsewhere, {again}; {left}"


def its_own(driver: Scheduler, view: NodeView, claim: Claim, run: str) -> None:
    """:raises WrongMachine: where the run that asks holds this node, and not for this machine."""
    if claim.bound != view.name and run not in claim.runs and any(run_of(hold.text) == run for hold in view.holds):
        raise _unproven(driver, view, claim, "this run holds that node for another host")


def _unproven(driver: Scheduler, view: NodeView, claim: Claim, why: str) -> WrongMachine:
    # Such a one is not asked: most new machines are silent, and for long.
    silent = claim.stranger and alike([view.name], claim.names)
    return WrongMachine(
        "nothing but the inventory says that this node is the machine, which our ledger knows as no node of a"
        f" scheduler, and {why}",
        node=view.name,
        address=driver.address,
        wanted="a machine that answers over its own connection and calls itself so",
        seen=f"{view.native}{', jobs ' + ', '.join(view.jobs[:5]) if view.work else ''}",
        do=f"correct gpufleet_scheduler_node; where it is right, {'' if silent else _ASK}say so: scheduler_node with"
        " state=held and force_reason (hold_force_reason)",
    )


def alike(some: Iterable[str], ours: Iterable[str]) -> bool:
    """Is one of these names or addresses one of those, in whatever case, whole or up to the first dot?"""
    return bool(_all(some) & _all(ours))


def is_called(some: Iterable[str], ours: Iterable[str]) -> bool:
    """The same, as a whole."""
    return bool(_all(some, short=False) & _all(ours, short=False))


def _near(known: Mapping[str, tuple[str, ...]], ours: Iterable[str], *, short: bool = True) -> str:
    """The scheduler's node that shares a name or an address with ours, and by which of its own."""
    wanted = _all(ours, short=short)
    for node, others in known.items():
        shared = next((name for name in (node, *others) if _spellings(name, short=short) & wanted), "")
        if shared:
            return node if shared == node else f"{node} ({shared})"
    return ""


def _all(told: Iterable[str], *, short: bool = True) -> set[str]:
    return {one for name in told for one in _spellings(name, short=short)}


def _spellings(name: str, *, short: bool = True) -> frozenset[str]:
    """In one case, whole and up to the first dot; an address of every machine is nobody's."""
    folded = name.strip().casefold()
    with suppress(ValueError):
        address = ipaddress.ip_address(folded)
        return frozenset() if address.is_loopback or address.is_unspecified else frozenset({str(address)})
    return frozenset({folded, folded.partition(".")[0] if short else folded}) - {"", "localhost"}


def _doubt(driver: Scheduler, name: str, near: str) -> ConfigError:
    """Without a near match it is the ledger that speaks against it."""
    admitted = "no name like it; but our ledger has admitted this node before"
    return ConfigError(
        "the scheduler does not know this node by its name, which is no proof that nothing runs on it",
        node=name,
        address=driver.address,
        wanted=f"the node's own name in the scheduler, or gpufleet_{names.OPTION} {names.NONE}",
        seen=f"it knows {near}" if near else admitted,
        do=f"set gpufleet_scheduler_node to {near.partition(' ')[0]}, if that is the same machine"
        if near
        else f"correct gpufleet_scheduler_node, or the scheduler that is asked; set gpufleet_{names.OPTION} to"
        f" {names.NONE} where the node was taken out of it for good",
    )
