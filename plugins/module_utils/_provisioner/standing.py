# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this the provisioner where our ledger has the machine? PRIVATE to the collection.

A row that leads to another one of the same kind finds no record there, or one that others have made for the machine.
Whatever is written there, the one that has deployed it knows nothing of it, and may boot or wipe it meanwhile.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    Driver,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


def demand_its_place(driver: Driver, node: NodeState | None, wanted: Wanted) -> None:
    """A provisioner that was renamed still tells what we have deployed there, and so proves that it is the same one.

    :raises WrongMachine: at another one.
    """
    stray = wanted.stray
    if stray is None or (node is not None and _is_it(node, stray.tells)):
        return
    there = f"has it as {node.name or node.id}: {node.native}, and not by us" if node else "has no record of it"
    raise WrongMachine(
        f"this node was deployed, or adopted, at {stray.known}, and the inventory names {stray.named}",
        node=wanted.host,
        address=driver.address,
        wanted=stray.known,
        seen=f"{stray.named}, which {there}",
        do="correct gpufleet_provisioner, gpufleet_provisioner_url or gpufleet_provisioner_cloud of this node; a node"
        " that goes to another provisioner is taken there by the playbook gpufleet.baremetal.migrate_provisioner; where"
        " this is the same one, called otherwise since, give force_reason, which is recorded: from then on the ledger"
        " knows it by this name; nothing was changed",
    )


def demand_shown(driver: Driver, wanted: Wanted) -> None:
    """Before one that was not found is taken for one that is not there.

    :raises Refused: where it may be there all the same, which nobody can tell by this login.
    """
    if driver.hidden:
        raise Refused(
            f"{driver.name} does not show this login the node {wanted.key}",
            node=wanted.host,
            address=driver.address,
            wanted="a login that is shown the node, or all that there are",
            seen=driver.hidden,
            do="use such a login, or correct gpufleet_provisioner_id; nothing was changed",
        )


def _is_it(node: NodeState, tells: str) -> bool:
    """Of a deployment before the newest one any provisioner may tell where the node has been since."""
    return bool(tells) and (node.deploy_id == tells or (node.state == DEPLOYED and node.stamp == tells))
