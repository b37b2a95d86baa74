# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine sends on by its steps, in slices. PRIVATE to the collection.

A module that was shipped cannot be called back, and goes on when its controller has died. So it is sent for a few
seconds at a time. It writes to no node for which the ledger has not given leave right before: it comes back and says
which nodes are due, the door asks for all of them at once, and the next slice writes. When that leave ends stands in
the clock of the machine over there, as the slice before has told it: however long the way there takes, nothing is sent
later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Fenced,
    FleetError,
    NotOurs,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.names import GOALS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.verdicts import summary, verdict
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import not_taken
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

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._task.check_mode:
            return super()._shipped(params)
        return self._once(params, self._in_slices)

    def _in_slices(self, params: dict[str, Any]) -> dict[str, Any]:
        self.written(params)  # those that are not ours are told apart, and written to by nobody
        run = _Slices(params, self.NAME)
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
        except (FleetError, AnsibleConnectionFailure):
            self._told_if_there(run.events)
            raise
        return run.result()

    def _slice(self, run: _Slices) -> bool:
        """One slice; is it over?"""
        run.pause = 0.0
        run.lose(self._line.lost())
        leave = self._leave_for(run) if run.due else {}
        if not run.open:
            return True
        try:
            answer = self._sent(run.asks(leave))
        except AnsibleConnectionFailure as exc:
            if not run.goes_on_after(str(exc)):
                raise
            return False
        return run.takes(answer, self._host)

    def _leave_for(self, run: _Slices) -> dict[str, Any]:
        """What the ledger lets the next slice write; a host that it refuses has its verdict with that."""
        given: dict[str, Any] = {}
        since = time.monotonic()
        try:
            run.lose(self._line.confirm())
            for key, destructive in (("writes", False), ("destroys", True)):
                hosts = [host for host, hits in run.due.items() if hits == destructive and host in run.open]
                given[key], since = self._permitted(run, hosts, since, destructive=destructive)
        except Unreachable as exc:  # it says nothing of any node, and is asked again
            run.pause = run.interval
            self._say(f"no leave to write for now: {exc.what}")
            return {}
        # Whoever may be hit may be written to.
        return {**given, "writes": [*given["writes"], *given["destroys"]], **run.term.until(since)}

    def _permitted(
        self, run: _Slices, hosts: Sequence[str], since: float, *, destructive: bool
    ) -> tuple[list[str], float]:
        """Those that the door lets pass, and since when that is known; all of them in one question where it does."""
        left = list(hosts)
        while left:
            try:
                began = self._allowed(run, left, destructive=destructive)
            except (Unreachable, Fenced):
                raise
            except FleetError as exc:
                blamed = [exc.node] if exc.node in left else left[:1] if len(left) == 1 else []
                if not blamed:
                    return self._of_each(run, left, since, destructive)
                for host in blamed:
                    run.close(host, str(exc.located(node=host)), exc.kind)
                left = [host for host in left if host not in blamed]
            else:
                return left, min(since, began)
        return [], since

    def _allowed(self, run: _Slices, hosts: Sequence[str], *, destructive: bool) -> float:
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

    def _of_each(self, run: _Slices, hosts: Sequence[str], since: float, destructive: bool) -> tuple[list[str], float]:
        """One by one, where nobody tells whose refusal it was."""
        passed: list[str] = []
        for host in hosts:
            more, since = self._permitted(run, [host], since, destructive=destructive)
            passed += more
        return passed, since


