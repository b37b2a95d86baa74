# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the nodes of a batch with each other in one worker; see the module of the same name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.pair.gate import GATE, pair_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import tests_between
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import PAIR_GATE, PAIR_GATE_RULES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal as stops
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _machine
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._collects import Collects
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import used, weakened_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks import Looks

#: What becomes a word of a command on another node.
_ADDRESS = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:_-]{0,252}\Z")
#: Each pair is two of them, and both have to run at once.
_THREADS = 64


class ActionModule(BatchAction, Collects):
    NAME = GATE
    NEEDS_IDENTITY = True
    SPEC = PAIR_GATE
    RULES = PAIR_GATE_RULES
    TELLS = {"verdict": (GATE,)}
    UNTOLD = {"verdict": ""}
    verb = staticmethod(pair_gate)

    def _goes_elsewhere(self) -> bool:
        return False

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params["collect"]:
            self.ids: dict[str, str] = {}
            return params
        params = super().prepare(params)
        self._weaker: dict[str, list[dict[str, Any]]] = {}
        self._looks_at = Looks(self, self._vars, timeout=60.0, threads=_THREADS)
        for node in params["nodes"]:
            self._completed(node, params)
        self._right_machines(params["nodes"], params)
        return {**params, "look": self._look, "asks": partial(tests_between, params)}

    def _look(self, commands: Mapping[str, str], seconds: float) -> Mapping[str, tuple[str, str]]:
        return self._looks_at.ask(commands, timeout=seconds)

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        return self.collected(params) if params["collect"] else self._once(params, self._recorded_first)

    def _recorded_first(self, params: dict[str, Any]) -> dict[str, Any]:
        """Recorded before the others get the answer: each then looks its verdict up in the ledger."""
        result = {**super(BatchAction, self)._in_worker(params), "asked": []}
        for host, rows in self._weaker.items():
            (result.get("verdicts") or {}).get(host, {}).update({"weakened": rows} if rows else {})
        self._record(result)
        return {**result, "events": []}

    def _concluded(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        if stops(result, str(params["fail_on"]), check_mode=bool(self._task.check_mode)):
            result["failed"] = True
        return result

    # -- what is known of each host --------------------------------------------------------------------------------

    def _completed(self, node: dict[str, Any], params: Mapping[str, Any]) -> None:
        """With its address, its leaf and its profile; what is wrong with one of them is its own trouble."""
        host = str(node.get("host") or "")
        if node.get("refused"):
            return
        try:
            told = {key: self.host_var(str(params[f"{key}_variable"]), host) for key in ("address", "leaf")}
            node.update({key: value for key, value in told.items() if value is not None and not node.get(key)})
            node["address"] = str(node.get("address") or host)
            if not _ADDRESS.match(node["address"]):
                raise ConfigError("no address at which another node could reach it", seen=node["address"])
            profile, where = self._profile(params, host)
            self._weaker[host] = weakened_of(GATE, profile, where)
            node["wanted"] = wanted_of(profile)
        except ConfigError as exc:
            node.update(refusal(f"{host}: {exc}", exc.kind))

    def _profile(self, params: Mapping[str, Any], host: str) -> tuple[Mapping[str, Any], str]:
        """It, and where it stands."""
        return used({**params, "sku": self._task.args.get("sku") or self.host_var("gpufleet_sku", host)})

    def _right_machines(self, nodes: Sequence[dict[str, Any]], params: Mapping[str, Any]) -> None:
        """Nothing is run on a machine of which nobody knows that it is the node."""
        asked = {}
        for node in (node for node in nodes if not node.get("refused")):
            host = str(node["host"])
            proven = _machine.proven(self.ledger(), self.ids.get(host, ""), self.run_id)
            if proven is False:
                exc = _machine.refused(self.ledger(), self.ids[host], host)
                node.update(refusal(str(exc), exc.kind))
            elif proven is None:
                asked[host] = node
        folders = {host: str(node.get("dmi_path") or params["dmi_path"]) for host, node in asked.items()}
        asks = {host: _machine.question(folder) for host, folder in folders.items()}
        for host, (text, problem) in self._look(asks, 60.0).items() if asks else ():
            try:
                self._demand(host, _machine.told(text, problem))
            except FleetError as exc:
                asked[host].update(refusal(str(exc), exc.kind))

    def _demand(self, host: str, machine: Mapping[str, Any]) -> None:
        inventory = {key: self.host_var(f"gpufleet_{key}", host) for key in ("serial", "system_uuid")}
        dry, node = bool(self._task.check_mode), self.ids.get(host, "")
        _machine.demand(host, _machine.known(self.ledger(), node, inventory), machine, dry=dry)
        _machine.not_of_another(self.ledger(), node, host, machine)
