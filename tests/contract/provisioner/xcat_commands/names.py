# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of nodes on the management node: what makes them known, and what little is said of it.

After the sources of 2.18 (``hosts.pm``, ``ddns.pm``, ``dhcp.pm``, ``nodestat.pm``) and what was recorded of
``nodestat``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

NO_MASTER = "site.master is not set!\n"


class Answer(NamedTuple):
    code: int = 0
    out: str = ""
    err: str = ""


class Names:
    """Of the management node."""

    nodes: dict[str, dict[str, str]]
    has_master: bool

    def __init__(self) -> None:
        #: What /etc/hosts, DNS and DHCP say: name or card, and address. Do names have a domain? Is named at work?
        self.hosts: dict[str, str] = {}
        self.dns: dict[str, str] = {}
        self.leases: dict[str, str] = {}
        #: What names have beside it.
        self.of_ipv6: dict[str, str] = {}
        self.has_domain = True
        self.has_dns = True
        #: Does it look at nodes by nmap? Then it asks for no name of a node whose ``ip`` it knows.
        self.has_nmap = False

    def _resolved(self, name: str) -> str:
        return self.hosts.get(name) or self.dns.get(name, "")

    def _makehosts(self, argv: list[str], _stdin: str) -> Answer:
        """Of a node without an address it says nothing."""
        for name in argv[0].split(","):
            if self.nodes[name].get("ip") and self.has_domain:
                self.hosts[name] = self.nodes[name]["ip"]
        return Answer(0)

    def _makedns(self, argv: list[str], _stdin: str) -> Answer:
        names = argv[0].split(",")
        known = {name: self.nodes[name].get("ip") or self.hosts.get(name, "") for name in names}
        lacking = [name for name, address in known.items() if not address]
        if not self.has_dns:
            return Answer(1, "", "Error: Failure encountered updating gpu.example.com, error was REFUSED.\n")
        text = "Error: Unable to find an IP for {} in hosts table or via system lookup (i.e. /etc/hosts)\n"
        self.dns.update({name: address for name, address in known.items() if address})
        out = "".join(f"Handling {name} in /etc/hosts.\n" for name in names) + "Completed updating DNS records.\n"
        return Answer(1 if lacking else 0, out, "".join(text.format(name) for name in lacking))

    def _makedhcp(self, argv: list[str], _stdin: str) -> Answer:
        names = argv[0].split(",")
        lacking = [name for name in names if not self._resolved(name)]
        self.leases.update({self.nodes[name]["mac"]: self._resolved(name) for name in names if name not in lacking})
        err = "".join(f"{name}: Error: Unable to resolve the hostname {name}\n" for name in lacking)
        return Answer(1 if lacking else 0, "", err)

    def _nodestat(self, argv: list[str], _stdin: str) -> Answer:
        """Its words of a name that does not resolve are no error."""
        if not self.has_master:
            return Answer(0, NO_MASTER)
        out = ""
        for name in argv[0].split(","):
            known = self._resolved(name) or (self.has_nmap and self.nodes[name].get("ip"))
            out += f"{name}: {'noping' if known else f'Please make sure {name} exists in /etc/hosts'}\n"
        return Answer(0, out)

    def _getent(self, argv: list[str], _stdin: str) -> Answer:
        """glibc's: ``hosts`` tells the addresses of IPv4 where there is none of IPv6, ``ahosts`` all."""
        database, name = argv
        found = [one for one in (self.of_ipv6.get(name, ""), self._resolved(name)) if one]
        if database == "hosts":
            return Answer(0, f"{found[0]}     {name}.gpu.example.com {name}\n") if found else Answer(2)
        first = [f"{one}    STREAM {name}.gpu.example.com\n{one}    DGRAM  \n{one}    RAW    \n" for one in found]
        return Answer(0 if found else 2, "".join(first))


NAMING: dict[str, Callable[[Any, list[str], str], Answer]] = {
    "makehosts": Names._makehosts,
    "makedns": Names._makedns,
    "makedhcp": Names._makedhcp,
    "nodestat": Names._nodestat,
    "getent": Names._getent,
}
