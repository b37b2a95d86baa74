# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import dcgm_gate, stresses
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import DCGM_GATE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction


class ActionModule(GateAction):
    NAME = "dcgm_gate"
    SPEC = DCGM_GATE
    verb = staticmethod(dcgm_gate)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return stresses(params)

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return stresses(params)
