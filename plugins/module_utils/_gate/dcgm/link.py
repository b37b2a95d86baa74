# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCIe link of each GPU under load: DCGM's test pcie holds it against what the SKU has. PRIVATE to the collection.

An idle link steps down, so a look at idle GPUs tells nothing of one that was trained too slow. The test pcie reads
generation and width right after its transfers, and fails below a floor; its own is generation 3, or 1.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Cell

TEST = "pcie"
#: By the figure of the SKU its floor. Source: NVIDIA/DCGM PluginStrings.h and PcieMain.cpp, v2.4.7 to v4.6.0.
_FLOORS: Mapping[str, str] = {"pcie_generation": "min_pci_generation", "pcie_width": "min_pci_width"}
#: The parts of the test that look at the link; where memory has several nodes the second one transfers nothing.
_LOOKS = ("h2d_d2h_single_pinned", "h2d_d2h_single_unpinned")
#: What each part says of a GPU that was not in its fastest state, the link of which it did not look at.
_SKIPPED = "Skipping PCI-E link check for {} in"


def floors(gpu: Mapping[str, Any]) -> list[str]:
    """The words that hand them to dcgmi; none where the profile has no such figure. gpu: its section of that name."""
    figures = {floor: gpu[name]["value"] for name, floor in _FLOORS.items() if name in gpu}
    told = [f"{TEST}.{look}.{floor}={value}" for look in _LOOKS for floor, value in figures.items()]
    return ["-p", ";".join(told)] if told else []


def runs(level: int, names: Sequence[str]) -> bool:
    """Has this run the test?"""
    return TEST in names if names else level > 1


def unseen(cell: Cell) -> bool:
    """Did no part of the test look at the link of this GPU?"""
    said = _SKIPPED.format(cell.entity)
    return cell.test == TEST and sum(note.count(said) for note in cell.notes) >= len(_LOOKS)
