# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is soaked: stand-ins for its tools, and a profile that says how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.tests.unit.gate import burning, nodes, smi
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ABOUT = {"source": "written for tests", "date": "2026-11-28", "conditions": "none at all"}
LIMITS = (
    {"name": "temperature", "statistic": "max", "most": 88, **ABOUT},
    {"name": "power", "statistic": "mean", "least": 500, **ABOUT},
)
#: GPUs under load.
LOADED = {
    "temperature/gpu_temp": "61 C",
    "temperature/memory_temp": "72 C",
    "clocks/sm_clock": "1755 MHz",
    "clocks/mem_clock": "2619 MHz",
    "gpu_power_readings/average_power_draw": "650.00 W",
}
#: Of a soak of one round, which takes a second.
HOURS = 0.0002
QUIET = made.kmsg("NVRM: loading NVIDIA UNIX driver")


def profile(count: int = 8, **soak: Any) -> dict[str, Any]:
    section = {"interval_seconds": 0.2, "gap_seconds": 30, "interruptions": 1, "limits": [*LIMITS], **ABOUT, **soak}
    own = {"gpu_burn": burning.profile()["gpu_burn"], "soak": section}
    return {**smi.profile("ecc_volatile", "ecc_aggregate", "row_remap", "clocks", count=count), **own}


def document(values: Optional[Mapping[str, Optional[str]]] = None, gpus: int = 8) -> str:
    """What nvidia-smi tells of GPUs that are all alike."""
    return nodes.document({**LOADED, **(values or {})}, gpus)


def params(
    folder: Path,
    *,
    look: str = "",
    burn: Optional[str] = None,
    log: str = QUIET,
    body: str = "",
    uptime: float = 1000.0,
    **soak: Any,
) -> dict[str, Any]:
    """The options of a soak_gate over this machine, which runs for so long. body: shell before gpu-burn prints."""
    boot = folder / "boot"
    if not boot.exists():
        boot.write_text("boot-1\n", encoding="ascii")
    kernel = {
        key: value
        for key, value in made.machine(folder, log, uptime=uptime).items()
        if key not in ("since", "boot_id_path")
    }
    return {
        **kernel,
        **burning.params(folder, burn, body=body),
        "nvidia_smi": smi.tool(folder, look or document()),
        "boot_id_path": str(boot),
        "profile": profile(**soak),
        "hours": HOURS,
        "timeout": 20,
    }
