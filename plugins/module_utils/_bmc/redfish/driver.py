# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Redfish driver: what it can do, over one machine. PRIVATE to the collection.

Arrows point down: driver -> power, boot, identity, macs, inventory, log -> machine -> link, select, task -> answers.
Beside the machine stands words: it says what a failure means once the verb has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.boot import RedfishBoot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.identity import RedfishIdentity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.inventory import RedfishInventory
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log import RedfishEvents
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.macs import RedfishCards
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.power import RedfishPower
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.words import Words
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


class RedfishBmc(c.Bmc):
    """One system of one Redfish service."""

    protocol = "redfish"

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.machine = Machine(params, ctx)
        self.address = self.machine.address
        made = (RedfishPower, RedfishBoot, RedfishIdentity, RedfishCards, RedfishInventory, RedfishEvents)
        self.has = tuple(capability(self.machine) for capability in made)

    def certificate(self) -> str:
        return self.machine.pin.seen

    def quirks(self) -> tuple[str, ...]:
        return tuple(sorted(row.name for row in self.machine.rows().values()))

    def explain(self, problem: FleetError) -> None:
        Words(self.machine.link, lambda: self.machine.root).put_into(problem)

    def close(self) -> None:
        self.machine.close()
