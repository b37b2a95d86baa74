# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many GPUs of a SKU the kernel knows, for tools that tell no device ids. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

_ID = re.compile(r"0x([0-9a-f]{4})\Z")
NVIDIA, AMD = "0x10de", "0x1002"


def on_bus(wanted: Wanted, folder: str, vendor: str = NVIDIA) -> int:
    """How many of the PCI devices there are of the SKU.

    :param folder: of all PCI devices, ``/sys/bus/pci/devices``. vendor: whose they are.
    """
    return len(places_on_bus(wanted, folder, vendor))


def places_on_bus(wanted: Wanted, folder: str, vendor: str = NVIDIA) -> list[str]:
    """Their PCI addresses, as the kernel writes them."""
    try:
        places = sorted(os.listdir(folder))
    except OSError:
        return []
    return [place for place in places if _is_of(wanted, os.path.join(folder, place), vendor)]


def devices_on_bus(folder: str) -> list[str]:
    """The device ids of all that NVIDIA has made in this machine; bridges and switches are among them."""
    try:
        places = [os.path.join(folder, place) for place in sorted(os.listdir(folder))]
    except OSError:
        return []
    ours = [_ID.match(_word(os.path.join(place, "device"))) for place in places if _made_by(place, NVIDIA)]
    return [match.group(1) for match in ours if match]


def _is_of(wanted: Wanted, place: str, vendor: str) -> bool:
    match = _ID.match(_word(os.path.join(place, "device")))
    ours = match is not None and match.group(1) in wanted.device_ids
    return ours and _made_by(place, vendor)


def _made_by(place: str, vendor: str) -> bool:
    return _word(os.path.join(place, "vendor")) == vendor


def _word(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(32).strip().lower()
    except (OSError, ValueError):
        return ""
