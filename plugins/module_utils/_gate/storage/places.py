# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where speeds are measured: scratch files that have no name, and devices that are only read. PRIVATE.

What lies beneath a place is asked of the kernel for the very file that is then measured. That file is made without a
name, so that nothing is left of it however the gate ends: it goes when its last process does. Its room is taken before
anything is written, and never more than half of what is free.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.drives import beneath
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import DEVICE

#: Of the free room a scratch file takes no more.
_SHARE = 2


@dataclass(frozen=True)
class Place:
    """An open file. path: as it was named. on: what it lies on. device: is it a device, which is only read?"""

    path: str
    descriptor: int
    device: bool
    on: frozenset[str]

    @property
    def file(self) -> str:
        """The file for another process: this very one, and no other that has its name meanwhile."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def reserve(self, size: int) -> str:
        """Take the room of a scratch file; why there is none, or nothing."""
        room = os.fstatvfs(self.descriptor)
        free = room.f_bavail * room.f_frsize
        if size > free // _SHARE:
            return f"{self.path} has {free} bytes free, and no more than half of them are taken: {size} are needed"
        try:
            os.posix_fallocate(self.descriptor, 0, size)
        except OSError as exc:
            return f"{self.path} has no room for {size} bytes: {exc.strerror}"
        return ""


@dataclass
class Places:
    """problems: by path why it is no place."""

    found: list[Place] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    def over(self, drives: frozenset[str], at: str) -> Union[Place, None]:
        """The place of that sort on just these drives."""
        fits = (place for place in self.found if place.on == drives and place.device == (at == DEVICE))
        return next(fits, None)

    @property
    def told(self) -> str:
        return "; ".join(f"{place.path} is on {', '.join(sorted(place.on))}" for place in self.found)


@contextmanager
def opened(paths: Sequence[str], sysfs: str) -> Iterator[Places]:
    """The places while the body measures on them."""
    places = Places()
    with ExitStack() as stack:
        for path in dict.fromkeys(paths):
            try:
                descriptor, device = _open(path)
            except OSError as exc:
                places.problems[path] = _refused(exc)
                continue
            stack.callback(os.close, descriptor)
            _proven(places, path, descriptor, device, sysfs)
        yield places


def _open(path: str) -> tuple[int, bool]:
    """:raises OSError: where it is neither a directory that takes a scratch file nor a device that can be read."""
    kind = os.stat(path).st_mode
    if stat.S_ISDIR(kind):
        return os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), False
    if not stat.S_ISBLK(kind):
        raise OSError(errno.ENOTBLK, "it is neither a directory nor a block device")
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), True


def _refused(exc: OSError) -> str:
    if exc.errno in (errno.EOPNOTSUPP, errno.EISDIR):
        return "its file system takes no file without a name"
    return short(exc.strerror or exc, 200)


def _proven(places: Places, path: str, descriptor: int, device: bool, sysfs: str) -> None:
    seen = os.fstat(descriptor)
    if device and not stat.S_ISBLK(seen.st_mode):
        places.problems[path] = "it was changed meanwhile"
        return
    number = seen.st_rdev if device else seen.st_dev
    on = beneath(sysfs, number)
    if on:
        places.found.append(Place(path, descriptor, device, on))
        return
    places.problems[path] = (
        f"it lies on {os.major(number)}:{os.minor(number)}, which is no block device of this machine: a file system in"
        " memory, an overlay, or nothing is mounted there"
    )
