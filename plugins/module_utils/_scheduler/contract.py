# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scheduler's driver must be able to do, in words that fit them all. PRIVATE to the collection.

A *hold* keeps new work away from a node and carries a token that says whose it is (Slurm: DRAIN and its Reason;
Kubernetes: a taint with an annotation). A node is *drained* when it is held, no work is left on it, and the
scheduler itself is not about to do something to it. It is *in service* when it takes work and its agent answers.

The driver reads and writes; it never judges whose a hold is (:mod:`._scheduler.hold`), and never waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported

ABSENT = "absent"
#: Every state that a driver may report, in the port's own terms.
STATES = ("idle", "allocated", "mixed", "draining", "drained", "down", "unknown", ABSENT)


@dataclass(frozen=True)
class NodeView:
    """One node as its scheduler sees it at one moment.

    native: the scheduler's own words for the state. held: it takes no new work, because a person or the scheduler
    said so. answers: its agent is known to be alive, since a boot that the scheduler knows. by_scheduler: the
    reason was written by the scheduler itself and is nobody's hold. finding: what the scheduler found wrong with
    the node. waits_for: what is still under way although no work is left. work: ids of jobs or pods on it.
    """

    name: str
    state: str = ABSENT
    native: str = ""
    reason: str = ""
    set_by: str = ""
    booted: str = ""
    held: bool = False
    answers: bool = False
    by_scheduler: bool = False
    finding: str = ""
    waits_for: str = ""
    work: tuple[str, ...] = ()

    @property
    def absent(self) -> bool:
        return self.state == ABSENT

    @property
    def in_service(self) -> bool:
        return self.state in ("idle", "allocated", "mixed") and not self.held and self.answers


class Scheduler(ABC):
    """A driver. One object serves one task: it may keep a connection, and never a state of a node."""

    NAME: ClassVar[str]
    #: False for the driver of nodes that belong to no scheduler at all: there is nothing to resume either.
    KEEPS_NODES: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.conf = str(params.get("scheduler_conf") or "")

    @abstractmethod
    def check(self, name: str) -> None:
        """:raises ConfigError: for a name that could mean anything but one node. Asks nobody."""

    @abstractmethod
    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        """All of these nodes, with the work on them, in as few questions as the scheduler allows.

        A name that the scheduler certainly does not know is given the state ``absent``; where it cannot be told
        from one that is merely hidden from us, this raises.

        :raises ConfigError: for a name that could mean anything but one node.
        """

    @abstractmethod
    def hold_request(self, name: str, token: str) -> str:
        """The write that :meth:`hold` sends, in words."""

    @abstractmethod
    def hold(self, name: str, token: str) -> None:
        """Keep new work away, marked with our token. Work that runs goes on."""

    @abstractmethod
    def resume_request(self, name: str) -> str:
        """The write that :meth:`resume` sends, in words."""

    @abstractmethod
    def resume(self, name: str) -> None:
        """Let the node take work again. Called only for a hold that is ours."""

    def evict_request(self, view: NodeView) -> str:
        """The write that makes work leave a held node, in words; empty where work ends by itself, as in Slurm."""
        return ""

    def evict(self, view: NodeView) -> None:
        """Send it. Asked at each poll of a drain, for every held node of ours that still has work.

        :raises Unsupported: where work ends by itself.
        """
        raise Unsupported("this scheduler's work ends by itself", node=view.name)
