# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the drivers of these tests known to a playbook's run, before its workers fork."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: drivers_of_tests
type: aggregate
short_description: Register the drivers of the tests
description: They are no part of the collection.
"""

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "drivers_of_tests"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: object) -> None:
        from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
        from command_line.driver import CommandLineDriver
        from task_queue.driver import OPTIONS, TaskQueueDriver

        registry.register(CommandLineDriver)
        registry.register(TaskQueueDriver, OPTIONS)
