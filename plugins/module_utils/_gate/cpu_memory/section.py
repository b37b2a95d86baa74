# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``cpu_memory`` of a SKU's profile. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.linpack import Solve, solves_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.floors import chosen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted

NAME = "cpu_memory"
#: The name of the look at what the kernel counts, beside those of the loads.
HEALTH = "health"
#: The load that fills memory; the others fit into the caches.
VM = "vm"
STRESSORS = ("cpu", "matrix", VM)
_METHOD = re.compile(r"[a-z0-9-]+\Z")
#: What is left for the kernel and for who watches, or the kernel kills what fills memory.
_FULLEST = 95
#: Of a drained node's memory so many per cent are free, unless its site says less (huge pages are not).
_MOSTLY_FREE = 75


@dataclass(frozen=True)
class Machine:
    """What the kernel of a good node shows. nodes, machine_checks: None where the profile demands none."""

    threads: int
    sockets: int
    nodes: Optional[int]
    memory: float
    controllers: int
    corrected: int
    machine_checks: Optional[int]
    source: str

    @property
    def entities(self) -> list[str]:
        """The memory controllers."""
        return [f"mc{number}" for number in range(self.controllers)]


@dataclass(frozen=True)
class Load:
    """One run of stress-ng, an instance on each CPU. memory: per cent of what is free. filled: per cent of all memory
    that must have been filled, or most of it was not tested. minimum: bogo operations a second of that version and no
    other, None where it only has to be right."""

    name: str
    stressor: str
    method: str
    seconds: float
    memory: int
    filled: int
    minimum: Optional[float]
    version: str
    source: str

    @property
    def cell(self) -> str:
        return f"load.{self.name}"

    @property
    def filled_cell(self) -> str:
        return f"{self.cell}.filled"

    def least(self, machine: Machine) -> float:
        """GiB that must have been filled."""
        return round(machine.memory * self.filled / 100, 2)

    @property
    def unit(self) -> str:
        """What the figure is, so that nobody compares it with another one."""
        return f"bogo ops/s, {self.stressor} {self.method}" + (f", stress-ng {self.version}" if self.version else "")


@dataclass(frozen=True)
class Section:
    machine: Machine
    loads: tuple[Load, ...]
    solves: tuple[Solve, ...] = ()

    @property
    def tests(self) -> list[str]:
        return sorted([HEALTH, *self.names])

    @property
    def names(self) -> list[str]:
        """What is run."""
        return [*(load.name for load in self.loads), *(one.name for one in self.solves)]


def _machine(section: Mapping[str, Any]) -> Machine:
    row = section["machine"]
    found = Machine(
        int(row["cpu_threads"]),
        int(row["cpu_sockets"]),
        _count(row, "numa_nodes"),
        float(row["memory_gib"]),
        int(row["memory_controllers"]),
        int(row["corrected_errors"]),
        _count(row, "machine_checks"),
        str(row["source"]),
    )
    parts = (found.threads, found.sockets, found.controllers, 1 if found.nodes is None else found.nodes)
    if min(parts) < 1 or not 0 < found.memory < float("inf") or min(found.corrected, found.machine_checks or 0) < 0:
        raise ValueError("a machine without CPUs, memory or a memory controller")
    return found


def _count(row: Mapping[str, Any], name: str) -> Optional[int]:
    return None if row.get(name) is None else int(row[name])


def _loads(section: Mapping[str, Any]) -> tuple[Load, ...]:
    found = tuple(_load(row) for row in section.get("loads") or [])
    names = [one.name for one in found]
    if len(set(names)) != len(names) or HEALTH in names or not all(_runnable(one) for one in found):
        raise ValueError("a load without a name of its own, a stressor, a time, or with half a floor")
    return found


def _load(row: Mapping[str, Any]) -> Load:
    memory = int(row.get("memory_percent") or 0)
    return Load(
        str(row["name"]),
        str(row["stressor"]),
        str(row.get("method") or "all"),
        float(row["seconds"]),
        memory,
        int(row.get("filled_percent", memory * _MOSTLY_FREE // 100)),
        None if row.get("minimum") is None else float(row["minimum"]),
        str(row.get("version") or ""),
        str(row["source"]),
    )


def _runnable(one: Load) -> bool:
    """Bogo operations of two versions are two units; so a floor is one of its version."""
    named = one.stressor in STRESSORS and bool(_METHOD.match(one.method)) and one.seconds > 0
    filled = 1 <= one.memory <= _FULLEST and 0 <= one.filled <= one.memory
    filled = filled if one.stressor == VM else (one.memory, one.filled) == (0, 0)
    return named and filled and (one.minimum is None) == (not one.version) and (one.minimum is None or one.minimum > 0)


def section_of(wanted: Wanted, names: Sequence[str] = ()) -> Section:
    """The machine of the profile with the loads of it, all or those named; of ``health`` alone none.

    :raises ConfigError: where the profile has no such section, or no load that is named.
    """
    machine = wanted.section(NAME, _machine)
    asked = [name for name in names if name != HEALTH]
    if names and not asked:
        return Section(machine, ())
    found = chosen(wanted, NAME, _all, asked)
    loads = tuple(one for one in found if isinstance(one, Load))
    return Section(machine, loads, tuple(one for one in found if isinstance(one, Solve)))


def _all(section: Mapping[str, Any]) -> tuple[Union[Load, Solve], ...]:
    loads, solves = _loads(section), solves_of(section)
    if {load.name for load in loads} & {one.name for one in solves} or HEALTH in {one.name for one in solves}:
        raise ValueError("a load and a system of one name")
    return (*loads, *solves)
