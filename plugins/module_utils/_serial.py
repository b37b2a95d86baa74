# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's serial number, and what stands there where nobody has set one. PRIVATE to the collection.

Standard library only.
"""

from __future__ import annotations

import re
from typing import Any

#: What vendors write where nobody has set a serial; such a value tells no machine from another.
_NO_SERIAL = re.compile(
    r"none|n/?a|unknown|not (specified|available)|default string|system serial number|to be filled.*|0123456789|(.)\2*",
    re.I,
)


def serial_of(told: Any) -> str:
    """The serial number, without blanks around it; empty where it tells no machine from another."""
    serial = str(told or "").strip()
    return "" if _NO_SERIAL.fullmatch(serial) else serial


def contradict(one: Any, other: Any) -> bool:
    """Are these the serials of two machines? Silence contradicts nothing."""
    serials = {serial_of(told).casefold() for told in (one, other)} - {""}
    return len(serials) > 1
