# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the tests of this folder call the verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, Result

#: The run of these tests, and the token that its hold for a reimage carries.
RUN, TOKEN = "run2", "gpufleet:run2:reimage"
OPTIONS = {"run_id": RUN, "known_token": "", "why": "reimage", "timeout": 20, "interval": 0.2}
WAITING = {"until": "drained", "timeout": 15, "interval": 0.2, "completing_timeout": 1}
Step = Callable[[], object]


class Line(Lifeline):
    """Does something at the nth write that is asked for, after it was judged; and something at the nth poll."""

    def __init__(self, at_write: Optional[dict[int, Step]] = None, at_poll: Optional[dict[int, Step]] = None) -> None:
        self.writes = 0
        self.polls = 0
        self._at_write = at_write or {}
        self._at_poll = at_poll or {}

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        self.writes += 1
        self._at_write.get(self.writes, lambda: None)()
        return None

    def beat(self) -> None:
        self.polls += 1
        self._at_poll.get(self.polls, lambda: None)()


def node(
    site: Any, name: str, state: str, *, check_mode: bool = False, line: Optional[Lifeline] = None, **options: Any
) -> Result:
    # As the ledger has it: a run that announced a hold of this node is known from then on.
    if not hasattr(site, "announced"):
        site.announced = set()
    known = [RUN] if name in site.announced else []
    params = {**OPTIONS, **site.connection, "known_runs": known, "scheduler_node": name, "state": state, **options}
    if state == "held" and not check_mode and params["run_id"] == RUN:
        site.announced.add(name)
    ctx = Context(check_mode=check_mode, node=name, lifeline=line)
    result = scheduler_node(params, ctx)
    result.data["asked"] = ctx.asked
    return result


def wait(
    site: Any,
    *names: str,
    said: Optional[Callable[[str], None]] = None,
    check_mode: bool = False,
    line: Optional[Lifeline] = None,
    **options: Any,
) -> Result:
    nodes = [{"host": name, "known_runs": [RUN]} for name in names]
    params = {**site.connection, **WAITING, "nodes": nodes, **options}
    return scheduler_wait(params, Context(check_mode=check_mode, say=said, lifeline=line))


def verdict(result: Result, name: str) -> dict[str, Any]:
    found: dict[str, Any] = result.data["verdicts"][name]
    return found


def events(result: Result) -> list[tuple[str, str]]:
    return [(event.kind, event.name) for event in result.events]


def evidence(result: Result) -> str:
    return [event.name for event in result.events if event.kind == "evidence"][-1]
