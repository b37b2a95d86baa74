# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verb on another machine: its module is shipped there, after what it needs of the ledger. PRIVATE to the collection.

The module has no ledger. What it may write is known before it leaves. And it goes on when its controller has died: so
what could hit running work is written there only under leave that ends; beyond that it comes back and is sent again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import for_a_module
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    FleetError,
    PermitDue,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.permit import MAINTENANCE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment, judged_after
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import located, with_reason
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._term import LEAST_SECONDS, Term
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._told import believed

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
#: Events that end a look. What happened since its beginning, it may not have seen.
LOOKS = frozenset({"verdict", "evidence", "look", MAINTENANCE})
#: What a later part has at least, to look and to ask.
_LAST_SECONDS = 10.0
#: So many parts in a row come back without a new write: the first, those for which leave is lengthened, and a few more.
_IDLE_PARTS = 7


class Shipping(ActionBase):
    """What an action needs to send its verb elsewhere."""

    NAME: ClassVar[str]
    #: True for verbs whose work is done on the node: the module is always shipped over the host's connection.
    NODE_SIDE: ClassVar[bool] = False
    #: True for verbs whose module takes ``leave`` that ends, and comes back where it has ended.
    LEAVES: ClassVar[bool] = False
    #: The events that the module may tell of when it ran on another machine: names by kind. See _told.py.
    TELLS: ClassVar[Mapping[str, Collection[str]]] = {}
    _host: str
    _vars: dict[str, Any]
    _line: LedgerLifeline
    _intended: str
    #: What a module over there has begun and ordered, as far as it could tell.
    _begun_there: dict[str, str]
    #: Where the ledger stood when the newest look began; was that one on another machine?
    _began: Moment
    _elsewhere: bool
    #: The newest event when the ledger was read by which that look judges.
    _known_at: int
    _params: Mapping[str, Any]

    def ledger(self) -> Ledger:
        raise NotImplementedError

    # -- hooks -------------------------------------------------------------------------------------------------

    def writes(self, params: Mapping[str, Any]) -> bool:
        """May this call change anything? Asked only where the module is shipped, to take the lease beforehand."""
        return not self.NODE_SIDE

    def destructive(self, params: Mapping[str, Any]) -> bool:
        """Could this call hit running work? Asked only where the module is shipped; a verb itself says it a write."""
        return False

    def along(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Of these, the ledger's ids, by host, of machines that a destructive write takes down with them."""
        return {}

    def told(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What a module on another machine is given beside its options."""
        return {}

    def hosts(self, params: Mapping[str, Any]) -> Collection[str]:
        """Whom this call is about, beside the task's own host."""
        return ()

    def written(self, params: Mapping[str, Any]) -> Collection[str]:
        """Whose nodes a call that is shipped may change, each of which has its intent before it."""
        return (self._host,)

    def known_now(self, params: dict[str, Any]) -> dict[str, Any]:
        """The options of one part. Minutes after the first, what the ledger has told may be another."""
        return params

    # -- the way there -----------------------------------------------------------------------------------------

    def _goes_elsewhere(self) -> bool:
        target = self._task.delegate_to
        return bool(target) and target not in _LOCAL and self._connection.transport != "local"

    def _looks(self) -> bool:
        """Does it tell the ledger what a look has found?"""
        return bool(LOOKS & set(self.TELLS)) and not self._task.check_mode

    def began(self, host: str) -> Moment:
        """Where the ledger stood when the look at this host began that ends in a verdict."""
        return self._began

    def _moment(self) -> dict[str, Any]:
        """A ledger that is away for a while ends no wait: a look is as old then as the one before."""
        if not self._looks():
            return {}
        with contextlib.suppress(FleetError):
            self._began = self.ledger().moment()
        return self._as_seen()

    def _as_seen(self) -> dict[str, Any]:
        return {**self._began.as_data(), **judged_after(self._known_at, self._began)}

    def _placed(self, event: Event) -> Event:
        """A verdict, or a last look, is written down after the look. What was imaged or booted between the two is not
        what was looked at, and its age is that of the look. So is that of what a machine elsewhere has looked at; here,
        each look of those tells its own."""
        # That a hold is gone, whoever only looks has found; whoever resumes the node has lifted it.
        found = (event.kind, event.name) == ("hold", "released") and self._params.get("state") == "present"
        if event.kind not in ("verdict", "look") and not (self._elsewhere and (event.kind in LOOKS or found)):
            return event
        judged = judged_after(self._known_at, self._began) if event.kind == "evidence" else {}
        return replace(event, data={**event.data, **self.began(event.node).as_data(), **judged})

    def _where(self) -> str:
        return str(self._task.delegate_to or self._host)

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        written = () if self._task.check_mode or not self.writes(params) else tuple(self.written(params))
        evidence: str | None = None
        try:
            if written and self._task.delegate_to:  # what is announced counts as written, wherever it came to its end
                self._low_level_execute_command(":", sudoable=False)
            evidence = self._leave(written, destructive=self.destructive(params))
            result = self._in_parts(params, written) if written and self.LEAVES else self._sent(params)
        except AnsibleConnectionFailure as exc:
            if not self._task.delegate_to:
                raise
            result = {"failed": True, "changed": False, **self.out_of_reach(exc).as_result()}
        if self._intended:  # what was found on a node that another run took meanwhile is nobody's
            self._line.confirm()
        if evidence:
            result.setdefault("evidence", evidence)
        return result

    def out_of_reach(self, exc: AnsibleConnectionFailure) -> Unreachable:
        """Ansible drops such a host from the play without a rescue: it would stay held, and nobody would say why. Where
        the machine between is away, that is said of every host whose task goes there.

        :raises AnsibleConnectionFailure: where the task asks for that.
        """
        if self._task.ignore_unreachable:
            raise exc
        if not self._task.delegate_to:
            return Unreachable(
                "the node cannot be reached over SSH",
                node=self._host,
                wanted="an answer over the node's own connection",
                seen=cut(exc, 300),
                do="look at the way there (a jump host, the key, ansible_user), then run again; what is held stays"
                " held",
            )
        return Unreachable(
            "the machine that this task is delegated to cannot be reached over SSH",
            node=self._host,
            address=str(self._task.delegate_to),
            wanted="an answer of that machine",
            seen=cut(exc, 300),
            do="look at the way to that machine (its address, the key, ansible_user), or delegate to another one, then"
            " run again; what is held stays held",
        )

    def demand_no_leave(self, given: Mapping[str, Any]) -> None:
        """:raises ConfigError: where a task gives itself leave to write."""
        for name in sorted({"leave", "slice"} & set(given) & set(self.SPEC)):
            raise ConfigError(f"{name} is not for a task to set", node=self._host, do="leave it out")

    def _in_parts(self, params: dict[str, Any], written: tuple[str, ...]) -> dict[str, Any]:
        """Sent as often as its leave ends; each part sees what those before it have done, and goes on from there."""
        parts = _Parts(params, self.NAME)
        while True:
            result = self._part(parts)
            try:
                if not parts.takes(result):
                    break
                since, destructive = time.monotonic(), parts.hits or self.destructive(params)
                evidence = self._leave(written, destructive=destructive, lasts=parts.term.seconds)
            except FleetError as exc:  # an intent is recorded, and has its outcome
                result = {"failed": True, **exc.located(node=self._about()).as_result()}
                break
            parts.may_go_on(since, evidence, destructive=destructive)
        self._begun_there = parts.begun_there
        return parts.whole(result)

    def _part(self, parts: _Parts) -> dict[str, Any]:
        try:
            return self._sent(self.known_now(parts.asks()))
        except AnsibleConnectionFailure as exc:
            if not parts.term.known:
                raise
            # What the part before has told is recorded. What this one did nobody knows, and it is not sent again.
            gone = Unreachable("the machine that it was delegated to is away", node=self._about(), seen=cut(exc, 300))
            return {"failed": True, **gone.as_result()}

    def _leave(self, written: tuple[str, ...], *, destructive: bool, lasts: float = 0.0) -> str | None:
        """What lets the module write there; recorded before it leaves."""
        if not written:
            return None
        intended = f"{self.NAME} on {self._where()}"
        evidence = self._line.before_write(intended, destructive=destructive, nodes=written, lasts=lasts)
        self._intended = intended
        return evidence

    def _sent(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The module's answer, as far as it is believed."""
        if self._looks() and not self.NODE_SIDE:
            self._began, self._elsewhere = self.ledger().moment(), True
        with self._line.renewing(lambda: self.ledger().another()):
            result: dict[str, Any] = self._execute_module(
                module_name=f"gpufleet.baremetal.{self.NAME}",
                module_args={**for_a_module(params), **self.told(params)},
                task_vars=self._vars,
            )
        result.pop("invocation", None)
        result = with_reason(believed(result, tells=self.TELLS, hosts=self.hosts(params), node=self._host), params)
        if self._discovered_interpreter_key:
            result["ansible_facts"] = {self._discovered_interpreter_key: self._discovered_interpreter}
        return located(result, self._about())

    def _parse_returned_data(self, res: Any, profile: str) -> Any:
        """ansible-core warns of what stands beside the answer, in that machine's own words."""
        return super()._parse_returned_data({**res, "stdout": _harmless_beside(str(res.get("stdout") or ""))}, profile)


def _harmless_beside(told: str) -> str:
    """A module's answer is one line without a control in it. What else was printed is cut, as others' words are."""
    return "\n".join(line if line.startswith("{") else short(line) for line in harmless(told).splitlines())


class _Parts:
    """What is carried from one part to the next: the machine over there remembers nothing."""

    def __init__(self, params: Mapping[str, Any], name: str) -> None:
        self._params, self._name = params, name
        self._began = time.monotonic()
        self.term = Term(LEAST_SECONDS)
        self.begun_there: dict[str, str] = {}
        self.hits = False
        self._leave: dict[str, Any] = {}
        self._told: Mapping[str, Any] = {}
        self._asked: list[Any] = []
        self._evidence: str | None = None
        self._idle = 0

    def asks(self) -> dict[str, Any]:
        """The options of the next part."""
        return {**self._params, **_time_left(self._params, self._began), "leave": self._leave}

    def takes(self, answer: dict[str, Any]) -> bool:
        """What a part has told; does it come back for leave?

        :raises Unreachable: where no leave may last as long as it would have to.
        """
        told = answer.pop("leave", None)
        asked = answer.get("asked") or []
        self._idle = 0 if set(map(str, asked)) - set(map(str, self._asked)) else self._idle + 1
        self._asked += asked
        self._told = told if isinstance(told, Mapping) else {}
        error = answer.get("error") or {}
        words = {"begun": self._told.get("begun"), "ordered": error.get("ordered")}
        self.begun_there.update({key: short(str(word), 100) for key, word in words.items() if word})
        if error.get("kind") != PermitDue.kind or not self._told:
            return False
        self.hits = bool(self._told.get("hits"))
        self.term.hears(self._told.get("clock"))
        self.term.lengthens(self._told.get("late"), self._name)
        if self._idle > _IDLE_PARTS:
            raise Unreachable(
                "it comes back for leave again and again, and writes nothing new",
                seen=f"{self._idle} parts without a write that no part before has made",
                do="delegate to one machine (a name that leads to several has several clocks); else see why that write"
                " takes so long there, or do not delegate it",
            )
        return True

    def may_go_on(self, since: float, evidence: str | None, *, destructive: bool) -> None:
        self._evidence = evidence or self._evidence
        kept = {key: self._told.get(key) for key in ("since", "tried", "begun")}
        self._leave = {**self.term.until(since), **kept, "destroys": destructive}

    def whole(self, last: dict[str, Any]) -> dict[str, Any]:
        evidence = {"evidence": self._evidence} if self._evidence else {}
        changed = bool(last.get("changed")) or bool(self._asked)
        return {**last, "changed": changed, "asked": self._asked, **evidence}


def _time_left(params: Mapping[str, Any], began: float) -> dict[str, float]:
    whole = params.get("timeout")
    spent = time.monotonic() - began
    return {} if whole is None else {"timeout": max(min(float(whole), _LAST_SECONDS), float(whole) - spent)}
