# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule on what of a connection leads to one of several peers, which the list of a port tells of each driver."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.baremetal.tests.tree.code import tree_of
from ansible_collections.gpufleet.baremetal.tests.tree.names import constants, lists


def leads_untold(root: Path) -> list[str]:
    """Where the list says which options lead to one of several peers, it does for each driver that is reached by any:
    whoever is sent to the wrong one is told what to correct."""
    complaints = []
    for port in lists(root):
        leads = constants(tree_of(root / port.file)).get("LEADS")
        for driver, taken in port.drivers.items() if leads is not None else ():
            row = leads.get(driver, ())
            if taken and not row:
                complaints.append(f"{port.file}: LEADS has no row for the driver {driver}")
            others = [option for option in row if option not in taken]
            complaints += [f"{port.file}: LEADS has {one}, which the driver {driver} does not take" for one in others]
        strangers = sorted(set(leads or ()) - set(port.drivers))
        complaints += [f"{port.file}: LEADS has a row for {name}, which is no driver" for name in strangers]
    return complaints
