# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In what a provisioner's record and the inventory contradict each other. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Network, mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import contradict, same_serial


def other_serial(serials: Mapping[str, str], wanted: Wanted) -> str:
    """Each source speaks for itself: what we once wrote into the record does not outvote what an inspection found."""
    for source, serial in serials.items():
        if contradict(serial, wanted.serial) and not its_own(serial, wanted):
            return f"serial {serial} ({source})"
    return ""


def its_own(serial: str, wanted: Wanted) -> bool:
    """Who swapped the board has said so to the ledger, and to no provisioner."""
    return any(same_serial(serial, one) for one in (wanted.serial, *wanted.former_serials))


def other_cards(network: Network, wanted: Wanted, same: bool) -> str:
    """None of the known cards is the boot card. A list that may lack cards is outvoted by a serial that agrees."""
    if not network.macs or mac(wanted.boot_mac) in network.macs or (same and not network.complete):
        return ""
    return f"no card with MAC {mac(wanted.boot_mac)}, but {', '.join(sorted(network.macs))}"
