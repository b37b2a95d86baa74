# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a new model as gate_profile sees them, of our own making."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.tests.unit.gate import nccl, nvbw, smi

Values = Mapping[str, Optional[str]]


def document(values: Values, gpus: int = 8, *, driver: str = smi.DRIVER) -> str:
    """nvidia-smi -q -x of GPUs that are all alike. values: by path what is other than on a healthy H100."""
    head = f"<driver_version>{driver}</driver_version>\n<attached_gpus>{gpus}</attached_gpus>\n"
    rows = "".join(
        smi.gpu(number, **{path.replace("/", "__"): text for path, text in values.items()}) for number in range(gpus)
    )
    return f"<nvidia_smi_log>\n{head}{rows}</nvidia_smi_log>\n"


def look(
    node: str = "a1",
    text: str = "",
    *,
    gpus: int = 8,
    state: Optional[str] = None,
    errors: Optional[str] = None,
    on_bus: Optional[list[str]] = None,
    hardware: Optional[Mapping[str, Any]] = None,
    ends: Mapping[int, Mapping[str, Any]] = {},
) -> dict[str, Any]:
    """What gate_profile tells of a node with state: seen. ends: of the three calls, how one of them ended."""
    printed = (text or document({}, gpus), smi.state(gpus) if state is None else state)
    printed += (smi.errors(gpus) if errors is None else errors,)
    calls = (("-q", "-x"), ("nvlink", "-s"), ("nvlink", "-e"))
    runs = [
        {"argv": ["nvidia-smi", *call], "rc": 0, "ended": "exit", "stdout": out, "stderr": "", **ends.get(at, {})}
        for at, (call, out) in enumerate(zip(calls, printed))
    ]
    bus = ["2330"] * gpus if on_bus is None else on_bus
    return {"node": node, "runs": runs, "on_bus": [*bus, "22a3"], "hardware": dict(hardware or {})}


def bandwidth(slowest: float, gpus: int = 8, verdict: str = "pass", name: str = nvbw.PEERS) -> dict[str, Any]:
    """The verdict of a gpu_bandwidth_gate, as the ledger has it."""
    rows = [
        {"id": f"bandwidth.{name}", "entity": f"GPU {at}", "measured": slowest + at, "unit": "GB/s", "verdict": verdict}
        for at in range(gpus)
    ]
    return _verdict(
        "gpu_bandwidth_gate", rows, verdict, {"name": "nvbandwidth", "version": "v0.8"}, ["nvbandwidth", "-j"]
    )


def collective(slowest: float, gpus: int = 8, *, verdict: str = "pass", sizes: str = "8 to 16 GiB") -> dict[str, Any]:
    """The verdict of a collective_gate, as the ledger has it."""
    rows = [
        {"id": f"{nccl.NAME}.ranks", "entity": "node", "measured": gpus, "unit": "", "verdict": verdict},
        {
            "id": f"{nccl.NAME}.busbw",
            "entity": "node",
            "measured": slowest,
            "unit": f"GB/s busbw, {sizes}, default",
            "verdict": verdict,
        },
    ]
    argv = ["/opt/nccl/all_reduce_perf", "-b", "8589934592"]
    return _verdict("collective_gate", rows, verdict, {"name": "nccl-tests", "version": "2.13.9"}, argv)


def _verdict(
    gate: str, rows: list[dict[str, Any]], verdict: str, tool: dict[str, str], argv: list[str]
) -> dict[str, Any]:
    failed = [{"id": "slow", "entity": "node", "text": "it is slow", "remedy": "field_diag"}]
    return {
        "gate": gate,
        "verdict": verdict,
        "checks": rows,
        "findings": [] if verdict == "pass" else failed,
        "remedy": "none" if verdict == "pass" else "field_diag",
        "tool": tool,
        "argv": argv,
        "ended": "2026-11-24T10:00:00Z",
    }
