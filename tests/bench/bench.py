# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node costs: community.general (SetOneTimeBoot, PowerOn), our pxe_boot, and a task that does nothing.

    bench.py [--nodes 100] [--forks 20] [--only pxe_boot]

All against the same simulated BMCs, which run in a process of their own. CPU is user and system time of
ansible-playbook with all its children. The table goes to the terminal, the same figures to build/bench/result.json.
It fails where something did not work: a machine that is not on, an override that was not used, an event or a lease
that is missing. Slowness is in the table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
OUT = BUILD / "bench"
#: What is wanted; see README of the collection.
LESS_THAN_PEER, TIMES_FLOOR = 25.0, 3.0

_PEER = """
    - community.general.redfish_command:
        category: Systems
        command: {command}
        baseuri: "{{{{ gpufleet_bmc_address }}}}"
        username: admin
        password: correct-horse
        {more}
"""
PLAYS = {
    "debug": """
    - ansible.builtin.debug:
        msg: nothing
""",
    # As its documentation shows it: one task a command, all other options as they come.
    "community.general": _PEER.format(command="SetOneTimeBoot", more="bootdevice: Pxe")
    + _PEER.format(command="PowerOn", more="timeout: 60"),
    # At its best: both commands in one task, and a CA file of its own.
    "community.general, 1 task": _PEER.format(
        command="[SetOneTimeBoot, PowerOn]",
        more='bootdevice: Pxe\n        validate_certs: true\n        ca_path: "{{ gpufleet_bmc_ca_path }}"',
    ),
    "pxe_boot": """
    - gpufleet.baremetal.pxe_boot:
        power: "on"
        force_reason: no scheduler knows a simulated machine
""",
}


@dataclass
class Score:
    name: str
    nodes: int
    wall: float
    cpu: float
    requests_per_node: float = 0.0

    @property
    def cpu_ms(self) -> float:
        return self.cpu / self.nodes * 1000


