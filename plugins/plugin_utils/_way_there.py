# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from the controller to a host of the inventory that a driver has commands run on. PRIVATE to the collection.

By the connection that a task of that host's own would have: its variables, the task's and the play's keywords.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ways import Ask
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._looks import Looks
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._variables import ONE_AT_A_TIME

#: For a first look, beside what the connection itself waits.
_FIRST_SECONDS = 60.0


@dataclass
class _FirstLook:
    """Of all that go to this host from one task."""

    reached: bool = False
    problem: str = ""
    #: When it ended: who has waited for it need not look again.
    ended: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def in_the_way(self, looks: Looks, host: str) -> str:
        """What is not to be shown hides what was in the way as well: that is told of a look that shows nothing."""
        came = time.monotonic()
        with self.lock:
            if not self.reached and self.ended < came:
                _told, self.problem = looks.ask({host: ":"})[host]
                self.reached, self.ended = not self.problem, time.monotonic()
            return "" if self.reached else self.problem


def opened(action: ActionBase, variables: dict[str, Any], peers: Peers | None, host: str) -> Ask | None:
    """:param peers: what those have in common that go there at once; each has a connection of its own."""
    if host not in (variables.get("hostvars") or {}):
        return None
    looks = Looks(action, variables, timeout=_FIRST_SECONDS, threads=1)
    first = peers.one(("way", host), _FirstLook) if peers else _FirstLook()

    def ask(line: str, reads: str, seconds: float) -> tuple[str, str]:
        with ONE_AT_A_TIME:
            looks.once(host)
        problem = first.in_the_way(looks, host)
        if problem:
            return "", problem
        return looks.ask({host: line}, timeout=seconds, reads=reads, no_log=True)[host]

    return ask
