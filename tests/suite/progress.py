# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who was running, and what had failed, when a run was killed: a line of JSON for each start, failure and end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


class Progress:
    """The plugin. Under xdist it lives in the main process alone, to which the workers report."""

    def __init__(self, path: Path) -> None:
        self._path = path

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

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note("failed", report.nodeid, text=report.longreprtext)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._note("ends", nodeid)
