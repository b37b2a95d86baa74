# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the machine behind the BMC the one that is meant? Asked by the verbs that write, of every driver. PRIVATE.

An address is typed, recycled, cabled to a neighbour. What the BMC tells of its machine (serials, UUIDs, MACs) is held
against what the inventory and the ledger know it by, before the first write. One contradiction is another machine; and
where nothing is in common nobody knows, so that no write that could hit running work is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import (
    same_serial,
    same_uuid,
    serial_of,
    uuid_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._swap import SWAPPED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: What a result notes of a write that was forced.
NOBODY_KNOWS = "BMC and inventory tell nothing of the machine in common: it was written to by force_reason alone"
#: The options by which a machine is known, each also the host variable ``gpufleet_<option>``.
OPTIONS = ("serial", "system_uuid", "boot_mac")
#: Asks whether the machine has its boot port: it costs requests, and is asked where it decides.
Card = Callable[[], Optional[bool]]


@dataclass(frozen=True)
class Compared:
    """What the BMC tells, held against what is known of the machine."""

    agrees: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    #: The serial by which the BMC knows the machine: the one that agrees, or else its own.
    serial: str = ""
    told: str = ""
    #: What the BMC lists the like of, and not it, where nothing else agrees.
    lacks: tuple[str, ...] = ()
    #: What the row names alone, and the BMC has no word for: nothing shows that it is that machine's.
    unproven: tuple[str, ...] = ()


def compare(bmc: c.Bmc, params: Mapping[str, Any]) -> Compared:
    """Cheapest first: what tells more is asked only where nothing has agreed so far."""
    identify = next((part for part in bmc.has if isinstance(part, c.Identify)), None)
    told = identify.known_by() if identify else c.KnownBy()
    found = _judged(told, params)
    if identify and serial_of(params.get("serial")) and "serial" not in found.agrees:
        found = _judged(identify.known_by(parts=True), params, lambda: _has_card(bmc, params))
    if found.contradicts or (found.agrees and not _may_be_a_neighbour(found, params)):
        return found
    listed = _has_card(bmc, params)
    if listed:
        return replace(found, agrees=(*found.agrees, "boot_mac"))
    if listed is False and found.agrees:
        shown = f"{found.told}; of the systems behind it this one has other ports than {params['boot_mac']}"
        return replace(found, agrees=(), contradicts=("boot_mac",), told=shown)
    if listed is False:
        return replace(found, lacks=("boot_mac",))
    alone = bool(net.spelled(params.get("boot_mac"))) and not found.agrees
    return replace(found, unproven=("boot_mac",) if alone else ())


def shown(bmc: c.Bmc, params: Mapping[str, Any]) -> dict[str, Any]:
    """Is it the machine that is meant? Shown, and judged by whoever asks."""
    found = compare(bmc, params)
    told = {name: list(getattr(found, name)) for name in ("agrees", "contradicts", "lacks", "unproven")}
    return {"serial": found.serial, **told}


def _may_be_a_neighbour(found: Compared, params: Mapping[str, Any]) -> bool:
    """The systems behind one BMC may share a serial, and which of them is meant stands in the same row as the port."""
    return found.agrees == ("serial",) and bool(params.get("bmc_system_id"))


def _judged(told: c.KnownBy, params: Mapping[str, Any], card: Card = lambda: None) -> Compared:
    serial, system_uuid = serial_of(params.get("serial")), uuid_of(params.get("system_uuid"))
    own = _serials(told.serials)
    serials = list(dict.fromkeys([*own, *_serials(told.of_parts)]))
    uuids = [one for one in map(uuid_of, (*told.uuids, *told.of_the_bmc)) if one]
    same = any(same_uuid(one, system_uuid) for one in uuids) if system_uuid else False
    known = _the(serial, own) or _known_part(serial, told, same, card)
    agrees = tuple(name for name, agreed in (("serial", known), ("system_uuid", same)) if agreed)
    other_serial = bool(serial and own and not known)
    # What may be the BMC's own says nothing beside a serial that agrees.
    of_it = uuids if not agrees else [one for one in map(uuid_of, told.uuids) if one]
    other_uuid = bool(system_uuid and of_it and not same)
    # Whatever else agrees: a serial that no part of the machine has is another machine's, or a mistake to be mended.
    others = (("serial", other_serial), ("system_uuid", other_uuid))
    shown = f"serial {' or '.join(serials) or 'not told'}, system UUID {' or '.join(uuids) or 'not told'}"
    if other_serial and _the(serial, serials):
        shown += f"; {serial} is a part's, and neighbours may share it: beside {own[0]} UUID or boot MAC has to agree"
    return Compared(agrees, tuple(name for name, other in others if other), known or next(iter(serials), ""), shown)


def _serials(told: Iterable[str]) -> list[str]:
    return [one for one in map(serial_of, told) if one]


def _the(serial: str, told: Iterable[str]) -> str:
    """The one that is the same serial, as the BMC spells it."""
    return next((one for one in told if same_serial(one, serial)), "")


def _known_part(serial: str, told: c.KnownBy, same: bool, card: Card) -> str:
    """A part's serial speaks for the machine where its own one does not say otherwise, or something beside it agrees.

    Where the nodes of a chassis have a BMC each, each tells the chassis's serial and may list its own system alone. So
    a port that is known, where the BMC lists ports without it, outweighs that nobody else is listed.
    """
    part = _the(serial, _serials(told.of_parts))
    if not part or same:
        return part
    listed = card()
    if not _serials(told.serials):
        return "" if listed is False and not _the(serial, told.alone) else part
    return part if listed or (listed is None and _the(serial, told.alone)) else ""


def _has_card(bmc: c.Bmc, params: Mapping[str, Any]) -> bool | None:
    """Does the machine have the port that it is to boot from? None: nobody knows it, or the BMC lists no maker's port.

    That it is not listed contradicts nothing: lists have holes.
    """
    mac = net.spelled(params.get("boot_mac"))
    cards = next((part for part in bmc.has if isinstance(part, c.Cards)), None)
    if not mac or cards is None:
        return None
    found = cards.macs().found
    if mac in {net.spelled(one.mac) for one in found}:
        return True
    return None if all(one.locally_administered for one in found) else False


class Recognised:
    """The machine of one verb: compared once, before its first write."""

    def __init__(self, bmc: c.Bmc, params: Mapping[str, Any], ctx: Context) -> None:
        self._bmc = bmc
        self._params = params
        self._ctx = ctx
        self._found = Compared()
        #: What a person should know of a write that was forced.
        self.notes: list[str] = []

    def demand(self) -> Compared:
        """:raises WrongMachine: where what the BMC tells is another machine's."""
        self._found = compare(self._bmc, self._params)
        if self._found.contradicts:
            raise WrongMachine(
                "the machine behind this BMC is another one; nothing was written",
                node=self._ctx.node,
                address=self._bmc.address,
                wanted=self._wanted(),
                seen=self._found.told,
                do="correct gpufleet_bmc_address (or gpufleet_bmc_system_id, where the BMC serves several), or"
                f" {' and '.join(f'gpufleet_{name}' for name in self._found.contradicts)}, in the inventory; {SWAPPED}",
            )
        return self._found

    def demand_known(self, what: str) -> None:
        """Before a write that could hit running work.

        :raises EvidenceMissing: where nothing says that it is the machine, and nobody has said why not.
        """
        if self._found.agrees:
            return
        if not self._params.get("force_reason"):
            raise EvidenceMissing(
                "refused: nothing shows that this BMC is the one of this machine",
                node=self._ctx.node,
                address=self._bmc.address,
                wanted=f"a serial, system UUID or boot MAC that inventory and BMC both tell, before: {what}",
                seen=f"the BMC tells {self._found.told}; known is {self._wanted()}",
                do="name gpufleet_serial, gpufleet_system_uuid or gpufleet_boot_mac as bmc_info shows it, once you have"
                " seen that it is this machine, or give force_reason, which is recorded; nothing was written",
            )
        self.notes.extend([NOBODY_KNOWS] if NOBODY_KNOWS not in self.notes else [])

    def _wanted(self) -> str:
        given = [f"{name} {self._params[name]}" for name in OPTIONS if self._params.get(name)]
        return ", ".join(given) or "neither serial, system UUID nor boot MAC"
