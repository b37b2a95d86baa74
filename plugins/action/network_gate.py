# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.gate import network_gate, plan_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import NETWORK_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction


class ActionModule(GateAction):
    NAME = "network_gate"
    SPEC = NETWORK_GATE
    LOADS = False
    verb = staticmethod(network_gate)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return self._measures(params)

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return self._measures(params)

    def _measures(self, params: Mapping[str, Any]) -> bool:
        """A look disturbs nobody; ports that are filled keep others waiting."""
        return bool(params.get("speeds"))

    def needs(self, wanted: Wanted) -> object:
        return section_of(wanted)

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return asked(params["profile"], _chosen(params), plan_of(params), _speeds(params))
        except (ConfigError, KeyError, TypeError, AttributeError):  # a profile that says nothing of these links
            measured = [f"speed.{name}" for name in _speeds(params)]
            return {"tests": sorted(_chosen(params) + measured), "neighbours": plan_of(params)}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return lacking(params["profile"], _chosen(params), plan_of(params), verdict, _speeds(params))

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return own(params["profile"], _chosen(params), plan_of(params), _speeds(params))


def _chosen(params: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in params.get("tests") or []]


def _speeds(params: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in params.get("speeds") or []]
