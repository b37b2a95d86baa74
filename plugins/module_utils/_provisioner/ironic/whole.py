# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is entered at Ironic with its boot port, or not at all. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    FleetError,
    NotOurs,
    Refused,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.api import IronicApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

#: By these it is seen whether others have written there since; of a refused port Ironic itself writes none of them.
_AS_ENTERED = ("provision_state", "target_provision_state", "maintenance", "driver_info", "extra", "owner", "lessee")


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


@contextmanager
def unless_there(port_of: Callable[[str], Mapping[str, Any] | None], node: NodeState, address: str) -> Iterator[None]:
    """While a port is made: another controller may have made the very same one while leave to was waited for."""
    try:
        yield
    except (NotOurs, Refused):
        port = port_of(address)
        if port is None or port.get("node_uuid") != node.id:
            raise


def _take_back(api: IronicApi, wanted: Wanted, node: NodeState, why: FleetError) -> None:
    """Unless another controller has taken it up since, as one does that finds a node by its name."""

    def still() -> None:
        there = api.get(f"/nodes/{node.id}")
        if there is None:
            raise _changed(wanted, node, "no such node")
        ports = api.listed("/ports", "ports", node=node.id, fields="uuid,address")
        others = [key for key in _AS_ENTERED if there.get(key) != node.raw.get(key)] + ["ports"] * bool(ports)
        if others:
            raise _changed(wanted, node, f"another {', '.join(others)}")

    try:
        path = f"/nodes/{node.id}"
        api.write("DELETE", path, body=None, saying="just entered", host=wanted.host, still=still)
    except Changed as exc:
        why.do = f"the node {node.id} ({node.name}) stays, which somebody has taken up since ({exc.seen}); {why.do}"
    except FleetError as exc:
        why.do = (
            f"delete the node {node.id} ({node.name}) in Ironic, which was entered by this and may still be there"
            f" ({exc.what}: {exc.seen}); then {why.do}"
        )


def _changed(wanted: Wanted, node: NodeState, seen: str) -> Changed:
    return Changed("the node is not as it was entered", node=wanted.host, wanted=f"the node {node.id}", seen=seen)
