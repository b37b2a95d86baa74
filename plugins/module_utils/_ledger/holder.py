# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs: one run of ansible-playbook, as the ledger knows it. PRIVATE to the collection.

A run is told apart by host, process id, that process's start time and the host's boot id, so that a process id
that was given out twice never passes for the first one.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.job import number
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import boot_id as this_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import is_hidden, process_start


@dataclass(frozen=True)
class Holder:
    """A run that can hold leases.

    host: the host's name and a tag that tells hosts of one name apart, and containers of one host, since each counts
    its processes by itself. pid_start: clock ticks since boot, as ``/proc/<pid>/stat`` has it.
    """

    run_id: str
    host: str
    pid: int
    pid_start: int
    boot_id: str

    @property
    def host_name(self) -> str:
        """The host as people call it."""
        return self.host.partition("#")[0]

    @property
    def process(self) -> str:
        """This run's main process alone; a job number would be shared by a job and its relaunch."""
        return f"{self.pid}-{self.pid_start}-{self.boot_id}"

    def provably_dead_here(self, here: Holder) -> bool:
        """True only where this host can know it: same host, same boot, and no such process, none that is kept from
        this user's sight either.

        Another boot under this host's name proves nothing: two controllers that were cloned have one name and one
        machine id, and both run. After a reboot a lease ends by its time.
        """
        if (self.host, self.boot_id) != (here.host, here.boot_id):
            return False
        return process_start(self.pid) != self.pid_start and not is_hidden(self.pid)

    def provably_alive_here(self, here: Holder) -> bool:
        """True only where this host sees that very process. Of one that is kept from its sight neither is proven."""
        same_boot = (self.host, self.boot_id) == (here.host, here.boot_id)
        return same_boot and bool(self.pid_start) and process_start(self.pid) == self.pid_start


def boot_id() -> str:
    return this_boot() or "unknown"


def _line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as source:
            return source.read().strip()
    except OSError:
        return ""


def _tag() -> str:
    """Of one value wherever process ids mean the same, and of another one everywhere else."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    # Without a machine id a reboot looks like another machine: its leases then end by expiry.
    machine = _line("/etc/machine-id") or boot_id()
    return hashlib.sha256(f"{machine} {namespace}".encode()).hexdigest()[:8]


def this_run(pid: int) -> Holder:
    """The run whose main process is ``pid``.

    The id begins with the job's own where an automation controller gives one, so that a person finds it there; it is
    another one for each process all the same, since a run that lost a lease must never take it again.
    """
    host = socket.gethostname()
    start = process_start(pid)
    job = os.environ.get("GPUFLEET_RUN_ID") or (f"awx-{number()}" if number() else "")
    return Holder(f"{job or host}-{pid}-{start}", f"{host}#{_tag()}", pid, start, boot_id())
