# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.gate import collective_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import COLLECTIVE_GATE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._floors_gate import Claims, FloorsGate


class ActionModule(FloorsGate):
    NAME = "collective_gate"
    SPEC = COLLECTIVE_GATE
    verb = staticmethod(collective_gate)
    CHOICE = "tests"
    CLAIMS = Claims(floors_of, asked, lacking, own)
