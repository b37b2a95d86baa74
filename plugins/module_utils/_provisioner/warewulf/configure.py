# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``wwctl configure``, for services of the server's own that Warewulf's API has no word for. PRIVATE to the collection.

It runs on the machine of the task, which is the server then. What is known of it (``internal/pkg/configure`` and the
overlay ``host`` of 4.6.5 and 4.7.0): it writes the whole of its files anew from ``nodes.conf`` and restarts their
service; where ``warewulf.conf`` has that off, it warns, does nothing, and exits with 0; where the service cannot be
restarted, it exits with 255 though the file is written. So it runs where the file does not say what it should, that
file is read again afterwards, and its exit status says whether the service knows of it. Until it was 0 once, a tag of
the node says that it is due: from the write that makes or moves its record on, so that a run that was killed is gone
on with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import command, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver

#: Keys of the option ``driver``: what is configured, by which command, and where its files are.
KEY, WWCTL, DHCP_CONF, TFTP_ROOT = "configure", "wwctl", "dhcp_conf", "tftp_root"
#: Where packages of Warewulf have them.
DEFAULTS: Mapping[str, str] = {
    WWCTL: "/usr/bin/wwctl",
    DHCP_CONF: "/etc/dhcp/dhcpd.conf",
    TFTP_ROOT: "/var/lib/tftpboot",
}
KNOWN = frozenset(DEFAULTS)
#: Seconds: the files of all nodes are written, and a service is restarted.
TIMEOUT = 300.0


class Entry(NamedTuple):
    """What services are to know of a node."""

    card: str
    address: str


class Service(NamedTuple):
    """look: the command that tells what stands there. says: does that say what is needed of this node?"""

    look: Callable[[Mapping[str, Any]], list[str]]
    says: Callable[[str, Entry], bool]
    lacks: str
    do: str


def _in_dhcp(text: str, entry: Entry) -> bool:
    """In one block, as dhcpd has them, or in one line, as dnsmasq has them, its card and its address."""
    parts = text.lower().split("}" if "{" in text else "\n")
    wanted = [entry.card, *([entry.address] if entry.address else [])]
    return any(all(_word(one, part) for one in wanted) for part in parts)


def _word(word: str, text: str) -> bool:
    """10.8.0.1 is not in 10.8.0.18."""
    return word in text.replace(";", " ").replace(",", " ").replace("=", " ").split()


SERVICES: Mapping[str, Service] = {
    "dhcp": Service(
        lambda told: ["cat", told[DHCP_CONF]],
        _in_dhcp,
        "an entry with its card and its address",
        f"set 'template: static' under 'dhcp' in the server's warewulf.conf, name the file that it writes in"
        f" {DHCP_CONF} in driver, or leave dhcp out of {KEY}, where addresses come from a range",
    ),
    "tftp": Service(
        lambda told: ["ls", "-1", f"{told[TFTP_ROOT]}/warewulf"],
        lambda text, _entry: bool(text.split()),
        "loaders below its warewulf",
        f"name the folder that TFTP serves in {TFTP_ROOT} in driver, and install Warewulf's loaders",
    ),
}


def check(extras: Mapping[str, Any], node: str) -> None:
    odd = sorted({str(one) for one in extras.get(KEY) or ()} - set(SERVICES))
    if odd:
        raise ConfigError(
            f"wwctl configures nothing of the name {', '.join(odd)} that could be read back",
            node=node,
            wanted=", ".join(sorted(SERVICES)),
            do=f"correct {KEY} in driver",
        )
    wrong = [key for key in DEFAULTS if extras.get(key) and not str(extras[key]).startswith("/")]
    if wrong:
        raise ConfigError(
            f"no whole path in driver: {wrong[0]}", node=node, wanted=DEFAULTS[wrong[0]], seen=str(extras[wrong[0]])
        )


def asked(extras: Mapping[str, Any]) -> list[str]:
    """Which services are to know the node."""
    return list(dict.fromkeys(map(str, extras.get(KEY) or ())))


def wwctl(extras: Mapping[str, Any]) -> str:
    return str(extras.get(WWCTL) or DEFAULTS[WWCTL])


class Configured:
    """The services that a node's inventory names, and this node in each."""

    def __init__(self, driver: Driver, extras: Mapping[str, Any], host: str) -> None:
        self._driver, self._host = driver, host
        self._told = {**DEFAULTS, **{key: one for key, one in extras.items() if one}}
        #: By service, when the last run of its command began that has worked.
        self._ran: dict[str, float] = together.once(driver, f"{wwctl(self._told)} configure", dict)

    def lacking(self, entry: Entry) -> dict[str, str]:
        """Service: what is not said there of the node."""
        return {name: SERVICES[name].lacks for name in asked(self._told) if not self._says(name, entry)}

    def run(self, name: str, entry: Entry, stands: float) -> None:
        """It writes the entries of all nodes, so another host of the task may have run it for this one as well.

        :param stands: since when the node's record stands.
        :raises Refused: where it says no more of the node than before, or where the service goes on without it.
        """
        argv = [wwctl(self._told), "configure", name]
        if self._ran.get(name, 0.0) > stands and self._says(name, entry):
            return
        if not self._driver.ctx.may_write(" ".join(argv), nodes=(self._host,)):
            return
        began = time.monotonic()
        answer = command.run(self._driver, argv, timeout=TIMEOUT)
        if not self._says(name, entry):
            raise self._without_effect(name, " ".join(argv), answer)
        if answer.code:
            raise self._not_restarted(name, " ".join(argv), answer)
        self._ran[name] = began

    def _says(self, name: str, entry: Entry) -> bool:
        service = SERVICES[name]
        return service.says(command.run(self._driver, service.look(self._told)).out, entry)

    def _without_effect(self, name: str, what: str, answer: command.Answer) -> FleetError:
        told = short(answer.err or answer.out)
        return Refused(
            f"{what} ended, and {SERVICES[name].look(self._told)[-1]} still lacks the node",
            node=self._host,
            address=self._driver.address,
            wanted=SERVICES[name].lacks,
            seen=f"exit status {answer.code}" + (f": {told}" if told else ""),
            do=SERVICES[name].do,
        )

    def _not_restarted(self, name: str, what: str, answer: command.Answer) -> FleetError:
        told = short(answer.err or answer.out)
        return Refused(
            f"{what} has written its files, and the service that reads them was not restarted",
            node=self._host,
            address=self._driver.address,
            wanted="exit status 0: until then the service knows nothing of the node, or its address of before",
            seen=f"exit status {answer.code}" + (f": {told}" if told else ""),
            do=f"see on that machine why its service does not start (systemctl status; {what}), and run again: it is"
            " configured anew until that has worked once",
        )
