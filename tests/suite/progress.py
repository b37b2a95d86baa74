# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who was running, and what had failed, when a run was killed: a line of JSON for each start, failure and end."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

#: What a test cost, in seconds of CPU, as its report carries it from a worker
CPU = "cpu"
_TICK = os.sysconf("SC_CLK_TCK")


def used() -> float:
    """Seconds of CPU of this process and its children, of those that live as well: a server of playbooks stays."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both) + sum(map(_of_child, _children()))


def _children() -> list[str]:
    found: list[str] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += task.read_text(encoding="ascii").split()
    return found


def _of_child(pid: str) -> float:
    """What it has used, and what those have that it took leave of."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICK


class Spent:
    """The plugin that measures it, in a worker too. Where one test ends the next begins: a look costs a millisecond."""

    def __init__(self) -> None:
        self._until_now: float | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if self._until_now is None:
            self._until_now = used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            before, self._until_now = self._until_now, used()
            report.user_properties.append((CPU, f"{self._until_now - (before or 0.0):.2f}"))
        return report


class Progress:
    """The plugin. Under xdist it lives in the main process alone, to which the workers report."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cpu: dict[str, str] = {}

    def _note(self, did: str, test: str, **more: str) -> None:
        line = json.dumps({"did": did, "test": test, "at": round(time.time(), 1), **more})
        # Opened for each line: a process that a test forks must not hold a buffer of it.
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + os.linesep)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._note("starts", nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._note("failed", report.nodeid, text=report.longreprtext)
        if report.when == "teardown":
            self._cpu[report.nodeid] = dict(report.user_properties).get(CPU, "0")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note("failed", report.nodeid, text=report.longreprtext)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._note("ends", nodeid, cpu=self._cpu.pop(nodeid, "0"))
