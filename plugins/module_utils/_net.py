# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MACs, addresses and networks, in the one spelling that is compared. PRIVATE to the collection.

netaddr reads them. It is imported with this file and not at the first use, which would be in each worker again.
"""

from __future__ import annotations

import traceback
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import MissingLibrary

_MISSING = ""
try:
    import netaddr
except ImportError:
    _MISSING = traceback.format_exc()


def _need() -> None:
    if _MISSING:
        raise MissingLibrary("netaddr", why="MAC and IP addresses are read with it", cause=_MISSING)


def _card(text: str) -> Any:
    """The address in one of the four usual forms of twelve digits; None for anything else.

    netaddr reads more: a number, eleven digits, groups without their zeros. Those are what a spreadsheet leaves of an
    address, and would be another machine's.
    """
    _need()
    lower = text.strip().lower()
    try:
        found = netaddr.EUI(lower, version=48)
    except (netaddr.AddrFormatError, ValueError, TypeError):
        return None
    by_mark = {":": netaddr.mac_unix_expanded, "-": netaddr.mac_eui48, ".": netaddr.mac_cisco}
    form = next((form for mark, form in by_mark.items() if mark in lower), netaddr.mac_bare)
    return found if found.format(form).lower() == lower else None


def mac(text: str) -> str:
    """The MAC of one card, in lower case with colons.

    :raises ValueError: for what is none.
    """
    found = _card(text)
    if found is None:
        raise ValueError("not a MAC address of twelve hexadecimal digits in one of the usual forms")
    if not int(found) or found.words[0] & 1:
        raise ValueError("a MAC address that belongs to no single card")
    return str(found.format(netaddr.mac_unix_expanded))


def spelled(text: Any) -> str:
    """The same spelling for whatever a peer calls an address of a card; what is no MAC is compared as it stands."""
    bare = str(text or "").strip().lower()
    # Some write dots between all bytes, which netaddr does not read.
    found = _card(bare.replace(".", ":") if bare.count(".") == 5 else bare) if bare else None
    return bare if found is None else str(found.format(netaddr.mac_unix_expanded))


def address(text: str) -> str:
    """An IP address in its usual spelling; an interface may be named for a link-local one.

    :raises ValueError: for what is none.
    """
    _need()
    bare, percent, interface = text.strip().partition("%")
    try:
        found = netaddr.IPAddress(bare)
    except (netaddr.AddrFormatError, ValueError):
        raise ValueError("not an IP address") from None
    if percent and not (interface and found.version == 6 and found.is_link_local()):
        raise ValueError("an interface is named, and the address is not link-local")
    return f"{found}{percent}{interface}"


def called(text: Any) -> str:
    """The same spelling for whatever a host is reached by: its address, or a name in lower case."""
    bare = str(text or "").strip().lower().rstrip(".")
    try:
        return address(bare) if bare else ""
    except ValueError:
        return bare


def host(text: str) -> str:
    """The address of a host, which may be given with the length of its network's prefix.

    :raises ValueError: for what is none, and for the address of the network itself or of all its hosts.
    """
    bare, slash, _length = text.strip().partition("/")
    if not slash:
        return address(text)
    plain = address(bare)
    try:
        network = netaddr.IPNetwork(text.strip())
    except (netaddr.AddrFormatError, ValueError):
        raise ValueError("no such length of a network's prefix") from None
    if network.size > 2 and network.ip in (network.network, network.broadcast):
        raise ValueError(f"the address of the network {network.cidr} or of all its hosts, and of no single one")
    return plain
