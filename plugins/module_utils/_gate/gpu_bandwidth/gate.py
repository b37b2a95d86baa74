# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU bandwidth gate: runs nvbandwidth on this node and judges each GPU by it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import Floor, floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.on_bus import on_bus
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool, answer, digest

GATE = "gpu_bandwidth_gate"
#: The tool numbers GPUs as nvidia-smi does, not by their speed.
_ENVIRONMENT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
_PCI = "/sys/bus/pci/devices"


def gpu_bandwidth_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Measure, and say what that proves."""
    cases = list(params.get("cases") or [])
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: floors_of(wanted, cases))


def command(params: Mapping[str, Any], floors: Sequence[Floor]) -> list[str]:
    return [str(params.get("nvbandwidth") or "nvbandwidth"), "-j", "-t", *(floor.name for floor in floors)]


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    floors = floors_of(begun.wanted, list(params.get("cases") or []))
    argv = command(params, floors)
    if not ctx.may_write(f"run {' '.join(argv)}", destructive=True):
        verdict = begun.unmeasured("not run in check mode: it would load the GPUs", "check_mode")
        return answer({**verdict, "argv": argv})
    end = time.monotonic() + float(params.get("timeout") or 600)
    with alone(params, ctx, timeout=end - time.monotonic()) as free:
        if not free:
            return answer({**begun.unmeasured(TEXT, BUSY), "argv": argv})
        done = run(argv, timeout=max(1.0, end - time.monotonic()), env=_ENVIRONMENT)
    seen = read(done.text)
    sheet = judge(seen, done, begun.wanted, floors, on_bus(begun.wanted, str(params.get("pci_path") or _PCI)))
    kept = evidence.save(sheet, params, ctx, lambda: {"gate": GATE, "runs": [done.as_evidence()]})
    verdict = begun.verdict(sheet, Tool("nvbandwidth", seen.version, argv), digest(*done.parts()))
    return answer(verdict, evidence_path=kept)
