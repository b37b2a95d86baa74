# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What known-good nodes show, of which a profile is made, and whether they agree. PRIVATE to the collection.

Runs on nodes by who imports it: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

#: So many nodes are named in a source; a rack is a number.
_NAMED = 8
#: Keys that say where a number comes from, and nothing of what it is.
PROVENANCE = ("source", "date", "conditions")

#: Of a figure, by its name, where it comes from and when it holds.
About = Callable[[str], Mapping[str, str]]
Same = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Asks:
    """without: cells and parts that the profile shall not have. limits: rows of cells whose limit no node can show, by
    name, as another profile has them."""

    without: frozenset[str] = frozenset()
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """What a profile says of the GPUs of a node. cells: what is told of each of them."""

    count: int
    device: str
    figures: Mapping[str, float]
    cells: tuple[str, ...]

    def fields(self) -> dict[str, Any]:
        """By their names in a profile."""
        found: dict[str, Any] = {"gpu.count": self.count, "gpu.device_ids": self.device}
        found.update({f"gpu.{name}": value for name, value in self.figures.items()})
        return {**found, **{f"gpu_state.cells.{name}": "told" for name in self.cells}}


@dataclass(frozen=True)
class Shown:
    """What one node shows. silent: by cell why it is left out. findings: what keeps it from being a known-good node.
    notes: what a person should know of it."""

    facts: Facts
    driver: str
    silent: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Looks:
    """How a gate looks at a node, and what it has in a profile.

    section: its name in a profile. ask: on the node, what its tool prints. shown: reads that on the controller.
    sections: of a profile. passes: empty where a node that showed this passes by a profile, else what is in the way.
    """

    section: str
    ask: Callable[[Mapping[str, Any]], dict[str, Any]]
    shown: Callable[[Mapping[str, Any], Asks], Shown]
    common: Callable[[Sequence[Facts]], Facts]
    sections: Callable[[Facts, Asks, About], dict[str, Any]]
    passes: Callable[[Mapping[str, Any], Mapping[str, Any]], str]
    #: The cells that a look may tell, and how much two nodes may differ in a field.
    cells: tuple[str, ...]
    same: Mapping[str, Same]


@dataclass(frozen=True)
class Measured:
    """The slowest figure of one measurement on one node. row: what a profile says beside its floor. gpus: how many."""

    row: Mapping[str, Any]
    value: float
    unit: str
    gpus: Optional[int] = None


@dataclass(frozen=True)
class Measures:
    """How a gate's verdict tells figures. section, rows: where a profile has their floors."""

    section: str
    rows: str
    read: Callable[[Mapping[str, Any]], dict[str, Measured]]


def differences(told: Mapping[str, Mapping[str, Any]], same: Mapping[str, Same]) -> list[str]:
    """Field by field, the nodes that tell another thing than the first one."""
    nodes = list(told)
    names = list(dict.fromkeys(name for fields in told.values() for name in fields))
    return [
        f"{name}: {said(told[nodes[0]].get(name))} ({nodes[0]}), {said(told[node].get(name))} ({node})"
        for name in names
        for node in nodes[1:]
        if not _alike(told[nodes[0]].get(name), told[node].get(name), same.get(name))
    ]


def _alike(one: Any, other: Any, same: Optional[Same]) -> bool:
    if one is None or other is None or same is None:
        return bool(one == other)
    return same(one, other)


def said(value: Any) -> str:
    """A value for a person."""
    if value is None:
        return "not told"
    return f"{plain(value)}" if isinstance(value, (int, float)) else short(value, 100)


def plain(value: float) -> float:
    """Whole numbers without a point, as people write them."""
    return int(value) if float(value).is_integer() else round(float(value), 4)


def named(nodes: Iterable[str]) -> str:
    """The nodes of a source."""
    listed = sorted(nodes)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


def about(tool: str, nodes: Iterable[str], date: str, more: str) -> dict[str, str]:
    """Where a number comes from: the tool and the nodes, the day, and on how many it was measured."""
    listed = sorted(nodes)
    conditions = f"measured on {len(listed)} node{'s' if len(listed) > 1 else ''} of this site; {more}"
    return {"source": f"{tool}, on {named(listed)}", "date": date, "conditions": conditions}
