# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from the controller to a host of the inventory that a driver has commands run on. PRIVATE to the collection.

By the connection that a task of that host's own would have: its variables, the task's and the play's keywords.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.ways import Ask
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks import Looks
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import ONE_AT_A_TIME


def opened(action: ActionBase, variables: dict[str, Any], host: str, seconds: float) -> Ask:
    looks = Looks(action, variables, timeout=seconds, threads=1)

    def ask(line: str) -> tuple[str, str]:
        with ONE_AT_A_TIME:
            looks.once(host)
        return looks.ask({host: line})[host]

    return ask
