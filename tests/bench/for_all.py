# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node costs in a task for all hosts: redfish_power, scheduler_node and ledger_event with batch: true.

    for_all.py [--nodes 300] [--only redfish_power hold ledger_event]

Beside each the same verb as a task of each host, a task that does nothing, and for the BMCs a bare asyncio client that
sends the requests that such a power-on needs and proves nothing. CPU is user and system time of ansible-playbook with
all its children; "own" is without what a play of one empty task under run_once costs. Slurm's commands are those of the
unit tests, over a file: how often they are called is what counts. Figures: build/bench/for_all.json. It fails where
something did not work.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import resource
import shutil
import sqlite3
import ssl
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bench

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
OUT = bench.OUT / "for_all.json"
#: Milliseconds of CPU that a node may cost, seconds and calls for a hold of all, milliseconds of one event.
WANTED = {"redfish_power_own_ms": 10.0, "hold_calls": 5, "hold_seconds": 2.0, "append_ms": 1.0}
_POWER = "gpufleet.baremetal.redfish_power: {{state: 'on'{leave}{more}}}"
_HOLD = "gpufleet.baremetal.scheduler_node: {{state: held, why: bench{more}}}"
_EVENT = "gpufleet.baremetal.ledger_event: {{name: bench, data: {{text: a word}}{more}}}"
_BATCH = ", batch: true"
_LEAVE = {False: ", force_reason: a bench", True: ", each: {force_reason: bench_leave}"}
VERBS = {"redfish_power": _POWER, "hold": _HOLD, "ledger_event": _EVENT}


def task(form: str, *, batch: bool) -> str:
    once = "\n      run_once: true" if batch else ""
    return f"\n    - {form.format(more=_BATCH if batch else '', leave=_LEAVE[batch])}{once}\n"


def played(folder: Path, name: str, inventory: Path, forks: int, tasks: str) -> tuple[float, float]:
    bench.PLAYS[name] = tasks
    return bench.play(folder, name, inventory, forks)


def site(work: Path, name: str, count: int, ca: Path, lines: Mapping[str, str] | None = None) -> tuple[Path, Path]:
    """A folder with an inventory, and a ledger that knows the nodes."""
    folder = work / name
    folder.mkdir(parents=True)
    inventory = bench.write_inventory(folder, count, ca)
    if lines:
        more = "".join(f"{key}={value}\n" for key, value in lines.items())
        inventory.write_text(inventory.read_text().replace("[all]\n", f"{more}[all]\n", 1))
    bench.make_ledger(folder, count)
    return folder, inventory


def count_of(folder: Path, kind: str) -> int:
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        sql = "SELECT count(DISTINCT node_id) FROM events WHERE kind = ?"
        return int(ledger.execute(sql, (kind,)).fetchone()[0])


def demand(what: str, seen: Any, wanted: Any) -> None:
    if seen != wanted:
        raise SystemExit(f"{what}: {seen}, wanted {wanted}")


# -- BMCs --------------------------------------------------------------------------------------------------------------


def power(work: Path, count: int, forks: int, tls: tuple[Path, Path, Path], form: str) -> dict[str, float]:
    folder, inventory = site(work, f"power-{form}", count, tls[0], {"bench_leave": "a bench"})
    bmcs = bench.Bmcs(count, tls[1], tls[2])
    try:
        if form == "asyncio":
            wall, cpu = bare(count, tls[0])
        else:
            tasks = task(_POWER, batch=form == "batch")
            wall, cpu = played(folder, f"power-{form}", inventory, forks, tasks)
    finally:
        truth = bmcs.end()
    demand(f"power {form}: machines that are on", sum(one["power"] == "On" for one in truth.values()), count)
    demand(f"power {form}: writes", sum(one["writes"] for one in truth.values()), count)
    if form != "asyncio":
        demand(f"power {form}: nodes with an outcome", count_of(folder, "outcome"), count)
    requests = sum(one["requests"] for one in truth.values()) / count
    return {"cpu_ms": cpu / count * 1000, "wall": wall, "requests": requests}


