# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import EVIDENCE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks_there import Looks
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._slices import SlicedAction


class ActionModule(SlicedAction):
    """Watches the hosts of the play, and keeps their leases meanwhile."""

    NAME = "scheduler_wait"
    NEEDS_IDENTITY = True
    SPEC = WAIT
    TELLS = {"evidence": EVIDENCE, "hold": ("taken",)}
    PORT: ClassVar[ModuleType | None] = names
    CARRIES = Looks
    UNTOLD = {
        "state": "unknown",
        "native": "",
        "seconds": 0.0,
        "jobs": [],
        "owner": "",
        "finding": "",
        "holds": [],
        "waits": {},
    }
    HOST_VARS = {"scheduler_node": "gpufleet_scheduler_node"}
    verb = staticmethod(scheduler_wait)

    def writes(self, params: Mapping[str, Any]) -> bool:
        """A drain may make work leave, where it does not end by itself."""
        return bool(params["until"] == "drained")

    def written(self, params: Mapping[str, Any]) -> list[str]:
        evicts = {node["host"] for node in params["nodes"] if self._evicts(params, node)}
        return [host for host in super().written(params) if host in evicts]

    def _evicts(self, params: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
        driver = DRIVERS.get(str(node["scheduler"] if "scheduler" in node else params.get("scheduler")))
        return driver is not None and driver.EVICTS

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        params = super().prepare(params)
        failed: dict[str, FleetError] = {}
        names_there = {node["host"]: str(node.get("scheduler_node") or "") for node in params["nodes"]}
        known = holds(self.ledger(), self.ids, self.host_var, failed, names_there)
        refused = {host: refusal(str(exc), exc.kind) for host, exc in failed.items()}
        params["nodes"] = [
            {**known.get(node["host"], {}), **refused.get(node["host"], {}), **node} for node in params["nodes"]
        ]
        return params
