# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What went with a node from one provisioner to another, what did not, and what its inventory says then. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Changes, Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


def carried(driver: Driver, wanted: Wanted, params: Mapping[str, Any], marked: Changes) -> dict[str, Any]:
    """By what it is known now, and in words what somebody who needs it there has to say there.

    :param marked: what came of its annotations.
    """
    tells: Mapping[str, Any] = params.get("carry") or {}
    marks: Mapping[str, Any] = tells.get("annotations") or {}
    left = sorted(set(marks) & set(marked.deferred))
    taken = {key: value for key, value in marks.items() if key not in left}
    went = {
        "name": wanted.name,
        "boot_mac": wanted.boot_mac,
        "serial": wanted.serial,
        "bmc": "of the inventory" if wanted.bmc.get("bmc_address") else "",
        "annotations": taken,
    }
    old, address = str(tells.get("name") or ""), str(tells.get("bmc_address") or "")
    not_carried = [
        f"the name {old}: it is {wanted.name} now" if old and old != wanted.name else "",
        f"the image {tells.get('image')}, which was released there: deploy it anew" if tells.get("image") else "",
        f"the BMC's address {address}: set gpufleet_bmc_address" if address and not went["bmc"] else "",
        *(f"the address {one}: give it in enroll_driver where {driver.name} takes one" for one in _addresses(tells)),
        *(f"the annotation {one}: {driver.name} keeps none for it now; give it with its deployment" for one in left),
    ]
    return {
        "carried": {key: one for key, one in went.items() if one},
        "not_carried": [one for one in not_carried if one],
    }


def _addresses(tells: Mapping[str, Any]) -> list[str]:
    return [str(one) for one in tells.get("addresses") or []]


def lines(driver: Driver, params: Mapping[str, Any], origin: Mapping[str, Any], wanted: Wanted) -> list[str]:
    """What the inventory is to say of this host from now on. No secret: whoever has given it knows where from."""
    own, old = names.DRIVERS[driver.name], names.DRIVERS.get(str(origin.get("provisioner") or ""), ())
    told = [f"gpufleet_{names.OPTION}: {driver.name}"]
    for option, spec in names.OPTIONS.items():
        if option in own and params.get(option):
            # Without a colon: what follows one is masked there, as a secret's place is.
            secret = spec.get("no_log")
            told.append(
                f"gpufleet_{option}, as migrate_to has it" if secret else f"gpufleet_{option}: {params[option]}"
            )
        elif option in old:
            told.append(f"no gpufleet_{option}")
    named = str(params.get("provisioner_id") or "")
    return [*told, f"gpufleet_provisioner_id: {named}" if named else f"no gpufleet_provisioner_id: it is {wanted.name}"]
