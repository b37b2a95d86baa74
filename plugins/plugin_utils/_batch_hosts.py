# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each host of a batch would say of itself, were it alone. PRIVATE to the collection.

The options of a batch's task are filled from the variables of the one host that runs it. For its neighbours they mean
nothing: a host that lacks a connection of its own would be asked for at the first host's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import of_each_host, value_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import default_url


class Hosts:
    """The hosts of the inventory, as one task of a batch sees them.

    :param host: the one that runs the task.
    :param said: the options that the task itself gives; they are meant for all.
    :param asked: all options, those filled from variables of ``host`` included.
    :param variable: reads a variable of a host, as a task of its own would see it; None where it is not set.
    """

    def __init__(
        self,
        host: str,
        said: Mapping[str, Any],
        asked: Mapping[str, Any],
        inventory: Mapping[str, Any],
        variable: Callable[[str, str], Any],
    ) -> None:
        self._host = host
        self._said = said
        self._asked = asked
        self._inventory = inventory
        self._variable = variable

    def __contains__(self, host: str) -> bool:
        return host in self._inventory

    def option(self, name: str, host: str) -> Any:
        """What this option is for this host; empty where neither the task, the play nor the host says it.

        :raises ConfigError: where the host's own variable cannot be read.
        """
        if self._said.get(name) not in (None, ""):
            return self._asked[name]
        own = self._variable(f"gpufleet_{name}", host)
        return "" if own is None else own

    def connection(self, host: str, node: Mapping[str, Any], port: ModuleType) -> dict[str, Any]:
        """Driver and options of this host, whole: what it lacks is empty, and is not to be had from its neighbour.

        :param node: its entry in the list of nodes; what a task says there goes first.
        """
        own = {name: node.get(name) for name in of_each_host(port.OPTION, port.OPTIONS)}
        return {name: self.option(name, host) if value is None else value for name, value in own.items()}

    def refusal(self, host: str, node: Mapping[str, Any], port: ModuleType | None) -> str:
        """Why this host is none of a call that has one ledger and one login; empty where nothing stands against it."""
        ledger, asked = (str(self.option("ledger_url", one) or default_url()) for one in (host, self._host))
        if ledger != asked:
            return "its gpufleet_ledger_url is not that of this batch, whose leases it would not see: run it separately"
        return self._other_login(host, node, port) if port else ""

    def _other_login(self, host: str, node: Mapping[str, Any], port: ModuleType) -> str:
        """The login of the call is for its own connection. A host of another one is let in nowhere with it."""
        known = of_each_host(port.OPTION, port.OPTIONS)
        same_place = all(
            str(value_of(node, name, port.OPTIONS)) == str(value_of(self._asked, name, port.OPTIONS)) for name in known
        )
        for name in (name for name in port.OPTIONS if name not in known):
            own = str(self.option(name, host) or "")
            if own != str(self._asked.get(name) or "") and (own or same_place):
                return f"its {name} is not that of this batch: watch it in a separate play"
        return ""
