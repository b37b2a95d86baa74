# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifies idle nodes in jobs of their scheduler, from one worker; see the module of the same name."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import looked_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.idle import gate_idle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import IDLE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_jobs import InJobs

_HOUR = 3600.0


class ActionModule(InJobs):
    NAME = "gate_idle"
    NEEDS_IDENTITY = True
    HOLDS = False
    SPEC = IDLE
    PORT: ClassVar[ModuleType | None] = names
    HOST_VARS = {"scheduler_node": "gpufleet_scheduler_node"}
    UNTOLD = {
        "verdict": "",
        "came_to": "skipped",
        "job": "",
        "seconds": 0.0,
        "findings": [],
        "remedy": "none",
        "event": 0,
    }
    verb = staticmethod(gate_idle)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._goes_elsewhere():
            raise ConfigError(
                "gate_idle has the connections of all its nodes, and cannot be delegated",
                do="run it where the commands of Slurm are: a controller on a login node, or with its slurm.conf",
            )
        if int(params["at_once"]) < 1:
            raise ConfigError("nothing would be verified", wanted="at_once of 1 or more", seen=str(params["at_once"]))
        params = super().prepare(params)
        return {**params, "nodes": self._oldest_first(params["nodes"], float(params["older_than"]))}

    def _oldest_first(self, nodes: list[dict[str, Any]], older_than: float) -> list[dict[str, Any]]:
        """Who was never judged goes first; who was lately needs nothing."""
        known = self.ledger().latest(list(self.ids.values()), "verdict", [self._params["gate"]]) if self.ids else {}
        now = self.ledger().now() if known else 0.0
        at: dict[str, float] = {}
        for node in nodes:
            host = str(node.get("host") or "")
            event = known.get(self.ids.get(host, ""))
            judged = event is not None and event["data"].get("verdict") in (PASS, FAIL)
            at[host] = looked_at(event) if event is not None and judged else 0.0
            if 0 <= now - at[host] < older_than and at[host]:
                node.update(refusal(f"its newest verdict is {(now - at[host]) / _HOUR:.1f} h old", NotOurs.kind))
        return sorted(nodes, key=lambda node: at[str(node.get("host") or "")])
