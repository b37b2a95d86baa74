# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as MAAS tells it: all its keys, out of the few that differ."""

from __future__ import annotations

import zlib
from typing import Any

from .statuses import NAMES
from .store import Machine

_API = "/MAAS/api/2.0"
_SCRIPT_STATUS = {-1: "Unknown", 0: "Pending", 1: "Running", 2: "Passed", 3: "Failed"}
_HARDWARE = (
    "system_vendor",
    "system_product",
    "system_family",
    "system_version",
    "system_sku",
    "system_serial",
    "cpu_model",
    "mainboard_vendor",
    "mainboard_product",
    "mainboard_serial",
    "mainboard_version",
    "mainboard_firmware_vendor",
    "mainboard_firmware_date",
    "mainboard_firmware_version",
    "chassis_vendor",
    "chassis_type",
    "chassis_serial",
    "chassis_version",
)


#: Of one that was never commissioned.
_NEVER_LOOKED_AT = {
    "memory": 0,
    "cpu_count": 0,
    "storage": 0.0,
    "bios_boot_method": "",
    "status_message": None,
    "status_action": None,
    "numanode_set": [],
}


def machine(one: Machine) -> dict[str, Any]:
    disk = _disk(one)
    return {
        **_constant(),
        **_identity(one),
        **_results(one),
        **(_NEVER_LOOKED_AT if one.commissioning_status == -1 else {}),
        "blockdevice_set": [disk] if disk else [],
        "physicalblockdevice_set": [disk] if disk else [],
        "boot_disk": disk,
        "interface_set": [_interface(one, mac) for mac in one.macs],
        "boot_interface": _interface(one, one.macs[0]) if one.macs else None,
        "hardware_info": {key: one.hardware.get(key, "Unknown") for key in _HARDWARE},
        "hardware_uuid": one.hardware.get("uuid") or None,
    }


def _identity(one: Machine) -> dict[str, Any]:
    return {
        "system_id": one.system_id,
        "resource_uri": f"{_API}/machines/{one.system_id}/",
        "hostname": one.hostname,
        "fqdn": f"{one.hostname}.{one.domain}",
        "domain": {
            "authoritative": True,
            "ttl": None,
            "id": 0,
            "name": one.domain,
            "resource_record_count": 0,
            "is_default": one.domain == "maas",
            "resource_uri": f"{_API}/domains/0/",
        },
        "zone": {"name": one.zone, "description": "", "id": _id(one.zone), "resource_uri": f"{_API}/zones/{one.zone}/"},
        "pool": {
            "name": one.pool,
            "description": "",
            "id": _id(one.pool),
            "resource_uri": f"{_API}/resourcepool/{_id(one.pool)}/",
        },
        "description": one.description,
        "architecture": one.architecture,
        "min_hwe_kernel": one.min_hwe_kernel or None,
        "status": one.status,
        "status_name": NAMES[one.status],
        "status_message": one.status_message,
        "error_description": one.error_description,
        "owner": one.owner or None,
        "locked": one.locked,
        "power_type": one.power_type,
        "power_state": one.power_state,
        "osystem": one.osystem,
        "distro_series": one.distro_series,
        "hwe_kernel": one.hwe_kernel or None,
        "ephemeral_deploy": one.ephemeral_deploy,
        "enable_hw_sync": one.enable_hw_sync,
        "netboot": one.netboot,
        "tag_names": list(one.tags),
        "is_dpu": one.is_dpu,
        "owner_data": dict(one.annotations),
        "workload_annotations": dict(one.annotations),
    }


def _results(one: Machine) -> dict[str, Any]:
    first = {"commissioning": 1, "testing": 2} if one.commissioning_status != -1 else {}
    results = {**first, **one.results}
    return {
        "commissioning_status": one.commissioning_status,
        "commissioning_status_name": _SCRIPT_STATUS[one.commissioning_status],
        "testing_status": one.testing_status,
        "testing_status_name": _SCRIPT_STATUS[one.testing_status],
        "current_commissioning_result_id": results.get("commissioning"),
        "current_testing_result_id": results.get("testing"),
        "current_installation_result_id": results.get("installation"),
    }


def _constant() -> dict[str, Any]:
    kinds = ("cpu", "interface", "memory", "network", "other", "storage")
    return {
        **{f"{kind}_test_status": -1 for kind in kinds},
        **{f"{kind}_test_status_name": "Unknown" for kind in kinds},
        **{key: [] for key in ("bcaches", "cache_sets", "raids", "special_filesystems", "volume_groups")},
        **dict.fromkeys(("address_ttl", "last_sync", "next_sync", "sync_interval", "swap_size", "parent", "pod")),
        "bios_boot_method": "uefi",
        "cpu_count": 2,
        "cpu_speed": 0,
        "memory": 2048,
        "storage": 250000.0,
        "default_gateways": {
            "ipv4": {"gateway_ip": None, "link_id": None},
            "ipv6": {"gateway_ip": None, "link_id": None},
        },
        "disable_ipv4": False,
        "enable_kernel_crash_dump": False,
        "ip_addresses": [],
        "node_type": 0,
        "node_type_name": "Machine",
        "numanode_set": [{"index": 0, "memory": 2048, "cores": [0, 1], "hugepages_set": []}],
        "status_action": "",
        "virtualblockdevice_set": [],
        "virtualmachine_id": None,
    }


def _interface(one: Machine, mac: str) -> dict[str, Any]:
    number = _id(mac)
    return {
        "mac_address": mac,
        "enabled": True,
        "firmware_version": None,
        "numa_node": 0,
        "link_connected": True,
        "id": number,
        "name": f"eth{one.macs.index(mac)}",
        "system_id": one.system_id,
        "effective_mtu": 1500,
        "children": [],
        "vendor": None,
        "link_speed": 10000,
        "tags": [],
        "links": [],
        "product": None,
        "discovered": None,
        "interface_speed": 10000,
        "parents": [],
        "params": {},
        "vlan": {
            "vid": 0,
            "mtu": 1500,
            "dhcp_on": True,
            "external_dhcp": None,
            "relay_vlan": None,
            "space": "undefined",
            "id": 5001,
            "name": "untagged",
            "fabric_id": 0,
            "primary_rack": None,
            "secondary_rack": None,
            "fabric": "fabric-0",
            "resource_uri": f"{_API}/vlans/5001/",
        },
        "type": "physical",
        "sriov_max_vf": 0,
        "resource_uri": f"{_API}/nodes/{one.system_id}/interfaces/{number}/",
    }


def _disk(one: Machine) -> Any:
    """None until commissioning has found it."""
    if one.commissioning_status != 2:
        return None
    number = _id(one.system_id)
    return {
        "firmware_version": None,
        "type": "physical",
        "id_path": "/dev/vda",
        "filesystem": None,
        "partition_table_type": None,
        "available_size": 249993101312,
        "model": "",
        "numa_node": 0,
        "id": number,
        "name": "vda",
        "system_id": one.system_id,
        "tags": ["ssd"],
        "size": 250000000000,
        "uuid": None,
        "used_size": 0,
        "partitions": [],
        "block_size": 512,
        "used_for": "Unused",
        "storage_pool": None,
        "path": "/dev/disk/by-dname/vda",
        "serial": "",
        "resource_uri": f"{_API}/nodes/{one.system_id}/blockdevices/{number}/",
    }


def _id(text: str) -> int:
    """A number that stays the same."""
    return zlib.crc32(text.encode()) % 90000 + 1
