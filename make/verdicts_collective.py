# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How collective_gate is asked about what nccl-tests printed."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.document import Seen, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import GIB, floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool
from verdicts_recorded import ABOUT, Recorded, counted, verdict_of

_PROGRAM = "all_reduce_perf"
#: Less than any bandwidth: of a machine of no SKU nobody knows more than that it was measured.
_ANY = 1e-6


def collective(recorded: Recorded) -> tuple[dict[str, Any], str]:
    text = recorded.path.read_text(encoding="utf-8", errors="replace")
    seen = read(text)
    profile = recorded.profile or _as_recorded(seen)
    wanted = wanted_of(profile)
    [floor, *_more] = floors_of(wanted)
    run = Run((_PROGRAM,), recorded.number("exit_status", 0), text.encode(), b"", "exit", 0.0)
    sheet = judge.begin(wanted, [floor], wanted.gpu_count)
    hosts = len({host for host, _device in seen.ranks.values()})
    judge.judge(sheet, seen, run, wanted, floor, nodes=1 if recorded.profile else hosts)
    verdict = verdict_of("collective_gate", sheet, Tool("nccl-tests", seen.version), run, wanted)
    return verdict, f"exit status {run.rc}, profile {wanted.sku}"


def _as_recorded(seen: Seen) -> dict[str, Any]:
    """A machine of as many GPUs as there are ranks, measured over the largest sizes that are shown, each once."""
    if not seen.ranks and seen.rows:  # the list of devices was not recorded beside the table
        seen.ranks = {0: ("", 0)}
    largest = max((row.size for row in seen.rows), default=GIB)
    seen.rows = [row for row in seen.rows if row.size >= min(GIB, largest)]
    profile = counted(Diagnosis())
    gpu = {**profile["gpu"], "count": {"value": max(1, len(seen.ranks)), **ABOUT}}
    row = {"name": "collective", "program": _PROGRAM, "algorithm": "default", "from_gib": 1, "minimum": _ANY, **ABOUT}
    return {**profile, "gpu": gpu, "collective": {"tests": [{**row, "to_gib": max(1, largest // GIB)}]}}
