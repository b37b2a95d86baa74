# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells that a look at the GPUs must fill before it can pass. PRIVATE to the collection.

One place for both ends: the node judges by this grid, and the controller holds against it what a node's answer says.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import Wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import NVIDIA
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import Required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE

#: The cell of a second look: what was counted since the first.
SINCE = "counted_since"
#: The cells of each GPU that no profile leaves out.
OF_EACH = ("uuid", "device_id")


def entity(number: int) -> str:
    return f"GPU {number}"


def required(
    wanted: Wanted, cells: Iterable[Wants], gpus: Iterable[int], *, second: bool, tool: str = NVIDIA
) -> Iterator[Required]:
    """second: it was told what an earlier look counted. tool: what tells of the GPUs."""
    numbers, demanded = sorted(gpus), list(cells)
    yield Required(ENDED, NODE, "exit [0]", "", "own rule: an unknown end is none")
    yield Required("gpu_count", NODE, wanted.gpu_count, "", wanted.gpu_count_source)
    yield Required("driver", NODE, "a version", "", tool)
    for number in numbers:
        yield Required("uuid", entity(number), "its own", "", tool)
        yield Required("device_id", entity(number), list(wanted.device_ids), "", "profile")
        for cell in demanded:
            yield Required(cell.name, entity(number), cell.wanted, "", cell.source)
        if second:
            yield Required(SINCE, entity(number), 0, "", "own rule: what a first look counted")
