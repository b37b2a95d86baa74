# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, LeaseHeld
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds


class ActionModule(BatchAction):
    """Watches the hosts of the play, and keeps their leases meanwhile."""

    NAME = "scheduler_wait"
    SPEC = WAIT
    HOST_VARS = {
        "scheduler": "gpufleet_scheduler",
        "scheduler_conf": "gpufleet_scheduler_conf",
        "scheduler_node": "gpufleet_scheduler_node",
    }
    verb = staticmethod(scheduler_wait)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("nodes"):
            return params
        params = super().prepare(params)
        # What the task itself says is meant for all; what was filled in came from the first host's variables.
        said = {name: params[name] for name in ("scheduler", "scheduler_conf") if self._task.args.get(name)}
        nodes = {node["host"]: {**node, **said} for node in params["nodes"]}
        ids = self._identified(nodes)
        if not self._task.check_mode:
            ids = self._leased(nodes, ids)
        for host, known in holds(self.ledger(), ids).items():
            nodes[host].update(known)
        params["nodes"] = list(nodes.values())
        return params

    def _identified(self, nodes: dict[str, dict[str, Any]]) -> dict[str, str]:
        """Node ids by host; a host that the ledger cannot identify is refused alone."""
        ids = {}
        for host, node in nodes.items():
            try:
                ids[host] = self.node_id(host)
            except ConfigError as exc:
                node["refused"] = str(exc)
        return ids

    def _leased(self, nodes: dict[str, dict[str, Any]], ids: dict[str, str]) -> dict[str, str]:
        """Take the leases, so that the wait renews them; a node on which another run works is refused alone."""
        try:
            self._line.hold(list(ids))
            return ids
        except LeaseHeld:
            pass
        kept = {}
        for host, node_id in ids.items():
            try:
                self._line.hold([host])
                kept[host] = node_id
            except LeaseHeld as exc:
                nodes[host]["refused"] = str(exc.located(node=host))
        return kept
