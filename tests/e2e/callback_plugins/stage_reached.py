# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stops a run before the tasks that a test names, until the test lets it go on: a service is away by then.

``GPUFLEET_TEST_STAGES`` is a folder with a file ``stages`` (one task's name a line). Before the first task of the name
in line 0 the file ``0.reached`` is made, and ``0.gone`` is awaited. No worker runs at that moment.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: stage_reached
type: aggregate
short_description: Stop a run before named tasks until a test lets it go on
description: For tests alone.
"""
#: A test that has gone itself stops nobody.
PATIENCE_SECONDS = 60


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "stage_reached"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.folder = Path(os.environ["GPUFLEET_TEST_STAGES"])
        self.stages = (self.folder / "stages").read_text(encoding="utf-8").splitlines()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        name = task.get_name().rpartition(" : ")[2]
        for number, stage in enumerate(self.stages):
            if stage == name and not (self.folder / f"{number}.reached").exists():
                (self.folder / f"{number}.reached").touch()
                self._await(self.folder / f"{number}.gone")

    def _await(self, file: Path) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.02)
