# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of an Ironic as inventory records. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bmc_address as bmc_address
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.api import IronicApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.tables import BMCS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_record as record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_control import Control
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: Without a list of fields Ironic sends a summary that lacks what is needed here; with detail it sends everything.
FIELDS = (
    "uuid,name,driver,driver_info,properties,extra,resource_class,conductor_group,owner,provision_state,"
    "maintenance,power_state"
)
PORT_FIELDS = "uuid,address,node_uuid,pxe_enabled"


def read_ironic(options: Mapping[str, Any], *, where: str, fields: Fields, control: Control) -> list[Record]:
    """All nodes, in two lists.

    :raises FleetError: whatever keeps it from being complete.
    """
    api = IronicApi(
        {
            "provisioner_url": options.get("url"),
            "provisioner_username": options.get("username"),
            "provisioner_password": options.get("password"),
            "provisioner_ca_path": options.get("ca_path"),
            "provisioner_cloud": options.get("cloud"),
        },
        Context(node=where),
    )
    try:
        query = {key: str(value) for key, value in dict(options.get("query") or {}).items()}
        # Whoever picks fields of his own may want any of them; without them the answer is a tenth.
        shape = {"detail": "True"} if fields else {"fields": FIELDS}
        nodes = api.listed("/nodes", "nodes", **query, **shape)
        ports = api.listed("/ports", "ports", fields=PORT_FIELDS)
    finally:
        api.close()
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for port in ports:
        by_node.setdefault(str(port.get("node_uuid")), []).append(port)
    found = []
    for node in nodes:
        own = by_node.get(str(node["uuid"]), [])
        record_of = control.take(_record(node, own, where), node.get("extra"), node.get("properties"))
        found.append(fields.fill(record_of, fields.pick({**node, "ports": own}, record_of.where)))
    return found


def _record(node: Mapping[str, Any], ports: Sequence[Mapping[str, Any]], where: str) -> Record:
    boot = record.macs(port["address"] for port in ports if port.get("pxe_enabled"))
    addresses = record.macs(port["address"] for port in ports)
    name = str(node.get("name") or "")
    variables: dict[str, Any] = dict(
        gpufleet_provisioner="ironic",
        gpufleet_provisioner_id=str(node["uuid"]),
        # Where several cards may boot, the site says which: there is no first among ports.
        gpufleet_boot_mac=boot[0] if len(boot) == 1 else None,
        **_bmc(str(node.get("driver") or ""), node.get("driver_info") or {}),
        ironic_name=name,
        ironic_provision_state=node.get("provision_state"),
        ironic_power_state=node.get("power_state"),
        ironic_maintenance=bool(node.get("maintenance")),
        ironic_resource_class=node.get("resource_class"),
        ironic_conductor_group=node.get("conductor_group"),
        ironic_owner=node.get("owner"),
        ironic_driver=node.get("driver"),
        ironic_properties=dict(node.get("properties") or {}),
    )
    return Record(
        where=f"{where}, node {name or node['uuid']}" + (f" ({node['uuid']})" if name else ""),
        name=name,
        macs=sorted(set(addresses)),
        variables=variables,
    )


def _bmc(driver: str, info: Mapping[str, Any]) -> dict[str, Any]:
    """Address and user of the BMC. The password is masked by Ironic, and would not be taken."""
    if driver not in BMCS:
        return {}
    protocol, address, port, system, user = BMCS[driver]
    host = bmc_address.joined(str(info.get(address) or ""), info.get(port))
    return {
        "gpufleet_bmc_protocol": protocol if host else None,
        "gpufleet_bmc_address": host,
        "gpufleet_bmc_system_id": info.get(system) if system else None,
        "gpufleet_bmc_username": info.get(user),
    }
