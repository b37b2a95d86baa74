# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands before a command-line tool: notes each call, and ends it as the state file says.

:class:`contract.faults.ToolFaults` puts :func:`before` in the tool's place, and writes the state file.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Union

from suite import commands

#: A program with its first arguments; or a function of this process that is called as one, and gives its exit status
#: and what it prints. One that reads is given what stands on its standard input first.
Tool = Union[Sequence[str], Callable[..., tuple[int, str, str]]]


def before(path: Path, folder: str, tool: Tool, reads: bool = False) -> None:
    def answer(argv: list[str], is_gone: Callable[[], bool], *given: str) -> commands.Ended:
        way, lost, slow = judged(folder, [path.name, *argv])
        if slow:
            comes(slow)
        if is_gone():
            return None
        if way is not None:
            return way["code"], way["out"], way["err"]
        if not callable(tool):
            return commands.LOST if lost else commands.GO, "", ""
        ended = tool(*given, *argv)
        return (commands.KILLED, "", "") if lost else ended

    commands.install(path, answer, () if callable(tool) else tool, reads)


def judged(folder: str, argv: list[str]) -> tuple[dict[str, Any] | None, bool, str]:
    """How this call ends, if not by the tool itself; whether its answer is lost; the file of :func:`comes`."""
    state_path = os.path.join(folder, "faults.json")
    with open(os.path.join(folder, "faults.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(os.path.join(folder, "calls.jsonl"), "a", encoding="utf-8") as log:
            log.write(json.dumps(argv) + "\n")
        with open(state_path, encoding="utf-8") as file:
            state = json.load(file)
        is_write = any(re.search(pattern, " ".join(argv)) for pattern in state["writes"])
        way = state.get("way") if state.get("left") is None or state["left"] > 0 else None
        if "pass" in state:  # of writes alone, and not of the first ones
            way = way if is_write and state["pass"] == 0 else None
            state["pass"] -= is_write and state["pass"] > 0
        lost = is_write and state.get("lose") == 1
        if way and state.get("left") is not None:
            state["left"] -= 1
        if is_write and state.get("lose"):
            state["lose"] -= 1
        with open(state_path, "w", encoding="utf-8") as file:
            json.dump(state, file)
    return way, lost, state.get("slow", "") if is_write is not state.get("reads", False) else ""


def comes(path: str) -> None:
    """This machine's uptime is past what stands in that file."""
    with open(path, encoding="ascii") as file:
        until = float(file.read())
    while time.clock_gettime(time.CLOCK_BOOTTIME) <= until:
        time.sleep(0.02)
