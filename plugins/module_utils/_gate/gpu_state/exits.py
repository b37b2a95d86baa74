# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the exit status of nvidia-smi means: a table. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, NODE, Check, Sheet

SOURCE = "nvidia-smi(1), RETURN VALUE"


class Exit(NamedTuple):
    verdict: str
    words: str
    remedy: str


EXITS: Mapping[int, Exit] = {
    2: Exit(INCONCLUSIVE, "it does not know an argument", "remediate_config"),
    3: Exit(INCONCLUSIVE, "the device does not support the query", "remediate_config"),
    4: Exit(INCONCLUSIVE, "no permission", "remediate_config"),
    6: Exit(FAIL, "no device was found", "power_cycle"),
    8: Exit(FAIL, "an external power cable of a GPU is not attached", "reseat"),
    9: Exit(INCONCLUSIVE, "the driver is not loaded", "remediate_config"),
    10: Exit(FAIL, "the kernel sees a problem with the interrupts of a GPU", "reboot"),
    12: Exit(INCONCLUSIVE, "the NVML library cannot be found or loaded", "remediate_config"),
    13: Exit(INCONCLUSIVE, "the NVML library lacks a function", "remediate_config"),
    14: Exit(FAIL, "an InfoROM is corrupted", "rma"),
    15: Exit(FAIL, "a GPU has fallen off the bus", "power_cycle"),
    255: Exit(INCONCLUSIVE, "another error, or an error of the driver", "retest"),
}
#: One GPU that does not answer makes the tool fail for all of them.
_LOST = re.compile(r"Unable to determine the device handle for[^\n]{0,300}")
_INFOROM = re.compile(r"infoROM is corrupted[^\n]{0,300}", re.I)


def explain(sheet: Sheet, done: Run) -> None:
    """What a status or a line of the tool says of the hardware; how it ended is a cell of its own."""
    known = EXITS.get(done.rc) if done.ended == "exit" and done.rc is not None else None
    if known:
        sheet.find(f"exit:{done.rc}", NODE, f"nvidia-smi ended with {done.rc}: {known.words}", known.remedy)
        sheet.record(Check("exit_status", NODE, known.verdict, done.rc, 0, "", SOURCE))
    said = done.text + "\n" + done.cries
    for name, pattern, remedy in (("lost", _LOST, "power_cycle"), ("inforom", _INFOROM, "rma")):
        match = pattern.search(said)
        if match:
            sheet.find(name, NODE, short(match.group(0), 200), remedy)
            sheet.record(Check(name, NODE, FAIL, short(match.group(0), 100), "", "", "nvidia-smi"))
