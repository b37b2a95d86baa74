# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of a MAAS as inventory records. PRIVATE to the collection.

API 2.0 knows no pages, and 49 kB a machine: 1,000 machines are 49 MB and 40 s. So each machine is cut down to what is
needed before the next is parsed, machines whose ids are known are asked for in blocks, and the time limit is long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _excerpt as excerpt
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import MaasApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_record as record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_control import Control
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: A machine, cut down; an empty one where it is none.
Cut = Callable[[Mapping[str, Any]], dict[str, Any]]

TIMEOUT = 600.0
BLOCK = 50
#: MAAS admits four requests a worker; more only wait there.
WORKERS = 4
#: What MAAS 3.7 filters by. An unknown word is 400, and simple_status is 500 there.
FILTERS = frozenset(
    {
        "id", "hostname", "mac_address", "domain", "agent_name", "status", "arch", "tags", "not_tags", "zone",
        "not_in_zone", "pool", "not_in_pool", "owner", "power_state", "system_id", "fabrics", "vlans", "subnets",
    }
)  # fmt: skip
#: What ansible-core takes as a group without a word, and does not mean all hosts by.
_GROUP = re.compile(r"(?!(?:all|ungrouped)\Z)[A-Za-z_][A-Za-z0-9_]*\Z")
#: MAAS's power driver: our protocol.
BMCS = {"redfish": "redfish", "ipmi": "ipmi"}


def read_maas(options: Mapping[str, Any], *, where: str, fields: Fields, control: Control) -> list[Record]:
    """All machines that the filters let through.

    :raises FleetError: whatever keeps it from being complete.
    """
    filters = dict(options.get("query") or {})
    unknown = sorted(set(filters) - FILTERS)
    if unknown:
        raise ConfigError(f"MAAS has no filter {', '.join(unknown)}", node=where, wanted=", ".join(sorted(FILTERS)))
    group = str(options.get("dpu_group") or "")
    if group and not _GROUP.match(group):
        raise ConfigError("dpu_group: the name of a group is wanted", node=where, seen=group)
    api = MaasApi(
        {
            "provisioner_url": options.get("url"),
            "provisioner_api_key": options.get("api_key"),
            "provisioner_ca_path": options.get("ca_path"),
        },
        Context(node=where),
        timeout=float(options.get("timeout") or TIMEOUT),
        longer=f"set a longer timeout for this source ({where}), or ask for fewer machines with its query",
    )

    def cut(machine: Mapping[str, Any]) -> dict[str, Any]:
        return _cut(machine, fields, where) if _is_machine(machine, where) else {}

    try:
        power = _power(api) if options.get("bmc") else {}
        found = _blocks(api, list(power), filters, cut) if power else _kept(api, _query(filters), cut)
        told = [fields.fill(_controlled(machine, power, where, control), machine["picked"]) for machine in found]
        return [replace(one, group=group) if one.dpu else one for one in told]
    finally:
        api.close()


def _query(filters: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for key, value in filters.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            pairs.append((key, str(item)))
    return pairs


def _power(api: MaasApi) -> dict[str, dict[str, str]]:
    """BMC addresses by machine, in one answer (administrators only). The passwords in it are dropped at once."""
    found = api.get("machines/", [("op", "power_parameters")])
    if not isinstance(found, dict):
        raise BadAnswer("op=power_parameters is no mapping", address=api.address, seen=type(found).__name__)
    wanted = ("power_address", "power_user", "node_id")
    return {
        str(system_id): {key: str(values[key]) for key in wanted if values.get(key)}
        for system_id, values in found.items()
        if isinstance(values, dict)
    }


def _blocks(api: MaasApi, ids: Sequence[str], filters: Mapping[str, Any], cut: Cut) -> list[dict[str, Any]]:
    def ask(block: Sequence[str]) -> list[dict[str, Any]]:
        query = [*_query(filters), *(("id", system_id) for system_id in block)]
        return _kept(api, query, cut)

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="gpufleet-maas") as pool:
        return [machine for block in pool.map(ask, _cut_in_blocks(ids)) for machine in block]


def _kept(api: MaasApi, query: list[tuple[str, str]], cut: Cut) -> list[dict[str, Any]]:
    return [machine for machine in api.each_machine(query, cut) if machine]


def _cut_in_blocks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), BLOCK):
        yield ids[start : start + BLOCK]


