# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine watches, in slices. PRIVATE to the collection.

A module that was shipped cannot be called back, and goes on when its controller has died. So it is sent for a few
seconds at a time (_steps_there.py), or for one look (_looks_there.py). It writes to no node for which the ledger has
not given leave right before: it comes back and says which nodes are due, the door asks for all of them at once, and the
next slice writes. When that leave ends stands in the clock of the machine over there, as the slice before has told it:
however long the way there takes, nothing is sent later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Fenced,
    FleetError,
    NotOurs,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._term import LEAST_SECONDS, Term

#: How long one slice lasts, and at least the leave that is given with it. See _term.py.
SLICE_SECONDS = LEAST_SECONDS
#: A permit that took longer to get is looked at once more, from the ledger alone.
_AT_ONCE_SECONDS = 5.0
#: What ends a first slice and may pass in a later one.
_PASSES = frozenset({Unreachable.kind, BadAnswer.kind})


class SlicedAction(BatchAction):
    """Its verb, shipped, is asked for its batch slice by slice."""

    #: What is carried from one slice of this verb to the next.
    CARRIES: ClassVar[type[Slices]]

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._task.check_mode:
            return super()._shipped(params)
        return self._once(params, self._in_slices)

    def _in_slices(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.writes(params):
            self.written(params)  # those that are not ours are told apart, and written to by nobody
        run = self.CARRIES(params, self.NAME)
        try:
            wait_until(
                lambda: self._slice(run),
                bool,
                timeout=float("inf"),
                interval=lambda: run.pause,
                wanted="",
                beat=self._line.beat,
            )
            if self._intended:
                self._line.confirm()
        except (FleetError, AnsibleConnectionFailure) as exc:
            self._told_if_there(run.events)
            if isinstance(exc, AnsibleConnectionFailure):
                raise self.out_of_reach(exc) from exc
            raise
        return run.result()

    def _slice(self, run: Slices) -> bool:
        """One slice; is it over?"""
        run.pause = 0.0
        run.lose(self._line.lost())
        leave = self._leave_for(run) if run.due else {}
        if run.over:
            return True
        try:
            answer = self._sent(run.asks(leave))
        except AnsibleConnectionFailure:
            if not run.goes_on_after():
                raise
            return False
        return run.takes(answer, self._host)

    def _leave_for(self, run: Slices) -> dict[str, Any]:
        """What the ledger lets the next slice write; a host that it refuses has its verdict with that."""
        given: dict[str, list[str]] = {}
        began: list[float] = []
        try:
            run.lose(self._line.confirm())
            # A scheduler is asked for what may hit running work, and that takes time; the rest stands in the ledger.
            for key, destructive in (("destroys", True), ("writes", False)):
                hosts = [host for host, hits in run.due.items() if hits == destructive and host in run.open]
                given[key], since = self._permitted(run, hosts, destructive=destructive)
                began += [since] if given[key] else []
        except Unreachable as exc:  # it says nothing of any node, and is asked again
            self._later(run, list(run.due), exc)
            return {}
        # Whoever may be hit may be written to.
        leave = {**given, "writes": [*given["writes"], *given["destroys"]]}
        return {**leave, **run.term.until(min(began))} if began else {}

    def _later(self, run: Slices, hosts: Sequence[str], exc: Unreachable) -> None:
        run.waits(hosts, exc)
        self._say(f"no leave to write for now, for {len(hosts)} nodes: {exc.what}")

    def _permitted(self, run: Slices, hosts: Sequence[str], *, destructive: bool) -> tuple[list[str], float]:
        """Those that the door lets pass, and since when that is known; all of them in one question where it does."""
        left = list(hosts)
        while left:
            try:
                began = self._allowed(run, left, destructive=destructive)
            except Fenced:
                raise
            except Unreachable as exc:  # their scheduler is silent, and that of the others may not be
                silent = [host for host in left if host in (exc.details.get("nodes") or ())]
                if not silent:
                    raise
                self._later(run, silent, exc)
                left = [host for host in left if host not in silent]
            except FleetError as exc:
                blamed = [exc.node] if exc.node in left else left[:1] if len(left) == 1 else []
                if not blamed:
                    return self._of_each(run, left, destructive=destructive)
                for host in blamed:
                    run.close(host, str(exc.located(node=host)), exc.kind)
                left = [host for host in left if host not in blamed]
            else:
                run.heard(left)
                return left, began
        return [], float("inf")

    def _allowed(self, run: Slices, hosts: Sequence[str], *, destructive: bool) -> float:
        """Since when it is known that all of these may be written to."""
        what, took = f"{self.NAME} on {self._where()}", _AT_ONCE_SECONDS + 1
        for _once_more in range(2):
            if took > _AT_ONCE_SECONDS:
                began = time.monotonic()
                evidence = self._line.before_write(
                    what, destructive=destructive, nodes=tuple(hosts), lasts=run.term.seconds
                )
                took = time.monotonic() - began
        self._intended = what
        run.evidence = evidence or run.evidence
        return began

    def _of_each(self, run: Slices, hosts: Sequence[str], *, destructive: bool) -> tuple[list[str], float]:
        """One by one, where nobody tells whose refusal it was."""
        passed: list[str] = []
        began = [float("inf")]
        for host in hosts:
            more, since = self._permitted(run, [host], destructive=destructive)
            passed += more
            began.append(since)
        return passed, min(began)


class Slices:
    """What is carried from one slice to the next: the machine over there remembers nothing."""

    def __init__(self, params: Mapping[str, Any], verb: str) -> None:
        self._params, self._verb = params, verb
        self._began = time.monotonic()
        self.term = Term(SLICE_SECONDS)
        self.interval = float(params["interval"])
        self.open: dict[str, Mapping[str, Any]] = {str(node.get("host") or ""): node for node in params["nodes"]}
        self.due: dict[str, bool] = {}
        self.pause = 0.0
        #: Why nobody could say whether they may be written to, when that was asked last.
        self._silent: dict[str, Unreachable] = {}
        self.evidence: str | None = None
        self._asked: list[str] = []
        #: What the ledger gets to know of all slices.
        self.events: list[Event] = []
        self._answer: dict[str, Any] = {}

    # -- what each verb has for itself -------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Is there nothing more to be asked?"""
        raise NotImplementedError

    def asks(self, leave: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the next slice."""
        raise NotImplementedError

    def note(self, part: Mapping[str, Any], verdicts: Mapping[str, Any]) -> None:
        """What a slice has told of its hosts."""
        raise NotImplementedError

    def close(self, host: str, reason: str, kind: str) -> None:
        """It is written to by nobody any more, and has its verdict."""
        raise NotImplementedError

    def passes(self, kind: str) -> bool:
        """Does a failure of this kind end no wait?"""
        return kind in _PASSES and self.term.known

    def result(self) -> dict[str, Any]:
        raise NotImplementedError

    # -- what all have -----------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        return max(0.0, float(self._params["timeout"]) - self.elapsed)

    def takes(self, answer: dict[str, Any], node: str) -> bool:
        """What a slice has told; is it over?"""
        if answer.get("failed"):
            if self.left and self.passes(str((answer.get("error") or {}).get("kind"))):
                self.pause = self.interval
                return False
            self._answer = answer
            return True
        part, verdicts = answer.get("slice"), answer.get("verdicts")
        if not isinstance(part, Mapping) or not isinstance(verdicts, Mapping):
            raise BadAnswer(
                "the module's answer does not tell how far it came", node=node, seen=f"slice {type(part).__name__}"
            )
        self._answer = answer
        self._asked += answer.get("asked") or []
        self.term.hears(part.get("clock"))
        self.note(part, verdicts)
        due = part.get("due") or {}
        self.due = {host: bool(due[host]) for host in self.open if host in due}
        try:
            self.term.lengthens(part.get("late"), "one slice")
        except Unreachable as exc:
            for host in list(self.due):
                self.close(host, str(exc), exc.kind)
        return self.over

    def waits(self, hosts: Sequence[str], exc: Unreachable) -> None:
        """They are asked for again."""
        self.pause = self.interval
        self._silent.update(dict.fromkeys(hosts, exc))

    def heard(self, hosts: Sequence[str]) -> None:
        self._silent = {host: exc for host, exc in self._silent.items() if host not in hosts}

    def goes_on_after(self) -> bool:
        """The way there may be open again, where a slice has come back before and there is time. What it has sent, the
        next look shows."""
        if not self.term.known or not self.left:
            return False
        self.pause = self.interval
        return True

    def lose(self, lost: Mapping[str, str]) -> None:
        for host, reason in lost.items():
            self.close(host, reason, NotOurs.kind)
