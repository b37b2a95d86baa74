# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches the detached gates of a batch in one worker; see the module of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.job import NO_SOAK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import ASKED, LACKING, OWN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GATE_WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import FROM_START, command, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import AFTER_EVENT, LOOKED_AT, Moment
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks import Looks


class ActionModule(BatchAction):
    NAME = "gate_wait"
    NEEDS_IDENTITY = True
    SPEC = GATE_WAIT
    UNTOLD = {"verdict": "", "seconds": 0.0}
    FROM_AFTER = (*FROM_START, AFTER_EVENT, LOOKED_AT)
    verb = staticmethod(gate_wait)

    def _goes_elsewhere(self) -> bool:
        return False

    def batch(self) -> list[str]:
        """Nobody waits for a soak that was to be ended where none goes on."""
        return [host for host in super().batch() if not any(map(_idle, self._after(host)))]

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if not params.get("after") and not params.get("nodes"):
            raise ConfigError("nobody said which jobs to wait for", do="give the option after")
        params = super().prepare(params)
        self._jobs = {str(node.get("host") or ""): Moment.of(node) for node in params["nodes"]}
        looks = Looks(self, self._vars, timeout=params["look_timeout"])

        def look(nodes: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
            return looks.ask({str(node["host"]): command(node) for node in nodes})

        gate = params["gate"]
        return {**params, "look": look, "lacking": LACKING[gate], "asked_of": ASKED[gate], "own": OWN[gate]}

    def began(self, host: str) -> Moment:
        """When its job did, as whoever started it told."""
        return self._jobs.get(host, Moment())

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._once(params, self._concluded)

    def _concluded(self, params: dict[str, Any]) -> dict[str, Any]:
        """Recorded before the others get the answer: each then looks its verdict up in the ledger.

        The whole verdicts stay there. A registered result of ``run_once`` is kept once for each host.
        """
        result = VerbAction._in_worker(self, params)
        self._record(result)
        for event in result["events"]:
            result["verdicts"][event["node"]]["event"] = event.get("id", 0)
        result["events"] = []
        return result


def _idle(after: Any) -> bool:
    return isinstance(after, Mapping) and bool(after.get(NO_SOAK))