class _Slices:
    """What is carried from one slice to the next: the machine over there remembers nothing."""

    def __init__(self, params: Mapping[str, Any], verb: str) -> None:
        self._params, self._verb = params, verb
        self._began = time.monotonic()
        self.term = Term(SLICE_SECONDS)
        self.interval = float(params["interval"])
        self.open: dict[str, Mapping[str, Any]] = {str(node.get("host") or ""): node for node in params["nodes"]}
        self.due: dict[str, bool] = {}
        self.pause = 0.0
        self.evidence: str | None = None
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._steps: dict[str, list[str]] = {}
        self._asked: list[str] = []
        self._polls = 0
        #: What the ledger gets to know of all slices.
        self.events: list[Event] = []
        self._sent: Mapping[str, Any] = {}
        self._ordered: dict[str, str] = {}
        self._answer: dict[str, Any] = {}

    @property
    def left(self) -> float:
        return max(0.0, float(self._params["timeout"]) - (time.monotonic() - self._began))

    def asks(self, leave: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the next slice."""
        left = self.left
        part = {
            **leave,
            "sent": self._sent,
            "ordered": self._ordered,
            "elapsed": time.monotonic() - self._began,
            "timeout": float(self._params["timeout"]),
            "last": left <= SLICE_SECONDS,
        }
        return {**self._params, "nodes": list(self.open.values()), "timeout": min(left, SLICE_SECONDS), "slice": part}

    def takes(self, answer: dict[str, Any], node: str) -> bool:
        """What a slice has told; is it over?"""
        if answer.get("failed"):
            kind = str((answer.get("error") or {}).get("kind"))
            if kind in _PASSES and self.goes_on_after(str(answer.get("msg"))):
                return False
            self._answer = answer
            return True
        part, verdicts = answer.get("slice"), answer.get("verdicts")
        if not isinstance(part, Mapping) or not isinstance(verdicts, Mapping):
            raise BadAnswer(
                "the module's answer does not tell how far it came", node=node, seen=f"slice {type(part).__name__}"
            )
        self._answer = answer
        self.term.hears(part.get("clock"))
        self._sent = part.get("sent") or {}
        self._note(verdicts, answer)
        self._hear(part)
        due = part.get("due") or {}
        self.due = {host: bool(due[host]) for host in self.open if host in due}
        try:
            self.term.lengthens(part.get("late"), "one slice")
        except Unreachable as exc:
            for host in list(self.due):
                self.close(host, str(exc), exc.kind)
        return not self.open

    def _note(self, verdicts: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        for host in [host for host in self.open if host in verdicts]:
            self._verdicts[host] = verdicts[host]
            del self.open[host]
        for host, steps in (answer.get("steps") or {}).items():
            self._steps.setdefault(str(host), []).extend(steps)
        self._asked += answer.get("asked") or []
        self._polls += int(answer.get("polls") or 0)

    def _hear(self, part: Mapping[str, Any]) -> None:
        """Of this call's hosts; what else is told there is a stranger's word."""
        for host in map(str, part.get("refused") or []):
            if host in self._verdicts:
                reason = str(self._verdicts[host].get("reason"))
                self.events += not_taken(self._verb, host, Refused(cut(reason, 1000)))

        ordered = part.get("ordered")
        for host, goal in ordered.items() if isinstance(ordered, Mapping) else ():
            if goal in GOALS and host in (*self.open, *self._verdicts) and self._ordered.get(host) != goal:
                self._ordered[host] = goal
                self.events.append(Event("outcome", self._verb, {"ordered": goal}, host))

    def goes_on_after(self, problem: str) -> bool:
        """An outage may pass, where a slice has come back before and there is time. What it has sent, the next look
        shows."""
        if not self.term.known or not self.left:
            return False
        self.pause = self.interval
        return True

    def lose(self, lost: Mapping[str, str]) -> None:
        for host, reason in lost.items():
            self.close(host, reason, NotOurs.kind)

    def close(self, host: str, reason: str, kind: str) -> None:
        if self.open.pop(host, None) is not None:
            self._verdicts[host] = verdict(False, time.monotonic() - self._began, None, reason, kind=kind)
            self.due.pop(host, None)

    def result(self) -> dict[str, Any]:
        events = [event.as_dict() for event in self.events]
        if self._answer.get("failed"):
            return {**self._answer, "events": events}
        told = {
            "changed": bool(self._steps),
            "verdicts": self._verdicts,
            "polls": self._polls,
            "steps": self._steps,
            "asked": self._asked,
            "summary": summary(str(self._params["until"]), self._verdicts, Counter()),
        }
        kept = {key: value for key, value in self._answer.items() if key != "slice"}
        evidence = {"evidence": self.evidence} if self.evidence else {}
        return {"before": {}, "after": {}, **kept, **told, **evidence, "events": events}
