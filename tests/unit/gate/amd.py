# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of amd-smi of our own making, in the shape of ROCm 6 and 7, and a program that prints them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PROFILE: dict[str, Any] = yaml.safe_load((made.PROFILES / "mi300x-8.yaml").read_text(encoding="utf-8"))
NONE_BAD = "No bad pages found."
VIOLATIONS = [f"{name}_violation_status" for name in ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")]
Calls = dict[str, list[dict[str, Any]]]


def unit(value: Any, name: str) -> dict[str, Any]:
    return {"value": value, "unit": name}


def calls(gpus: int = 8) -> Calls:
    """Healthy, idle GPUs, by the call that tells of them."""
    blocks = {"UMC": {"correctable_count": 0, "uncorrectable_count": 0, "deferred_count": 0}}
    blocks["XGMI_WAFL"] = {"correctable_count": 0, "uncorrectable_count": 0, "deferred_count": 0}
    found: Calls = {"list": [], "static": [], "metric": [], "bad-pages": []}
    for at in range(gpus):
        bdf = f"0000:{at + 5:02x}:00.0"
        found["list"].append({"gpu": at, "bdf": bdf, "uuid": f"{at:08x}-0000-1000-80ab-cdef01234567"})
        found["static"].append(
            {
                "gpu": at,
                "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002", "device_id": "0x74a1"},
                "bus": {
                    "bdf": bdf,
                    "max_pcie_width": 16,
                    "max_pcie_speed": unit(32, "GT/s"),
                    "pcie_interface_version": "Gen 5",
                },
                "limit": {"max_power": unit(750, "W"), "socket_power": unit(750, "W")},
                "driver": {"name": "amdgpu", "version": "6.10.5"},
                "ras": {"ecc_block_state": {"UMC": "ENABLED"}},
                "partition": {"compute_partition": "SPX", "memory_partition": "NPS1"},
                "vram": {"type": "HBM3", "size": unit(196592, "MB")},
            }
        )
        found["metric"].append(
            {
                "gpu": at,
                "usage": {"gfx_activity": unit(0, "%"), "vcn_activity": [unit(0, "%"), "N/A"]},
                "power": {"socket_power": unit(140, "W")},
                "clock": {"gfx_0": {"clk": unit(132, "MHz")}, "mem_0": {"clk": unit(900, "MHz")}},
                "temperature": {"edge": "N/A", "hotspot": unit(41, "C"), "mem": unit(33, "C")},
                "pcie": {"width": 16, "speed": unit(32, "GT/s")},
                "ecc": {
                    "total_correctable_count": 0,
                    "total_uncorrectable_count": 0,
                    "total_deferred_count": 0,
                },
                "ecc_blocks": copy.deepcopy(blocks),
                "throttle": dict.fromkeys(VIOLATIONS, "NOT ACTIVE"),
            }
        )
        found["bad-pages"].append({"gpu": at, "retired": NONE_BAD, "pending": NONE_BAD, "un_res": NONE_BAD})
    return found


def changed(call: str, path: str, value: Any, gpu: int = 3, gpus: int = 8) -> Calls:
    """The same with one value of one GPU another."""
    found = calls(gpus)
    place: Any = found[call][gpu]
    *above, name = path.split("/")
    for step in above:
        place = place[step]
    if value is None:
        del place[name]
    else:
        place[name] = value
    return found


def texts(told: Calls, *, wrapped: bool = False) -> dict[str, str]:
    """As each call prints it. wrapped: as since ROCm 7, which calls a partition by another name too."""
    if wrapped:
        told = copy.deepcopy(told)
        for row in told["static"]:
            if "compute_partition" in row.get("partition", {}):  # a row that stands twice is one object
                row["partition"]["accelerator_partition"] = row["partition"].pop("compute_partition")
    return {name: json.dumps({"gpu_data": rows} if wrapped else rows, indent=4) for name, rows in told.items()}


def tool(folder: Path, printed: Mapping[str, str], rc: int = 0) -> str:
    """An amd-smi."""
    for name, text in printed.items():
        (folder / f"amd.{name}").write_text(text, encoding="utf-8")
    return made.program(folder / "amd-smi", f'cat "{folder}/amd.$1"; exit {rc}')
