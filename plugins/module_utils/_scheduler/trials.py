# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a driver needs so that a job of ours can try a node before anybody else's gets there. PRIVATE to the collection.

Each write is sent once, and asked of nobody: the verb has asked. What keeps others away carries the token of the run
and the node in its name, so that whoever comes after a run that was killed finds it and knows whose it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A job of ours, as its scheduler tells of it.

    state: in its own words. node, inside: where it runs or ran, and in what that keeps others away. over: it runs no
    more. well: and ended as a job does that did all it was to do. refused: why the scheduler never starts it, whatever
    becomes of the node.
    """

    state: str
    node: str = ""
    inside: str = ""
    over: bool = False
    well: bool = False
    refused: str = ""


class Trials(ABC):
    @abstractmethod
    def impossible(self, name: str) -> str:
        """Why no job of ours can try this node, as far as reading tells; empty where nothing stands against it."""

    @abstractmethod
    def reserve_request(self, name: str, token: str) -> str:
        """The write that :meth:`reserve` sends, in words."""

    @abstractmethod
    def reserve(self, name: str, token: str) -> None:
        """Keep everybody else away from this one node until :meth:`lift`, beside the hold, and see that it does.

        :raises FleetError: also where somebody else has the node reserved meanwhile.
        """

    @abstractmethod
    def submit_request(self, name: str, token: str) -> str:
        """The write that :meth:`submit` sends, in words."""

    @abstractmethod
    def submit(self, name: str, token: str, script: str, output: str) -> str:
        """A job that waits inside that for the node; returns its id.

        :param output: a path on the node. Nothing of our own environment goes along.
        """

    @abstractmethod
    def job(self, number: str) -> Job: ...

    @abstractmethod
    def lift_request(self, token: str) -> str:
        """The write that :meth:`lift` sends, in words."""

    @abstractmethod
    def lift(self, token: str) -> bool:
        """End what runs or waits inside, and take away what this token has put around a node. False where it is there
        still, and has to be asked again."""
