# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``hardware`` of a profile, of what is told of known-good nodes. PRIVATE to the collection.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.hardware import CELLS, alike
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.shown import About, Same, said
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware, hardware_of

SECTION = "hardware"
#: Of two nodes that differ by less the profile passes both.
SAME: Mapping[str, Same] = {f"{SECTION}.{cell}": partial(alike, cell) for cell in CELLS}
_CONDITIONS = "as BMC and inspection tell it"


def parts(told: Any) -> dict[str, Hardware]:
    """By who tells it, what he tells of a node, as hardware_verify has it under hardware."""
    return {str(who): hardware_of(one) for who, one in told.items()} if isinstance(told, Mapping) else {}


def fields(told: Any, without: Collection[str]) -> dict[str, Any]:
    """By cell what is told first of a node; what nobody tells is not there."""
    found: dict[str, Any] = {}
    for cell in (cell for cell in CELLS if cell not in without):
        values = [value for one in parts(told).values() if (value := getattr(one, cell)) is not None]
        found.update({f"{SECTION}.{cell}": values[0]} if values else {})
    return found


def findings(told: Any, without: Collection[str], gpus: int) -> list[str]:
    """Two that tell of one node, and differ. gpus: how many nvidia-smi tells."""
    wrong = []
    for cell in (cell for cell in CELLS if cell not in without):
        values = {who: value for who, one in parts(told).items() if (value := getattr(one, cell)) is not None}
        first = next(iter(values.values()), None)
        if not all(alike(cell, first, value) for value in values.values()):
            wrong.append(f"{cell}: " + ", ".join(f"{said(value)} ({who})" for who, value in values.items()))
    counts = {who: one.gpu_count for who, one in parts(told).items() if one.gpu_count not in (None, gpus)}
    return wrong + [f"gpu_count: {count} ({who}), {gpus} (nvidia-smi)" for who, count in counts.items()]


def section(told: Mapping[str, Any], about: About) -> dict[str, Any]:
    """told: the fields of nodes that agree."""
    values = {name.partition(".")[2]: value for name, value in told.items()}
    return {
        cell: {"value": round(value) if isinstance(value, float) else value, **about(_CONDITIONS)}
        for cell, value in values.items()
    }
