# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process between a gate and its tool, so that nothing of the tool outlives the gate. PRIVATE to the collection.

A tool's children may be in sessions of their own, which no kill of its group reaches, and a gate that is killed ends
nothing any more. So a small process stands between the two: it is the parent of whatever loses its own below it, it is
told when the gate is gone, it ends all that is left then, and after the tool, and it goes as the tool went. It is a
fork of the gate: there is nothing to execute, and nothing to leave on the node.

Linux only. Runs on nodes: standard library only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from typing import NoReturn, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import children

#: Elsewhere a tool is ended with its session, and no more.
CAN = sys.platform.startswith("linux")
#: How long what a tool has started may go on after it, for its last words.
DRAIN_SECONDS = 2.0
#: How long a tool may take that was told to end, and how long what was killed: who waits for a driver ends no more.
TERM_SECONDS, KILL_SECONDS = 3.0, 20.0
_AGAIN_SECONDS = 0.1
_NEVER = float("inf")
_PDEATHSIG, _SUBREAPER = 1, 36
_TOLD = frozenset({signal.SIGTERM, signal.SIGCHLD})


def tie(option: int, value: int) -> None:
    """prctl(2), and no error where it cannot be had."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


def die_with_parent() -> None:
    tie(_PDEATHSIG, signal.SIGKILL)


def stand_between(gate: int, kept: Collection[int] = ()) -> None:
    """Between fork and exec: returns in what becomes the tool, and nowhere else.

    gate: who runs it. kept: descriptors that the guard holds as long as anything is left, as the tool does.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)
    tie(_SUBREAPER, 1)
    guard = os.getpid()
    tool = os.fork()
    if tool:
        _guard(tool, gate, kept)
    os.setsid()
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if os.getppid() != guard:
        os._exit(1)


def _guard(tool: int, gate: int, kept: Collection[int]) -> NoReturn:
    status = int(signal.SIGKILL)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        tie(_PDEATHSIG, signal.SIGTERM)
        _let_go(kept)
        status = _watched(tool, over=os.getppid() != gate)
    finally:
        _leave_as(status)


def _let_go(kept: Collection[int]) -> None:
    """Who reads the tool's output, and who waits for it to have begun, waits for whoever could write there."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def _watched(tool: int, *, over: bool) -> int:
    """How the tool ended, when nothing is left below, or nothing that could be ended. over: it has to end now."""
    status: Optional[int] = None
    kill_at, give_up_at = _NEVER, _NEVER
    while True:
        left, status = _reaped(tool, status)
        now = time.monotonic()
        if not left or now >= give_up_at:
            return int(signal.SIGKILL) if status is None else status
        if over and kill_at == _NEVER:
            kill_at = now + TERM_SECONDS
            with suppress(OSError):
                os.killpg(tool, signal.SIGTERM)
        if status is not None:
            kill_at = min(kill_at, now if over else now + DRAIN_SECONDS)
        if now >= kill_at:
            give_up_at = min(give_up_at, now + KILL_SECONDS)
            _kill_all()
        pause = _AGAIN_SECONDS if now >= kill_at else min(kill_at - now, 3600.0)
        told = signal.sigtimedwait(_TOLD, pause)
        over = over or (told is not None and told.si_signo == signal.SIGTERM)


def _reaped(tool: int, status: Optional[int]) -> tuple[bool, Optional[int]]:
    """Is anything left below, and how did the tool end?"""
    while True:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, status
        if not pid:
            return True, status
        status = how if pid == tool else status


def _kill_all() -> None:
    """Each is a child of ours, so that its number is its own until it was waited for; its own children come next."""
    for pid in children(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _leave_as(status: int) -> NoReturn:
    """By the tool's exit status, or by the signal that ended it."""
    if os.WIFSIGNALED(status):
        with suppress(OSError, ValueError):
            number = os.WTERMSIG(status)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
