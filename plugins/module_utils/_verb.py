# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every verb is handed and what it gives back. PRIVATE to the collection.

A verb is one function of its port::

    def power(params: Mapping[str, Any], ctx: Context) -> Result: ...

It raises :class:`FleetError` when it cannot. It has two doors, which both build the context: the module's
``main()`` on whatever machine runs it, and the action plugin of the same name in the controller's worker process.
Only the second has a lifeline to the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until

T = TypeVar("T")

#: What the ledger is told of a node's place in its scheduler: the names of events of the kind evidence. The newest one
#: lets a destructive write pass where it is one of PERMITS; whatever else it says takes back what stood before.
PERMITS = (DRAINED, ABSENT) = ("drained", "not_in_scheduler")
VOIDS = (IN_SERVICE, FOREIGN_HOLD, NOT_DRAINED) = ("in_service", "foreign_hold", "not_drained")
#: What such an event says of a node that is at work without being in service, such as one whose agent fell silent.
SERVES = "serves"
#: The verb and its state whose intent takes back what stood before: from it on the node may be in service, whatever
#: became of the write.
RESUMES = (RESUMING, RESUMED) = ("scheduler_node", "resumed")
#: Leave that is older than this by the time of its write is asked for again: a look in between may take a minute.
OLD_SECONDS = 5.0


class Turn:
    """The turn to write to a peer that loses one of two writes that come at once. Of this one nobody else knows."""

    def taken(self) -> str:
        """Whose it is, in words; empty where it is ours from here on."""
        return ""

    def outlived(self, pid: int) -> None:
        """What was begun in it by this process may go on when it ends: it is not to be given to others at once."""

    def unheard(self) -> None:
        """The same of what was begun on another machine, whose end nobody here has heard of."""


class Lifeline:
    """What ties a verb to its run. This one ties to nothing: a module on another machine has no ledger.

    :cvar order: to what the write that comes next orders the node; empty where it is no such order. See
        :meth:`Context.ordering`.
    """

    order = ""

    def refuse_others(self, nodes: Sequence[str]) -> None:
        """Called before each write, and where one would be sent were it no check mode. Raises where one of the nodes is
        somebody's for whom this run does not work."""

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        """Called before each write. Raises if we may not. Returns the id of the evidence that allowed it."""
        return None

    def still(self, nodes: Sequence[str] = ()) -> None:
        """Called right before a write that has waited for others since it was allowed. Raises if we may no more."""

    def hold(self, nodes: Sequence[str]) -> None:
        """Called before a wait that comes before a write: from here on nobody else works on these nodes. Raises if
        another run does."""

    @contextmanager
    def turn(self, peer: str) -> Iterator[Turn]:
        """Kept to the end of the body, once it was taken there. Whoever has no ledger takes none from others."""
        yield Turn()

    @contextmanager
    def turns_together(self) -> Iterator[None]:
        """All turns of the body, at one peer, are one for others, unless these wait for long."""
        yield

    def beat(self) -> None:
        """Called at each turn of a wait. Raises when the run is orphaned or fenced."""

    def lost(self) -> Mapping[str, str]:
        """Nodes of a batch whose lease another run has taken meanwhile, and in words what happened.

        A verb gives them up at its next turn; a write to one of them is refused in any case.
        """
        return {}

    def waited(self) -> float:
        """Seconds since an earlier part of this call has written; 0 where none has."""
        return 0.0

    def tried(self, what: str) -> float:
        """Seconds since an earlier part of this call first sent this write, which its peer did not take; 0 where none
        did."""
        return 0.0

    def late(self) -> float | None:
        """When the first write came, by this machine's uptime, where the leave for it had ended by then."""
        return None

    def due(self) -> Mapping[str, bool]:
        """Nodes of which a write waits for leave that only the controller can give, and whether it could hit work."""
        return {}

    def confirm(self) -> Mapping[str, str]:
        """Called once after a long wait, before what it found is told or recorded: :meth:`lost`, asked for anew."""
        return self.lost()


@dataclass
class Event:
    """One line of the ledger, not yet written.

    kind: intent, outcome, evidence, verdict, state, measure or note. name: what of that kind, for instance
    ``redfish_power`` or ``drained``. node: the name of the node it belongs to, empty for the task's own host.
    """

    kind: str
    name: str
    data: dict[str, Any] = field(default_factory=dict)
    node: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "node": self.node, "data": self.data}


@dataclass
class Result:
    """What a verb found and did.

    before, after: the state in the port's own terms, small and free of secrets; ``changed`` follows from them
    unless the verb says otherwise. data: further keys of the module's result.
    """

    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    changed: bool | None = None
    data: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def as_dict(self, ctx: Context) -> dict[str, Any]:
        changed = self.before != self.after if self.changed is None else self.changed
        result: dict[str, Any] = {
            "changed": changed,
            "before": self.before,
            "after": self.after,
            "asked": list(ctx.asked),
            "events": [event.as_dict() for event in self.events],
        }
        if ctx.evidence:
            result["evidence"] = ctx.evidence
        if ctx.diff:
            result["diff"] = {"before": self.before, "after": self.after}
        if ctx.warnings:
            result["warnings"] = list(ctx.warnings)
        result.update(self.data)
        return result


@contextmanager
def asked_beside() -> Iterator[None]:
    """Whom a run asks whether it may go on (the ledger, a scheduler) is not the peer whom a verb is about: one that is
    away says nothing of that."""
    try:
        yield
    except Unreachable as exc:
        exc.of_peer = False
        raise


