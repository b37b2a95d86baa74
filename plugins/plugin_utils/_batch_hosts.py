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

from ansible.errors import AnsibleError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import of_each_host, value_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.connection import default_url


class Hosts:
    """The hosts of the inventory, as one task of a batch sees them.

    :param host: the one that runs the task.
    :param said: the options that the task itself gives; they are meant for all.
    :param asked: all options, those filled from variables of ``host`` included.
    :param variable: reads a variable of a host, templated; None where it is not set.
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
        self._of_play: dict[str, Any] = {}

    def __contains__(self, host: str) -> bool:
        return host in self._inventory

    def option(self, name: str, host: str) -> Any:
        """What this option is for this host; empty where neither the task, the play nor the host says it.

        :raises ConfigError: where the host's own variable cannot be read.
        """
        if self._said.get(name) not in (None, ""):
            return self._asked[name]
        variable = f"gpufleet_{name}"
        try:
            own = self._variable(variable, host)
        except AnsibleError as exc:  # it may be made of a variable of the play
            own = self._of_the_play(variable)
            if own == "":
                raise ConfigError(f"its {variable} cannot be read", node=host, do="define what it is made of") from exc
        return self._of_the_play(variable) if own in (None, "") else own

    def _of_the_play(self, variable: str) -> Any:
        """A variable of the play, a role or the task holds for each host, and is not among those of another host.

        It is known by this: the host that runs the task has it, and not from the inventory alone.
        """
        if variable not in self._of_play:
            mine = self._variable(variable, self._host)
            self._of_play[variable] = "" if mine is None or mine == self._listed(variable) else mine
        return self._of_play[variable]

    def _listed(self, variable: str) -> Any:
        if self._host not in self._inventory:
            return self._variable(variable, self._host)
        try:
            return self._inventory[self._host].get(variable)
        except AnsibleError:
            return None

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
