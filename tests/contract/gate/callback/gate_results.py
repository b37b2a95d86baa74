# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notes each result of a play as one line of JSON in the file that GATE_RESULTS names."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: gate_results
type: stdout
short_description: Results as lines of JSON, for tests
description: Each result is one line.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gate_results"

    def _note(self, result: Any, **more: Any) -> None:
        content = result.result if hasattr(result, "result") else result._result
        host = result.host if hasattr(result, "host") else result._host
        with open(os.environ["GATE_RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"host": host.get_name(), "result": {**content, **more}}, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._note(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._note(result, failed=True)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._note(result, unreachable=True)
