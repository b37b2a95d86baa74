# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict of this gate has measured, for the floors of a profile. PRIVATE to the collection.

Runs on nodes by what imports it: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.judge import UNIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import Measured, Measures

_CELL = "bandwidth."
#: Cases whose matrix has a row and a column for each GPU; the others have one number a GPU.
_PAIRS = "device_to_device"


def read(verdict: Mapping[str, Any]) -> dict[str, Measured]:
    """By case the slowest GPU of a node. verdict: one that passed, as the ledger has it."""
    values: dict[str, list[float]] = {}
    for row in verdict["checks"]:
        if row["id"].startswith(_CELL) and row["unit"] == UNIT:
            values.setdefault(row["id"].partition(".")[2], []).append(float(row["measured"]))
    return {
        case: Measured(
            {"name": case, "between": "gpus" if case.startswith(_PAIRS) else "host"}, min(found), UNIT, len(found)
        )
        for case, found in values.items()
    }


MEASURES = Measures(NAME, "cases", read)
