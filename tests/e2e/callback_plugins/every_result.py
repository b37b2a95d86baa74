# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes each result of a run, whole and one a line, into the file that ``GPUFLEET_TEST_RESULTS`` names."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: every_result
type: aggregate
short_description: Keep each result
description: For tests alone.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "every_result"
    CALLBACK_NEEDS_ENABLED = True

    def _keep(self, result: Any, **more: bool) -> None:
        name = result.task.get_name().rpartition(" : ")[2]
        line = {"host": result.host.get_name(), "task": name, "result": {**result.result, **more}}
        with open(os.environ["GPUFLEET_TEST_RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._keep(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._keep(result, failed=True)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._keep(result, unreachable=True)
