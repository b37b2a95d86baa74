# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands before a command-line tool: notes each call, and ends it as the state file says.

:class:`contract.faults.ToolFaults` writes a small script for each tool, which calls :func:`main`, and its state file.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sys
import time


def main(folder: str, name: str, real: list[str], argv: list[str]) -> None:
    way, lost, slow = judged(folder, [name, *argv])
    if slow:
        comes(slow)
    if way is not None:
        sys.stdout.write(way["out"])
        sys.stderr.write(way["err"])
        sys.stdout.flush()
        sys.stderr.flush()
        end(way["code"])
    if lost:
        import subprocess  # what is seldom needed is not paid for by each call

        subprocess.run([*real, *argv], capture_output=True, check=False)
        end(-signal.SIGKILL)
    if real[0] == sys.executable:  # another Python would take as long to start as all the rest
        sys.argv = [*real[1:], *argv]
        with open(real[1], "rb") as program:
            exec(compile(program.read(), real[1], "exec"), {"__name__": "__main__", "__file__": real[1]})
        sys.exit(0)
    os.execv(real[0], [*real, *argv])


def judged(folder: str, argv: list[str]) -> tuple[dict | None, bool, str]:
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
    return way, lost, state.get("slow", "") if is_write else ""


def comes(path: str) -> None:
    """This machine's uptime is past what stands in that file."""
    with open(path, encoding="ascii") as file:
        until = float(file.read())
    while time.clock_gettime(time.CLOCK_BOOTTIME) <= until:
        time.sleep(0.02)


def end(code: int) -> None:
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)
