# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a GPU shows at one moment that no rule judges: power, temperature, clocks. PRIVATE to the collection.

One look says little of them; whoever looks for hours makes a series of them.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import Gpu, number

#: By name the field of the document, and its unit as nvidia-smi prints it.
READINGS: Mapping[str, tuple[str, str]] = {
    "power": ("power_draw", "W"),
    "temperature": ("temperature", "C"),
    "memory_temperature": ("memory_temperature", "C"),
    "clock": ("clock", "MHz"),
    "memory_clock": ("memory_clock", "MHz"),
}


def readings(gpu: Gpu) -> dict[str, float]:
    """By name; what the document does not tell as a number is not there."""
    told = {name: number(gpu.said(field), unit) for name, (field, unit) in READINGS.items()}
    return {name: value for name, value in told.items() if value is not None}
