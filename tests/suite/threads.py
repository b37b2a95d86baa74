# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A thread that a test leaves behind may wait, and no more: one that turns takes a core from all tests after it.

Nothing fails by it. A server's thread that read the end of its connection over and over made a run of the contract
tests half as long again.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

#: CPU of one thread beside the tests' own; the busiest server of a whole run needs a tenth of it.
LIMIT_SECONDS = 20.0
_PER_SECOND = os.sysconf("SC_CLK_TCK")


def turning(limit: float = LIMIT_SECONDS) -> list[str]:
    """The threads beside the first that have used so much CPU, by name."""
    found = ((thread.name, _cpu(thread.native_id)) for thread in threading.enumerate())
    first = threading.main_thread().name
    return [f"{name} has used {cpu:.1f} s of CPU" for name, cpu in found if name != first and cpu > limit]


def _cpu(thread: int | None) -> float:
    """Seconds; none of a thread that has just ended."""
    try:
        said = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    used = said.rpartition(") ")[2].split()[11:13]
    return sum(map(int, used)) / _PER_SECOND


class Threads:
    """The plugin: the first test that is seen to leave one fails, and those after it, for all are slow by it.

    Looking at each thread costs more than a millisecond, so that is done when the whole process has used a quarter of
    the limit since the last look, and after each test once one was found.
    """

    def __init__(self, every: float = LIMIT_SECONDS / 4) -> None:
        self._every = every
        self._looked_at = time.process_time()
        self._found: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        now = time.process_time()
        if self._found or now - self._looked_at > self._every:
            self._looked_at, self._found = now, turning()
        if found := self._found:
            pytest.fail(f"left by this test, or by one before it in this process: {'; '.join(found)}", pytrace=False)
