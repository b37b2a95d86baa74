# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds what a machine consists of against what was ordered. PRIVATE to the collection.

What is wanted comes from the site's list and from the SKU's profile, what is there from the BMC and from a
provisioner's inspection. What nobody tells is open, and keeps a machine out where the profile demands it. Two that tell
different things, of which one is right, are no verdict on the machine: one of the two looked long ago, or wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

NAME = "hardware_verify"
#: That the BMC's machine is the one that is meant; without it, nothing else says anything.
MACHINE = "machine"
DEVICES, MODEL, MEMORY, FIRMWARE = "gpu_devices", "cpu_model", "memory_gib", "firmware:"
#: What an operating system sees, and what boards round, differ by less; one module of 32 is more.
_MEMORY_SHARE = 0.02
#: A recorded BMC (Gigabyte, AMI 12.84) tells decimal units by the names of binary ones; no whole number of modules less
#: comes so near to that.
_DECIMAL, _NEARLY = 1024**2 / 1000**2, 0.002
_UNITS: Mapping[str, str] = {MEMORY: "GiB"}
#: What helps: what is missing may sit badly, what is another part was delivered so, firmware can be set.
_REMEDIES: Mapping[str, str] = {DEVICES: "field_diag", MODEL: "field_diag"}
_REMEDY, _OF_FIRMWARE = "reseat", "remediate_config"
#: Who tells, beside a provisioner's inspection.
BMC = "bmc"
_INVENTORY = "the inventory"
#: Cells that a list or a profile's section ``hardware`` may name.
CELLS = ("cpu_sockets", "cpu_threads", MODEL, MEMORY, "gpu_count", "nic_count", "drive_count")
Told = Mapping[str, Hardware]


@dataclass(frozen=True)
class Wish:
    """One thing that is wanted, and who says so. demanded: must somebody tell it?"""

    value: Any
    source: str
    demanded: bool = False


def wishes(expected: Mapping[str, Any], profile: Optional[Mapping[str, Any]]) -> dict[str, Wish]:
    """By cell what is wanted of the machine.

    :param expected: by cell what the site's list says.
    :raises ConfigError: where list and profile want different things.
    """
    found = {cell: Wish(value, "the site's list") for cell, value in expected.items() if value not in (None, "")}
    unknown = sorted(set(found) - set(CELLS))
    if unknown:
        raise ConfigError(f"nobody looks at {', '.join(unknown)}", wanted=", ".join(CELLS), do="correct expected")
    for cell, wish in _of_profile(profile or {}).items():
        other = found.get(cell)
        if other is not None and not alike(cell, wish.value, other.value):
            raise ConfigError(
                f"list and profile want different machines: {cell}",
                wanted=f"{wish.value} ({wish.source})",
                seen=f"{other.value} ({other.source})",
                do="correct the list, or its SKU",
            )
        found[cell] = wish
    return found


def _of_profile(profile: Mapping[str, Any]) -> dict[str, Wish]:
    sku = profile.get("sku")

    def wish(entry: Mapping[str, Any], demanded: bool) -> Wish:
        return Wish(entry["value"], f"profile {sku}: {entry['source']}", demanded)

    gpu = profile.get("gpu") or {}
    found = {
        cell: wish(gpu[key], False) for cell, key in (("gpu_count", "count"), (DEVICES, "device_ids")) if key in gpu
    }
    found.update({cell: wish(entry, True) for cell, entry in (profile.get("hardware") or {}).items()})
    firmware = (profile.get("firmware") or {}).items()
    return {**found, **{f"{FIRMWARE}{name}": wish(entry, True) for name, entry in firmware}}


def judge(wanted: Mapping[str, Wish], told: Told, *, agrees: Mapping[str, Sequence[str]]) -> Sheet:
    """The cells of one machine.

    :param told: by who tells it.
    :param agrees: by who tells parts, in what his machine agrees with the inventory; in nothing, nobody knows whose
        parts these are.
    """
    sheet = Sheet()
    _machine(sheet, told, agrees)
    for cell, wish in wanted.items():
        said = {who: value for who, parts in told.items() if (value := _value(parts, cell)) not in (None, ())}
        if wish.demanded:
            sheet.require(cell, NODE, wanted=wish.value, unit=_UNITS.get(cell, ""), source=wish.source)
        if said:
            _cell(sheet, cell, wish, said)
    return sheet


