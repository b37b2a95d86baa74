# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads of one worker, each of which serves one host after the other. PRIVATE to the collection.

They are daemons: one that hangs in a peer keeps no worker from its end.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection
from contextvars import copy_context

from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Rounds

#: So often the worker's own thread looks whether its run is still there.
_BEAT_SECONDS = 5.0
#: So long those that are at work have to come to an end, when all is to end.
_LEAVE_SECONDS = 10.0
#: Memory of a thread's own; they are many, and call nothing deep that is not Python's.
_STACK = 1 << 20


class Crew:
    """
    :param work: serves one host.
    :param rounds: who is at work there.
    """

    def __init__(self, work: Callable[[str], None], rounds: Rounds) -> None:
        self._work = work
        self._rounds = rounds
        self._todo: queue.SimpleQueue[str] = queue.SimpleQueue()
        #: Of each thread that has come to its end.
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def serve(self, hosts: Collection[str], at_once: int, beat: Callable[[], None]) -> None:
        """All of them.

        :param beat: called every few seconds; raises where the run is gone, and no other host is begun then.
        """
        for host in hosts:
            self._todo.put(host)
        try:
            self._begin(min(at_once, len(hosts)))
            left, due = len(self._threads), time.monotonic() + _BEAT_SECONDS
            while left:
                if time.monotonic() >= due:
                    beat()
                    due = time.monotonic() + _BEAT_SECONDS
                try:
                    self._ended.get(timeout=max(0.0, due - time.monotonic()))
                except queue.Empty:
                    continue
                left -= 1
        finally:
            self._over.set()

    def left(self) -> None:
        """Wait a little for those that are at work."""
        for thread in self._threads:
            thread.join(_LEAVE_SECONDS / len(self._threads))

    def _begin(self, number: int) -> None:
        before, started = threading.stack_size(_STACK), 0
        try:
            for _one in range(number):
                # Each with its own view of what the task is, such as whom a warning goes to.
                target = copy_context().run
                self._threads.append(threading.Thread(target=target, args=(self._serve,), daemon=True))
                self._rounds.enter()
            while started < number:
                self._threads[started].start()
                started += 1
        except RuntimeError:  # this machine has room for no more of them
            if not started:
                raise
            for _thread in self._threads[started:]:
                self._rounds.leave()
            del self._threads[started:]
        finally:
            threading.stack_size(before)

    def _serve(self) -> None:
        try:
            with self._rounds.one():
                while not self._over.is_set():
                    try:
                        host = self._todo.get_nowait()
                    except queue.Empty:
                        return
                    self._work(host)
        finally:
            self._ended.put(None)
