# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger costs a host-task: in a SQLite file, and in a PostgreSQL that this starts itself.

    ledgers.py [--workers 60]

The main process loads what an action plugin loads, then forks one worker a host, as Ansible does; each worker does
what the ledger is asked in a task that writes once. CPU is that of the workers; the database server's is not in it.
The two take turns, so that what the machine does besides meets both.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import postgresql
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _door

#: How many times a host-task on PostgreSQL may cost what it costs on SQLite.
WANTED = 2.0
_TURN = 5


def host_task(url: str, number: int) -> None:
    """As the door does it: identity, lease and intent before the write, outcome and events after it."""
    name = f"node{number:05d}"
    with Ledger(url) as ledger:

        def identify(host: str) -> str:
            return ledger.identify(host, aliases=[("serial", f"SN{number:05d}"), ("mac", f"5254000{number:05d}")])

        run = this_run(_door.main_process())
        line = LedgerLifeline(lambda: ledger, run, verb="bench", intent={}, identify=identify, default_node=name)
        line.before_write("POST /power", destructive=False)
        line.beat()
        events = [Event("evidence", "booted", {"proof": "readback"}), Event("outcome", "bench", {"changed": True})]
        ledger.append(run.run_id, [(identify(name), event) for event in events])


def forked(url: str, numbers: range) -> float:
    """CPU seconds of one worker a number."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for number in numbers:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                host_task(url, number)
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(pid, 0)[1]:
            raise SystemExit(f"a worker on {url.partition(':')[0]} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(workers: int) -> dict[str, float]:
    """Milliseconds of CPU a worker, by dialect. Tables and nodes are there, as on any fleet but a new one."""
    with tempfile.TemporaryDirectory() as folder, postgresql.running() as server:
        urls = {"sqlite": f"sqlite:///{folder}/ledger.sqlite", "postgresql": server.url("public")}
        spent = dict.fromkeys(urls, 0.0)
        for url in urls.values():
            forked(url, range(workers))
        for start in range(0, workers, _TURN):
            for name, url in urls.items():
                spent[name] += forked(url, range(start, min(start + _TURN, workers)))
    return {name: seconds / workers * 1000 for name, seconds in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=60)
    costs = measure(parser.parse_args().workers)
    for name, cost in costs.items():
        print(f"{name:10}  {cost:6.1f} ms CPU a host-task")
    print(f"\nPostgreSQL costs {costs['postgresql'] / costs['sqlite']:.2f} times what SQLite costs ({WANTED:g} wanted)")


if __name__ == "__main__":
    main()
