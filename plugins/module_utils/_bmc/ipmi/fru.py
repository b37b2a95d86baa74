# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads who made a machine from its FRU data (IPMI FRU Information Storage 1.0). PRIVATE to the collection.

pyghmi's own reader asks for more at once than simple BMCs give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, FleetError, Unreachable

_STORAGE = 0x0A
_READ_FRU = 0x11
_FRU = 0
_CHUNK = 16
_LIMIT = 1024
_CHASSIS, _BOARD, _PRODUCT = 2, 3, 4
_END = 0xC1

Ask = Callable[..., bytes]


class Fru(NamedTuple):
    """What the FRU data tell, area by area; an empty string where they do not."""

    manufacturer: str = ""
    model: str = ""
    #: Of the product: the machine's own.
    serial: str = ""
    board: str = ""
    chassis: str = ""


def read_fru(ask: Ask) -> Fru:
    """Who made the product, else the board, and the serial of each area; nothing where there is no FRU."""
    try:
        header = _read(ask, 0, 8)
        product, board, chassis = (
            _fields(ask, header[area] * 8, head) if header[area] else []
            for area, head in ((_PRODUCT, 3), (_BOARD, 6), (_CHASSIS, 3))
        )
    except FleetError as exc:
        if isinstance(exc, (AuthFailed, Unreachable)):
            raise
        return Fru()
    # Product: manufacturer, name, part number, version, serial. Board: manufacturer, name, serial, part number.
    # Chassis: part number, serial.
    maker, model = (product if len(product) >= 5 else [*board, "", ""])[:2]
    return Fru(maker, model, _field(product, 4), _field(board, 2), _field(chassis, 1))


def _field(fields: Sequence[str], place: int) -> str:
    return fields[place] if len(fields) > place else ""


def _read(ask: Ask, offset: int, count: int) -> bytes:
    found = b""
    while len(found) < count:
        at = offset + len(found)
        size = min(_CHUNK, count - len(found))
        data = ask(_STORAGE, _READ_FRU, (_FRU, at & 0xFF, at >> 8, size), least=1, what="Read FRU Data")
        if not data[0]:
            break
        found += data[1 : 1 + data[0]]
    return found.ljust(count, b"\0")


def _fields(ask: Ask, offset: int, head: int) -> list[str]:
    length = min(_read(ask, offset, 2)[1] * 8, _LIMIT)
    area = _read(ask, offset, length)
    fields, at = [], head
    while at < length - 1 and area[at] != _END:
        size = area[at] & 0x3F
        raw = area[at + 1 : at + 1 + size]
        # Type 3 is text; the others (binary, BCD, packed) are kept as hexadecimal digits.
        fields.append(raw.decode("latin-1").strip(" \0") if area[at] >> 6 == 3 else raw.hex())
        at += 1 + size
    return fields
