# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An InfiniBand fabric as ``ibnetdiscover`` printed it: which leaf each port of a host leads to. PRIVATE.

Ports are known by their GUID. The description beside it names the host only where its driver has set it since the boot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

_SWITCH = re.compile(r'Switch\s+\d+\s+"S-([0-9a-fA-F]{16})"\s*#\s*"([^"]*)"')
_OTHER = re.compile(r"(?:Ca|Rt)\s+\d+\s+\"")
_PORT = re.compile(
    r'\[\d+\](?:\[ext \d+\])?\s+"([HSR])-[0-9a-fA-F]{16}"\[\d+\](?:\(([0-9a-fA-F]{16})\))?\s*#\s*"([^"]*)"'
)
#: SHARP puts a host of its own behind each switch.
_AGGREGATION = "Aggregation Node"
#: Of a managed switch, ``MF0;NAME:MODEL/U1``.
_MANAGED = re.compile(r"MF0;([^:;]+):")


def leaves(lines: Iterable[str]) -> dict[str, list[str]]:
    """By GUID of a host's port, name and GUID of its switch.

    :raises ValueError: where there is none, and where a port leads to two.
    """
    found: dict[str, list[str]] = {}
    at: list[str] = []
    for line in lines:
        switch = _SWITCH.match(line)
        if switch:
            at = [_name(switch[2]) or switch[1].lower(), switch[1].lower()]
        elif _OTHER.match(line):
            at = []
        port = _PORT.match(line) if at else None
        if port and port[1] == "H" and port[2] and _AGGREGATION not in port[3]:
            guid = port[2].lower()
            if found.setdefault(guid, at) != at:
                raise ValueError(f"the port {guid} leads to two switches, {found[guid][0]} and {at[0]}: two fabrics?")
    if not found:
        raise ValueError("no port of a host leads to a switch in it")
    return found


def _name(description: str) -> str:
    managed = _MANAGED.match(description)
    return short(managed[1] if managed else description.split(";")[0], 64).strip()
