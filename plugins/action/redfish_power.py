# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb redfish_power on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.power import power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import rehearse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import POWER_SPEC
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import CertifiedAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._within import PastProvisioner

# The system's CA bundle is read and the ways through the libraries are walked once, here, before the workers fork.
rehearse()


class ActionModule(ForAll, PastProvisioner, CertifiedAction):
    """Changes a machine's power from the controller's worker process."""

    NAME = "redfish_power"
    SPEC = POWER_SPEC
    verb = staticmethod(power)
    TOUCHES = True
    LEAVES = True

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return bool(params["state"] != "on")