def bare(count: int, ca: Path) -> tuple[float, float]:
    """Four requests a machine, a hundred machines at once, one connection each; in a process of its own."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    child = os.fork()
    if not child:
        asyncio.run(_clients(count, ca))
        os._exit(0)
    demand("the bare client's end", os.waitpid(child, 0)[1], 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _clients(count: int, ca: Path) -> None:
    context, room = ssl.create_default_context(cafile=str(ca)), asyncio.Semaphore(100)
    login = base64.b64encode(b"admin:correct-horse").decode()
    asked = [("GET", "/redfish/v1/Systems", b""), ("GET", "/redfish/v1/Systems/1", b"")]
    asked += [("POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", b'{"ResetType": "On"}'), asked[1]]

    async def one(address: str) -> None:
        async with room:
            reader, writer = await asyncio.open_connection(address, bench.port(), ssl=context)
            for method, path, body in asked:
                head = f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Basic {login}\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
                json.loads(await reader.readexactly(length) or b"{}")
            writer.close()

    await asyncio.gather(*map(one, bench.addresses(count)))


# -- Slurm and the ledger ----------------------------------------------------------------------------------------------


def hold(work: Path, count: int, forks: int, ca: Path, form: str) -> dict[str, float]:
    from suite import events
    from unit.scheduler.slurm_commands import install

    folder, inventory = site(work, f"hold-{form}", count, ca, {"gpufleet_scheduler": "slurm"})
    names = [f"node{number:05d}" for number in range(1, count + 1)]
    for number, name in enumerate(names, 1):
        events.known(folder / "ledger.sqlite", name, f"SN{number:05d}")
    world = install(folder, nodes={name: {"state": "IDLE", "reason": "", "by": ""} for name in names})
    before, os.environ["PATH"] = os.environ["PATH"], f"{folder / 'bin'}:{os.environ['PATH']}"
    try:
        wall, cpu = played(folder, f"hold-{form}", inventory, forks, task(_HOLD, batch=form == "batch"))
    finally:
        os.environ["PATH"] = before
    now = json.loads(world.read_text())
    demand(f"hold {form}: nodes held", sum("DRAIN" in node["state"] for node in now["nodes"].values()), count)
    demand(f"hold {form}: nodes with a hold", count_of(folder, "hold"), count)
    return {"cpu_ms": cpu / count * 1000, "wall": wall, "calls": len(now["calls"])}


def ledger_event(work: Path, count: int, forks: int, ca: Path, form: str) -> dict[str, float]:
    folder, inventory = site(work, f"event-{form}", count, ca)
    wall, cpu = played(folder, f"event-{form}", inventory, forks, task(_EVENT, batch=form == "batch"))
    demand(f"ledger_event {form}: nodes with a note", count_of(folder, "note"), count)
    return {"cpu_ms": cpu / count * 1000, "wall": wall}


def append(folder: Path, count: int = 1000) -> dict[str, float]:
    """One transaction of the ledger for all of them."""
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
    from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

    folder.mkdir(parents=True)
    bench.make_ledger(folder, count)
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        nodes = ledger.everybody()
        start, cpu = time.monotonic(), time.process_time()
        ledger.append("bench", [(node, Event("note", "bench", {"text": "a word"})) for node in nodes])
        return {"ms": (time.monotonic() - start) / count * 1000, "cpu_ms": (time.process_time() - cpu) / count * 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--forks", type=int, default=20)
    parser.add_argument("--only", choices=sorted(VERBS), nargs="+", default=sorted(VERBS))
    options = parser.parse_args()
    work = bench.OUT / "work-for-all"
    shutil.rmtree(work, ignore_errors=True)
    count, forks = options.nodes, options.forks
    tls = bench.certificates(work / "tls", count)
    folder, inventory = site(work, "empty", count, tls[0])
    empty = "\n    - ansible.builtin.debug: {msg: nothing}\n      run_once: true\n"
    floor = played(folder, "empty", inventory, forks, empty)[1] / count * 1000
    found: dict[str, Any] = {"empty run_once": {"cpu_ms": floor}, "append": append(work / "append")}
    each = "\n    - ansible.builtin.debug: {msg: nothing}\n"
    found["debug"] = {"cpu_ms": played(folder, "each", inventory, forks, each)[1] / count * 1000}
    for form in ("batch", "each host"):
        if "redfish_power" in options.only:
            found[f"redfish_power, {form}"] = power(work, count, forks, tls, form)
        if "hold" in options.only:
            found[f"hold, {form}"] = hold(work, count, forks, tls[0], form)
        if "ledger_event" in options.only:
            found[f"ledger_event, {form}"] = ledger_event(work, count, forks, tls[0], form)
    if "redfish_power" in options.only:
        found["bare asyncio client"] = power(work, count, forks, tls, "asyncio")
    for name, figures in found.items():
        own = {"own_ms": figures["cpu_ms"] - floor} if name.endswith("batch") else {}
        figures.update(own)
        print(f"{name:30}", "  ".join(f"{key} {value:.2f}" for key, value in figures.items()), flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    told = {"schema": 1, "nodes": count, "forks": forks, "wanted": WANTED, "found": found}
    OUT.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(f"\nfigures: {OUT}")


if __name__ == "__main__":
    main()
