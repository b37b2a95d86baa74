# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that is asked to end while it holds a session gives that back first. PRIVATE to the collection.

ansible-core hands Ctrl-C and TERM on to its workers, which end at once by it, and a module on a jump host hears HUP
when its connection goes; a session that one of them has open would stay for as long as the BMC keeps it. So while one
is open these signals, unless they are ignored here (nohup), raise SystemExit, which leads through the logout, and are
sent again once that is over: the process ends as it would have, at most some seconds later.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: What comes so soon after the first one is the same wish, told twice; later ones find a process that did not end.
_SAME_SECONDS = 1.0


class BrokenOff:
    """Stands before the process's own handlers from :meth:`hold` to :meth:`release`."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._came = 0
        self._raised = 0.0
        self._leaving = False

    def hold(self) -> None:
        """From here on there is something to be given back."""
        # Python hears signals in the main thread alone; what is no handler of Python's could not be put back.
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        found = {number: signal.getsignal(number) for number in _SIGNALS}
        before = {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}
        if any(handler is None or isinstance(handler, _Handler) for handler in before.values()):
            return
        self._leaving = False
        self._before = {number: signal.signal(number, _Handler(self)) for number in before}

    def leaving(self) -> None:
        """It is given back now: a signal is noted, and waits."""
        self._leaving = True

    def release(self) -> None:
        """It is given back: put the handlers back, and let them have the signal that came."""
        before, self._before = self._before, {}
        for number, handler in before.items():
            signal.signal(number, handler)
        if before and self._came:
            os.kill(os.getpid(), self._came)

    def heard(self, number: int) -> None:
        self._came = number
        now = time.monotonic()
        if self._leaving or now - self._raised < _SAME_SECONDS:
            return
        self._raised = now
        raise SystemExit(128 + number)


class _Handler:
    """A handler that is known as ours."""

    def __init__(self, whose: BrokenOff) -> None:
        self._whose = whose

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._whose.heard(number)
