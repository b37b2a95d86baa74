# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads which neighbour lldpd heard on a port. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._lldp import interfaces, members, value

_KEYS = ("name", "chassis", "port")
#: The kind of a port's id that is its name on the switch.
_OWN_NAME = "ifname"


@dataclass
class Heard:
    """neighbours: by port each that was heard there, in all the ways in which one may name it."""

    neighbours: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read(text: str) -> Heard:
    heard = Heard()
    if not text.strip():
        heard.problems.append("it printed nothing")
        return heard
    try:
        for row in interfaces(text):
            name = row["name"]
            if not isinstance(name, str) or any(key not in row for key in _KEYS):
                raise ValueError("an interface without a name, a chassis or a port")
            heard.neighbours.setdefault(name, []).append(frozenset(_names(row)))
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        heard.neighbours.clear()
        heard.problems.append(f"what it printed cannot be read: {short(exc, 100)}")
    return heard


def _names(row: Mapping[str, Any]) -> Iterator[str]:
    """Switch and port, by each name and each id that both tell. What people have written of a port, which may be
    another one's name, counts only where the port tells no name of its own."""
    switches = {value(one) for key in ("name", "id") for one in members(row["chassis"], key)}
    ids = list(members(row["port"], "id"))
    named = any(one.get("type") == _OWN_NAME for one in ids)
    ports = {value(one) for one in [*ids, *([] if named else members(row["port"], "descr"))]}
    for switch in sorted(switches - {""}):
        for port in sorted(ports - {""}):
            yield f"{switch} {port}"
