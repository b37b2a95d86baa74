# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No two nodes of Ironic have one BMC. PRIVATE to the collection.

Ironic takes it of both, and cleans or switches the machine of one as that of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import one_bmc, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.find import IronicReader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


def demand_free(driver: IronicReader, wanted: Wanted, info: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """As far as this login is shown the others. The hosts of a task ask together.

    :param info: what ``driver_info`` is to say. :param own: the node as it stands; empty where there is none.
    :raises WrongMachine: where another node has the BMC that this one is to have.
    """
    standing = own.get("driver_info") or {}
    told = record.bmc_in({**standing, **info})
    if not told[0] or told == record.bmc_in(standing):
        return
    known = together.same(
        driver,
        f"BMCs that the project {driver.api.project} is shown",
        lambda: driver.api.listed("/nodes", "nodes", fields="uuid,name,driver_info"),
    )
    for raw in known:
        if raw.get("uuid") != own.get("uuid") and one_bmc.is_one(told, record.reached_in(raw.get("driver_info") or {})):
            raise one_bmc.of_another(told, str(raw.get("name") or raw.get("uuid")), wanted, driver.address)
