# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells that a diagnosis must fill before it can pass. PRIVATE to the collection.

One place for both ends: the node judges by this grid, and the controller holds against it what a node's file says.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import exits, health
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import DEPLOYMENT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import WantedTest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import Required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE


def required(
    wanted: Wanted, tests: Sequence[WantedTest], gpus: Iterable[int], shape: int, *, watched: bool = False
) -> Iterator[Required]:
    """The full grid of tests and entities, each GPU's identity, their count, a clean end.

    :param gpus: the numbers of the GPUs, as DCGM counts them.
    :param shape: of the document: 3 up to DCGM 3.x, 4 since then; 0 where there is none.
    :param watched: were DCGM's health watches asked as well?
    """
    numbers = sorted(gpus)
    yield Required("exit_status", NODE, 0, "", exits.EXITS[0].source)
    yield Required("gpu_count", NODE, wanted.gpu_count, "", wanted.gpu_count_source)
    if watched:
        yield Required(health.CELL, NODE, health.HEALTHY, "", health.SOURCE, health.HEALTHY)
    for number in numbers:
        yield Required("device_id", f"GPU {number}", list(wanted.device_ids), "", "profile")
    for test in tests:
        if test.name == "software" and shape == 3:
            for part in DEPLOYMENT:
                yield Required(f"dcgm.{part}", NODE, "pass", "", test.source)
        elif test.scope == NODE:
            yield Required(f"dcgm.{test.name}", NODE, "pass", "", test.source)
        else:
            for number in numbers:
                yield Required(f"dcgm.{test.name}", f"GPU {number}", "pass", "", test.source)
        if shape == 4:
            yield Required(f"dcgm.{test.name}.summary", NODE, "pass", "", test.source)
