# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's serial number and UUID, and what stands there where nobody has set one. PRIVATE to the collection.

Standard library only.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

#: What vendors write where nobody has set a serial; such a value tells no machine from another. One table for all who
#: read a serial (dmidecode's own list in util and dmiopt.c, and what stands in machines as they are delivered).
_NO_SERIAL = re.compile(
    r"none|null|empty|n/?a|unknown|not (?:specified|available|applicable|present|set)|default string|o\.?e\.?m\.?"
    r"|(?:(?:system|chassis|base board) )?serial number|to be filled.*|(?:0?1234567890?)+(?:ab)?|0+|[^0-9a-z]+"
    r"|(?P<one>.)(?P=one){4,}",
    re.I,
)
#: UUIDs of boards whose maker wrote none; each is on many.
_MAKERS = (
    "00000000-0000-0000-0000-000000000000",  # SMBIOS 7.2.1: not present, but may be set
    "ffffffff-ffff-ffff-ffff-ffffffffffff",  # SMBIOS 7.2.1: not present
    "03000200-0400-0500-0006-000700080009",  # AMI's own, which a board's maker is to replace
    "12345678-1234-5678-90ab-cddeefaabbcc",
    "fefefefe-fefe-fefe-fefe-fefefefefefe",
    "4c4c4544-0000-2010-8020-80c04f202020",  # Dell's, where the service tag is blank
)


def orders(told: str) -> list[str]:
    """A UUID in all byte orders in which one machine is told: as SMBIOS 2.6 has it, with its first three fields turned
    round, as it was before (the kernel, and tools that read the table byte by byte, show the one or the other), and as
    IPMI sends it, all 16 bytes the other way round, of which programs show either again.

    Each of them has the same ones, sorted: the first is the one that all are compared by.
    """
    found, due = set(), [uuid.UUID(told)]
    while due:
        value = due.pop()
        if value not in found:
            found.add(value)
            due += [uuid.UUID(bytes=value.bytes_le), uuid.UUID(bytes=value.bytes[::-1])]
    return sorted(map(str, found))


#: The same in each byte order, in lower case.
NO_UUIDS = frozenset(one for maker in _MAKERS for one in orders(maker))


def serial_of(told: Any) -> str:
    """The serial number, without blanks around it; empty where it tells no machine from another."""
    serial = str(told or "").strip()
    return "" if _NO_SERIAL.fullmatch(serial) else serial


def same_serial(one: Any, other: Any) -> bool:
    """Are these one machine's serial? Inventory, ledger, BMC, provisioner and DMI do not agree on its case."""
    return bool(serial_of(one)) and serial_of(one).casefold() == serial_of(other).casefold()


def contradict(one: Any, other: Any) -> bool:
    """Are these the serials of two machines? Silence contradicts nothing."""
    return bool(serial_of(one) and serial_of(other)) and not same_serial(one, other)


def uuid_of(told: Any) -> str:
    """A UUID in lower case; empty for none, and for those that boards are delivered with."""
    try:
        value = str(uuid.UUID(str(told or "").strip()))
    except ValueError:
        return ""
    # One byte sixteen times is what somebody filled it with, in all boards alike.
    return "" if value in NO_UUIDS or len(set(uuid.UUID(value).bytes)) == 1 else value


def same_uuid(one: str, other: str) -> bool:
    """Equal, also where either side shows it in another byte order.

    SMBIOS 2.6 turned the first three fields round, and some BMCs still show what stands in the table byte by byte.
    IPMI sends all 16 bytes the other way round (20.8), and many BMCs send the SMBIOS form instead.
    """
    if one == other:
        return True
    try:
        return orders(one)[0] == orders(other)[0]
    except ValueError:
        return False
