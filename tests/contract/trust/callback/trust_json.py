# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints each host's result as one line of JSON, for the tests of both doors."""

from __future__ import annotations

import json
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: trust_json
type: stdout
short_description: results for tests
description: One line of JSON a result.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "trust_json"

    def _told(self, result: Any, outcome: str) -> None:
        line = {"host": result.host.get_name(), "outcome": outcome, "result": result.result}
        self._display.display("RESULT " + json.dumps(line, default=str))

    def v2_runner_on_ok(self, result: Any) -> None:
        self._told(result, "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._told(result, "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._told(result, "unreachable")