def _machine(sheet: Sheet, told: Told, agrees: Mapping[str, Sequence[str]]) -> None:
    sheet.require(MACHINE, NODE, wanted="serial, system UUID or boot MAC of the inventory", source=_INVENTORY)
    strangers = [who for who in told if not agrees.get(who)]
    if not strangers:
        measured = ", ".join(sorted({name for who in told for name in agrees[who]})) or "nobody tells parts"
        sheet.record(Check(MACHINE, NODE, PASS, measured, "the inventory's", source=_INVENTORY))
        return
    text = f"the machine of {' and of '.join(strangers)} and the inventory have no serial, UUID or boot MAC in common"
    sheet.unsettled(MACHINE, NODE, text, "remediate_config")


def asked(wanted: Mapping[str, Wish], sheet: Sheet) -> list[str]:
    """The cells that the verdict is on, by name: those that were told, or had to be. What was passed over is none, or
    the silence after a failure would be its answer."""
    return sorted(set(wanted) & {row.id for row in sheet.rows()})


def _cell(sheet: Sheet, cell: str, wish: Wish, said: Mapping[str, Any]) -> None:
    same = _SAME.get(cell, _equal)
    right = [who for who, value in said.items() if same(wish.value, value)]
    verdict = PASS if len(right) == len(said) else INCONCLUSIVE if right else FAIL
    shown = ", ".join(f"{_shown(value)} ({who})" for who, value in said.items())
    sheet.record(Check(cell, NODE, verdict, shown, wish.value, _UNITS.get(cell, ""), wish.source))
    text = f"{cell}: {shown}; wanted is {_shown(wish.value)} ({wish.source})"
    if verdict == FAIL:
        remedy = _OF_FIRMWARE if cell.startswith(FIRMWARE) else _REMEDIES.get(cell, _REMEDY)
        sheet.find(f"hardware:{cell.partition(':')[0]}", NODE, text, remedy)
    elif verdict == INCONCLUSIVE:
        sheet.find(f"hardware:{cell.partition(':')[0]}", NODE, f"{text}; inspect it anew", "retest")


def _value(parts: Hardware, cell: str) -> Any:
    if cell.startswith(FIRMWARE):
        versions = {name.casefold(): version for name, version in parts.firmware.items()}
        return versions.get(cell[len(FIRMWARE) :].casefold())
    return getattr(parts, cell)


def _shown(value: Any) -> str:
    several = isinstance(value, (list, tuple))
    return (
        " ".join(sorted(set(map(str, value)))) if several else f"{value:g}" if isinstance(value, float) else str(value)
    )


# -- what is the same ------------------------------------------------------------------------------------------------


def alike(cell: str, wanted: Any, told: Any) -> bool:
    """Is what is told the part that is wanted?"""
    return _SAME.get(cell, _equal)(wanted, told)


def _equal(wanted: Any, told: Any) -> bool:
    return str(wanted).strip().casefold() == str(told).strip().casefold()


def _about(wanted: Any, told: Any) -> bool:
    share = float(told) / float(wanted)
    return abs(share - 1) <= _MEMORY_SHARE or abs(share * _DECIMAL - 1) <= _NEARLY


def _model(wanted: Any, told: Any) -> bool:
    """Makers and tools put different words around what tells one model from another, which has a digit in it."""
    words = {word for word in _words(wanted) if any(char.isdigit() for char in word)} or set(_words(wanted))
    return words <= set(_words(told))


def _words(text: Any) -> list[str]:
    return re.findall(r"[a-z0-9+]+", str(text).casefold())


def _devices(wanted: Any, told: Any) -> bool:
    allowed = {str(one).casefold() for one in wanted}
    return all(str(one).casefold() in allowed for one in told)


_SAME: Mapping[str, Callable[[Any, Any], bool]] = {MEMORY: _about, MODEL: _model, DEVICES: _devices}
