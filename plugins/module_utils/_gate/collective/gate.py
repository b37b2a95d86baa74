# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collective gate: runs nccl-tests or rccl-tests over the GPUs of this node and judges it. PRIVATE.

PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective import judge as judging
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.section import (
    ENVIRONMENT,
    TOOLS,
    VENDORS,
    Floor,
    floors_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.on_bus import places_on_bus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool, answer, digest

GATE = "collective_gate"
_PCI = "/sys/bus/pci/devices"


def collective_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Measure, and say what that proves."""
    tests = list(params.get("tests") or [])
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: floors_of(wanted, tests))


def command(params: Mapping[str, Any], floor: Floor, gpus: int) -> list[str]:
    """One process over all GPUs, each size once, doubled, and each value checked."""
    program = os.path.join(str(params.get("nccl_tests") or ""), floor.program)
    sizes = ["-b", str(floor.smallest), "-e", str(floor.largest), "-f", "2"]
    return [program, *sizes, "-g", str(gpus), "-c", "1", "-w", "5", "-n", "20"]


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    wanted = begun.wanted
    floors = floors_of(wanted, list(params.get("tests") or []))
    calls = [command(params, floor, wanted.gpu_count) for floor in floors]
    told = "; ".join(" ".join(call) for call in calls)
    if not ctx.may_write(f"run {told}", destructive=True):
        verdict = begun.unmeasured("not run in check mode: it would load the GPUs", "check_mode")
        return answer({**verdict, "argv": calls[0]})
    end = time.monotonic() + float(params.get("timeout") or 900)
    with alone(params, ctx, timeout=end - time.monotonic()) as free:
        if not free:
            return answer({**begun.unmeasured(TEXT, BUSY), "argv": calls[0]})
        runs = [_run(call, floor, end) for floor, call in zip(floors, calls)]
    library = floors[0].library
    places = places_on_bus(wanted, str(params.get("pci_path") or _PCI), VENDORS[library])
    sheet = judging.begin(wanted, floors, len(places))
    documents = [read(one.text) for one in runs]
    for floor, seen, done in zip(floors, documents, runs):
        judging.judge(sheet, seen, done, wanted, floor, places=places, known=floors_of(wanted))
    kept = evidence.save(sheet, params, ctx, lambda: {"gate": GATE, "runs": [one.as_evidence() for one in runs]})
    version = next((seen.version for seen in documents if seen.version), "")
    tool = Tool(TOOLS[library], version, [word for call in calls for word in call])
    verdict = begun.verdict(sheet, tool, digest(*(part for one in runs for part in one.parts())))
    return answer(verdict, evidence_path=kept)


def _run(call: list[str], floor: Floor, end: float) -> Run:
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **ENVIRONMENT[floor.algorithm]}
    return run(call, timeout=max(1.0, end - time.monotonic()), env=environment)
