# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints each result of a play as one line of JSON, and lines of progress as they come."""

from __future__ import annotations

import json
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: gpufleet_json
type: stdout
short_description: Results as lines of JSON, for tests
description: Each result is one line.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpufleet_json"

    def _show(self, result: Any) -> None:
        content = result.result if hasattr(result, "result") else result._result
        host = result.host if hasattr(result, "host") else result._host
        line = {"host": host.get_name(), "result": content}
        self._display.display("RESULT " + json.dumps(line, default=str))

    def v2_runner_on_ok(self, result: Any) -> None:
        self._show(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._show(result)
