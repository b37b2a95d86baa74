# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of nvbandwidth of our own making, in the shapes of 0.5 to 0.8, and a program that prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-25", "conditions": "none at all"}
HOST, PEERS = "host_to_device_memcpy_ce", "device_to_device_memcpy_read_ce"
Rows = list[list[Optional[float]]]


def profile(count: int = 8) -> dict[str, Any]:
    rows = [
        {"name": HOST, "between": "host", "minimum": 48, **ABOUT},
        {"name": PEERS, "between": "gpus", "minimum": 335, **ABOUT},
    ]
    return {**made.profile(count), "gpu_bandwidth": {"cases": rows}}


def host(gpus: int = 8, *, slow: Optional[int] = None) -> Rows:
    return [[20.5 if number == slow else 55.1 for number in range(gpus)]]


def peers(gpus: int = 8, *, slow: Optional[tuple[int, int]] = None) -> Rows:
    """Each pair of GPUs; none with itself."""
    return [
        [None if one == other else (120.0 if (one, other) == slow else 371.2) for other in range(gpus)]
        for one in range(gpus)
    ]


def case(name: str, rows: Optional[Rows], status: str = "Passed") -> dict[str, Any]:
    if rows is None:
        return {"name": name, "status": status}
    shown = [["N/A" if cell is None else f"{cell:g}" for cell in row] for row in rows]
    unit = {"bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s) "}
    return {"name": name, "status": status, **unit, "bandwidth_matrix": shown, "sum": 1.0, "min": 0.0}


def document(*cases: dict[str, Any], gpus: int = 8, **more: Any) -> str:
    """What ``nvbandwidth -j`` prints of a healthy machine, or of these cases."""
    listed = [f"{number}: NVIDIA H100 80GB HBM3 (00000000:{number + 10:02x}:00)" for number in range(gpus)]
    body = {
        "CUDA Runtime Version": 12080,
        "Driver Version": "580.105.08",
        "GPU Device list": listed,
        "git_version": "v0.8",
        "testcases": list(cases) or [case(HOST, host(gpus)), case(PEERS, peers(gpus))],
        "version": "v0.8",
        **more,
    }
    return json.dumps({"nvbandwidth": body}, indent="\t") + "\n"


def text(gpus: int = 8, *, slow: Optional[int] = None) -> str:
    """The same as text."""
    lines = ["nvbandwidth Version: v0.8", "Built from Git version: v0.8", ""]
    lines += [f"Device {number}: NVIDIA H100 80GB HBM3 (00000000:{number + 10:02x}:00)" for number in range(gpus)]
    for name, rows in ((HOST, host(gpus, slow=slow)), (PEERS, peers(gpus))):
        lines += ["", f"Running {name}.", "memcpy CE (GB/s)", "  ".join(map(str, range(gpus)))]
        lines += [
            f" {at}  " + "  ".join("N/A" if cell is None else f"{cell:.2f}" for cell in row)
            for at, row in enumerate(rows)
        ]
        lines += ["", f"SUM {name} 441.00"]
    return "\n".join([*lines, "", "NOTE: The reported results may not reflect the full capabilities.", ""])


def params(folder: Path, output: str, *, rc: int = 0, body: str = "") -> dict[str, Any]:
    """The options of a gpu_bandwidth_gate over a machine whose nvbandwidth prints this."""
    (folder / "nvbandwidth.out").write_text(output, encoding="utf-8")
    program = f'echo "$*" >> {folder}/calls\n{body}\ncat {folder}/nvbandwidth.out\nexit {rc}'
    return {
        "nvbandwidth": made.program(folder / "nvbandwidth", program),
        "profile": profile(),
        "timeout": 20,
        "pci_path": made.pci(folder),
    }
