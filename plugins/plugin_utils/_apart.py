# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts whose library serves one at a time, among those that one task serves. PRIVATE to the collection."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers


@dataclass(frozen=True)
class Apart:
    """option, words: of which hosts. begun: around all of it, from before there are threads. most: so many at once."""

    option: str
    words: Collection[str]
    begun: Callable[[Peers], AbstractContextManager[None]]
    most: int = 16


class Seats:
    """Of those that need one, no more are served at once than there are. Who has to wait stands in a line, and holds up
    nobody who needs none: whoever leaves his seat gives it to the first one there."""

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._free = most
        self._taken: set[str] = set()
        self._line: deque[str] = deque()

    def has(self, host: str) -> bool:
        """Has it one by now? Else it is in the line."""
        with self._lock:
            if host in self._taken:
                return True
            if not self._free:
                self._line.append(host)
                return False
            self._free -= 1
            self._taken.add(host)
            return True

    def left(self, host: str) -> str | None:
        """Who has its seat after it, where it had one and somebody waits."""
        with self._lock:
            if host not in self._taken:
                return None
            self._taken.remove(host)
            if not self._line:
                self._free += 1
                return None
            self._taken.add(self._line[0])
            return self._line.popleft()
