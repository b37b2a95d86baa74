# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How aliases are spelled and compared. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import (
    orders,
    same_serial,
    serial_of,
    uuid_of,
)

#: Aliases by which two sources are known to speak of the same machine, strongest first. Never a host name.
JOINING = ("serial", "system_uuid", "mac")
#: Kind and value.
Pair = tuple[str, str]

#: What stands between the digits of a MAC, in whichever of the usual forms, and the twelve of one card's.
_MARKS = re.compile(r"[:.\-\s]")
_CARD = re.compile(r"(?!0{12}|f{12})[0-9a-f]{12}", re.ASCII)


def _mac_of(value: str) -> str:
    digits = _MARKS.sub("", value.lower())
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2)) if _CARD.fullmatch(digits) else ""


#: A GPU as nvidia-smi tells it.
_GPU = re.compile(r"gpu-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII | re.IGNORECASE)


def gpu_of(value: str) -> str:
    """A GPU's UUID in one spelling; empty for what is none."""
    found = _GPU.fullmatch(value.strip())
    return f"GPU-{found[1].lower()}" if found else ""


#: The spelling of what machines are delivered with as well, where nobody has set anything.
_OF_KIND: Mapping[str, Callable[[str], str]] = {"serial": serial_of, "system_uuid": uuid_of, "mac": _mac_of}


def other_serials(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Do two sides that both tell serials have none in common? What stands for none is none."""
    pairs = [(one, other) for one in filter(serial_of, ours) for other in filter(serial_of, theirs)]
    return bool(pairs) and not any(same_serial(one, other) for one, other in pairs)


def normal(kind: str, value: str) -> str:
    """One spelling an alias: MACs and UUIDs in lower case with colons, serials as they are without blanks around; empty
    for what is on many machines, and for what is no MAC: its digits alone may be those of another card."""
    value = value.strip()
    if kind == "gpu":
        return gpu_of(value) or value  # a release of before wrote down whatever was typed, which can be taken off
    return _OF_KIND[kind](value) if kind in _OF_KIND else value


def spelled(pairs: Sequence[Pair]) -> list[Pair]:
    """In one spelling each, without what tells nothing."""
    return [pair for pair in ((kind, normal(kind, value)) for kind, value in pairs) if pair[1]]


def others_of(pair: Pair) -> list[str]:
    """How else the same may be told: a serial in another case, a UUID in another byte order."""
    kind, value = pair
    if kind == "system_uuid" and uuid_of(value):
        return orders(value)
    return [value.lower()] if kind == "serial" else [value]


def compared(pair: Pair) -> Pair:
    """What an alias is compared by, however it is told."""
    return pair[0], others_of(pair)[0]


def of_kind(pairs: Sequence[Pair], kind: str) -> list[str]:
    return [value for one, value in pairs if one == kind]
