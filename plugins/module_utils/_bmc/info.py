# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``bmc_info``: what a BMC says, and nothing else. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result


def info(params: Mapping[str, Any], ctx: Context) -> Result:
    """Power, boot override, identity and capabilities of one machine; reads only."""
    with connect(params, ctx) as bmc:
        power = bmc.power_state()
        try:
            override: dict[str, str] | None = bmc.boot_override().as_dict()
        except Unsupported:
            override = None
        except FleetError as exc:
            raise exc.located(address=bmc.address) from None
        found = {
            "address": bmc.address,
            "power": power,
            "boot": override,
            "identity": bmc.identity().as_dict(),
            "capabilities": bmc.capabilities().as_dict(),
        }
    return Result(changed=False, data=found)
