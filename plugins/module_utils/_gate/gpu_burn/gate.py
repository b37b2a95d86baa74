# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The burn-in gate: runs gpu-burn over the GPUs of this node and judges it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn import judge as judging
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.section import (
    PRECISIONS,
    Burn,
    burns_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.on_bus import on_bus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool, answer, digest

GATE = "gpu_burn_gate"
_PCI = "/sys/bus/pci/devices"
#: gpu-burn counts by its own order, the kernel by this one.
_ENVIRONMENT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def gpu_burn_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Burn, and say what that proves."""
    tests = list(params.get("tests") or [])
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: burns_of(wanted, tests))


def command(params: Mapping[str, Any], burn: Burn) -> list[str]:
    """All GPUs at once. Without its compare kernel beside it gpu-burn computes nothing, and calls that OK."""
    kernel = str(params.get("compare") or "")
    argv = [str(params.get("gpu_burn") or "gpu_burn"), *PRECISIONS[burn.precision], "-m", f"{burn.memory}%"]
    return [*argv, *(["-c", kernel] if kernel else []), str(burn.seconds)]


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    wanted = begun.wanted
    burns = burns_of(wanted, list(params.get("tests") or []))
    calls = [command(params, burn) for burn in burns]
    told = "; ".join(" ".join(call) for call in calls)
    if not ctx.may_write(f"run {told}", destructive=True):
        verdict = begun.unmeasured("not run in check mode: it would load the GPUs", "check_mode")
        return answer({**verdict, "argv": calls[0]})
    end = time.monotonic() + float(params.get("timeout") or 3600)
    with alone(params, ctx, timeout=end - time.monotonic()) as free:
        if not free:
            return answer({**begun.unmeasured(TEXT, BUSY), "argv": calls[0]})
        runs = [run(call, timeout=max(1.0, end - time.monotonic()), env=_ENVIRONMENT) for call in calls]
    sheet = judging.begin(wanted, burns, on_bus(wanted, str(params.get("pci_path") or _PCI)))
    for burn, done in zip(burns, runs):
        judging.judge(sheet, read(done.text, done.cries), done, wanted, burn)
    kept = evidence.save(sheet, params, ctx, lambda: {"gate": GATE, "runs": [one.as_evidence() for one in runs]})
    tool = Tool("gpu-burn", "", [word for call in calls for word in call])
    verdict = begun.verdict(sheet, tool, digest(*(part for one in runs for part in one.parts())))
    return answer(verdict, evidence_path=kept)
