# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import STORAGE_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.gate import storage_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import HEALTH, section_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._floors_gate import Claims, FloorsGate


class ActionModule(FloorsGate):
    NAME = "storage_gate"
    SPEC = STORAGE_GATE
    verb = staticmethod(storage_gate)
    CHOICE = "tests"
    CLAIMS = Claims(section_of, asked, lacking, own)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return self._measures(params)

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return self._measures(params)

    def _measures(self, params: Mapping[str, Any]) -> bool:
        """The look at the drives disturbs nobody; whatever else is asked of them does."""
        return set(self._chosen(params)) != {HEALTH}