class Context:
    """The verb's view of the run it belongs to.

    :param check_mode: read and predict, send no write.
    :param node: the name a person knows the node by; used in messages.
    :param say: shows a line of progress to a person; silent in a module.
    """

    #: When the first of those was that are allowed now.
    _allowed_at = 0.0

    def __init__(
        self,
        *,
        check_mode: bool = False,
        diff: bool = False,
        node: str = "",
        lifeline: Lifeline | None = None,
        say: Callable[[str], None] | None = None,
        boot_probe: Callable[[], Mapping[str, str] | None] | None = None,
        begun: str = "",
        moment: Callable[[], Mapping[str, Any]] | None = None,
        own_name: Callable[[], str] | None = None,
        peers: Peers | None = None,
        node_file: Callable[[str], str] | None = None,
    ) -> None:
        self.check_mode = check_mode
        self.diff = diff
        self.node = node
        self.lifeline = lifeline or Lifeline()
        self.say = say or (lambda line: None)
        #: reads ``{"boot_id", "cmdline", "uptime"}`` of the node itself over its own connection; None where the
        #: node does not answer; absent (None) where this door has no way to the node.
        self.boot_probe = boot_probe
        #: The transition that this call has ordered, perhaps in an earlier part of it: it is ordered once.
        self.begun = begun
        #: Called right before a look that ends in evidence, which gets what it returns: what happens from there on, the
        #: look may not have seen. Nothing where there is no ledger.
        self.moment = moment or dict
        #: Asks the machine that answers what it calls itself; empty of a silent one. None where there is no way there.
        self.own_name = own_name
        #: What this call has in common with those for other nodes that go on beside it, in this process.
        self.peers = peers
        #: Reads a file on the node over its own connection, and takes it away there; empty where there is none, or the
        #: node does not answer. None where there is no way there.
        self.node_file = node_file
        self.asked: list[str] = []
        #: What a person should know beside the result.
        self.warnings: list[str] = []
        #: By node, what was ordered of its provisioner: told right before the request.
        self.ordered: dict[str, str] = {}
        #: What the ledger gets to know also where the verb fails.
        self.told: list[Event] = []
        self.evidence: str | None = None
        #: The writes that were allowed since the last one was sent.
        self.allowed: list[tuple[str, bool, tuple[str, ...]]] = []

    @asked_beside()
    def may_write(self, what: str, *, destructive: bool = False, nodes: tuple[str, ...] = ()) -> bool:
        """Ask before every single write, and send it only on True.

        False in check mode. On the controller this takes or verifies the node's lease, demands fresh evidence for
        a destructive write (the scheduler is asked again where it is too old), and records the intent, before it says
        True. ``what`` names peer and request, for instance ``POST https://bmc/.../ComputerSystem.Reset
        ResetType=On``; never a secret.
        """
        self.lifeline.refuse_others(nodes)
        if self.check_mode:
            return False
        evidence = self.lifeline.before_write(what, destructive=destructive, nodes=nodes)
        self.evidence = evidence or self.evidence
        self.ordered.update(dict.fromkeys(nodes or (self.node,), self.lifeline.order) if self.lifeline.order else {})
        self.asked.append(what)
        self._allowed_at = self._allowed_at if self.allowed else time.monotonic()
        self.allowed.append((what, destructive, nodes))
        return True

    @asked_beside()
    def asks_again(self) -> None:
        """What was allowed in this turn, right before it is sent, where others have kept that waiting: what permitted
        it may have been taken back since."""
        for what, destructive, nodes in self.allowed:
            found = self.lifeline.before_write(what, nodes=nodes, destructive=destructive)
            self.evidence = found or self.evidence
        self._allowed_at = time.monotonic()

    def is_old(self) -> bool:
        """Has the leave for the next write grown old behind a look that came after it?"""
        return bool(self.allowed) and time.monotonic() - self._allowed_at > OLD_SECONDS

    def renew(self) -> None:
        """Right before what was allowed is sent, where a look came in between."""
        if self.is_old():
            self.asks_again()

    @contextmanager
    def ordering(self, goal: str) -> Iterator[None]:
        """What is written meanwhile orders nodes to this goal, and its intent says so; with an empty one it does not.

        Whose a deployment is rests on the order to deploy alone, and on none of the steps that come before it.
        """
        before, self.lifeline.order = self.lifeline.order, goal
        try:
            yield
        finally:
            self.lifeline.order = before

    def written(
        self,
        what: str,
        send: Callable[[], T],
        taken: Callable[[T], bool],
        *,
        destructive: bool = False,
        nodes: tuple[str, ...] = (),
        timeout: float,
        interval: float,
        wanted: str,
        seen: Callable[[T], str] = str,
        do: str = "",
    ) -> T | None:
        """One write, sent again for as long as its peer does not take it; None where it may not be sent.

        It asks each time as it does the first time: what permitted that one may have been taken back since.
        """
        if not self.may_write(what, destructive=destructive, nodes=nodes):
            return None
        answers: list[T] = []

        def sent() -> T:
            try:
                with asked_beside():
                    again = self.lifeline.before_write(what, destructive=destructive, nodes=nodes) if answers else None
            except FleetError as exc:
                exc.seen = exc.seen or seen(answers[-1])
                raise
            self.evidence = again or self.evidence
            answers.append(send())
            return answers[-1]

        left = max(0.0, timeout - self.lifeline.tried(what))
        return self.wait(sent, taken, timeout=left, interval=interval, wanted=wanted, seen=seen, do=do)

    def wait(
        self,
        read: Callable[[], T],
        done: Callable[[T], bool],
        *,
        timeout: float,
        interval: float | Callable[[], float],
        wanted: str,
        seen: Callable[[T], str] = str,
        do: str = "",
    ) -> T:
        """:func:`wait_until` that also keeps the node's lease and stops with its run."""
        return wait_until(
            read, done, timeout=timeout, interval=interval, wanted=wanted, seen=seen, do=do, beat=self.lifeline.beat
        )
