# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``bmc_info``: what a BMC says, and nothing else. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result


def info(params: Mapping[str, Any], ctx: Context) -> Result:
    """Power, boot override, identity and capabilities of one machine; reads only."""
    with connect(params, ctx) as bmc:
        found = {
            "address": bmc.address,
            "power": bmc.power.state(),
            "boot": _override(bmc),
            "identity": bmc.identify.identity().as_dict(),
            "machine": shown(bmc, params),
            "capabilities": _capabilities(bmc),
            "tls_fingerprint": bmc.certificate(),
            **(_macs(bmc) if params.get("macs", True) else {}),
            **(_hardware(bmc, params.get("firmware") or []) if params.get("hardware") else {}),
        }
    if found.get("hardware"):
        found["hardware"].update(_told_elsewhere(found))
    return Result(changed=False, data=found)


def _told_elsewhere(found: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for the machine's identity and its cards tells parts as well."""
    own = [one for one in found.get("macs") or [] if not one["locally_administered"]]
    bmc = found["identity"]["bmc_firmware"]
    firmware = {**found["hardware"]["firmware"], **({"bmc": bmc} if bmc else {})}
    return {"nic_count": len(own) if own and not found["macs_unread"] else None, "firmware": firmware}


def _override(bmc: c.Bmc) -> dict[str, str] | None:
    try:
        return bmc.boot.override().as_dict()
    except Unsupported:
        return None
    except FleetError as exc:
        raise exc.located(address=bmc.address) from None


def _macs(bmc: c.Bmc) -> dict[str, Any]:
    """Where the protocol has no word for them, null: the machine may have any."""
    if not any(isinstance(part, c.Cards) for part in bmc.has):
        return {"macs": None, "macs_unread": []}
    told = bmc.cards.macs()
    return {"macs": [mac.as_dict() for mac in told.found], "macs_unread": list(told.unread)}


def _hardware(bmc: c.Bmc, firmware: Sequence[str]) -> dict[str, Any]:
    """Where the protocol has no word for the parts, null."""
    if not any(isinstance(part, c.Inventory) for part in bmc.has):
        return {"hardware": None, "hardware_unread": []}
    told = bmc.inventory.hardware(firmware)
    return {"hardware": told.hardware.as_dict(), "hardware_unread": list(told.unread)}


def _capabilities(bmc: c.Bmc) -> dict[str, Any]:
    """What the BMC says that it can do; null where it does not say."""
    try:
        boot = bmc.boot.offer()
    except Unsupported:
        boot = c.BootOffer()
    return {
        "protocol": bmc.protocol,
        "power": _listed(bmc.power.offer()),
        "boot_targets": _listed(boot.targets),
        "boot_modes": _listed(boot.modes),
        "http_boot_uri": boot.http_boot_uri,
        "shows_boot_override": boot.shows,
        "quirks": list(bmc.quirks()),
    }


def _listed(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)
