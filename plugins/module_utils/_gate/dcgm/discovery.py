# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs there are, for documents that do not say it: ``dcgmi discovery -l`` and sysfs. PRIVATE to the collection.

DCGM numbers its GPUs and tells their PCI addresses; what stands at an address the kernel tells.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

_FOUND = re.compile(r"^\s*(\d+)\s+GPUs?\s+found", re.M)
_ROW = re.compile(r"^\|\s*(\d*)\s*\|\s*([^|\n]*?)\s*\|\s*$", re.M)
_BUS = re.compile(r"PCI Bus ID: ([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z", re.I)
_VENDOR = "0x10de"
_ID = re.compile(r"0x([0-9a-f]{4})\Z")


@dataclass(frozen=True)
class Found:
    """How many GPUs DCGM counts, and the PCI device ids of those that it numbers; empty where nobody knows."""

    gpus: Optional[int] = None
    devices: Mapping[int, str] = field(default_factory=dict)


NOT_ASKED = Found()


def parse(text: str, sysfs: str) -> Found:
    """What ``dcgmi discovery -l`` printed, with the kernel's word on each address.

    :param sysfs: the folder of all PCI devices, ``/sys/bus/pci/devices``.
    """
    count = _FOUND.search(text)
    devices: dict[int, str] = {}
    number: Optional[int] = None
    for row in _ROW.finditer(text):
        number = int(row.group(1)) if row.group(1) else number
        bus = _BUS.match(row.group(2))
        if bus is None or number is None:
            continue
        domain, rest = int(bus.group(1), 16), f"{bus.group(2)}:{bus.group(3)}.{bus.group(4)}".lower()
        # A number that stands there twice is the number of neither.
        devices[number] = "" if number in devices else _device(os.path.join(sysfs, f"{domain:04x}:{rest}"))
    return Found(int(count.group(1)) if count else None, devices)


def _device(folder: str) -> str:
    if _read(os.path.join(folder, "vendor")) != _VENDOR:
        return ""
    match = _ID.match(_read(os.path.join(folder, "device")))
    return match.group(1) if match else ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(32).strip().lower()
    except (OSError, ValueError):
        return ""
