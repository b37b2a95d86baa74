# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a workflow: which node is next, and how the whole of it ended, by the rules of AWX 24.6.1.

Source: awx/main/scheduler/dag_workflow.py (bfs_nodes_to_run, mark_dnr_nodes, has_workflow_failed). Nodes converge on
any of their parents, as those of the role do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Optional

from awx_server.kinds import NEXT
from awx_server.store import Object

SUCCESSFUL, PENDING = "successful", "pending"
ENDED_BADLY = ("failed", "error", "canceled")
_AFTER_FAILURE = ("failure_nodes", "always_nodes")
_FOLLOWS = {SUCCESSFUL: ("success_nodes", "always_nodes"), **dict.fromkeys(ENDED_BADLY, _AFTER_FAILURE)}


@dataclass
class Node:
    """job: what it runs, once it does. skipped: nothing leads to it any more."""

    made: Object
    followers: dict[str, list[int]]
    job: Optional[Object] = None
    skipped: bool = False

    def ended(self) -> bool:
        return self.job is not None and self.job["status"] in _FOLLOWS

    def decided(self) -> bool:
        return self.skipped or self.job is not None

    def leads_to(self, number: int) -> bool:
        """Once it has ended; one that goes on may lead anywhere."""
        if self.skipped or self.job is None:
            return False
        ways = _FOLLOWS.get(self.job["status"], NEXT)
        return any(number in self.followers[way] for way in ways)

    def unhandled(self) -> bool:
        """A failure that something follows is none of the workflow's."""
        badly = self.job is not None and self.job["status"] in ENDED_BADLY
        return badly and not any(self.followers[way] for way in _AFTER_FAILURE)


@dataclass
class Workflow:
    """start: begins what a node runs, and says how far that has come."""

    nodes: dict[int, Node]
    start: Callable[[Object], Object]
    parents: dict[int, list[Node]] = field(init=False)

    def __post_init__(self) -> None:
        self.parents = {
            number: [one for one in self.nodes.values() if any(number in one.followers[way] for way in NEXT)]
            for number in self.nodes
        }

    def go_on(self) -> str:
        """As far as nobody has to be asked; the status of the whole."""
        ready = list(self._ready())
        while ready:
            for node in ready:
                node.job = self.start(node.made)
            ready = list(self._ready())
        return self.status

    @property
    def status(self) -> str:
        if not all(one.skipped or one.ended() for one in self.nodes.values()):
            return "running"
        return "failed" if any(one.unhandled() for one in self.nodes.values()) else SUCCESSFUL

    def _ready(self) -> Iterator[Node]:
        self._skip()
        for number, node in self.nodes.items():
            before = self.parents[number]
            led_to = not before or any(one.ended() and one.leads_to(number) for one in before)
            if not node.decided() and led_to and all(one.skipped or one.ended() for one in before):
                yield node

    def _skip(self) -> None:
        """Until nothing more is: what follows a skipped node alone is skipped as well."""
        while True:
            lost = [
                node
                for number, node in self.nodes.items()
                if (before := self.parents[number])
                and not node.decided()
                and all(one.decided() for one in before)
                and not any(one.leads_to(number) for one in before)
            ]
            if not lost:
                return
            for node in lost:
                node.skipped = True
