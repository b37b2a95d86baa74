# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's serial console and its kernel log."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path

from rackconf import Node

KERNEL_INFO = 6
KERNEL_ERROR = 3


def say(node: Node, text: str) -> None:
    """Write one line to the serial console's log."""
    stamp = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    with open(node.home / "console.log", "a", encoding="utf-8") as log:
        log.write(f"{stamp} {text}\n")


def kernel_log(node: Node) -> Path:
    """Return the file that is /dev/kmsg in the node."""
    return node.hardware / "kmsg"


def kernel_say(node: Node, lines: list[str], uptime: float, priority: int = KERNEL_INFO) -> None:
    """Append records as the kernel numbers them: priority, sequence, microseconds since boot, flags."""
    handle = os.open(kernel_log(node), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        content = os.pread(handle, os.fstat(handle).st_size, 0)
        sequence = content.count(b"\n")
        stamp = int(uptime * 1_000_000)
        records = [f"{priority},{sequence + at},{stamp + at},-;{line}\n" for at, line in enumerate(lines)]
        os.write(handle, "".join(records).encode())
    finally:
        os.close(handle)


def uptime_of(booted: float) -> float:
    """Seconds since a boot that began at that reading of this computer's boot-time clock."""
    return max(0.0, boot_clock() - booted)


def boot_clock() -> float:
    """This computer's boot-time clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
