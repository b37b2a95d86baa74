# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvbandwidth right after another test sees that one's load (DCGM#272), and is run again. PRIVATE to the collection.

It refuses to run, or runs with an error beside its pass, while the copy engine of a GPU is busy: always with one error
and one sentence. Whatever else an error says is of the hardware, and running it again would only hide it.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Cell, Diagnosis, Fault
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import ABSENT, WORDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS

NAME = "nvbandwidth"
#: NVIDIA/DCGM NVBandwidthPlugin.cpp: v4.2.3 and v4.4.2, v4.5.0, v4.5.2 to v4.6.0.
_BUSY = re.compile(
    r"memory copy utili(?:ti)?zation (?:for the GPU: \d+ is greater than 10%|\(\d+%\) did not reach idle threshold)"
)
#: DCGM_FR_FIELD_THRESHOLD_TS. dcgmi ends by the severity of the id, which is ISOLATE, whatever that of the error is.
_ERROR = 38
_ENDS = frozenset({205, 226})
#: What loads no GPU.
_IDLE = frozenset({NAME, "software"})


def saw_load(seen: Diagnosis, done: Run) -> bool:
    """Is the load of the test before it all that is wrong?"""
    rows = [*seen.cells, *seen.summaries]
    odd = {row.test for row in rows if row.faults or (WORDS.get(row.word) != PASS and row.word not in ABSENT)}
    if odd != {NAME} or done.rc not in _ENDS or seen.truncated() or not {row.test for row in rows} - _IDLE:
        return False
    faults = [fault for row in rows for fault in row.faults]
    return bool(faults) and all(_is_busy(fault) for fault in faults)


def _is_busy(fault: Fault) -> bool:
    return fault.error_id == _ERROR and bool(_BUSY.search(fault.text))


def merged(seen: Diagnosis, alone: Diagnosis) -> Diagnosis:
    """The first run with the other one's results of this test."""
    return replace(
        seen,
        cells=[*_others(seen.cells), *_own(alone.cells)],
        summaries=[*_others(seen.summaries), *_own(alone.summaries)],
        problems=seen.problems + alone.problems,
        runtime_errors=seen.runtime_errors + alone.runtime_errors,
    )


def _own(cells: list[Cell]) -> Iterator[Cell]:
    return (cell for cell in cells if cell.test == NAME)


def _others(cells: list[Cell]) -> Iterator[Cell]:
    return (cell for cell in cells if cell.test != NAME)