class Bmcs:
    """The process of the simulated BMCs."""

    def __init__(self, count: int, cert: Path, key: Path) -> None:
        command = [sys.executable, str(HERE / "bmcs.py"), str(count), str(port()), str(cert), str(key)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        if self._process.stdout.readline().strip() != "ready":
            raise SystemExit("the simulated BMCs did not start")

    def end(self) -> dict[str, Any]:
        self._process.send_signal(signal.SIGTERM)
        told: dict[str, Any] = json.loads(self._process.communicate(timeout=30)[0])
        return told


@lru_cache(maxsize=1)
def port() -> int:
    """One that nobody listens on; the same for all BMCs, as 443 is."""
    with socket.socket() as probe:
        probe.bind(("127.1.0.1", 0))
        return int(probe.getsockname()[1])


def addresses(count: int) -> list[str]:
    return [f"127.1.{number // 256}.{number % 256}" for number in range(1, count + 1)]


def certificates(folder: Path, count: int) -> tuple[Path, Path, Path]:
    sys.path.insert(0, str(HERE.parent))
    from fake_bmc.tls import Authority

    authority = Authority(folder)
    return (authority.path, *authority.issue(*addresses(count)))


def write_inventory(folder: Path, count: int, ca: Path) -> Path:
    lines = ["[all:vars]", "ansible_connection=local", f"ansible_python_interpreter={sys.executable}"]
    lines += [f"gpufleet_bmc_ca_path={ca}", f"gpufleet_ledger_url=sqlite:///{folder}/ledger.sqlite"]
    lines += ["gpufleet_bmc_username=admin", "gpufleet_bmc_password=correct-horse", "[all]"]
    for number, address in enumerate(addresses(count), 1):
        lines.append(
            f"node{number:05d} gpufleet_bmc_address={address}:{port()} gpufleet_serial=SN{number:05d}"
            f" gpufleet_boot_mac={boot_mac(number)}"
        )
    path = folder / "inventory.ini"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def play(folder: Path, name: str, inventory: Path, forks: int) -> tuple[float, float]:
    """Wall and CPU seconds of one playbook of one task."""
    book = folder / "play.yml"
    book.write_text(f"---\n- hosts: all\n  gather_facts: false\n  tasks:{PLAYS[name]}", encoding="utf-8")
    # site-packages may hold community.general too; then this is found first.
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": f"{BUILD / 'collections'}:{OUT / 'collections'}",
        "ANSIBLE_FORKS": str(forks), "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_HOST_KEY_CHECKING": "false", "ANSIBLE_DEPRECATION_WARNINGS": "false", "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), str(book)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    with open(folder / "play.log", "wb") as log:
        ended = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        tail = (folder / "play.log").read_text(encoding="utf-8", errors="replace")[-2000:]
        raise SystemExit(f"{name} failed:\n{tail}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_ledger(folder: Path, count: int) -> None:
    """One that knows the nodes, and nothing of them yet: so a run finds it on any fleet but a new one."""
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        for number in range(1, count + 1):
            aliases = [("serial", f"SN{number:05d}"), ("mac", boot_mac(number))]
            ledger.identify(f"node{number:05d}", aliases=aliases)


def boot_mac(number: int) -> str:
    return f"52:54:00:00:{number // 256:02x}:{number % 256:02x}"


def check_truth(name: str, truth: dict[str, Any]) -> None:
    """Did the machines do it? A fast client that did nothing is not fast."""
    if name == "debug":
        return
    for address, machine in truth.items():
        if machine["power"] != "On" or machine["booted"] != ["Pxe"] or machine["writes"] != 2:
            raise SystemExit(f"{name}: {address} is {machine}")


def check_ledger(folder: Path, count: int) -> None:
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        kinds = dict(ledger.execute("SELECT kind, count(DISTINCT node_id) FROM events GROUP BY kind").fetchall())
        leases = ledger.execute("SELECT count(*) FROM leases").fetchone()[0]
    if kinds.get("intent") != count or kinds.get("outcome") != count or leases != count:
        raise SystemExit(f"the ledger of {count} nodes has {kinds} and {leases} leases")


def measure(name: str, count: int, forks: int, folder: Path, tls: tuple[Path, Path, Path]) -> Score:
    folder.mkdir(parents=True)
    inventory = write_inventory(folder, count, tls[0])
    make_ledger(folder, count)
    bmcs = Bmcs(count, tls[1], tls[2])
    try:
        wall, cpu = play(folder, name, inventory, forks)
    finally:
        truth = bmcs.end()
    check_truth(name, truth)
    if name == "pxe_boot":
        check_ledger(folder, count)
    return Score(name, count, wall, cpu, sum(machine["requests"] for machine in truth.values()) / count)


def best(name: str, runs: int, **more: Any) -> Score:
    """The quickest of several runs: what the machine did besides is not what is measured."""
    folder: Path = more.pop("folder")
    stem = re.sub(r"\W+", "-", name)  # a comma would make a list of hosts out of the inventory's path
    scores = [measure(name, folder=folder / f"{stem}-{run}", **more) for run in range(runs)]
    return min(scores, key=lambda score: score.cpu)


def table(scores: dict[str, Score]) -> dict[str, Optional[float]]:
    width = max(len(name) for name in scores)
    print(f"\n{'task':{width}}  {'CPU ms/node':>11}  {'wall ms/node':>12}  {'wall s':>7}  {'requests/node':>13}")
    for score in scores.values():
        wall, requests = score.wall / score.nodes * 1000, score.requests_per_node
        print(f"{score.name:{width}}  {score.cpu_ms:11.1f}  {wall:12.1f}  {score.wall:7.1f}  {requests:13.1f}")
    names = ("pxe_boot", "community.general", "community.general, 1 task", "debug")
    ours, peer, best_peer, floor = (scores.get(name) for name in names)
    ratios: dict[str, Optional[float]] = {
        "less_than_community_general": round(peer.cpu / ours.cpu, 1) if ours and peer else None,
        "less_than_community_general_in_1_task": round(best_peer.cpu / ours.cpu, 1) if ours and best_peer else None,
        "times_floor": round(ours.cpu / floor.cpu, 2) if ours and floor else None,
    }
    if ratios["less_than_community_general"]:
        print(f"\npxe_boot needs {ratios['less_than_community_general']} times less CPU than community.general"
              f" (wanted: {LESS_THAN_PEER:g})")  # fmt: skip
    if ratios["less_than_community_general_in_1_task"]:
        print(f"and {ratios['less_than_community_general_in_1_task']} times less than its quickest way")
    if ratios["times_floor"]:
        print(f"pxe_boot needs {ratios['times_floor']} times the CPU of an empty task ({TIMES_FLOOR:g} wanted)")
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--forks", type=int, default=20)
    parser.add_argument("--runs", type=int, default=2, help="of debug and pxe_boot; the quickest counts")
    parser.add_argument("--only", choices=sorted(PLAYS), action="append")
    options = parser.parse_args()
    work = OUT / "work"
    shutil.rmtree(work, ignore_errors=True)
    tls = certificates(work / "tls", options.nodes)
    scores = {}
    for name in options.only or PLAYS:
        runs = 1 if name.startswith("community.general") else options.runs
        scores[name] = best(name, runs, count=options.nodes, forks=options.forks, folder=work, tls=tls)
        print(f"{name}: {scores[name].cpu_ms:.1f} ms CPU a node", flush=True)
    ratios = table(scores)
    result = {
        "schema": 1, "forks": options.forks, "ratios": ratios,
        "wanted": {"less_than_community_general": LESS_THAN_PEER, "times_floor": TIMES_FLOOR},
        "scores": {name: {**asdict(score), "cpu_ms_per_node": score.cpu_ms} for name, score in scores.items()},
    }  # fmt: skip
    (OUT / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"\nfigures: {OUT / 'result.json'}")


if __name__ == "__main__":
    main()
