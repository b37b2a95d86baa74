# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends what a command leaves behind, in whatever session it is. PRIVATE to the collection.

Launchers of trainings start each worker in a session of its own, which no kill of the launcher's group reaches. While
the body runs, this process is the parent of all that lose theirs; what has come to it is ended afterwards.

Linux only: elsewhere nothing is adopted, and nothing is said to be left.
Runs on nodes: standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import children
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
#: A process that waits for a driver for ever ends no more.
_SECONDS = 10.0


@contextmanager
def nothing_left(ctx: Context) -> Iterator[list[int]]:
    """What the body starts and leaves is ended after it; the processes that could not be are in the list then."""
    left: list[int] = []
    with _adopting():
        known = set(children(os.getpid()))
        try:
            yield left
        finally:
            left += _ended(ctx, known)


@contextmanager
def _adopting() -> Iterator[None]:
    kernel, before = ctypes.CDLL(None), ctypes.c_int(0)
    with suppress(AttributeError):
        kernel.prctl(_GET_SUBREAPER, ctypes.byref(before))
        kernel.prctl(_SET_SUBREAPER, 1)
    try:
        yield
    finally:
        with suppress(AttributeError):
            kernel.prctl(_SET_SUBREAPER, before.value)


def _ended(ctx: Context, known: set[int]) -> list[int]:
    """What is left after all. The children of one that ends come here next, so that it takes several looks."""

    def ours() -> list[int]:
        left = sorted(set(children(os.getpid())) - known)
        for pid in left:
            _end(pid)
        return left

    try:
        return ctx.wait(ours, lambda left: not left, timeout=_SECONDS, interval=0.05, wanted="the end of a training")
    except DeadlineExceeded:
        return ours()


def _end(pid: int) -> None:
    """It is a child of ours, so that the number is its own until it has been waited for."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
