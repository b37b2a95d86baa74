# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failed input or output means, and what the drive itself warns of. PRIVATE to the collection.

Tables alone. Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Error(NamedTuple):
    """A row: what it says, what helps, who says so."""

    text: str
    remedy: str
    source: str


_KERNEL = "Linux v6.12 block/blk-core.c blk_errors"
_PAGE = "NVM Express Base Specification 2.0, log page 02h"
#: By errno what only the drive can have said. What else a job ends with is a matter of how it was asked.
OF_THE_DRIVE: Mapping[int, Error] = {
    5: Error("input/output error", "field_diag", _KERNEL),
    19: Error("the drive is offline", "power_cycle", _KERNEL),
    61: Error("medium error", "rma", _KERNEL),
    67: Error("the link to the drive failed", "reseat", _KERNEL),
    84: Error("data arrived wrong", "rma", _KERNEL),
    110: Error("the drive did not answer in time", "power_cycle", _KERNEL),
    121: Error("the drive refused what it must do", "rma", _KERNEL),
}
#: By bit of the drive's critical warning.
WARNINGS: Mapping[int, Error] = {
    0: Error("its spare is below its threshold", "rma", _PAGE),
    1: Error("it is too hot or too cold", "field_diag", _PAGE),
    2: Error("it is no longer reliable", "rma", _PAGE),
    3: Error("it can only be read", "rma", _PAGE),
    4: Error("its memory is no longer kept when power fails", "rma", _PAGE),
    5: Error("its persistent memory region can only be read or is unreliable", "rma", _PAGE),
}
UNKNOWN_WARNING = Error("it warns of what nobody knows", "field_diag", _PAGE)
