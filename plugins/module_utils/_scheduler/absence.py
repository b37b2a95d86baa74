# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does what the scheduler says under this name concern this machine at all? PRIVATE to the collection.

One that it does not know may be there under another spelling, or the scheduler that was asked may be another one. Then
absence proves nothing, and jobs may run on the machine. And a name that is not the one by which the machine was adopted
or held may be another machine's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim


def doubts(driver: Scheduler, views: Mapping[str, NodeView], claims: Mapping[str, Claim]) -> dict[str, FleetError]:
    """By name, why nothing is to be done by what the scheduler says, nor told to the ledger: it is not certain that an
    absent node is none of the scheduler's, or that one is this machine. All that it has is asked for once, and only
    where one is absent."""
    absent = [name for name in claims if views[name].absent] if driver.KEEPS_NODES else []
    known = driver.known() if absent else {}
    found: dict[str, FleetError] = {}
    if driver.KEEPS_NODES:
        strange = [name for name, claim in claims.items() if _strange(name, views[name], claim)]
        found.update({name: _other(driver, name, claims[name]) for name in strange})
    for name in absent:
        near = _near(known, [name, *claims[name].names])
        if near or claims[name].admitted:
            found[name] = _doubt(driver, name, near)
    return found


def _strange(name: str, view: NodeView, claim: Claim) -> bool:
    return claim.bound not in ("", name) and (view.absent or not claim.renamed)


def _other(driver: Scheduler, name: str, claim: Claim) -> WrongMachine:
    asks = f"ansible {(*claim.names, 'HOST')[0]} -i INVENTORY -m gpufleet.baremetal.scheduler_node -a"
    return WrongMachine(
        "this is not the scheduler's node that the machine is by our ledger, and nothing shows that it was renamed",
        node=name,
        address=driver.address,
        wanted=f"{claim.bound}, as it was adopted or held here",
        seen=name,
        do="correct gpufleet_scheduler_node; where the site has renamed the node, and the machine calls itself so, run:"
        f" {asks} state=present (as root: -b); of one that is silent or has another name itself,"
        f" say so: {asks} \"state=present force_reason='WHY'\"",
    )


def _near(known: Mapping[str, tuple[str, ...]], ours: list[str]) -> str:
    """The scheduler's node that shares a name or an address with ours, and by which of its own."""
    wanted = {one for name in ours for one in _spellings(name)}
    for node, others in known.items():
        shared = next((name for name in (node, *others) if _spellings(name) & wanted), "")
        if shared:
            return node if shared == node else f"{node} ({shared})"
    return ""


def _spellings(name: str) -> frozenset[str]:
    """In one case, whole and up to the first dot; an address of every machine is nobody's."""
    folded = name.strip().casefold()
    with suppress(ValueError):
        address = ipaddress.ip_address(folded)
        return frozenset() if address.is_loopback or address.is_unspecified else frozenset({str(address)})
    return frozenset({folded, folded.partition(".")[0]}) - {"", "localhost"}


def _doubt(driver: Scheduler, name: str, near: str) -> ConfigError:
    """Without a near match it is the ledger that speaks against it."""
    admitted = "no name like it; but our ledger has admitted this node before"
    return ConfigError(
        "the scheduler does not know this node by its name, which is no proof that nothing runs on it",
        node=name,
        address=driver.address,
        wanted=f"the node's own name in the scheduler, or gpufleet_{names.OPTION} {names.NONE}",
        seen=f"it knows {near}" if near else admitted,
        do=f"set gpufleet_scheduler_node to {near.partition(' ')[0]}, if that is the same machine"
        if near
        else f"correct gpufleet_scheduler_node, or the scheduler that is asked; set gpufleet_{names.OPTION} to"
        f" {names.NONE} where the node was taken out of it for good",
    )
