# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``scontrol`` and ``squeue`` as far as the driver asks them, over a file: for what must be noticed without a Slurm.

``slurm_commands.py FILE COMMAND ARGUMENT...``. Behaves as measured on 22.05.8: what belongs to a hidden partition is
left out unless ``--all`` is there, an unknown name gives exit status 1 beside the records of the others, and DRAIN
replaces the reason, whoever set it. That Slurm itself does so is held by ``tests/contract/scheduler/test_slurm.py``.
"""

from __future__ import annotations

import fcntl
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Installs the commands, over what is given of their world; the file that they keep it in.
World = Callable[..., Path]


def main() -> int:
    path, command, *argv = sys.argv[1:]
    file = Path(path)
    with file.open("r+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # hosts of one play ask at the same time
        return _answer(file, command, argv)


def _answer(file: Path, command: str, argv: list[str]) -> int:
    world = json.loads(file.read_text(encoding="utf-8"))
    asked = [word for word in argv if not word.startswith("-")]
    shown_all = "--all" in argv
    world["calls"].append([command, *argv])
    status = COMMANDS[command](world, argv if command == "squeue" else asked, shown_all)
    # What the world does by itself once this command is over.
    for node, change in world["after"].pop(f"{command} {' '.join(asked[:2])}".strip(), {}).items():
        world["nodes"][node].update(change)
    file.write_text(json.dumps(world), encoding="utf-8")
    return status


def _scontrol(world: dict[str, Any], asked: list[str], shown_all: bool) -> int:
    if asked[:2] == ["show", "node"]:
        return _nodes(world, asked[2].split(",") if asked[2:] else list(world["nodes"]), shown_all)
    if asked[:2] == ["show", "reservation"]:
        print(world["reservations"] or "No reservations in the system")
        return 0
    if asked[:2] == ["show", "config"]:
        if "ahead" in world:  # by so many seconds; a world without it tells no time
            now = time.localtime(time.time() + world["ahead"])
            print(time.strftime("Configuration data as of %Y-%m-%dT%H:%M:%S", now))
        print("\n".join(f"{key:<24}= {value}" for key, value in world["config"].items()))
        return 0
    settings = dict(word.split("=", 1) for word in asked[1:])
    node = world["nodes"][settings["NodeName"]]
    if settings["State"] == "RESUME":
        node.update(state="IDLE", reason="", by="")
    else:
        node.update(state="IDLE+DRAIN", reason=settings["Reason"], by="root")
    return 0


def _nodes(world: dict[str, Any], names: list[str], shown_all: bool) -> int:
    status = 0
    for name in names:
        node = world["nodes"].get(name)
        if node is None or (node.get("hidden") and not shown_all):
            print(f"Node {name} not found")
            status = 1
            continue
        reason = f" Reason={node['reason']} [{node['by']}@2026-11-20T10:40:13]" if node["reason"] else ""
        booted = node.get("booted", "2026-11-20T10:12:58")  # None until its agent has registered
        sent = f" OS={node['os']}" if node.get("os") else ""
        reached = f"NodeAddr={node.get('address', name)} NodeHostName={node.get('host_name', name)}"
        print(f"NodeName={name} Arch=x86_64 {reached}{sent} State={node['state']} BootTime={booted}{reason}")
    return status


def _squeue(world: dict[str, Any], argv: list[str], shown_all: bool) -> int:
    names = argv[argv.index("-w") + 1].split(",")
    for job in world["jobs"]:
        if job["node"] in names and (shown_all or not job.get("hidden")):
            print(f"{job['id']}|RUNNING|{job['node']}")
    return 0


def _sacctmgr(world: dict[str, Any], asked: list[str], _shown_all: bool) -> int:
    """As sacctmgr(1) has it for ``-n -P show user name=... format=adminlevel``; without accounting it fails."""
    if not world["levels"]:
        print("You are not running a supported accounting_storage plugin", file=sys.stderr)
        return 1
    settings = dict(word.split("=", 1) for word in asked[2:])
    print(world["levels"].get(settings["name"], ""))
    return 0


COMMANDS = {"scontrol": _scontrol, "squeue": _squeue, "sacctmgr": _sacctmgr}


def install(folder: Path, **world: Any) -> Path:
    """Make both commands, over this world; returns its file. ``folder/bin`` belongs into PATH."""
    (folder / "bin").mkdir(mode=0o755)
    file = folder / "world.json"
    config = {"SlurmUser": "slurm(64030)", "PrivateData": "none"}
    empty = {"nodes": {}, "jobs": [], "reservations": "", "config": config, "after": {}, "levels": {}, "calls": []}
    file.write_text(json.dumps({**empty, **world}), encoding="utf-8")
    file.chmod(0o666)
    for command in COMMANDS:
        script = folder / "bin" / command
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -ISE {__file__} {file} {command} "$@"\n')
        script.chmod(0o755)
    return file


if __name__ == "__main__":
    sys.exit(main())
