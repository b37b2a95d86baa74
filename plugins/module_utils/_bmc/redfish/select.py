# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of a BMC's systems is the machine. PRIVATE to the collection.

Several systems behind one BMC are the rule on GPU machines: the host, and beside it a baseboard of GPUs or a DPU.
The host is the one that can be reset. Where that leaves several (multi-node chassis), somebody has to say which;
the first of the list is never taken for want of a better one, nor the last that is left when the others cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import (
    same_serial,
    same_uuid,
    serial_of,
    uuid_of,
)

#: Kinds of system that are no machine of their own; DMTF ComputerSystem, SystemType.
NO_HOST = frozenset({"DPU", "Composed", "Virtual", "VirtuallyPartitioned", "OS", "PhysicallyPartitioned"})
_BASEBOARD = "HGX_"
#: Makers whose SKU is the machine's own serial, as its DMI tells it, while SerialNumber is the board's (Dell, iDRAC:
#: the service tag). With others the SKU is the model's, which many machines share.
_SKU_IS_SERIAL = frozenset({"dell", "dell inc."})
_TARGETS = "BootSourceOverrideTarget@Redfish.AllowableValues"

Read = Callable[[str], dict[str, Any]]


def section(doc: Any, *keys: str) -> dict[str, Any]:
    """A part of a document; empty where it is missing or is no object, as null often stands for one."""
    for key in keys:
        doc = doc.get(key) if isinstance(doc, dict) else None
    return doc if isinstance(doc, dict) else {}


def link(doc: Any, *keys: str) -> str:
    """The URI that a link holds, verbatim: some BMCs tell upper from lower case, others do not."""
    uri = section(doc, *keys).get("@odata.id")
    return uri if isinstance(uri, str) else ""


def members(doc: Mapping[str, Any]) -> list[str]:
    """The URIs of a collection."""
    found = doc.get("Members")
    uris = [link(item) for item in found] if isinstance(found, list) else []
    return [uri for uri in uris if uri]


#: The most pages of one collection that are read; recorded ones have one, and those of logs are never read.
_PAGES = 200
_NEXT = "Members@odata.nextLink"


def members_of(read: Read, collection: str) -> list[str]:
    """The URIs of a collection, of all its pages.

    :raises BadAnswer: where the pages lead in a circle, or have no end.
    """
    uris: list[str] = []
    seen: list[str] = []
    page = collection
    while page:
        if page in seen or len(seen) == _PAGES:
            raise BadAnswer("the pages of a collection have no end", wanted=collection, seen=page)
        seen.append(page)
        doc = read(page)
        uris.extend(members(doc))
        following = doc.get(_NEXT)
        page = following if isinstance(following, str) else ""
    return list(dict.fromkeys(uris))


def last_part(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2]


def reset_action(system: Mapping[str, Any]) -> dict[str, Any]:
    return section(system, "Actions", "#ComputerSystem.Reset")


def choose(
    root: Mapping[str, Any],
    read: Read,
    *,
    wanted: str = "",
    serial: str = "",
    system_uuid: str = "",
    mac: str = "",
    where: str = "",
) -> dict[str, Any]:
    """The machine's own system.

    :param wanted: an Id or URI that was given; then nothing else counts.
    :param serial: tells the machine among several.
    :param system_uuid: the same, by its UUID.
    :param mac: the same, by a network port; asked where neither serial nor UUID leaves one alone.
    :raises ConfigError: naming the candidates where they are several, or what there is where it is not the wanted one.
    """
    if wanted.startswith("/"):
        return _resettable(_named(read(wanted), wanted), wanted, where)
    collection = link(root, "Systems")
    if not collection:
        raise _no_system(where, "the service root links to no systems")
    uris = members_of(read, collection)
    if wanted:
        return _by_id(uris, wanted, read, where)
    found = {uri: _read_or_none(read, uri) for uri in uris}
    systems = [_named(doc, uri) for uri, doc in found.items() if doc is not None]
    hosts = [doc for doc in systems if is_host(doc)]
    if not hosts:
        raise _no_host(where, systems, len(uris))
    silent = [uri for uri, doc in found.items() if doc is None and not last_part(uri).startswith(_BASEBOARD)]
    return _the_one(hosts, silent, lambda: _identified(hosts, read, serial, system_uuid, mac), read, where)


def _the_one(
    hosts: Sequence[dict[str, Any]],
    silent: Sequence[str],
    identified: Callable[[], list[dict[str, Any]]],
    read: Read,
    where: str,
) -> dict[str, Any]:
    """Of several the one that is known by serial or port. A system that did not answer may be any machine.

    :raises ConfigError: naming them, where it is not known which.
    """
    if len(hosts) + len(silent) == 1:
        return hosts[0]
    known = identified()
    left = known or list(hosts)
    bootable = [doc for doc in left if _boots(doc, read)] or left if len(left) > 1 else left
    if len(bootable) == 1 and (known or not silent):
        return bootable[0]
    unread = f", and without an answer: {', '.join(map(last_part, silent))}" if silent else ""
    raise ConfigError(
        "this BMC serves several machines",
        address=where,
        wanted="one of them",
        seen=_names(hosts) + unread,
        do="set gpufleet_bmc_system_id to the Id of this node's system, or gpufleet_serial to its serial number",
    )


def serials(system: Mapping[str, Any]) -> list[str]:
    """By which numbers the machine goes, its own first; placeholders are none."""
    told = (system.get("SKU") if _sku_is_serial(system) else "", system.get("SerialNumber"))
    return [one for one in map(serial_of, told) if one]


