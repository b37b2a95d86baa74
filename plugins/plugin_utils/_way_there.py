# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from the controller to a host of the inventory that a driver has commands run on. PRIVATE to the collection.

By the connection that a task of that host's own would have: its variables, the task's and the play's keywords.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ways import Ask
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks import Looks
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import ONE_AT_A_TIME

#: For a first look, beside what the connection itself waits.
_FIRST_SECONDS = 60.0


def opened(action: ActionBase, variables: dict[str, Any], host: str) -> Ask | None:
    if host not in (variables.get("hostvars") or {}):
        return None
    looks = Looks(action, variables, timeout=_FIRST_SECONDS, threads=1)
    reached: list[str] = []

    def ask(line: str, reads: str, seconds: float) -> tuple[str, str]:
        with ONE_AT_A_TIME:
            looks.once(host)
        if not reached:
            # What is not to be shown hides what was in the way as well: that is told of a look that shows nothing.
            _told, problem = looks.ask({host: ":"})[host]
            if problem:
                return "", problem
            reached.append(host)
        return looks.ask({host: line}, timeout=seconds, reads=reads, no_log=True)[host]

    return ask
