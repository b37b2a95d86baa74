# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the ledger for all hosts of the play; see the module of the same name."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import (
    SPEC,
    known_hosts,
    report,
    status,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction, display
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._one_ledger import of_this_run


class ActionModule(VerbAction):
    NAME = "fleet_status"
    SPEC = SPEC

    def _goes_elsewhere(self) -> bool:
        return False

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        every = self._vars.get("ansible_play_hosts_all") or [self._host]
        hosts = known_hosts(params["hosts"], every)
        told: dict[str, Any] = {}
        for url, group in self._by_ledger(hosts).items():
            self._turn_to(url)
            ids, problems = self._identified(group)
            within = (params["expire_within"], params["issued_within"])
            told.update(status(self.ledger(), ids, self.run_id, *within))
            for host, problem in problems.items():
                told[host]["stopped"] = problem
        nodes = {host: told[host] for host in hosts}
        # What a node or a provisioner said once stands in the rows of the ledger; older releases wrote it as it came.
        lines = [shown(line, self._secrets) for line in report(params["title"], nodes, width=display.columns)]
        if params["report"]:
            display.display("\n" + "\n".join(lines) + "\n")
        return {"changed": False, "nodes": nodes, "lines": lines, "events": []}

    def _by_ledger(self, hosts: list[str]) -> dict[str, list[str]]:
        """A host is where its own ledger says, not where its neighbour's knows nothing of it."""
        groups: dict[str, list[str]] = {}
        for host in hosts:
            url = self._params["ledger_url"]  # of the task, or of the host that runs it
            if not self._task.args.get("ledger_url") and host in self._vars["hostvars"]:
                url = self.host_var("gpufleet_ledger_url", host)
            groups.setdefault(str(url or ""), []).append(host)
        return groups

    def _turn_to(self, url: str) -> None:
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = of_this_run(url, create=not self._task.check_mode)

    def _identified(self, hosts: list[str]) -> tuple[dict[str, str], dict[str, str]]:
        """The ledger's ids, and what is wrong with a host that it cannot identify: such a host stops no report."""
        unknown = [host for host in hosts if host not in self._vars["hostvars"]]
        if unknown:
            raise ConfigError(f"no such host in the inventory: {', '.join(unknown)}", do="correct the option hosts")
        ids, problems = {}, {}
        for host in hosts:
            try:
                ids[host] = self.node_id(host, create=False)
            except ConfigError as exc:
                ids[host], problems[host] = "", f"{exc.what}. {exc.do}"
        return ids, problems
