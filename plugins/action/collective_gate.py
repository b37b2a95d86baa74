# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.gate import collective_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import COLLECTIVE_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction


class ActionModule(GateAction):
    NAME = "collective_gate"
    SPEC = COLLECTIVE_GATE
    LOADS = True
    verb = staticmethod(collective_gate)

    def needs(self, wanted: Wanted) -> object:
        return floors_of(wanted)

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return asked(params["profile"], _tests(params))
        except (ConfigError, KeyError, TypeError, AttributeError):  # a profile that says nothing of these tests
            return {"tests": sorted(_tests(params))}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return lacking(params["profile"], _tests(params), verdict)

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return own(params["profile"], _tests(params))


def _tests(params: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in params.get("tests") or []]
