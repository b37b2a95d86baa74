# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One driver for many hosts that are at work at once: what they ask of their scheduler is asked together. PRIVATE.

A verb looks at its node, and writes to it, as if it were alone. Each question here is one about all nodes whose verbs
ask it at that time, and each write one to all of them, where the driver has such a write. What is wrong with one of
them is told to its own verb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    FleetError,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    NodeView,
    Refusal,
    Scheduler,
    Unplaced,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.one_by_one import TrialsOfAll
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.topology import Keeper
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.trials import Trials
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers, Rounds

#: What a driver declares of itself.
_DECLARED = (
    *("NAME", "KEEPS_NODES", "COMPARES", "EVICTS", "RUNS_JOBS", "WORK_BY_NODE", "SETTLES", "REMEDIES", "NAMELESS"),
    *("address",),
)
#: These say nothing of any node: nobody is asked for by themselves.
_CONCERN_ALL = (Unreachable, AuthFailed)
#: More that cannot be asked for, and it is not single nodes that spoil the question.
_MOST = 16


def of_all(driver: Scheduler, peers: Optional[Peers], still: Callable[[], None] = lambda: None) -> Scheduler:
    """The driver itself where nobody else is at work; else the one of all that ask the same scheduler by the same
    login.

    :param still: asked before this one's write, which waits for those of others; raises where it may not come any more.
    """
    if peers is None or isinstance(driver, OfAll):
        return driver
    key = (driver.NAME, repr(sorted(driver.options.items())))
    return OfAll(peers.one(key, lambda: _Asked(driver)), peers.rounds, still)


class _Asked:
    """The one driver of all of them. written: by node, for whom it was held or resumed first."""

    def __init__(self, driver: Scheduler) -> None:
        self.driver = driver
        self.written: dict[str, OfAll] = {}


class OfAll(Scheduler):
    """What one verb asks of it.

    :param asked: its driver is asked by one thread at a time.
    """

    NAME = ""

    def __init__(self, asked: _Asked, rounds: Rounds, still: Callable[[], None]) -> None:
        super().__init__(asked.driver.options)
        for name in _DECLARED:
            setattr(self, name, getattr(asked.driver, name))
        self._asked, self._driver = asked, asked.driver
        self._rounds, self._still = rounds, still

    def check(self, name: str) -> None:
        self._driver.check(name)

    def _ask(self, what: str, about: Any, serve: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
        return self._rounds.ask((id(self._asked), what), about, serve)

    def _same(self, what: str, ask: Callable[[], Any]) -> Any:
        """One answer for all that ask."""
        return self._ask(what, None, lambda asked: [ask()] * len(asked))

    # -- reading -----------------------------------------------------------------------------------------------

    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        for name in names:  # one that means several is its own host's trouble
            self.check(name)
        found: dict[str, NodeView] = self._ask("states", tuple(names), self._states)
        for name in names:  # after the answer, which may show what was written for another one
            self._demand_own(name, self._asked.written.get(name, self))
        return found

    def _states(self, asked: Sequence[Sequence[str]]) -> list[Any]:
        found: dict[str, NodeView] = {}
        failed: dict[str, FleetError] = {}
        self._look(list(dict.fromkeys(name for names in asked for name in names)), found, failed)
        return [_of(names, found, failed) for names in asked]

    def _look(self, names: Sequence[str], found: dict[str, NodeView], failed: dict[str, FleetError]) -> None:
        """What spoils the answer about all is found by halves."""
        try:
            found.update(self._driver.states(names))
        except FleetError as exc:
            middle = len(names) // 2
            if not middle or isinstance(exc, _CONCERN_ALL) or len(failed) >= _MOST:
                failed.update(dict.fromkeys(names, exc))
                return
            for half in (names[:middle], names[middle:]):
                self._look(half, found, failed)

    def known(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = self._same("known", self._driver.known)
        return found

    def unplaced(self) -> Unplaced:
        found: Unplaced = self._same("unplaced", self._driver.unplaced)
        return found

    def clock(self) -> str:
        return str(self._same("clock", self._driver.clock))

    def prerequisites(self) -> Sequence[FleetError]:
        found: Sequence[FleetError] = self._same("prerequisites", self._driver.prerequisites)
        return found

    def topology(self, form: str, path: str) -> Keeper:
        return self._driver.topology(form, path)

    def trials(self) -> Optional[Trials]:
        made = self._driver.trials()
        return None if made is None else TrialsOfAll(made, self._alone, self._still)

    def _alone(self, ask: Callable[[], Any]) -> Any:
        """What is asked for one node alone, in the turn of those who ask."""
        return self._ask("alone", ask, lambda asked: [_said(one) for one in asked])

    # -- writing -----------------------------------------------------------------------------------------------

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        return self._driver.hold_request(view, token, kind)

    def _demand_own(self, name: str, whose: OfAll) -> None:
        """Two rows may name one node, and be looked at before either is written to: one write serves one machine."""
        if whose is not self:
            raise WrongMachine(
                "this task has written to that node for another host",
                node=name,
                address=self.address,
                wanted="a node of the scheduler that is this machine",
                seen="two hosts of the task with one node of the scheduler",
                do="correct gpufleet_scheduler_node of one of them",
            )

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        self._demand_own(view.name, self._asked.written.setdefault(view.name, self))
        due = _Due(view.name, (view, token, kind), self._still)
        self._ask("hold", due, partial(_sent, self._driver.hold_each))

    def resume_request(self, view: NodeView) -> str:
        return self._driver.resume_request(view)

    def resume(self, view: NodeView) -> None:
        self._demand_own(view.name, self._asked.written.setdefault(view.name, self))
        due = _Due(view.name, view, self._still)
        self._ask("resume", due, partial(_sent, self._driver.resume_each))

    def evict_request(self, view: NodeView) -> str:
        return self._driver.evict_request(view)

    def evict(self, view: NodeView) -> Sequence[Refusal]:
        def all_of(asked: Sequence[_Due]) -> list[Any]:
            its = {one.name: one.still for one in asked}
            told = self._driver.evict_each([one.what for one in asked], lambda name: its[name]())
            return [told[one.name] for one in asked]

        found: Sequence[Refusal] = self._ask("evict", _Due(view.name, view, self._still), all_of)
        return found


class _Due(NamedTuple):
    """A write that waits: to which node, what the driver is given for it, and what is asked before it is sent."""

    name: str
    what: Any
    still: Callable[[], None]


def _sent(send: Callable[..., Mapping[str, FleetError]], asked: Sequence[_Due]) -> list[Any]:
    lines = {one.name: one.still for one in asked}
    failed = send([one.what for one in asked], lambda name: lines[name]())
    return [failed.get(one.name) for one in asked]


def _of(names: Sequence[str], found: Mapping[str, NodeView], failed: Mapping[str, FleetError]) -> Any:
    problem = next((failed[name] for name in names if name in failed), None)
    return problem or {name: found[name] for name in names}


def _said(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except FleetError as exc:
        return exc
