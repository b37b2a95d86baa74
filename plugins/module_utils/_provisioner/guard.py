# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands before every write to a provisioner: can it, whose, which machine, which image, whose turn. PRIVATE.

Both verbs go through here at every step, so that what one refuses the other does not do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    EvidenceMissing,
    FleetError,
    NotOurs,
    Unsupported,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    OF_RECORD,
    Driver,
    Network,
    NodeState,
    mac,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contradictions import (
    its_own,
    other_cards,
    other_serial,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.one_bmc import other_system, same_bmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.standing import demand_its_place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.turn import turn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._stranger import AGAIN, not_adopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._swap import SWAPPED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import (
    KEPT,
    clean_run,
    has_form,
    kind_of,
    run_of,
)

# -- can it --------------------------------------------------------------------------------------------------------

#: What a task asks for -> the declaration that says whether the driver can.
_OPTIONS: Mapping[str, str] = {"erase": "erases", "annotations": "annotates"}
_HOLDS = dict.fromkeys((*names.HOLDING, "left"), "holds")
_WORDS: Mapping[str, str] = {**_HOLDS, "annotated": "annotates", "settled": "works"}


def can(driver: Driver, asked: Mapping[str, Any]) -> None:
    """:raises Unsupported: before anything is asked of the provisioner, where its driver declares that it cannot."""
    needs = {f"option {option}": limit for option, limit in _OPTIONS.items() if asked.get(option)}
    words = ((option, str(asked.get(option))) for option in ("state", "until"))
    needs.update({f"{option} {word}": _WORDS[word] for option, word in words if word in _WORDS})
    lacking = [what for what, limit in needs.items() if not getattr(driver, limit)]
    if lacking:
        raise Unsupported(
            f"{driver.name} cannot do what is asked for: {', '.join(lacking)}",
            address=driver.address,
            do="leave it out; nothing was changed",
        )


# -- whose is it ---------------------------------------------------------------------------------------------------


def not_ours(driver: Driver, node: NodeState, wanted: Wanted) -> str:
    """Why the node is not ours to touch, in words; empty where it is.

    The form of a token proves nothing, since another site's controller writes the same: the run in it must be
    one that our own ledger knows for this node.
    """
    if node.foreign:
        return node.foreign
    if at_work(driver, node, wanted):
        if wanted.deployed:
            return f"{_has(node)}, and somebody has deployed it since we did, or since it was adopted"
        return f"{_has(node)}, and our ledger has no note that we deployed or adopted it"
    kind = kind_of(node.hold)
    if kind in KEPT and kind != wanted.passes:
        return f"{KEPT[kind]}: {node.hold}"
    if wanted.runs is None or not has_form(node.hold) or run_of(node.hold) in wanted.runs | {clean_run(wanted.run)}:
        return ""
    return f"held by another controller of this kind: {node.hold}"


def at_work(driver: Driver, node: NodeState, wanted: Wanted) -> bool:
    """Is it deployed, or just being, or was to be, by whoever did it, and nobody has adopted it? What its provisioner
    tells with a deployment of ours is that one, also where our run was killed before it knew. Nor is what was adopted
    anybody else's while it stands as it did then, whatever we ordered since: that order has not reached it."""
    if wanted.deployed is None or wanted.forced or node.deploy_id in wanted.deploy_ids:
        return False
    if (node.state == DEPLOYED or driver.carries(node)) and node.stamp and node.stamp in wanted.stamps:
        return False
    if wanted.deployed:
        return _deployed_since(driver, node, wanted)
    return driver.has_deployment(node) or node.deploy_failed


def _deployed_since(driver: Driver, node: NodeState, wanted: Wanted) -> bool:
    """Where its provisioner tells another deployment, somebody has deployed it since, also by our own key. Of what an
    older version has deployed the ledger has no word to hold against it."""
    told = driver.deploy_proof == deployment.NONCE and bool(wanted.deploy_ids or wanted.stamps)
    asked_for = wanted.image is not None and node.deploy_id != "" and node.deploy_id == wanted.image.deploy_id
    work = "" if node.deploy_id or not wanted.stamps else driver.led_to_by.get(node.native)  # whose, our ledger tells
    return told and not asked_for and work not in wanted.works and driver.has_deployment(node)


def _has(node: NodeState) -> str:
    label = node.image.get("label")
    told = [node.native, f"owner {node.owner}" if node.owner else "", f"image {label}" if label else ""]
    return f"the provisioner has it as {node.name or node.id}: {', '.join(filter(None, told))}"


#: What somebody else failed to deploy does no work that could be adopted.
_DO: Mapping[bool, str] = {
    False: "ask whoever holds it; nothing was changed",
    True: "ask whoever deployed it; where nobody needs it any more, release it in the provisioner itself, or give"
    " force_reason, which is recorded; nothing was changed",
}


def leave_foreign_alone(driver: Driver, node: NodeState, wanted: Wanted) -> None:
    """:raises NotOurs: naming whose it is."""
    foreign = not_ours(driver, node, wanted)
    by_others = bool(foreign) and not node.foreign and at_work(driver, node, wanted)
    told = {"foreign": foreign, "provisioner_id": node.id, "provision_state": node.native, "state": node.state}
    if by_others and not node.deploy_failed:
        if wanted.deployed:
            raise _deployed_anew(node, wanted)
        raise not_adopted(wanted.host, _has(node), details={**told, "owner": node.owner})
    if foreign:
        raise NotOurs(
            f"the provisioner's node is not ours to touch: {foreign}",
            node=wanted.host,
            wanted="no hold, or one of ours (gpufleet:...)",
            seen=foreign,
            do=_DO[by_others],
            details=told,
        )


def _deployed_anew(node: NodeState, wanted: Wanted) -> NotOurs:
    told = f"deployment {node.deploy_id}" if node.deploy_id else "a deployment without a note of ours"
    # What a servicing and a rescue change there too.
    changed = (
        "if nobody did, and it was only serviced or rescued there since it was adopted, adopt it once more while it"
        f" serves: {AGAIN.format(host=wanted.host)}; "
    )
    return NotOurs(
        "somebody has deployed this node since we did, or since it was adopted",
        node=wanted.host,
        wanted="the deployment that our ledger has a note of",
        seen=f"{_has(node)}, {told}",
        do=f"ask who deployed it; {changed if wanted.stamps else ''}once nobody needs what it runs, give force_reason,"
        " which is recorded, or release it at the provisioner; nothing was changed",
        details={"provisioner_id": node.id, "provision_state": node.native, "state": node.state},
    )


# -- which machine is it -------------------------------------------------------------------------------------------


def right_machine(
    driver: Driver, node: NodeState, wanted: Wanted, *, ask: bool = True, ordered: bool = False
) -> tuple[str, ...]:
    """Hold what the provisioner knows of the machine against what the inventory says of it.

    :param ask: also what takes further requests; without it, what the record at hand tells.
    :param ordered: is whichever machine has a card of the record about to be given an image? Then no serial outvotes
        them that is in the record by our own word.
    :return: in what they agree: ``serial``, ``boot_mac``.
    :raises WrongMachine: where one contradicts the other.
    """
    serials = driver.serials(node, ask=ask) if wanted.serial else {}
    ours = {OF_RECORD} if ordered else set()
    same = any(its_own(serial, wanted) for source, serial in serials.items() if source not in ours)
    problem = other_serial(serials, wanted)
    network = driver.network(node, ask=ask) if wanted.boot_mac and not problem else Network()
    problem = problem or other_cards(network, wanted, same)
    if problem:
        raise WrongMachine(
            "the provisioner's node is another machine",
            node=wanted.host,
            address=driver.address,
            wanted=", ".join(filter(None, [wanted.serial and f"serial {wanted.serial}", wanted.boot_mac])),
            seen=f"node {node.name or node.id} has {problem}",
            do="correct gpufleet_provisioner_id, gpufleet_serial, gpufleet_boot_mac or the BMC in the inventory;"
            f" {SWAPPED}; once that is said, correct the record there, or delete it: the node is enrolled anew",
        )
    found = (("serial", same), ("boot_mac", mac(wanted.boot_mac) in network.macs))
    return tuple(name for name, agrees in found if agrees)


def demand_its_card(driver: Driver, step: str, node: NodeState, wanted: Wanted) -> None:
    """Before the order to deploy. In check mode the record is not made right before it.

    :raises WrongMachine: where another machine would take the image, by the card that the record has.
    """
    if driver.orders.get(step) == DEPLOYED and not driver.ctx.check_mode:
        right_machine(driver, node, wanted, ordered=True)


def agreed(driver: Driver, node: NodeState, wanted: Wanted) -> tuple[str, ...]:
    """In what record and inventory agree, of ``serial``, ``boot_mac`` and, where neither does, ``bmc_address``.

    :raises WrongMachine: where one contradicts the other.
    """
    found = right_machine(driver, node, wanted)
    return found or (("bmc_address",) if same_bmc(driver.bmc(node), wanted.bmc) else ())


def demand_known(driver: Driver, node: NodeState, wanted: Wanted) -> None:
    """Before what could hit running work: a record may be found by a name, or an id, that is a neighbour's.

    :raises EvidenceMissing: where nothing says that it is the machine, and nobody has said why not.
    """
    if agreed(driver, node, wanted):
        return
    if wanted.forced:
        driver.ctx.warnings.append(f"{driver.name} and inventory tell nothing of the machine in common")
        return
    given = {"serial": wanted.serial, "boot MAC": wanted.boot_mac, "BMC": wanted.bmc.get("bmc_address")}
    reached = driver.bmc(node)
    system = other_system(reached, wanted.bmc)
    raise EvidenceMissing(
        f"refused: nothing shows that this record of {driver.name} is the one of this machine",
        node=wanted.host,
        address=driver.address,
        wanted="a serial, boot MAC or BMC address that inventory and record both have: "
        + (", ".join(f"{what} {value}" for what, value in given.items() if value) or "the inventory has none"),
        seen=f"node {node.name or node.id}, found by {wanted.key}; its BMC is {reached[0] or 'not told'}"
        + (f", the same one, but its system there {system}" if system else ""),
        do=(f"set gpufleet_bmc_system_id: {system}, if it is that one; else " if system else "")
        + (f"spell gpufleet_bmc_address as there, if {reached[0]} is it; else " if reached[0] and not system else "")
        + "correct gpufleet_provisioner_id, or name gpufleet_serial or gpufleet_boot_mac as the record has it, once"
        " you have seen that it is this machine, or give force_reason, which is recorded; nothing was changed",
        details={"provisioner_id": node.id},
    )


# -- which image is it ---------------------------------------------------------------------------------------------


def verified(driver: Driver, wanted: Wanted, goal: str) -> None:
    """Before anything is begun that ends with another image on the node. What is wrong here is no fault of the node's.

    :raises EvidenceMissing: where this run has not verified the image as it is declared.
    :raises ConfigError: where the driver would deploy something else than that.
    """
    if goal != "deployed" or wanted.verified is None:
        return
    if wanted.verified:
        _very_bytes(driver, wanted)
        return
    raise EvidenceMissing(
        "no image_verify of this run has passed for this image",
        node=wanted.host,
        wanted="name, version, address, digest, kernel and format verified as they are declared now",
        seen=f"the image {wanted.image.label}" if wanted.image else "no image",
        do="run image_verify (mode artifact) for this node before it in the same run, with the same image"
        " (role gpufleet.baremetal.image), or give force_reason, which is recorded; nothing was changed",
    )


def _very_bytes(driver: Driver, wanted: Wanted) -> None:
    """A verdict on the declared image says nothing about what the driver's own settings would put in its place."""
    other = driver.other_bytes(wanted)
    if other:
        raise ConfigError(
            f"what {driver.name} would deploy is not what image_verify has verified",
            node=wanted.host,
            address=driver.address,
            wanted=f"the image {wanted.image.label}, and nothing in its place" if wanted.image else "an image",
            seen=other,
            do="correct gpufleet_image and the option driver, or give force_reason, which is recorded;"
            " nothing was changed",
        )


# -- can it be deployed --------------------------------------------------------------------------------------------


def undeployable(driver: Driver, node: NodeState | None, wanted: Wanted) -> FleetError | None:
    """Why this machine cannot be deployed as it is declared, and where that was found; None where it can."""
    if wanted.flaw is not None:
        return wanted.flaw
    why = driver.undeployable(wanted, node)
    return why.located(node=wanted.host, address=driver.address) if why is not None else None


def demand_deployable(driver: Driver, node: NodeState | None, wanted: Wanted) -> None:
    """Before the first write on the way to a deployment: one that cannot be ends with a node that was released, or
    enrolled, for nothing.

    :raises FleetError: as :meth:`Driver.undeployable` says it.
    """
    why = undeployable(driver, node, wanted)
    if why is not None:
        raise why


# -- whose turn is it ----------------------------------------------------------------------------------------------


def found(driver: Driver, wanted: Wanted) -> NodeState | None:
    """The node, if it is there: the machine that is meant, and not somebody else's."""
    if wanted.elsewhere is not None:
        raise wanted.elsewhere
    node = driver.find(wanted)
    demand_its_place(driver, node, wanted)
    if node is not None:
        right_machine(driver, node, wanted, ask=False)
        leave_foreign_alone(driver, node, wanted)
    return node


@contextmanager
def recording(
    driver: Driver, node: NodeState | None, wanted: Wanted, *, hits: bool = False
) -> Iterator[NodeState | None]:
    """One write to one node, known or not: the right machine, and in its turn.

    :param hits: may it hit running work, wherever the node stands?
    :return: the node as it is now. Whoever waited for the turn has it read and judged anew, and goes by that.
    """
    _is_right(driver, node, wanted, hits)
    with turn(driver, driver.ctx, [wanted.host]) as waited:
        if waited:
            node = found(driver, replace(wanted, provisioner_id=node.id) if node is not None else wanted)
            _is_right(driver, node, wanted, hits)
        yield node


@contextmanager
def writing(driver: Driver, node: NodeState, wanted: Wanted, *, hits: bool = False) -> Iterator[NodeState]:
    """:func:`recording` of a node that is there, and must still be."""
    with recording(driver, node, wanted, hits=hits) as now:
        if now is None:
            raise Changed(
                f"{driver.name} does not know the node any more",
                node=wanted.host,
                address=driver.address,
                wanted=f"the node {node.name or node.id}, {node.native}",
                seen="no such node, when the turn to write had come",
                do="nothing was changed; find out who removed it, and run again",
            )
        yield now


def _is_right(driver: Driver, node: NodeState | None, wanted: Wanted, hits: bool) -> None:
    """What we write into a record would agree with us from then on: so one that is at work, or says of itself which
    machine it is, is known before that. In check mode nothing is written, and a look tells in what both agree."""
    if node is None or not node.id:
        return
    if hits or driver.has_deployment(node):
        demand_known(driver, node, wanted)
    elif not driver.ctx.check_mode:
        demand_its_record(driver, node, wanted)
    else:
        right_machine(driver, node, wanted)


def demand_its_record(driver: Driver, node: NodeState, wanted: Wanted) -> None:
    """Before we write into a record: where it says which machine it is, that is ours.

    :raises EvidenceMissing: where nothing shows it. :raises WrongMachine: where it is another one.
    """
    if not right_machine(driver, node, wanted) and _says_which(driver, node):
        demand_known(driver, node, wanted)


def unrecordable(driver: Driver, node: NodeState | None, wanted: Wanted) -> FleetError | None:
    """Why nothing would be written into this record, as a look foretells it before the node is held for that."""
    if node is None or not node.id:
        return None
    try:
        demand_its_record(driver, node, wanted)
    except EvidenceMissing as exc:
        return exc
    return None


def _says_which(driver: Driver, node: NodeState) -> bool:
    """Does the record have a machine's serial, port or BMC, whosever that is, or may it, where it is not shown?"""
    told = (*driver.serials(node, ask=True).values(), *driver.network(node, ask=True).macs, driver.bmc(node)[0])
    return any(told) or driver.withholds(node)
