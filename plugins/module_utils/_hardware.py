# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine consists of, as one of those tells who look at it. PRIVATE to the collection.

A BMC, and a provisioner's inspection, each tell a part. What one does not tell is None, and never zero: that a BMC
lists no GPU is no word on how many there are. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

GIB = 1024


@dataclass(frozen=True)
class Hardware:
    """cpu_threads: as an operating system counts CPUs. gpu_devices: PCI device ids, lower case, without those that are
    not told. nic_count: ports that have a MAC of their maker. firmware: version by component."""

    cpu_sockets: Optional[int] = None
    cpu_threads: Optional[int] = None
    cpu_model: Optional[str] = None
    memory_gib: Optional[float] = None
    gpu_count: Optional[int] = None
    gpu_devices: tuple[str, ...] = ()
    nic_count: Optional[int] = None
    drive_count: Optional[int] = None
    firmware: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "gpu_devices": list(self.gpu_devices), "firmware": dict(self.firmware)}


def hardware_of(told: Any) -> Hardware:
    """Out of a mapping as :meth:`Hardware.as_dict` writes it, by whomever; what has another form is not told."""
    told = told if isinstance(told, Mapping) else {}
    firmware = told.get("firmware")
    devices = told.get("gpu_devices")
    return Hardware(
        cpu_sockets=count(told.get("cpu_sockets")),
        cpu_threads=count(told.get("cpu_threads")),
        cpu_model=text(told.get("cpu_model")),
        memory_gib=amount(told.get("memory_gib")),
        gpu_count=count(told.get("gpu_count")),
        gpu_devices=tuple(filter(None, map(device_id, devices if isinstance(devices, (list, tuple)) else ()))),
        nic_count=count(told.get("nic_count")),
        drive_count=count(told.get("drive_count")),
        firmware={
            str(name): str(version)
            for name, version in (firmware if isinstance(firmware, Mapping) else {}).items()
            if text(version)
        },
    )


def count(told: Any) -> Optional[int]:
    """A number of parts; None for none, since many tell nothing so."""
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None


def amount(told: Any) -> Optional[float]:
    return float(told) if isinstance(told, (int, float)) and not isinstance(told, bool) and 0 < told < 1e9 else None


def gib_of_mib(told: Any) -> Optional[float]:
    found = amount(told)
    return None if found is None else found / GIB


def text(told: Any) -> Optional[str]:
    return told.strip() or None if isinstance(told, str) else None


def several(found: Iterable[Any]) -> Optional[int]:
    """How many there are of what an answer lists."""
    return count(len(list(found)))


_MAC = re.compile(r"[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\Z", re.I)


def ports(macs: Iterable[Any]) -> Optional[int]:
    """How many of these MACs a maker gave out; one that somebody administers may be the BMC's own, or a bond's."""
    found = {one.lower() for one in macs if isinstance(one, str) and _MAC.match(one)}
    return several(one for one in found if not int(one[:2], 16) & 0x02)


def listed(told: Any) -> list[Mapping[str, Any]]:
    """The entries of what should be a list of mappings."""
    return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []


_DEVICE = re.compile(r"(?:0x)?([0-9a-f]{4})\Z", re.I)


def device_id(told: Any) -> str:
    """A PCI device id, in lower case; empty for none, and for zeros, which some BMCs tell of each device."""
    match = _DEVICE.match(told.strip()) if isinstance(told, str) else None
    found = match[1].lower() if match else ""
    return "" if found in ("0000", "ffff") else found
