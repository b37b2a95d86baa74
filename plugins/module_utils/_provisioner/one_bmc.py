# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the BMC that a provisioner's record has the one of the inventory, however each of them spells it? PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bmc_address as bmc_address
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

#: Ports that an address of a BMC need not name.
_BMC_PORTS = (None, 443, 623)


def same_bmc(told: tuple[str, str], bmc: Mapping[str, Any]) -> bool:
    """One address may serve several systems."""
    system, ours = _last(told[1]), _last(str(bmc.get("bmc_system_id") or ""))
    return _same_address(told[0], bmc) and system in (ours, "")


def is_one(told: tuple[str, str], other: tuple[str, str]) -> bool:
    """May these two records switch the same machine? Where one names no system, it is the only one there."""
    place, systems = bmc_place(told[0]), {_last(told[1]), _last(other[1])} - {""}
    return bool(place) and place == bmc_place(other[0]) and len(systems) < 2


def of_another(told: tuple[str, str], name: str, wanted: Wanted, address: str) -> WrongMachine:
    """:param name: of the record that has it."""
    return WrongMachine(
        f"its BMC belongs to another record there than {wanted.key}",
        node=wanted.host,
        address=address,
        wanted=f"the BMC {' '.join(filter(None, told))} of no other record",
        seen=f"record {name}",
        do="correct gpufleet_bmc_address or gpufleet_bmc_system_id, or set gpufleet_provisioner_id to the record that"
        " was seen, once you have seen that it is this machine; nothing was changed",
    )


def other_system(told: tuple[str, str], bmc: Mapping[str, Any]) -> str:
    """Which system the record has at the very BMC of the inventory, where that has another one or names none."""
    return _last(told[1]) if _same_address(told[0], bmc) and not same_bmc(told, bmc) else ""


def _same_address(told: str, bmc: Mapping[str, Any]) -> bool:
    address = bmc_place(told)
    return bool(address) and address == bmc_place(str(bmc.get("bmc_address") or ""))


def bmc_place(address: str) -> str:
    """Whatever it is called: an address with or without its scheme, and the port that goes without saying."""
    try:
        parts = bmc_address.split(address)
    except ValueError:
        return ""
    return bmc_address.joined(net.called(parts.host), None if parts.port in _BMC_PORTS else parts.port)


def parts_of(bmc: Mapping[str, Any], node: str, schemes: Optional[tuple[str, ...]] = None) -> bmc_address.Parts:
    """The BMC's address of the inventory, for a record.

    :param schemes: those that it may have, where not any.
    :raises ConfigError: where nobody would reach a BMC by it.
    """
    with suppress(ValueError):
        parts = bmc_address.split(str(bmc.get("bmc_address") or ""))
        if not parts.login and (schemes is None or parts.scheme in ("", *schemes)):
            return parts
    raise ConfigError(
        "the BMC's address cannot be used",
        node=node,
        wanted="host or host:port, an address of IPv6 with a port in brackets, and no login in it",
        do="correct gpufleet_bmc_address",
    )


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
