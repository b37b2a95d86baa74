# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import in_order
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import known_hosts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.map import topology_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import TOPOLOGY
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _places as places
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._services import fleet


class ActionModule(VerbAction):
    """Fills in where each host is, as inventory and ledger have it."""

    NAME = "topology_file"
    SPEC = TOPOLOGY
    verb = staticmethod(topology_file)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)
        given = params["topologies"]
        if all(one.get("units") for one in given):
            return params
        planned = self._planned(params)
        if not params.get("force_reason"):
            places.demand(planned)
        return {**params, "topologies": [places.filled(one, planned) for one in given]}

    def _planned(self, params: dict[str, Any]) -> dict[str, places.Host]:
        hosts = in_order(known_hosts(params["hosts"], fleet(self._vars, self.host_var) or [self._host]))
        unknown = [host for host in hosts if host not in self._vars["hostvars"]]
        if unknown:
            raise ConfigError(f"no such host in the inventory: {', '.join(unknown)}", do="correct hosts")
        driver = params["scheduler"]
        hosts = [host for host in hosts if self.host_var("gpufleet_scheduler", host) in (None, "", driver)]
        ids = {host: self.node_id(host, create=False) for host in hosts}
        nodes = {host: str(self.host_var("gpufleet_scheduler_node", host) or host) for host in hosts}
        return places.planned(self.ledger(), ids, nodes, self.host_var)
