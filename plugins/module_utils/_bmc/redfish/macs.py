# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The MAC addresses of the machine over Redfish: the union of all places, each with its source. PRIVATE.

No place is enough. GB200 has no EthernetInterfaces and tells its ports in BootOptions alone; XCC's EthernetInterfaces
may be empty while the adapters' Ports tell them; of BlueField-3's functions some tell none. What sushy sums up leaves
out each interface whose health is null, which on several recorded BMCs is all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.reading import Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import Mac, Macs

#: Property of a resource, as a path: a word, or a list of them.
_Path = tuple[str, ...]
#: Where the resources of a kind tell a MAC.
_INTERFACE: tuple[_Path, ...] = (("PermanentMACAddress",), ("MACAddress",))
_FUNCTION: tuple[_Path, ...] = (("Ethernet", "PermanentMACAddress"), ("Ethernet", "MACAddress"))
_PORT: tuple[_Path, ...] = (("Ethernet", "AssociatedMACAddresses"), ("AssociatedNetworkAddresses",))
_OPTION: tuple[_Path, ...] = (("UefiDevicePath",), ("DisplayName",))
#: Collections below an adapter, and what their members tell.
_BELOW: tuple[tuple[str, tuple[_Path, ...]], ...] = (
    ("NetworkDeviceFunctions", _FUNCTION),
    ("Ports", _PORT),
    ("NetworkPorts", _PORT),
)
#: A MAC within the text of a boot option: MAC(B83FD29097C4,0x1), (MAC:D0F405439504), - 94:6D:AE:91:FB:22 -.
_IN_TEXT = re.compile(
    r"MAC[(:]\s*([0-9a-f]{12})\b|(?<![0-9a-f:])((?:[0-9a-f]{2}:){5}[0-9a-f]{2})(?![0-9a-f:])", re.IGNORECASE
)
#: The bit of a MAC's first byte that says that it is no maker's.
_LOCAL = 0x02


class RedfishCards(c.Cards):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def macs(self) -> Macs:
        return _Union(self._machine).all()


class _Union(Reading):
    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._system = machine.system()
        self._found: dict[str, list[str]] = {}

    def all(self) -> Macs:
        system = self._system
        self._members(select.link(system, "EthernetInterfaces"), _INTERFACE)
        self._members(select.link(system, "Boot", "BootOptions"), _OPTION)
        for uri in dict.fromkeys(self._adapters()):
            adapter = self._doc(uri)
            for name, paths in _BELOW:
                self._members(select.link(adapter, name), paths)
        found = (Mac(mac, tuple(places), bool(int(mac[:2], 16) & _LOCAL)) for mac, places in self._found.items())
        return Macs(tuple(sorted(found, key=lambda one: one.mac)), tuple(self.unread))

    def _adapters(self) -> Iterator[str]:
        for uri in self._uris(select.link(self._system, "NetworkInterfaces")):
            yield from filter(None, [select.link(self._doc(uri), "Links", "NetworkAdapter")])
        chassis = select.section(self._system, "Links").get("Chassis")
        for item in chassis if isinstance(chassis, list) else []:
            yield from self._uris(select.link(self._doc(select.link(item)), "NetworkAdapters"))

    def _members(self, collection: str, paths: tuple[_Path, ...]) -> None:
        for uri in self._uris(collection):
            doc = self._doc(uri)
            for path in paths:
                self._note(doc, uri, path)

    def _note(self, doc: Mapping[str, Any], uri: str, path: _Path) -> None:
        told = select.section(doc, *path[:-1]).get(path[-1])
        for text in told if isinstance(told, list) else [told]:
            for mac in _macs_in(text):
                places = self._found.setdefault(mac, [])
                place = f"{uri}#/{'/'.join(path)}"
                if place not in places:
                    places.append(place)


def _macs_in(text: Any) -> Iterator[str]:
    """MACs of single cards: of zeros, of groups and of all there is none."""
    if not isinstance(text, str):
        return
    for candidate in [text, *("".join(found) for found in _IN_TEXT.findall(text))]:
        try:
            yield net.mac(net.spelled(candidate))
        except ValueError:
            continue
