# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kills ansible-playbook with SIGKILL at a stage that a test names, as an operator, an OOM killer or a power cut would.

``GPUFLEET_TEST_KILL=start:Start the deploy`` kills when the first host's worker for the task of that name has been
started, and so leaves a live orphan behind; ``end:...`` when the first host's result of it has arrived.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: kill_at
type: aggregate
short_description: Kill the run at a named stage
description: For tests alone.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kill_at"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.moment, _colon, self.task = os.environ.get("GPUFLEET_TEST_KILL", "").partition(":")

    def _reached(self, moment: str, name: str) -> None:
        if moment == self.moment and name.rpartition(" : ")[2] == self.task:
            os.kill(os.getpid(), signal.SIGKILL)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._reached("start", task.get_name())

    def v2_runner_on_ok(self, result: Any) -> None:
        self._reached("end", result.task.get_name())
