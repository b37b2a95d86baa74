# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs one command, with a limit, and leaves nothing of it behind if it has to be killed.

    step_runner.py SECONDS LOG command ...

Its output goes to LOG, and what it came to, as JSON, beside it. Daemons lose their parent and go to process 1; here
they come to this process (Linux calls it a subreaper), so that all that a command has started can be found and ended,
in whatever session it is. That happens to a command that is still there at its limit, and to one whose runner is told
to end (SIGTERM) or loses its own parent. What a command leaves behind that ends by itself is left alone and named.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: What is asked to end can say what it knows: pytest prints its failures and stops what it has started.
GRACE = float(os.environ.get("STEP_GRACE_SECONDS", "20"))
#: Of a command line, how many characters tell whose process it is
WORDS = 80


class Stopped(Exception):
    """This process was told to end."""


def adopt_orphans() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_CHILD_SUBREAPER, 1), (_PR_SET_PDEATHSIG, signal.SIGTERM)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def stat_of(pid: int) -> tuple[str, str, int]:
    """Name, state and parent; a name may hold blanks and brackets."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    head, _bracket, rest = text.rpartition(")")
    state, parent = rest.split()[:2]
    return head.partition("(")[2], state, int(parent)


def living() -> Iterator[tuple[int, str, int]]:
    """Pid, name and parent of whatever is no zombie."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError):
                name, state, parent = stat_of(int(entry))
                if state not in "ZX":
                    yield int(entry), name, parent


def descendants(root: int) -> dict[int, str]:
    """Those that this process has to answer for, by pid, with their names."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid, name, parent in living():
        children.setdefault(parent, []).append((pid, name))
    found: dict[int, str] = {}
    queue = [root]
    while queue:
        for pid, name in children.get(queue.pop(), []):
            found[pid] = name
            queue.append(pid)
    return found


def described(pid: int, name: str) -> str:
    """``python (7525)``, and what it runs and has used where there is more to say: what spins is found by that."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[1:]
        ticks = sum(map(int, Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[11:13]))
    except OSError:  # it ended meanwhile
        return f"{name} ({pid})"
    told = [f"{ticks / os.sysconf('SC_CLK_TCK'):.0f} s of CPU", " ".join(words)[:WORDS].strip()]
    return f"{name} ({pid}: {': '.join(filter(None, told))})"


class Command:
    """The command, its children, and whoever of them has lost its parent."""

    def __init__(self, argv: list[str], log: Path) -> None:
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.status: Optional[int] = None
        self._woken, waker = os.pipe()
        for end in (self._woken, waker):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_told: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def _reap(self) -> None:
        """Take leave of the dead at once: to them that look for a process, a zombie is one."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._process.pid:
                    self.status = self._process.returncode = os.waitstatus_to_exitcode(status)

    def wait(self, seconds: float) -> bool:
        """Whether it ended in time."""
        end = time.monotonic() + seconds
        while True:
            self._reap()
            left = end - time.monotonic()
            if self.status is not None or left <= 0:
                return self.status is not None
            # The first child may have ended before there was a handler.
            select.select([self._woken], [], [], min(left, 1.0))
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)

    def end(self) -> list[str]:
        """Ask it to end, then end all that is left, and name it."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)
            self.wait(GRACE)
        named: dict[int, str] = {}
        while left := descendants(os.getpid()):
            for pid, name in left.items():
                named.setdefault(pid, described(pid, name))
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
            self._reap()
        return sorted(named.values())


def told_to_end(*_told: Any) -> None:
    """The first one ends the step; another must not come while it is being ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


def run(limit: float, log: Path, argv: list[str]) -> dict[str, Any]:
    adopt_orphans()
    signal.signal(signal.SIGTERM, told_to_end)
    # Whoever starts a job in the background makes it deaf to SIGINT, and its children with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    command = Command(argv, log)
    try:
        result = "" if command.wait(limit) else "timed out"
    except Stopped:
        result = "stopped"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ended = command.end() if result else []
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "result": result or ("passed" if command.status == 0 else "failed"),
        "seconds": time.monotonic() - start,
        "cpu": used.ru_utime + used.ru_stime,
        "ended": ended,
        "left": [] if result else sorted(described(pid, name) for pid, name in descendants(os.getpid()).items()),
    }


def main() -> int:
    limit, log, argv = float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    told = run(limit, log, argv)
    log.with_suffix(".json").write_text(json.dumps(told), encoding="utf-8")
    return 0 if told["result"] == "passed" else 1


if __name__ == "__main__":
    sys.exit(main())
