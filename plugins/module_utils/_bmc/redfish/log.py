# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system event log over Redfish: reads it, and never clears it. PRIVATE to the collection.

A log comes in pages, and each BMC has an order of its own: newest first (iDRAC), oldest first (AMI, iLO), or by the
letters of its ids (OpenBMC). So what is newest is found by time and id; where the pages so far go from newer to older
without a break, those that follow need not be read. A log that has no end is read to a bound, and that is told.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_entry import entry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_links import Linked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_order import Newest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_pages import Pages
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.log_services import Found, Services
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import Log

_FULL = "NeverOverWrites"


class RedfishEvents(c.Events):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def newest(self, most: int, since: float | None = None) -> Log:
        services = Services(self._machine)
        found = services.event_log()
        newest = Newest(most, since)
        pages = Pages(self._machine, found.entries, newest)
        pages.read()
        if pages.links:
            Linked(pages, newest).read()
        unread = (*services.unread, *_silent(found, pages.total), *pages.unread)
        return Log(found.name, tuple(map(entry, newest.docs())), pages.total, unread, found.clock)


def _silent(found: Found, total: int | None) -> list[str]:
    """Why there may be events that this log does not have."""
    told = []
    if found.doc.get("ServiceEnabled") is False:
        told.append(f"{found.name.uri}: the BMC says that it is disabled")
    limit = found.doc.get("MaxNumberOfRecords")
    full = isinstance(limit, int) and total is not None and 0 < limit <= total
    if full and found.doc.get("OverWritePolicy") == _FULL:
        told.append(f"{found.name.uri}: it is full, and the BMC writes nothing more into it")
    return told
