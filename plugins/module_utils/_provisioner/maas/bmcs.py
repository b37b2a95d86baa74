# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No two machines of MAAS have one BMC. PRIVATE to the collection.

MAAS takes it of both, and boots or switches the machine of one as that of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import one_bmc, together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.find import MaasReader, bmc_in
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


def demand_free(
    driver: MaasReader, wanted: Wanted, parameters: Mapping[str, Any], standing: Mapping[str, Any], own: str
) -> None:
    """Those of all come with their secrets, which stay in here; a key that is no administrator's is told none. The
    hosts of a task ask together.

    :param parameters: what is to stand there. :param own: the machine's system id; empty where there is none.
    :raises WrongMachine: where another machine has the BMC that this one is to have.
    """
    told = bmc_in({**standing, **parameters})
    if not told[0] or told == bmc_in(standing):
        return
    try:
        known = together.same(
            driver,
            f"BMCs that {driver.whoami()} is shown",
            lambda: driver.api.get("machines/", [("op", "power_parameters")]),
        )
    except (NotOurs, Refused):
        return
    for other, its in (known if isinstance(known, dict) else {}).items():
        if other != own and isinstance(its, dict) and one_bmc.is_one(told, bmc_in(its)):
            raise one_bmc.of_another(told, other, wanted, driver.address)
