# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is entered at Ironic with its boot port, or not at all. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    NotOurs,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.api import IronicApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


def demand_port(hidden: str, wanted: Wanted, address: str) -> None:
    """
    :param hidden: why a node of this machine may be there that nobody is shown.
    :raises ConfigError: where nothing would show that: Ironic takes a second node with the same BMC, and refuses a port
        alone.
    """
    if hidden and not wanted.boot_mac:
        raise ConfigError(
            "without its boot MAC nothing tells whether this machine is a node of Ironic's already",
            node=wanted.host,
            address=address,
            wanted="gpufleet_boot_mac, of which Ironic takes no second port, or a login that is shown all nodes",
            seen=hidden,
            do="set gpufleet_boot_mac; nothing was changed",
        )


@contextmanager
def whole(api: IronicApi, wanted: Wanted, node: NodeState) -> Iterator[None]:
    """While the port is made of a node that this very call has entered, with the login of its BMC.

    Where that is refused the inventory means another machine, or its login may not: the record would be led on with
    later, towards a cleaning of whatever is behind that BMC. Where nobody answers it stays: the next run goes on.
    """
    try:
        yield
    except (NotOurs, Refused, WrongMachine) as exc:
        _take_back(api, wanted, node, exc)
        raise


def _take_back(api: IronicApi, wanted: Wanted, node: NodeState, why: FleetError) -> None:
    try:
        api.write("DELETE", f"/nodes/{node.id}", body=None, saying="just entered", host=wanted.host)
    except FleetError as exc:
        why.do = (
            f"delete the node {node.id} ({node.name}) in Ironic, which was entered by this and may still be there"
            f" ({exc.what}: {exc.seen}); then {why.do}"
        )
