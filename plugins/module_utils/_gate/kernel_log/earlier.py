# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel said in an earlier boot, as far as the journal kept it. PRIVATE to the collection.

Whoever loads a node over a boot wants to know why that boot ended. What stands there counts; what does not stand there
says nothing, since a machine that was cut off wrote its last lines nowhere.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import read as reader
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import Names, incidents
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE, Sheet, Tool, answer, digest

#: That the journal kept this boot to its end, nobody can know.
END = "end"
_CELLS = ("xid", "sxid", "kernel", END)
_WORDS = "nobody knows what the kernel said last in the boot that was cut off"


def earlier_boot_log(params: Mapping[str, Any], ctx: Context) -> Result:
    """Read the journal of the boot ``boot`` since ``since_up`` (seconds of that boot): a failure, or inconclusive."""
    return begin(GATE, params, lambda begun: _look(params, begun))


def _look(params: Mapping[str, Any], begun: Begun) -> Result:
    boot, since = str(params["boot"]), float(params["since_up"]) - reader.SLACK_SECONDS
    clock = reader.Clock(time.time(), 0.0, boot.replace("-", ""))
    program, limit = str(params.get("journalctl") or "journalctl"), float(params.get("timeout") or 60)
    log = reader.read_journal(program, clock, limit, boot=boot)
    sheet, names = Sheet(), Names({}, {})
    for cell in _CELLS:
        sheet.require(cell, NODE)
    found = [one for line, one in incidents(log.lines, names) if line.mono is None or line.mono >= since]
    judge(sheet, found, names)
    sheet.findings = [replace(one, text=f"{one.text}, in the boot that was cut off") for one in sheet.findings]
    sheet.unsettled(END, NODE, _WORDS)
    for number, text in enumerate(log.problems):
        sheet.unsettled(f"log.{number}", NODE, f"{log.source} of the boot that was cut off: {text}")
    return answer(begun.verdict(sheet, Tool(log.source, "", [log.place]), digest(log.raw)))
