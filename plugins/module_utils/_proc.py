# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which boot this is, and which process: what tells one from a later one of the same number. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import time

BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: More than any such file holds.
_LIMIT = 4096


def boot_id(path: str = BOOT_ID) -> str:
    """The id of this boot; empty where it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read(_LIMIT).strip()
    except (OSError, ValueError):
        return ""


def uptime() -> float:
    """Seconds since this boot began, those that the machine slept among them; nobody sets this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def process_start(pid: int) -> int:
    """When a live process was started, in clock ticks since boot; 0 where there is none, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return start_in(file.read(_LIMIT))
    except OSError:
        return 0


def children(pid: int) -> list[int]:
    """The processes whose parent this one is."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == pid]


def _parent(pid: str) -> int:
    """0 where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read(_LIMIT).rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def is_hidden(pid: int) -> bool:
    """Is there a process of this number of which ``/proc`` tells this user nothing, as with ``hidepid``?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace"):
            return False
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it is there, and another user's
    return True


def start_in(stat: str) -> int:
    """The same out of the text of ``/proc/<pid>/stat``."""
    # The command stands in brackets and may hold blanks and brackets itself.
    fields = stat.rpartition(")")[2].split()
    alive = len(fields) > 19 and fields[0] not in "ZX" and fields[19].isdigit()
    return int(fields[19]) if alive else 0
