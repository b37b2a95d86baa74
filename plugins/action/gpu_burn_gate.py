# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.gate import gpu_burn_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import burns_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import GPU_BURN_GATE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._floors_gate import Claims, FloorsGate


class ActionModule(FloorsGate):
    NAME = "gpu_burn_gate"
    SPEC = GPU_BURN_GATE
    verb = staticmethod(gpu_burn_gate)
    CHOICE = "tests"
    CLAIMS = Claims(burns_of, asked, lacking, own)
