# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a tool came to its end, as a cell that each gate must fill. PRIVATE to the collection.

A perfect output proves nothing if the tool was killed after it, or ended with a status that nobody knows.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE, PASS, Check, Sheet

ENDED = "ended"
_SOURCE = "own rule: an unknown end is none"
#: Ends that are none of the tool's own: what is said, and what helps.
_CUT_OFF: Mapping[str, tuple[str, str]] = {
    "missing": ("is not installed", "remediate_config"),
    "denied": ("cannot be run", "remediate_config"),
    "timeout": ("was still running after {seconds:.0f} s", "retest"),
    "flood": ("printed without an end", "field_diag"),
}


def record_end(sheet: Sheet, done: Run, good: Collection[int] = (0,)) -> None:
    """Require that the tool ended by itself, with an exit status of which it is known that the output is whole."""
    sheet.require(ENDED, NODE, wanted=f"exit {sorted(good)}", source=_SOURCE)
    wrong, remedy = _wrong(done, good)
    if wrong:
        sheet.unsettled(ENDED, NODE, f"{os.path.basename(done.argv[0])} {wrong}", remedy)
    else:
        sheet.record(Check(ENDED, NODE, PASS, f"exit {done.rc}", f"exit {sorted(good)}", source=_SOURCE))


def _wrong(done: Run, good: Collection[int]) -> tuple[str, str]:
    """What speaks against its end, and the remedy; empty where nothing does."""
    if done.ended != "exit" or done.rc is None:
        words, remedy = _CUT_OFF.get(done.ended, (f"ended as {done.ended}", "retest"))
        return words.format(seconds=done.seconds), remedy
    if done.rc < 0:
        return f"was ended by signal {-done.rc}", "retest"
    return ("", "none") if done.rc in good else (f"ended with exit status {done.rc}", "retest")
