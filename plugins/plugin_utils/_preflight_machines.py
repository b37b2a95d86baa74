# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is each BMC there, does it take the login, and is the machine behind it the one that the row says? PRIVATE."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _bmc_address as bmc_address
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC as OPTIONS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.certificate import fingerprint
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import DEFAULT_PROTOCOL, DRIVERS, connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import OPTIONS as KNOWN_BY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import Recognised
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    Unreachable,
    Unsupported,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.one_bmc import bmc_place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import same_serial, serial_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_cells as cells
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import NOTE, ONE_NODE, SITE, Cause
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight_apart import apart

display = Display()
CHECK = "bmc"
#: Each node has a BMC of its own: what that one says, or does not, is that node's.
_OF_THE_SITE = (ConfigError, Unsupported)
_LOGIN = ("gpufleet_bmc_address", "gpufleet_bmc_username", "gpufleet_bmc_password")
_BESIDE = ("boot_mac", "system_uuid", "bmc_system_id", "node_id")
_FIXED = "bmc_tls_fingerprint"
#: What the ledger knows of a row that names a boot port alone, beside its BMC's options.
_RECORDED = "serials_on_record"
#: Processes for the protocols whose library has one event loop for all sessions.
_CHILDREN = 32
#: How long one is asked, and how long it may say nothing; a verb may wait for minutes. One that works may need 23 s for
#: an answer of Redfish, and each look takes a few of them.
_IN_THREADS: Mapping[str, float] = {"timeout": 200.0, "silence": 25.0}
_IN_A_CHILD: Mapping[str, float] = {"timeout": 12.0}
#: A child that tells of no BMC for so long has met something that nobody foresaw, and is ended.
_SILENT_CHILD_SECONDS = 60.0
_PORTS = {"http": 80, "https": 443}
_KNOCK_SECONDS = 5.0


def look(batch: Batch) -> None:
    _one_each(batch)
    asked: dict[str, dict[str, Any]] = {}
    for host in batch.with_all(*_LOGIN):
        batch.try_for([host], CHECK, lambda one: asked.update(_params(batch, one)), host, whose=_whose)
    if asked:
        display.display(f"asking {len(asked)} BMC{'s' if len(asked) > 1 else ''}")
    alone = {host: params for host, params in asked.items() if not _in_threads(params)}
    with apart(
        CHECK, list(alone), lambda host: _cause(host, alone[host]), _SILENT_CHILD_SECONDS, _CHILDREN
    ) as children:
        batch.each(CHECK, {host: params for host, params in asked.items() if host not in alone}, _knocked, _whose)
        for host, cause in children.answers():  # its threads have ended
            if cause:
                batch.tell([host], cause)


def _whose(exc: FleetError) -> str:
    """A BMC is one node's, and what is wrong with it that node's alone, but for what the site has set."""
    return SITE if isinstance(exc, _OF_THE_SITE) else ONE_NODE


def _one_each(batch: Batch) -> None:
    """Two rows with one BMC, or one boot port: one of them is wrong, and a write would hit the other's machine."""
    places = {
        "gpufleet_bmc_address": lambda host: (_bare(batch.text(host, "gpufleet_bmc_address")),
                                              batch.text(host, "gpufleet_bmc_system_id")),
        "gpufleet_boot_mac": lambda host: (cells.same("boot_mac", batch.text(host, "gpufleet_boot_mac")), ""),
        # The nodes of a chassis may share one, and are told apart by what stands beside it.
        "gpufleet_serial": lambda host: (serial_of(batch.text(host, "gpufleet_serial")).casefold() or host,
                                         *(batch.text(host, f"gpufleet_{name}") for name in _BESIDE)),
    }  # fmt: skip
    for name, place in places.items():
        for said, hosts in batch.alike(batch.with_all(name), place).values():
            if len(hosts) > 1:
                what = f"{len(hosts)} hosts have one {name}"
                do = "correct it; the systems behind one BMC are told apart by gpufleet_bmc_system_id"
                batch.tell(hosts, Cause(CHECK, SITE, what, seen=" ".join(said).strip(), do=do))


def _bare(address: str) -> str:
    """As two addresses are compared, whose scheme nobody has to write."""
    return bmc_place(address) or address.strip().lower()


def _params(batch: Batch, host: str) -> dict[str, dict[str, Any]]:
    """By host; of one whose BMC may have another certificate than the one that was fixed, nothing."""
    params = {**batch.options(host, OPTIONS), **{name: batch.value(host, f"gpufleet_{name}") for name in KNOWN_BY}}
    params.update(_IN_THREADS if _in_threads(params) else _IN_A_CHILD)
    alone = params["boot_mac"] and not (params["serial"] or params["system_uuid"])
    params[_RECORDED] = list(batch.serials(host)) if alone else []
    if not params.get(_FIXED):
        return {host: params}
    params[_FIXED] = fingerprint(str(params[_FIXED]), str(params["bmc_address"]))
    try:
        if params[_FIXED] == names.FIRST:
            params[_FIXED] = batch.certificate(host) or names.FIRST
    except FleetError as exc:
        what = "its BMC was not asked: nobody can say which certificate was fixed for it"
        batch.tell([host], Cause(CHECK, NOTE, what, seen=exc.what, do="see what is said of the ledger"))
        return {}
    return {host: params}


def _in_threads(params: Mapping[str, Any]) -> bool:
    return bool(getattr(DRIVERS.get(params.get("bmc_protocol") or DEFAULT_PROTOCOL), "in_threads", True))


def _knocked(host: str, params: Mapping[str, Any]) -> None:
    """A driver asks one that is silent for as long as a verb may wait; of hundreds nobody waits for that."""
    address = str(params["bmc_address"])
    try:
        parts = bmc_address.split(address)
        place = (parts.host, parts.port or _PORTS.get(parts.scheme, 443))
        socket.create_connection(place, timeout=_KNOCK_SECONDS).close()
    except ValueError:
        pass  # the driver says what is wrong with it
    except OSError as exc:
        raise Unreachable(
            "the BMC does not answer",
            address=address,
            seen=short(exc, 200),
            do="look at gpufleet_bmc_address, at the network out of band, and at the BMC",
        ) from None
    _asked(host, params)


def _asked(host: str, params: Mapping[str, Any]) -> None:
    ctx = Context(check_mode=True, node=host)
    with connect(params, ctx) as bmc:
        try:
            bmc.power.state()
            found = Recognised(bmc, params, ctx).demand()
        except FleetError as exc:
            raise exc.located(address=bmc.address) from None
        recorded = any(same_serial(one, found.serial) for one in params.get(_RECORDED) or ())
        named = params["serial"] or params["system_uuid"] or found.lacks or (found.unproven and not recorded)
        if found.agrees or (found.serial and not named):
            return
        raise WrongMachine(
            "nothing that this BMC tells shows that it is the one of this machine",
            address=bmc.address,
            wanted="a serial, system UUID or boot MAC that inventory and BMC both tell",
            seen=f"the BMC tells {found.told}",
            do="name gpufleet_serial, gpufleet_system_uuid or gpufleet_boot_mac as bmc_info shows it, once you have"
            " seen that it is it; a boot port is proof only where the BMC lists it, which none does over IPMI",
        )


# -- in processes of their own -------------------------------------------------------------------------------------


def _cause(host: str, params: Mapping[str, Any]) -> Cause | None:
    one = Batch([host], lambda name, of: None, lambda of: (), 1)
    one.try_for([host], CHECK, _asked, host, params, whose=_whose)
    return next(iter(one.found[host]), None)
