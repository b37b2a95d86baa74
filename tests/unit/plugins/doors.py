# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions over real objects of Ansible and a real ledger, as a worker runs them, without a playbook around them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction

SECRET = "hunter2-of-the-bmc"
Verb = Callable[[Any, Context], Result]


def hostvars(loader: DataLoader, hosts: Mapping[str, Mapping[str, Any]]) -> HostVars:
    """An inventory of these hosts, as a worker sees it."""
    inventory = InventoryManager(loader=loader, parse=False)
    for name, variables in hosts.items():
        inventory.add_host(name)
        for key, value in variables.items():
            inventory.hosts[name].set_variable(key, value)
    return HostVars(inventory, VariableManager(loader=loader, inventory=inventory), loader)


class Door:
    """An action around a verb, as a task of a host would run it in its worker.

    of_play: variables of the play; hostvars: those of each host of the inventory; inventory: the same, made before.
    """

    def __init__(
        self,
        folder: Path,
        verb: Verb,
        *,
        check_mode: bool = False,
        diff: bool = False,
        base: type[VerbAction] = VerbAction,
        more: Mapping[str, Any] | None = None,
        name: str = "redfish_power",
        own_spec: Mapping[str, Any] | None = None,
        args: Mapping[str, Any] | None = None,
        of_play: Mapping[str, Any] | None = None,
        **host_vars: Any,
    ) -> None:
        loader = DataLoader()
        self.ledger = folder / "ledger.sqlite"
        shared = {"gpufleet_ledger_url": f"sqlite:///{self.ledger}"}
        hosts = {name: {**shared, **own} for name, own in host_vars.pop("hostvars", {}).items()}
        inventory = host_vars.pop("inventory", None) or hostvars(loader, hosts)
        self.variables = {
            "inventory_hostname": "gpu001",
            "gpufleet_serial": "GF0001",
            **shared,
            "gpufleet_bmc_password": SECRET,
            **host_vars,
            **(of_play or {}),
            "hostvars": inventory,
        }
        content = {"NAME": name, "SPEC": own_spec or spec(FLEET, BMC, more or {}), "verb": staticmethod(verb)}
        action = type("Action", (base,), content)
        said = {"name": "t", "action": "debug", "check_mode": check_mode, "diff": diff}
        book = {"hosts": "all", "gather_facts": False, "vars": dict(of_play or {}), "tasks": [said]}
        play = Play.load(book, variable_manager=inventory._variable_manager, loader=loader)
        task = play.tasks[0].block[0]
        task.args = dict(args or {})
        self.task = task
        context = PlayContext()
        connection = connection_loader.get("local", context)
        templar = Templar(loader=loader, variables=self.variables)
        self._action = action(task, connection, context, loader, templar, None)

    def run(self) -> dict[str, Any]:
        result: dict[str, Any] = self._action.run(task_vars=dict(self.variables))
        return result

    def events(self) -> list[tuple[str, str, str]]:
        """Kind, name and data."""
        if not self.ledger.exists():
            return []
        with sqlite3.connect(self.ledger) as connection:
            return list(connection.execute("SELECT kind, name, data FROM events ORDER BY id"))
