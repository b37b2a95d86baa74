# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of a soak: a gate that is run again and again in a process of its own. PRIVATE to the collection.

A process and no thread: whoever watches the GPUs must be able to end it, and it must end with whoever watches. It ends
its tool with all its children when it is told to, and when its parent is gone.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut

#: What gives a verdict.
Work = Callable[[], Mapping[str, Any]]
_PR_SET_PDEATHSIG = 1
#: A tool that was told to end is killed after some seconds by whoever runs it; this is for that as well.
_ENDING_SECONDS = 45.0
_CHUNK = 65536


class Load:
    """At most one such process at a time."""

    def __init__(self) -> None:
        self._pid = 0
        self._pipe = -1
        self._told = bytearray()

    def runs(self) -> bool:
        return self._pid != 0

    def busy(self) -> bool:
        """Does it run, and has not told yet how it ended?"""
        return self.runs() and not select.select([self._pipe], [], [], 0)[0]

    def begin(self, work: Work) -> None:
        reader, writer = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(work, writer, parent)
        os.close(writer)
        self._pid, self._pipe, self._told = pid, reader, bytearray()

    def wait(self, seconds: float, wake: int) -> Optional[dict[str, Any]]:
        """Wait until it has ended, for so long at most, or until there is something to read from ``wake``.

        It tells its verdict right before its end, in several pieces where that is long.

        :returns: its verdict; nothing where it still runs, and an empty one where it ended without a word.
        """
        pipes = [pipe for pipe in (self._pipe, wake) if pipe >= 0]
        ready, _w, _x = select.select(pipes, [], [], seconds)
        if self._pipe not in ready:
            return None
        chunk = os.read(self._pipe, _CHUNK)
        if chunk:
            self._told += chunk
            return None
        return self._collected()

    def end(self) -> None:
        """End it with its tool, if it runs."""
        if not self.runs():
            return
        for send, seconds in ((signal.SIGTERM, _ENDING_SECONDS), (signal.SIGKILL, None)):
            with suppress(ProcessLookupError):
                os.kill(self._pid, send)
            if self._gone(seconds):
                break
        self._collected()

    def _gone(self, seconds: Optional[float]) -> bool:
        """Has it closed its end, which the kernel does for it when it ends?"""
        while True:
            ready, _w, _x = select.select([self._pipe], [], [], seconds)
            if not ready:
                return False
            if not os.read(self._pipe, _CHUNK):
                return True

    def _collected(self) -> dict[str, Any]:
        os.close(self._pipe)
        os.waitpid(self._pid, 0)
        self._pid, self._pipe = 0, -1
        try:
            told = json.loads(self._told)
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}


def _child(work: Work, writer: int, parent: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, _leave)
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() == parent:
            told = memoryview(json.dumps(work(), default=str).encode())
            while told:
                told = told[os.write(writer, told) :]
    except Exception as exc:  # there is nobody to raise it to
        with suppress(OSError):
            os.write(writer, json.dumps({"broke": cut(f"{type(exc).__name__}: {exc}", 300)}).encode())
    finally:
        os._exit(0)


def _leave(_signal: int, _frame: Any) -> NoReturn:
    """Through all that ends the tool on its way out."""
    raise SystemExit(0)
