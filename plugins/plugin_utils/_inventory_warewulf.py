# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a Warewulf as inventory records. PRIVATE to the collection.

Its API filters by nothing: one answer has all nodes, each with what its profiles say. People typed what stands there,
so it is checked like the cells of a list. How ipmitool reaches a BMC says nothing of the protocol that it speaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import record as raw
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import WarewulfApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_cells import checked
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields, without_secrets
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: What a source may ask for, each one word or several, of which one must be so; of tags each must be so.
FILTERS = ("cluster", "image", "profile", "tags")
#: Of InfiniBand: 20 bytes, and nothing that boots over Ethernet.
_INFINIBAND = re.compile(r"[0-9a-f]{2}([:-][0-9a-f]{2}){19}\Z", re.IGNORECASE)
#: Our driver's own notes among the tags.
_OURS = "gpufleet-"


def read_warewulf(options: Mapping[str, Any], *, where: str, fields: Fields) -> list[Record]:
    """All nodes that the filters let through, checked in the order of their names.

    :raises FleetError: whatever keeps it from being complete.
    """
    wanted = _filters(options.get("query"), where)
    names = ("url", "username", "password", "ca_path")
    api = WarewulfApi({f"provisioner_{name}": options.get(name) for name in names}, Context(node=where))
    try:
        _known_profiles(api, wanted.get("profile", ()), where)
        found = {name: node for name, node in sorted(api.nodes().items()) if _is_wanted(node, wanted)}
    finally:
        api.close()
    return [_filled(name, without_secrets(node), where, fields) for name, node in found.items()]


# -- which of them -------------------------------------------------------------------------------------------------


def _filters(query: Any, where: str) -> dict[str, Any]:
    """:raises ConfigError: for what is no filter: read over, it would let more nodes through than were asked for."""
    given = query or {}
    if not isinstance(given, Mapping):
        raise ConfigError("query: a mapping is wanted", node=where, wanted=", ".join(FILTERS))
    unknown = sorted(set(map(str, given)) - set(FILTERS))
    if unknown:
        raise ConfigError(
            f"a source of type warewulf has no filter {', '.join(unknown)}", node=where, wanted=", ".join(FILTERS)
        )
    found: dict[str, Any] = {key: _words(key, value, where) for key, value in given.items() if key != "tags"}
    tags = given.get("tags", {})
    if not isinstance(tags, Mapping):
        raise ConfigError("query, tags: a mapping of tags to what they are to say is wanted", node=where)
    found["tags"] = {str(key): _words(f"tags, {key}", value, where) for key, value in tags.items()}
    return found


def _words(key: str, value: Any, where: str) -> tuple[str, ...]:
    words = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not words or any(isinstance(word, (Mapping, list, tuple)) or word in (None, "") for word in words):
        raise ConfigError(f"query, {key}: a word is wanted, or a list of them", node=where)
    return tuple(str(word) for word in words)


def _known_profiles(api: WarewulfApi, names: tuple[str, ...], where: str) -> None:
    """:raises ConfigError: for a profile that there is none of: misspelt, it would be an empty fleet."""
    known = api.profiles() if names else {}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"query, profile: Warewulf has no profile {', '.join(unknown)}",
            node=where,
            address=api.address,
            wanted=f"one of {', '.join(sorted(known))}",
        )


def _is_wanted(node: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    told = {
        "cluster": {str(node.get("cluster name") or "")},
        "image": {raw.image_of(node)},
        "profile": set(_listed(node, "profiles")),
    }
    tags = raw.tags(node)
    return all(told[key] & set(words) for key, words in wanted.items() if key != "tags") and all(
        tags.get(key) in words for key, words in wanted["tags"].items()
    )


# -- one of them ---------------------------------------------------------------------------------------------------


def _filled(name: str, node: dict[str, Any], where: str, fields: Fields) -> Record:
    place = f"{where}, node {name}"
    return fields.fill(_record(name, node, place), fields.pick({**node, "name": name}, place))


def _record(name: str, node: Mapping[str, Any], place: str) -> Record:
    devices = raw.devices(node)
    macs = {key: _mac(key, device, place) for key, device in devices.items()}
    macs = {key: address for key, address in macs.items() if address}
    primary = str(node.get("primary network") or "")
    serial = checked("serial", raw.serial(node), f"the tag {raw.SERIAL}", place)
    own = raw.tags(node)
    variables: dict[str, Any] = dict(
        gpufleet_serial=serial,
        gpufleet_provisioner="warewulf",
        gpufleet_provisioner_id=name,
        gpufleet_boot_mac=macs.get(primary) or (next(iter(macs.values())) if len(macs) == 1 else None),
        ansible_host=_address(devices.get(primary, {}), primary, place),
        **_bmc(node.get("ipmi"), place),
        warewulf_profiles=_listed(node, "profiles"),
        warewulf_cluster=node.get("cluster name"),
        warewulf_image=raw.image_of(node),
        warewulf_comment=node.get("comment"),
        warewulf_primary_network=primary,
        warewulf_discoverable=str(node.get("discoverable") or "").lower() == "true",
        warewulf_tags={key: value for key, value in own.items() if not key.startswith(_OURS)},
        warewulf_hold=own.get(raw.HOLD),
    )
    return Record(where=place, name=name, serial=serial, macs=sorted(set(macs.values())), variables=variables)


def _listed(node: Mapping[str, Any], key: str) -> list[str]:
    found = node.get(key)
    return [str(one) for one in found] if isinstance(found, list) else []


def _mac(key: str, device: Mapping[str, Any], place: str) -> str:
    text = str(device.get("hwaddr") or "")
    known = "" if _INFINIBAND.match(text) else text
    return str(checked("boot_mac", known, f"hwaddr of the network device {key}", place))


def _address(device: Mapping[str, Any], key: str, place: str) -> str:
    told = next((name for name in ("ipaddr", "ipaddr6") if device.get(name)), "ipaddr")
    return str(checked("primary_ip", str(device.get(told) or ""), f"{told} of the network device {key}", place))


def _bmc(ipmi: Any, place: str) -> dict[str, Any]:
    told = ipmi if isinstance(ipmi, Mapping) else {}
    columns = {"ipaddr": "bmc_ip", "username": "bmc_user"}
    found = {key: checked(column, str(told.get(key) or ""), f"ipmi, {key}", place) for key, column in columns.items()}
    return {
        "gpufleet_bmc_address": found["ipaddr"],
        "gpufleet_bmc_username": found["username"] if found["ipaddr"] else "",
        "warewulf_ipmi_port": told.get("port"),
    }
