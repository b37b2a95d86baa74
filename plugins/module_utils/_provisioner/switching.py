# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a driver tells and does of a machine's power. PRIVATE to the collection."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported

ON, OFF = "on", "off"


class OfPower:
    """A part of :class:`Driver`."""

    name: str
    address: Any
    busy: frozenset[str]
    #: Does it switch a machine's power where it is asked to? ``owns_power`` says another thing: that it boots machines
    #: by itself, and that nobody is to switch their power past it.
    switches: bool = False

    def power_of(self, node: Any) -> str:
        """:data:`ON` or :data:`OFF`, as it is told of the machine's BMC now; else what it says of it, in words."""
        raise NotImplementedError

    def switch(self, state: str, node: Any, wanted: Any) -> None:
        """Send the request that switches it :data:`ON` or :data:`OFF`, at once. What it answers is not believed."""
        raise NotImplementedError

    def demand_switchable(self, goals: Any, node: Any, wanted: Any) -> None:
        """:raises Refused: where it would refuse one of these, before any of them is sent: a machine that went off is
        not to be left off because it refuses to switch it on."""

    def is_at_work(self, node: Any) -> bool:
        """Does it just do something with the machine, of which its power is a part?"""
        return node.native in self.busy

    def demand_switches(self, state: str) -> None:
        """:raises Unsupported: before anything is asked of the provisioner."""
        if not self.switches:
            raise Unsupported(
                f"{self.name} cannot do what is asked for: state {state}",
                address=self.address,
                seen="it switches no power, or none that we could ask it for",
                do="ask the machine's BMC (redfish_power); nothing was changed",
            )
