# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which disks does the running system lie? Asked on the node, with the standard library alone. PRIVATE.

A drive on another disk came with another system: a node that starts its old disk sees that of the new one as well.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Set
from pathlib import Path


def number_of(found: os.stat_result) -> str:
    """The block device that it is, or the one that a file lies on."""
    device = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    return f"{os.major(device)}:{os.minor(device)}"


def elsewhere(number: str, mountinfo: str, sysfs: str) -> str:
    """Why this block device is not known to lie where the running system does; empty where it does."""
    try:
        system = _beneath(_of_root(Path(mountinfo), Path(sysfs)))
        found = _beneath(Path(sysfs) / "dev/block" / number)
    except OSError as exc:
        return f"whether it lies on the disk of / cannot be told, {exc.filename}: {exc.strerror}"
    return "" if found <= system else f"it lies on {' and '.join(sorted(found))}, / on {' and '.join(sorted(system))}"


def _of_root(mountinfo: Path, sysfs: Path) -> Path:
    """What sysfs has of the device of ``/``; what was mounted there last hides the others.

    :raises OSError: where no device is named.
    """
    for line in reversed(mountinfo.read_text(encoding="utf-8", errors="replace").splitlines()):
        own, _dash, rest = line.partition(" - ")
        words = own.split()
        if len(words) > 4 and words[4] == "/":
            by_number = sysfs / "dev/block" / words[2]
            return by_number if by_number.exists() else _named("".join(rest.split()[1:2]), sysfs)
    raise FileNotFoundError(errno.ENOENT, "names no /", str(mountinfo))


def _named(source: str, sysfs: Path) -> Path:
    """btrfs mounts by a number of its own, and names its device beside it. A stateless system names none."""
    if not source.startswith("/dev/"):
        raise FileNotFoundError(errno.ENOENT, f"is mounted from {source or 'nothing'}, which is no disk", "/")
    return sysfs / "class/block" / os.path.basename(os.path.realpath(source))


def _beneath(device: Path) -> Set[str]:
    """The disks under a device, whatever is stacked on them: partitions, md, LVM, multipath.

    :raises OSError: where the kernel shows no such device.
    """
    here = device.resolve(strict=True)
    disk = here.parent if (here / "partition").exists() else here
    slaves = [*(disk / "slaves").iterdir()] if (disk / "slaves").is_dir() else []
    return frozenset[str]().union(*map(_beneath, slaves)) if slaves else frozenset([disk.name])
