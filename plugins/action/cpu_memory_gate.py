# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.gate import cpu_memory_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import HEALTH, section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import CPU_MEMORY_GATE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._floors_gate import Claims, FloorsGate


class ActionModule(FloorsGate):
    NAME = "cpu_memory_gate"
    SPEC = CPU_MEMORY_GATE
    verb = staticmethod(cpu_memory_gate)
    CHOICE = "tests"
    CLAIMS = Claims(section_of, asked, lacking, own)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return self._loads(params)

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return self._loads(params)

    def _loads(self, params: Mapping[str, Any]) -> bool:
        """The look at what the kernel counts disturbs nobody; each load does."""
        return set(self._chosen(params)) != {HEALTH}
