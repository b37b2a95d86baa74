# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of nccl-tests of our own making, in the shapes of 2.13 to 2.19, and a program that prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-25", "conditions": "none at all"}
NAME = "all_reduce"
SIZES = (8589934592, 17179869184)


def profile(count: int = 8, algorithm: str = "default") -> dict[str, Any]:
    row = {"name": NAME, "program": "all_reduce_perf", "algorithm": algorithm, "from_gib": 8, "to_gib": 16}
    return {**made.profile(count), "collective": {"tests": [{**row, "minimum": 460, **ABOUT}]}}


def table(
    gpus: int = 8, *, busbw: tuple[float, ...] = (476.1, 480.2), wrong: str = "0", iters: bool = False, tag: str = "",
    in_place: tuple[float, ...] = (), in_place_wrong: str = "",
) -> str:  # fmt: skip
    """What all_reduce_perf prints. in_place: of the second direction, where it is not as the first one."""
    more, count = ("  #iters", "      20") if iters else ("", "")
    lines = ["# nThread 1 nGpus 8 minBytes 8589934592 maxBytes 17179869184 step: 2(factor) validation: 1", "#"]
    lines += ["# Using devices"]
    lines += [
        f"#  Rank {at:2} Group  0 Pid 4711 on node1 device {at:2} [0x{at + 10:02x}] NVIDIA H100 80GB HBM3"
        for at in range(gpus)
    ]
    lines += ["NCCL version 2.23.4+cuda12.6", "#"]
    direction = "    time   algbw   busbw #wrong"
    lines += [f"#       size         count      type   redop    root {direction} {direction}{more}"]
    lines += [
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"
    ]
    for size, *values in zip(SIZES, busbw, in_place or busbw):
        parts = [
            f"   34280  {value / 1.75:.2f}  {value:.2f}      {bad}"
            for value, bad in zip(values, (wrong, in_place_wrong or wrong))
        ]
        lines += [f"  {size}    {size // 4}     float     sum      -1 {' '.join(parts)}{count}"]
    lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {sum(busbw) / len(busbw):.3f}", "#"]
    return "".join(f"{tag}{line}\n" for line in lines)


def params(folder: Path, output: str, *, rc: int = 0, body: str = "") -> dict[str, Any]:
    """The options of a collective_gate over a machine whose nccl-tests print this."""
    (folder / "nccl.out").write_text(output, encoding="utf-8")
    program = f'echo "$NCCL_ALGO,$NCCL_NVLS_ENABLE $*" >> {folder}/calls\n{body}\ncat {folder}/nccl.out\nexit {rc}'
    made.program(folder / "all_reduce_perf", program)
    return {"nccl_tests": str(folder), "profile": profile(), "timeout": 20, "pci_path": made.pci(folder)}
