# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the machine is, over Redfish. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine

_NAMES = {"serial": "SerialNumber", "uuid": "UUID", "manufacturer": "Manufacturer", "model": "Model"}


class RedfishIdentity(c.Identify):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def identity(self) -> c.Identity:
        doc = self._machine.system()
        told = {key: str(doc.get(name) or "") for key, name in _NAMES.items()}
        return c.Identity(**told, bmc_firmware=self._machine.bmc_firmware())
