# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host variables of the roles out of what a tenant may write at a provisioner. PRIVATE to the collection.

Whoever has a machine may often annotate it: MAAS's workload annotations, Ironic's extra and properties. What steers the
roles (which scheduler node, which SKU, whose tenant, which machine at all) is taken from there only where the site has
named it, and is then checked like the cell of a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields, is_nothing
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

#: Host variables that a site may name; never a secret, never an address of ours.
NAMES = ("node_id", "sku", "failure_domain", "tenant", "scheduler", "scheduler_node")
#: Ironic has no serial and no UUID of its own, and no first among several ports that may boot.
IRONIC_NAMES = (*NAMES, "bmc_system_id", "serial", "system_uuid", "boot_mac")
#: Where sites and tools keep a variable beside its own name.
_OTHER_PLACES: Mapping[str, tuple[str, ...]] = {
    "gpufleet_serial": ("serial_number", "serial", "system_serial"),
    "gpufleet_system_uuid": ("system_uuid",),
}


class Control(Fields):
    """The option ``control_variables`` of one source: without it, nothing is taken."""

    OPTION = "control_variables"

    def __init__(self, given: Any, allowed: tuple[str, ...], where: str) -> None:
        """:raises ConfigError: for a variable that nobody may fill so."""
        super().__init__(None, where)
        if given and not (isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given)):
            raise self._error("", "a list of host variables is wanted")
        known = {f"gpufleet_{name}" for name in allowed}
        self._names = tuple(str(name) for name in given or ())
        for name in self._names:
            if name not in known:
                raise self._error(name, f"no variable that is taken from there; these are {', '.join(sorted(known))}")

    def take(self, record: Record, *places: Any) -> Record:
        """The record with what was named, of the first place that has it, where the source itself says nothing.

        :raises ConfigError: for what the variable cannot be, with the place of the record.
        """
        wanted = [name for name in self._names if record.variables.get(name) in (None, "")]
        return self.fill(record, {name: _found(name, places) for name in wanted})


def _found(name: str, places: tuple[Any, ...]) -> Any:
    kept = [place for place in places if isinstance(place, Mapping)]
    values = (place.get(key) for key in (name, *_OTHER_PLACES.get(name, ())) for place in kept)
    return next((value for value in values if value not in (None, "") and not is_nothing(name, value)), None)
