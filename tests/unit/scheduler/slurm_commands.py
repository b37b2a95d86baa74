# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``scontrol`` and ``squeue`` as far as the driver asks them, over a file: for what must be noticed without a Slurm.

They behave as measured on 22.05.8: what belongs to a hidden partition is
left out unless ``--all`` is there, an unknown name gives exit status 1 beside the records of the others, and DRAIN
replaces the reason, whoever set it. That Slurm itself does so is held by ``tests/contract/scheduler/test_slurm.py``.
"""

from __future__ import annotations

import fcntl
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from suite import commands

#: Installs the commands, over what is given of their world; the file that they keep it in.
World = Callable[..., Path]
#: Exit status, and what is printed.
Ended = tuple[int, str, str]


def _called(file: Path, command: str, argv: list[str], _is_gone: Callable[[], bool]) -> Ended:
    with file.open("r+") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # hosts of one play ask at the same time
        return _answer(file, command, argv)


def _answer(file: Path, command: str, argv: list[str]) -> Ended:
    world = json.loads(file.read_text(encoding="utf-8"))
    asked = [word for word in argv if not word.startswith("-")]
    shown_all = "--all" in argv
    world["calls"].append([command, *argv])
    ended = COMMANDS[command](world, argv if command == "squeue" else asked, shown_all)
    # What the world does by itself once this command is over.
    for node, change in world["after"].pop(f"{command} {' '.join(asked[:2])}".strip(), {}).items():
        world["nodes"][node].update(change)
    file.write_text(json.dumps(world), encoding="utf-8")
    return ended


def _lines(*lines: str, status: int = 0) -> Ended:
    return status, "".join(f"{line}\n" for line in lines), ""


def _scontrol(world: dict[str, Any], asked: list[str], shown_all: bool) -> Ended:
    if asked[:2] == ["show", "node"]:
        return _nodes(world, asked[2].split(",") if asked[2:] else list(world["nodes"]), shown_all)
    if asked[:2] == ["show", "reservation"]:
        return _lines(world["reservations"] or "No reservations in the system")
    if asked[:2] == ["show", "topology"]:
        return _topology(world, asked[2] if asked[2:] else "")
    if asked[:2] == ["show", "partition"]:
        return _lines(*world["partitions"])
    if asked == ["reconfigure"]:
        # What becomes of each in turn: exit status, what is said, and the topologies that slurmctld goes by afterwards.
        status, said, now = world["reconfigured"].pop(0) if world["reconfigured"] else (0, "", {})
        world["topologies"].update(now)
        return status, "", said
    if asked[:2] == ["show", "config"]:
        head = []
        if "ahead" in world:  # by so many seconds; a world without it tells no time
            now = time.localtime(time.time() + world["ahead"])
            head = [time.strftime("Configuration data as of %Y-%m-%dT%H:%M:%S", now)]
        return _lines(*head, *(f"{key:<24}= {value}" for key, value in world["config"].items()))
    return _update(world, dict(word.split("=", 1) for word in asked[1:]))


def _update(world: dict[str, Any], settings: dict[str, str]) -> Ended:
    """Where one of several names is wrong, the others are updated all the same."""
    names = settings["NodeName"].split(",")
    for node in (world["nodes"][name] for name in names if name in world["nodes"]):
        if settings["State"] == "RESUME":
            node.update(state="IDLE", reason="", by="")
        else:
            node.update(state="IDLE+DRAIN", reason=settings["Reason"], by="root")
    known = all(name in world["nodes"] for name in names)
    return (0, "", "") if known else (1, "", "slurm_update error: Invalid node name specified\n")


def _nodes(world: dict[str, Any], names: list[str], shown_all: bool) -> Ended:
    status, lines = 0, []
    for name in names:
        node = world["nodes"].get(name)
        if node is None or (node.get("hidden") and not shown_all):
            lines.append(f"Node {name} not found")
            status = 1
            continue
        reason = f" Reason={node['reason']} [{node['by']}@2026-11-20T10:40:13]" if node["reason"] else ""
        booted = node.get("booted", "2026-11-20T10:12:58")  # None until its agent has registered
        sent = f" OS={node['os']}" if node.get("os") else ""
        reached = f"NodeAddr={node.get('address', name)} NodeHostName={node.get('host_name', name)}"
        lines.append(f"NodeName={name} Arch=x86_64 {reached}{sent} State={node['state']} BootTime={booted}{reason}")
    return _lines(*lines, status=status)


def _topology(world: dict[str, Any], name: str) -> Ended:
    """Exit status 0 whatever becomes of it: also where there is none, and where slurmctld does not answer."""
    lines = world["topologies"].get(name, [])
    if isinstance(lines, str):
        return 0, "", f"{lines}\n"
    return _lines(*lines) if lines else (0, "", "scontrol: error: No topology information available\n")


def _squeue(world: dict[str, Any], argv: list[str], shown_all: bool) -> Ended:
    if "-n" in argv:  # those of this name and of the user that asks
        named = [job for job in world["jobs"] if job.get("name") == argv[argv.index("-n") + 1]]
        return _lines(*(f"{job['id']}|RUNNING|{job['comment']}" for job in named))
    names = argv[argv.index("-w") + 1].split(",")
    jobs = [job for job in world["jobs"] if job["node"] in names and (shown_all or not job.get("hidden"))]
    return _lines(*(f"{job['id']}|RUNNING|{job['node']}|{job.get('runs', '5:00')}" for job in jobs))


def _sacctmgr(world: dict[str, Any], asked: list[str], _shown_all: bool) -> Ended:
    """As sacctmgr(1) has it for ``-n -P show user name=... format=adminlevel``; without accounting it fails."""
    if not world["levels"]:
        return 1, "", "You are not running a supported accounting_storage plugin\n"
    settings = dict(word.split("=", 1) for word in asked[2:])
    return _lines(world["levels"].get(settings["name"], ""))


COMMANDS = {"scontrol": _scontrol, "squeue": _squeue, "sacctmgr": _sacctmgr}


def install(folder: Path, **world: Any) -> Path:
    """Make the commands, over this world; returns its file. ``folder/bin`` belongs into PATH; tests change it."""
    for place in ("bin", "answered"):
        (folder / place).mkdir(mode=0o755)
    file = folder / "world.json"
    config = {
        "ClusterName": "alpha",
        "SlurmctldHost[0]": "ctl1(10.0.0.1)",
        "SlurmUser": "slurm(64030)",
        "PrivateData": "none",
    }
    empty = {"nodes": {}, "jobs": [], "reservations": "", "config": config, "after": {}, "levels": {}, "calls": []}
    empty.update(topologies={}, partitions=[], reconfigured=[])
    file.write_text(json.dumps({**empty, **world}), encoding="utf-8")
    file.chmod(0o666)
    for command in COMMANDS:
        answered, script = folder / "answered" / command, folder / "bin" / command
        commands.install(answered, functools.partial(_called, file, command))
        script.write_text(f'#!/bin/sh\nexec {answered} "$@"\n')
        script.chmod(0o755)
    return file
