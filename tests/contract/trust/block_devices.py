# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's block devices as its kernel shows them: sysfs and mountinfo, in a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path


class BlockDevices:
    """Of a config drive that is a file, the device is the one that the file lies on."""

    def __init__(self, folder: Path) -> None:
        self.mountinfo, self.sysfs = folder / "mountinfo", folder / "sys"
        device = folder.stat().st_dev
        self._drive = f"{os.major(device)}:{os.minor(device)}"
        self._made = 0
        self.parted("nvme0n1", root=2, drive=4)

    def fresh(self) -> None:
        shutil.rmtree(self.sysfs, ignore_errors=True)
        for place in ("dev/block", "class/block", "devices"):
            (self.sysfs / place).mkdir(parents=True)

    def parted(self, name: str, root: int, drive: int) -> None:
        """One disk with a system and a drive."""
        self.fresh()
        self.device(name)
        self.root(self.device(f"{name}p{root}", of=name))
        self.drive(f"{name}p{drive}", of=name)

    def device(self, name: str, *, of: str = "", on: Sequence[str] = (), number: str = "") -> str:
        """A disk, a partition of one, or what is stacked on others. Returns its number."""
        self._made += 1
        number = number or f"1259:{self._made}"
        place = self.sysfs / "devices" / of / name
        (place / "holders").mkdir(parents=True)
        if of:
            (place / "partition").write_text("1\n")
        else:
            (place / "slaves").mkdir()
        for one in on:
            (place / "slaves" / one).symlink_to((self.sysfs / "class/block" / one).resolve(strict=True))
        for link in (f"dev/block/{number}", f"class/block/{name}"):
            (self.sysfs / link).symlink_to(place)
        return number

    def drive(self, name: str, **more: str) -> None:
        self.device(name, number=self._drive, **more)

    def root(self, number: str, kind: str = "ext4", source: str = "/dev/root") -> None:
        """The initramfs lies beneath it, and other systems are mounted beside it."""
        lines = [
            "1 1 0:2 / / rw - rootfs rootfs rw",
            f"27 1 {number} / / rw,relatime shared:1 - {kind} {source} rw",
            "28 27 0:5 / /dev rw - devtmpfs udev rw",
        ]
        self.mountinfo.write_text("\n".join(lines) + "\n")
