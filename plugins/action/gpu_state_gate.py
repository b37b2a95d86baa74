# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GPU_STATE_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction


class ActionModule(GateAction):
    NAME = "gpu_state_gate"
    SPEC = GPU_STATE_GATE
    LOADS = False
    BESIDE = ("evidence", "gpus", "counters", "readings", "evidence_path")
    verb = staticmethod(gpu_state_gate)

    def needs(self, wanted: Wanted) -> object:
        return section_of(wanted)

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return asked(params["profile"], verdict, second=_second(params))
        except (ConfigError, KeyError, TypeError, AttributeError):  # a profile that says nothing of this gate
            return {"tests": []}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return lacking(params["profile"], verdict, second=_second(params))

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return own(params["profile"], verdict, second=_second(params))


def _second(params: Mapping[str, Any]) -> bool:
    """Was it told what an earlier look has counted? An empty list tells of no GPU, and is such a look all the same."""
    return params.get("before") is not None
