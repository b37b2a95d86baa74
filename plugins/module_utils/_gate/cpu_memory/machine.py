# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPUs and memory of this machine as the kernel shows and counts them. PRIVATE to the collection.

Nothing is filled in: what the kernel does not tell is None, and no zero.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

#: What is between the numbers of CPUs or of NUMA nodes (Linux v6.12 Documentation/admin-guide/cputopology.rst).
_RANGES = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*\Z")
_CONTROLLER = re.compile(r"mc\d+\Z")
_DIMM = re.compile(r"(?:dimm|rank)\d+\Z")
#: Of both kinds the errors that the controller could lay to a module, and those that it could not
#: (Linux v6.12 Documentation/admin-guide/RAS/main.rst).
_CORRECTED, _UNCORRECTED = ("ce_count", "ce_noinfo_count"), ("ue_count", "ue_noinfo_count")
#: More than any machine has; a longer word is none of the kernel's.
_MOST = 1 << 16
#: Fields of a line of /proc/stat in which a CPU did nothing: idle, and waiting for a drive.
_IDLE = (3, 4)


@dataclass(frozen=True)
class Shown:
    """memory: in KiB."""

    online: Optional[int]
    present: Optional[int]
    sockets: Optional[int]
    nodes: Optional[int]
    memory: Optional[int]

    def as_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("online", "present", "sockets", "nodes", "memory")}


class Errors(NamedTuple):
    """None where the kernel does not tell them."""

    corrected: Optional[int]
    uncorrected: Optional[int]


@dataclass(frozen=True)
class Counted:
    """What the kernel has counted since it came up. controllers, modules: by their name."""

    controllers: Mapping[str, Errors]
    modules: Mapping[str, Errors]
    machine_checks: Optional[int]

    def as_dict(self) -> dict[str, Any]:
        return {
            "controllers": {name: list(one) for name, one in self.controllers.items()},
            "modules": {name: list(one) for name, one in self.modules.items()},
            "machine_checks": self.machine_checks,
        }


class Worked(NamedTuple):
    """Before a load or after it: by CPU its ticks, all of them and the idle ones; and how often memory ran out."""

    cpus: Mapping[str, tuple[int, int]]
    killed: Optional[int]


# -- what there is -----------------------------------------------------------------------------------------------------


def shown(sysfs: str, proc: str) -> Shown:
    cpus = os.path.join(sysfs, "devices", "system", "cpu")
    online = _numbers(_word(os.path.join(cpus, "online")))
    present = _numbers(_word(os.path.join(cpus, "present")))
    nodes = _numbers(_word(os.path.join(sysfs, "devices", "system", "node", "online")))
    return Shown(
        None if online is None else len(online),
        None if present is None else len(present),
        None if online is None else _sockets(cpus, online),
        None if nodes is None else len(nodes),
        _meminfo(proc, "MemTotal"),
    )


def _sockets(cpus: str, online: Iterable[int]) -> Optional[int]:
    told = {_word(os.path.join(cpus, f"cpu{number}", "topology", "physical_package_id")) for number in online}
    return len(told) if all(word.isdigit() for word in told) else None


def _numbers(text: str) -> Optional[set[int]]:
    """The numbers of a list like ``0-3,8``; None where it is no such list."""
    if not _RANGES.match(text) or len(text) > _MOST:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        least, most = int(first), int(last or first)
        if most < least or most > _MOST:
            return None
        found.update(range(least, most + 1))
    return found


def available(proc: str) -> Optional[int]:
    """KiB of memory that can be filled."""
    return _meminfo(proc, "MemAvailable")


def _meminfo(proc: str, name: str) -> Optional[int]:
    found = re.findall(rf"^{name}:\s+(\d+) kB$", _text(os.path.join(proc, "meminfo")), re.M)
    return int(found[0]) if len(found) == 1 else None


# -- what is counted ---------------------------------------------------------------------------------------------------


def counted(sysfs: str, proc: str) -> Counted:
    top = os.path.join(sysfs, "devices", "system", "edac", "mc")
    names = sorted((name for name in _listed(top) if _CONTROLLER.match(name)), key=lambda name: int(name[2:]))
    controllers = {}
    modules: dict[str, Errors] = {}
    for name in names:
        folder = os.path.join(top, name)
        controllers[name] = Errors(_sum(folder, _CORRECTED), _sum(folder, _UNCORRECTED))
        modules.update(_modules(folder, name))
    return Counted(controllers, modules, _machine_checks(proc))


def _modules(folder: str, controller: str) -> dict[str, Errors]:
    found = {}
    for name in sorted(name for name in _listed(folder) if _DIMM.match(name)):
        place = os.path.join(folder, name)
        label = _word(os.path.join(place, "dimm_label")) or name
        found[f"{controller} {label}"] = Errors(_sum(place, ("dimm_ce_count",)), _sum(place, ("dimm_ue_count",)))
    return found


def _sum(folder: str, names: Iterable[str]) -> Optional[int]:
    words = [_word(os.path.join(folder, name)) for name in names]
    return sum(int(word) for word in words) if all(word.isdigit() for word in words) else None


def _machine_checks(proc: str) -> Optional[int]:
    """Machine check exceptions of all CPUs together."""
    found = re.findall(
        r"^\s*MCE:((?:\s+\d+)+)\s+Machine check exceptions$", _text(os.path.join(proc, "interrupts")), re.M
    )
    return sum(int(word) for word in found[0].split()) if len(found) == 1 else None


def worked(proc: str) -> Worked:
    cpus = {}
    for name, told in re.findall(r"^(cpu\d+)((?: \d+)+)$", _text(os.path.join(proc, "stat")), re.M):
        ticks = [int(word) for word in told.split()]
        # Of these fields the last two, of guests, are in the first two again.
        cpus[name] = (sum(ticks[:8]), sum(ticks[field] for field in _IDLE if field < len(ticks)))
    killed = re.findall(r"^oom_kill (\d+)$", _text(os.path.join(proc, "vmstat")), re.M)
    return Worked(cpus, int(killed[0]) if len(killed) == 1 else None)


def idlest(before: Worked, after: Worked) -> Optional[float]:
    """Of the CPU that worked the least, the share of the time in which it did; None where nobody can say."""
    shares = []
    for name, (total, idle) in after.cpus.items():
        begun = before.cpus.get(name)
        if begun is None or total <= begun[0] or idle < begun[1]:
            return None
        shares.append(1 - (idle - begun[1]) / (total - begun[0]))
    return min(shares) if shares and before.cpus.keys() == after.cpus.keys() else None


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _word(path: str) -> str:
    return _text(path).strip()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
