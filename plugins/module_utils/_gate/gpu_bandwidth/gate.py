# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU bandwidth gate: runs nvbandwidth on this node and judges each GPU by it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.section import Floor, floors_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Tool, answer, digest

GATE = "gpu_bandwidth_gate"
#: The tool numbers GPUs as nvidia-smi does, not by their speed.
_ENVIRONMENT = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
_PCI = "/sys/bus/pci/devices"
_ID = re.compile(r"0x([0-9a-f]{4})\Z")


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
    done = run(argv, timeout=float(params.get("timeout") or 600), env=_ENVIRONMENT)
    seen = read(done.text)
    sheet = judge(seen, done, begun.wanted, floors, on_bus(begun.wanted, str(params.get("pci_path") or _PCI)))
    kept = evidence.save(sheet, params, ctx, lambda: {"gate": GATE, "runs": [done.as_evidence()]})
    verdict = begun.verdict(sheet, Tool("nvbandwidth", seen.version, argv), digest(*done.parts()))
    return answer(verdict, evidence_path=kept)


def on_bus(wanted: Wanted, folder: str) -> int:
    """How many devices of the SKU the kernel knows."""
    try:
        places = os.listdir(folder)
    except OSError:
        return 0
    return sum(_is_of(wanted, os.path.join(folder, place)) for place in places)


def _is_of(wanted: Wanted, place: str) -> bool:
    match = _ID.match(_word(os.path.join(place, "device")))
    ours = match is not None and match.group(1) in wanted.device_ids
    return ours and _word(os.path.join(place, "vendor")) == "0x10de"


def _word(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(32).strip().lower()
    except (OSError, ValueError):
        return ""