def own_serials(system: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that no other machine has: of some makers' systems SerialNumber is the board's."""
    return tuple(filter(None, [serial_of(system.get("SKU" if _sku_is_serial(system) else "SerialNumber"))]))


def _sku_is_serial(system: Mapping[str, Any]) -> bool:
    return str(system.get("Manufacturer") or "").strip().casefold() in _SKU_IS_SERIAL


def within(uri: str, system: str) -> bool:
    """Is this resource the system, or a part of it? Some BMCs mix cases and slashes in their links."""
    parts = [part.rstrip("/").lower() for part in (uri, system)]
    return parts[0] == parts[1] or parts[0].startswith(f"{parts[1]}/")


def _named(doc: dict[str, Any], uri: str) -> dict[str, Any]:
    """The document under the name by which it was read: what it calls itself may be another system."""
    own = link(doc)
    return doc if own and own.rstrip("/").lower() == uri.rstrip("/").lower() else {**doc, "@odata.id": uri}


def is_host(doc: Mapping[str, Any]) -> bool:
    """A machine, not a part of one: a baseboard of GPUs has no Reset action, whatever else it offers."""
    return (
        str(doc.get("SystemType")) not in NO_HOST
        and not str(doc.get("Id") or "").startswith(_BASEBOARD)
        and bool(reset_action(doc).get("target"))
    )


def settings_uri(doc: Mapping[str, Any]) -> str:
    return link(doc, "@Redfish.Settings", "SettingsObject")


def _boots(doc: Mapping[str, Any], read: Read) -> bool:
    if link(doc, "Bios") or section(doc, "Boot").get(_TARGETS):
        return True
    uri = settings_uri(doc)
    return bool(uri and section(_read_or_none(read, uri) or {}, "Boot").get(_TARGETS))


def _read_or_none(read: Read, uri: str) -> dict[str, Any] | None:
    """One bad member does not hide the others; a login that is refused is no such thing."""
    try:
        return read(uri)
    except (Unsupported, BadAnswer):
        return None


def _identified(
    systems: Sequence[dict[str, Any]], read: Read, serial: str, system_uuid: str, mac: str
) -> list[dict[str, Any]]:
    """Those that are known by the serial, of several with one serial by the UUID and the port; none where none is."""
    ours = uuid_of(system_uuid)
    asked: tuple[Callable[[dict[str, Any]], bool], ...] = (
        lambda doc: any(same_serial(one, serial) for one in serials(doc)),
        lambda doc: bool(ours) and same_uuid(uuid_of(doc.get("UUID")), ours),
        lambda doc: bool(mac) and net.spelled(mac) in {net.spelled(found) for found in _macs(doc, read)},
    )
    known: list[dict[str, Any]] = []
    for knows in asked:
        if len(known) != 1:
            known = [doc for doc in known or systems if knows(doc)] or known
    return known


def _macs(doc: Mapping[str, Any], read: Read) -> list[Any]:
    uri = link(doc, "EthernetInterfaces")
    try:
        ports = [_read_or_none(read, port) or {} for port in members_of(read, uri)] if uri else []
    except (Unsupported, BadAnswer):
        return []
    return [port.get(key) for port in ports for key in ("PermanentMACAddress", "MACAddress") if port.get(key)]


def _by_id(uris: Sequence[str], wanted: str, read: Read, where: str) -> dict[str, Any]:
    for uri in uris:
        if last_part(uri) == wanted:
            return _resettable(_named(read(uri), uri), uri, where)
    for uri in uris:
        doc = _read_or_none(read, uri)
        if doc is not None and wanted in (doc.get("Id"), doc.get("UUID")):
            return _resettable(_named(doc, uri), uri, where)
    raise ConfigError(
        "the BMC has no such system",
        address=where,
        wanted=wanted,
        seen=", ".join(last_part(uri) for uri in uris) or "none at all",
        do="correct gpufleet_bmc_system_id",
    )


def _resettable(doc: dict[str, Any], uri: str, where: str) -> dict[str, Any]:
    if not reset_action(doc).get("target"):
        raise _no_system(where, f"{uri} has no Reset action: it is a part of a machine, not one")
    return doc


def _names(systems: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{doc.get('Id') or last_part(link(doc))} (serial {_told(doc)})" for doc in systems) or "none"


def _told(doc: Mapping[str, Any]) -> str:
    return " or ".join(serials(doc)) or str(doc.get("SerialNumber") or "not told")


def _no_host(where: str, systems: Sequence[Mapping[str, Any]], number: int) -> FleetError:
    """Systems of a kind that is no machine of its own may be powered all the same, where somebody names one."""
    kinds = [doc for doc in systems if str(doc.get("SystemType")) in NO_HOST and reset_action(doc).get("target")]
    if not kinds:
        return _no_system(where, f"none of {number} systems can be powered: {_names(systems)}")
    told = ", ".join(f"{doc.get('Id') or last_part(link(doc))} ({doc.get('SystemType')})" for doc in kinds)
    return ConfigError(
        "this BMC serves no machine of its own, but systems of another kind",
        address=where,
        wanted="a physical system",
        seen=told,
        do="set gpufleet_bmc_system_id to the Id of the one that is this node, if one of them is",
    )


def _no_system(where: str, seen: str) -> FleetError:
    return Unsupported(
        "this BMC serves no machine that can be powered or booted",
        address=where,
        seen=seen,
        do="give the address of the machine's own BMC; chassis managers and power shelves have no system",
    )
