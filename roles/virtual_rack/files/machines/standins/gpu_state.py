# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The eight GPUs that this node would have: what is there, what is broken, which driver runs.

Standard library only: this runs on a node. What is broken stands in ``state.json`` beside this file, which is
mounted there by the rack and lies outside the node's disk. The driver is the one of the image that runs.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parent
MANIFEST = Path("/etc/gpufleet/manifest.json")
SERIAL = Path("/sys/class/dmi/id/product_serial")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

NAME = "NVIDIA H100 80GB HBM3"
DEVICE_ID = "2330"
BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
SWITCHES = 4
MEMORY_MIB = 81559
MISSING = ("xid79", "gpu_missing")


def faults() -> dict[str, dict[str, Any]]:
    """Return the injected faults by name."""
    try:
        return dict(json.loads((HOME / "state.json").read_text(encoding="utf-8")).get("faults", {}))
    except (OSError, ValueError):
        return {}


def manifest() -> dict[str, str]:
    """Return the manifest of the image that runs; empty where the system has none, and so no driver."""
    try:
        return dict(json.loads(MANIFEST.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def present() -> list[int]:
    """Return the numbers of the GPUs that answer."""
    broken = faults()
    gone = {int(broken[name].get("gpu", -1)) for name in MISSING if name in broken}
    return [number for number in range(len(BUSES)) if number not in gone]


def lost() -> int | None:
    """Return the GPU that fell off the bus since this boot: the driver still counts it, and cannot reach it."""
    fault = faults().get("xid79")
    if fault is None or fault.get("boot_id") != _read(BOOT_ID):
        return None
    return int(fault.get("gpu", 3))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def serial(number: int) -> str:
    """A GPU's serial: its own in the whole rack, the same at each boot."""
    return f"165{_seed(number).int % 10**10:010d}"


def gpu_uuid(number: int) -> str:
    """A GPU's UUID."""
    return f"GPU-{_seed(number)}"


def _seed(number: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{_read(SERIAL)}/{number}")


def bus_id(number: int) -> str:
    """PCI address as nvidia-smi prints it."""
    return f"00000000:{BUSES[number].upper()}:00.0"
