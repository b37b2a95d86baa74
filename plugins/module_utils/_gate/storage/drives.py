# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVMe drives of this machine as the kernel shows them, and what lies beneath a block device. PRIVATE.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

_CONTROLLER = re.compile(r"nvme\d+\Z")
_NAMESPACE = re.compile(r"nvme\d+(?:c\d+)?n\d+\Z")
_SUBSYSTEM = re.compile(r"nvme-subsys\d+\Z")
#: The kernel counts in sectors of this size, whatever the drive's are (Documentation/block/stat.rst).
_SECTOR = 512
#: Fields of a device's ``stat``: sectors that were read, and written.
_READ, _WRITTEN = 2, 6
#: Devices over devices; nobody has that many, and a circle would have no end.
_DEEPEST = 8


@dataclass(frozen=True)
class Drive:
    """One controller. size: bytes of its namespaces together, whose folders ``blocks`` are."""

    name: str
    model: str
    serial: str
    state: str
    transport: str
    size: int
    blocks: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        told = {key: getattr(self, key) for key in ("name", "model", "serial", "state", "transport", "size")}
        return dict(told)


class Moved(NamedTuple):
    """Bytes that went over drives, as the kernel counts them."""

    read: int
    written: int


def local(sysfs: str) -> list[Drive]:
    """Those that stand in this machine, by their number; a drive over the network is none of them."""
    folder = os.path.join(sysfs, "class", "nvme")
    names = [name for name in _listed(folder) if _CONTROLLER.match(name)]
    found = [_drive(os.path.join(folder, name), name) for name in sorted(names, key=lambda name: int(name[4:]))]
    return [drive for drive in found if drive.transport in ("pcie", "")]


def _drive(folder: str, name: str) -> Drive:
    blocks = [os.path.join(folder, entry) for entry in _listed(folder) if _NAMESPACE.match(entry)]
    sizes = [_word(os.path.join(block, "size")) for block in blocks]
    model, serial, state, transport = (
        _word(os.path.join(folder, what)) for what in ("model", "serial", "state", "transport")
    )
    size = sum(int(text) for text in sizes if text.isdigit()) * _SECTOR
    return Drive(name, model, serial, state, transport, size, tuple(blocks))


def beneath(sysfs: str, device: int) -> frozenset[str]:
    """What a block device lies on in the end: NVMe controllers by name, and whatever else there is by its own.

    Nothing where the kernel knows no such device: a file of tmpfs or of an overlay lies on a number that is none.
    """
    place = os.path.join(sysfs, "dev", "block", f"{os.major(device)}:{os.minor(device)}")
    return frozenset(_walked(os.path.realpath(place), _DEEPEST)) if os.path.isdir(place) else frozenset()


def _walked(folder: str, deepest: int) -> Iterator[str]:
    whole = os.path.dirname(folder) if os.path.exists(os.path.join(folder, "partition")) else folder
    below = _listed(os.path.join(whole, "slaves"))
    if not below or not deepest:
        yield from _ends(whole)
    for name in below if deepest else ():
        yield from _walked(os.path.realpath(os.path.join(whole, "slaves", name)), deepest - 1)


def _ends(folder: str) -> list[str]:
    """The controller in the device's own path, or those of the subsystem in it, where a drive has several paths."""
    parts = folder.split(os.sep)
    above = [at for at, part in enumerate(parts) if _CONTROLLER.match(part)]
    if above:
        return [parts[above[-1]]]
    for at, part in enumerate(parts):
        if _SUBSYSTEM.match(part):
            entries = _listed(os.sep.join(parts[: at + 1]))
            return [name for name in entries if _CONTROLLER.match(name)] or [part]
    return [parts[-1]]


def moved(drives: Iterable[Drive]) -> Optional[Moved]:
    """What has gone over these drives since the machine was started; None where the kernel does not tell."""
    counts = [_counted(block) for drive in drives for block in drive.blocks]
    if not counts or None in counts:
        return None
    return Moved(sum(one.read for one in counts if one), sum(one.written for one in counts if one))


def _counted(block: str) -> Optional[Moved]:
    fields: Sequence[str] = _word(os.path.join(block, "stat")).split()
    if len(fields) <= _WRITTEN or not all(field.isdigit() for field in fields):
        return None
    return Moved(int(fields[_READ]) * _SECTOR, int(fields[_WRITTEN]) * _SECTOR)


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _word(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return " ".join(file.read(512).split())
    except OSError:
        return ""
