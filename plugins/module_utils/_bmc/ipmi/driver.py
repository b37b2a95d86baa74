# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IPMI driver: what it can do, over one machine. PRIVATE to the collection.

Arrows point down: driver -> power, boot, identity, sel -> machine -> link.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.boot import IpmiBoot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.identity import IpmiIdentity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.power import IpmiPower
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.sel import IpmiEvents
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


class IpmiBmc(c.Bmc):
    """One machine behind one IPMI BMC."""

    protocol = "ipmi"
    #: pyghmi has one event loop for all sessions of a process.
    in_threads = False

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.machine = Machine(params, ctx)
        self.address = self.machine.address
        made = (IpmiPower, IpmiBoot, IpmiIdentity, IpmiEvents)
        self.has = tuple(capability(self.machine) for capability in made)

    def quirks(self) -> tuple[str, ...]:
        return tuple(sorted(row.name for row in self.machine.rows().values()))

    def close(self) -> None:
        self.machine.close()
