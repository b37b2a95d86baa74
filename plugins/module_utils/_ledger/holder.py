# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs: one run of ansible-playbook, as the ledger knows it. PRIVATE to the collection.

A run is told apart by host, process id, that process's start time and the host's boot id, so that a process id
that was given out twice never passes for the first one.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Holder:
    """A run that can hold leases. pid_start is in clock ticks since boot, as ``/proc/<pid>/stat`` has it."""

    run_id: str
    host: str
    pid: int
    pid_start: int
    boot_id: str

    def provably_dead_here(self, here: Holder) -> bool:
        """True only where this host can know it: same host, and another boot or no such process."""
        if self.host != here.host:
            return False
        if self.boot_id != here.boot_id:
            return True
        return process_start(self.pid) != self.pid_start


def process_start(pid: int) -> int:
    """Start time of a live process in clock ticks since boot; 0 where there is none, or only its zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            # The command stands in brackets and may hold blanks and brackets itself.
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as source:
            return source.read().strip()
    except OSError:
        return "unknown"


def this_run(pid: int) -> Holder:
    """The run whose main process is ``pid``.

    The id is the job's own where an automation controller gives one, so that a person finds it there.
    """
    host = socket.gethostname()
    start = process_start(pid)
    job = os.environ.get("GPUFLEET_RUN_ID") or ""
    if not job and os.environ.get("AWX_JOB_ID"):
        job = f"awx-{os.environ['AWX_JOB_ID']}"
    return Holder(job or f"{host}-{pid}-{start}", host, pid, start, boot_id())
