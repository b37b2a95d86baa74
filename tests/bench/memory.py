# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run takes of the controller's memory, by hosts and forks, as a table.

A task of each host's own that writes to the ledger, and the report of the whole fleet after it. Of all processes of the
run the shares of memory are added up (PSS): a fork shares what it does not write to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

SIZES = ((10, 5), (100, 20), (1000, 20))
ROOT = Path(__file__).resolve().parents[2]
PLAY = {
    "hosts": "all",
    "gather_facts": False,
    "strategy": "linear",
    "tasks": [
        {"name": "Write", "gpufleet.baremetal.ledger_event": {"state": "enrolled"}},
        {
            "name": "Report",
            "run_once": True,
            "gpufleet.baremetal.fleet_status": {"report": True, "ask_scheduler": False},
        },
    ],
}


def shares(root: int) -> int:
    """Of the process and all below it, in bytes."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
        except OSError:
            continue
    total, todo = 0, [root]
    while todo:
        one = todo.pop()
        todo += parents.get(one, [])
        try:
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def run(hosts: int, forks: int) -> tuple[int, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "play.yml").write_text(yaml.safe_dump([PLAY]), encoding="utf-8")
        every = {f"gpu{number:05}": {"gpufleet_serial": f"S-{number:05}"} for number in range(hosts)}
        shared = {"gpufleet_ledger_url": f"sqlite:///{folder}/ledger.sqlite", "gpufleet_scheduler": "none"}
        inventory = {"all": {"hosts": every, "vars": {**shared, "ansible_connection": "local"}}}
        (folder / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
        env = {
            **os.environ,
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_STDOUT_CALLBACK": "gpufleet.baremetal.fleet_progress",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "build" / "collections"),
        }
        argv = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            "hosts.json",
            "-f",
            str(forks),
            "play.yml",
        ]
        begun, most = time.monotonic(), 0
        with subprocess.Popen(argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            os.set_blocking(process.stdout.fileno(), False)  # type: ignore[union-attr]
            said = b""
            while process.poll() is None:
                most = max(most, shares(process.pid))
                said = ((process.stdout.read() or b"") + said)[:4000]  # type: ignore[union-attr]
                time.sleep(0.5)
        if process.returncode:
            raise SystemExit(said.decode(errors="replace"))
        return most, time.monotonic() - begun


def main() -> int:
    print("| hosts | forks | memory of the run | seconds |\n|---|---|---|---|")
    for hosts, forks in SIZES:
        most, seconds = run(hosts, forks)
        print(f"| {hosts} | {forks} | {most / 1e6:.0f} MB | {seconds:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