_KEYS = (
    "system_id", "hostname", "fqdn", "status", "status_name", "owner", "locked", "pool", "zone", "tag_names",
    "hardware_info", "hardware_uuid", "power_type", "power_state", "architecture", "osystem", "distro_series",
    "boot_interface", "workload_annotations", "ip_addresses", "node_type", "is_dpu",
)  # fmt: skip


def _cut(machine: Mapping[str, Any], fields: Fields, where: str) -> dict[str, Any]:
    """A tenth of it, for the disks stand in it twice; and what the site's own expressions pick."""
    small = {key: machine.get(key) for key in _KEYS}
    small["picked"] = fields.pick(machine, _place(machine, where))
    small["macs"] = [card.get("mac_address") for card in machine.get("interface_set") or []]
    return small


def _place(machine: Mapping[str, Any], where: str) -> str:
    """By what a person finds the machine in MAAS."""
    hostname, system_id = (str(machine.get(key) or "") for key in ("hostname", "system_id"))
    return f"{where}, machine {hostname or system_id}" + (f" ({system_id})" if hostname else "")


def _is_machine(machine: Any, where: str) -> bool:
    if not isinstance(machine, dict) or not machine.get("system_id"):
        raise BadAnswer("a machine without system_id", node=where, seen=excerpt.cut(machine, 200))
    return machine.get("node_type") in (0, None)


def _controlled(
    machine: Mapping[str, Any], power: Mapping[str, Mapping[str, str]], where: str, control: Control
) -> Record:
    # MAAS keeps annotations on a deployed machine only, so nothing may depend on them.
    return control.take(_record(machine, power, where), machine.get("workload_annotations"))


def _record(machine: Mapping[str, Any], power: Mapping[str, Mapping[str, str]], where: str) -> Record:
    system_id, hostname = str(machine["system_id"]), str(machine.get("hostname") or "")
    hardware = machine.get("hardware_info") or {}
    serial = record.serial(str(hardware.get("system_serial") or ""))
    boot = record.macs([(machine.get("boot_interface") or {}).get("mac_address") or ""])
    system_uuid = _uuid(machine.get("hardware_uuid"))
    variables: dict[str, Any] = dict(
        gpufleet_serial=serial,
        gpufleet_system_uuid=system_uuid,
        gpufleet_provisioner="maas",
        gpufleet_provisioner_id=system_id,
        gpufleet_boot_mac=boot[0] if boot else None,
        **_bmc(str(machine.get("power_type") or ""), power.get(system_id, {})),
        maas_hostname=hostname,
        maas_fqdn=machine.get("fqdn"),
        maas_status=machine.get("status"),
        maas_status_name=machine.get("status_name"),
        maas_pool=(machine.get("pool") or {}).get("name"),
        maas_zone=(machine.get("zone") or {}).get("name"),
        maas_tags=list(machine.get("tag_names") or []),
        maas_owner=machine.get("owner"),
        maas_locked=bool(machine.get("locked")),
        maas_power_type=machine.get("power_type"),
        maas_power_state=machine.get("power_state"),
        maas_architecture=machine.get("architecture"),
        maas_system_vendor=hardware.get("system_vendor"),
        maas_system_product=hardware.get("system_product"),
        maas_osystem=machine.get("osystem"),
        maas_distro_series=machine.get("distro_series"),
        maas_ip_addresses=list(machine.get("ip_addresses") or []),
        maas_is_dpu=_is_dpu(machine),
    )
    return Record(
        where=_place(machine, where),
        name=hostname,
        serial=serial,
        system_uuid=system_uuid,
        macs=sorted({*record.macs(address or "" for address in machine["macs"]), *boot}),
        variables=variables,
        dpu=_is_dpu(machine),
    )


def _is_dpu(machine: Mapping[str, Any]) -> bool:
    """MAAS says so since 3.7."""
    return machine.get("is_dpu") is True


def _bmc(power_type: str, power: Mapping[str, str]) -> dict[str, Any]:
    if power_type not in BMCS or not power.get("power_address"):
        return {}
    return {
        "gpufleet_bmc_protocol": BMCS[power_type],
        "gpufleet_bmc_address": power["power_address"],
        "gpufleet_bmc_system_id": power.get("node_id"),
        "gpufleet_bmc_username": power.get("power_user"),
    }


def _uuid(value: Any) -> str:
    try:
        return record.uuid(str(value)) if value else ""
    except ValueError:
        return ""
