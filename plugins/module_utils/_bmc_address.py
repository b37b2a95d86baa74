# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address of a BMC taken apart and put together, alike for whoever asks it and whoever has it asked. PRIVATE.

``host``, ``host:port``, ``v6``, ``[v6]:port``, each with or without a scheme, and with a path that nobody reads.
"""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple, Optional
from urllib.parse import urlsplit


class Parts(NamedTuple):
    """scheme, port: empty and None where the address has none. login: does it hold what is none of an address?"""

    scheme: str
    host: str
    port: Optional[int]
    login: bool = False

    @property
    def netloc(self) -> str:
        """As it stands in a URL."""
        return joined(bracketed(self.host), self.port)


def split(address: str) -> Parts:
    """:raises ValueError: for what is none: brackets without an end, a port that is no number, no host."""
    scheme, mark, rest = address.strip().rpartition("://") if "://" in address else ("", "", address.strip())
    parts = urlsplit(f"{scheme}{mark or '//'}{bracketed(rest)}")
    port, host = parts.port, parts.hostname
    if not host or port == 0:
        raise ValueError("no address of a host")
    return Parts(parts.scheme, host, port, "@" in parts.netloc)


def joined(host: str, port: Any = None) -> str:
    """With its port, where one is told; the colons of IPv6 would run into that."""
    return f"{bracketed(host)}:{port}" if host and port not in (None, "") else host


def bracketed(address: str) -> str:
    """A bare address of IPv6, as inventories and provisioners spell it, in the brackets that a URL wants."""
    host, slash, path = address.partition("/")
    try:
        ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return address
    return f"[{host}]{slash}{path}"
