# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``bmc_info``: what a BMC says, and nothing else. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import compare
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
            "machine": _compared(bmc, params),
            "capabilities": _capabilities(bmc),
            "tls_fingerprint": bmc.certificate(),
            **(_macs(bmc) if params.get("macs", True) else {}),
        }
    return Result(changed=False, data=found)


def _compared(bmc: c.Bmc, params: Mapping[str, Any]) -> dict[str, Any]:
    """Is it the machine that is meant? Shown, and judged by whoever asks."""
    found = compare(bmc, params)
    return {"serial": found.serial, "agrees": list(found.agrees), "contradicts": list(found.contradicts)}


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
