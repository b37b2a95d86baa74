# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ties a verb in the controller's worker to its run and to the ledger. PRIVATE to the collection.

The first write of a verb takes the node's lease, checks the evidence that a destructive write needs, and records
the intent, all in one transaction; a task that finds nothing to do never gets that far. Later writes and every
turn of a wait check that the run's main process still lives and that the lease is still ours.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    Fenced,
    FleetError,
    LeaseHeld,
    LeaseLost,
    NotOurs,
    unexpected,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease as leases
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import PERMITS, Event, Lifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import kept_alive, wait_until

#: A destructive write needs evidence that permits it, not older than this when the task first looked at it.
EVIDENCE_SECONDS = 60.0
#: A lease that was looked at this short ago is not looked at again.
_FRESH_SECONDS = 5.0
#: A wait renews its leases when this much of their life is gone.
_RENEW_SECONDS = 15.0
#: So many leases are taken in one transaction.
_AT_ONCE = 500
#: So long a ledger that is away is asked for, when a wait is over and its leases must be confirmed.
_CONFIRM_SECONDS = 30.0


class LedgerLifeline(Lifeline):
    """The lifeline of one task: its own node, or the nodes of a batch.

    :param open_ledger: opens the ledger at the first need; a task that never writes never opens it.
    :param identify: gives the node id of a name.
    :param parent: the pid that must be this process's parent to the end; the present one without it.
    :param managed_by: the provisioner that owns power and boot of this node, for a verb that goes past it to the BMC:
        such a write needs the provisioner's maintenance under our token.
    :param batch: the nodes of a batch do not share their fate: one whose lease is lost is given up alone.
    """

    def __init__(
        self,
        open_ledger: Callable[[], Ledger],
        holder: Holder,
        *,
        verb: str,
        intent: Mapping[str, Any],
        identify: Callable[[str], str],
        default_node: str,
        force_reason: str = "",
        secrets: frozenset[str] = frozenset(),
        managed_by: str = "",
        parent: int = 0,
        batch: bool = False,
    ) -> None:
        self._open = open_ledger
        self._holder = holder
        self._verb = verb
        self._intent = dict(intent)
        self._identify = identify
        self._default = default_node
        self._force_reason = force_reason
        self._secrets = secrets
        self._managed_by = managed_by
        self._batch = batch
        self._leases: dict[str, leases.Lease] = {}
        self._lost: dict[str, FleetError] = {}
        #: Two threads renew the leases of a batch.
        self._lock = threading.Lock()
        #: Does a thread renew them now?
        self._beside = False
        #: Why nothing may be written any more, where all nodes share one fate.
        self._over: Fenced | None = None
        #: The event that proves it for each node: it was fresh when it was first seen, and its age counts no more.
        self._evidence: dict[str, int] = {}
        self._forced: set[str] = set()
        self._intended: set[str] = set()
        self._maintained: set[str] = set()
        self._checked = 0.0
        self._parent = parent or os.getppid()

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        self.parent_lives()
        names = nodes or (self._default,)
        self._still_ours(names)
        new = [name for name in names if name not in self._leases]
        if new:
            self._first_write(new, what)
        elif time.monotonic() - self._checked > _FRESH_SECONDS:
            self._renew(self._open())
        self._still_ours(names)
        unsaid = [name for name in names if name not in self._intended]
        if unsaid:  # their leases were taken before a wait, without a write in sight
            intents = self._intents([self._leases[name].node_id for name in unsaid], what)
            self._open().append(self._holder.run_id, intents, secrets=self._secrets)
            self._intended.update(unsaid)
        unmaintained = [name for name in names if name not in self._maintained]
        if self._managed_by and unmaintained:
            self._demand_maintenance(unmaintained, what)
            self._maintained.update(unmaintained)
        if destructive:
            self._demand_evidence(names, what)
        if names[0] in self._forced:
            return f"forced:{self._force_reason}"
        return f"event:{self._evidence[names[0]]}" if names[0] in self._evidence else None

    def beat(self) -> None:
        """With a thread that renews beside it, a wait asks no ledger: one that is away for a moment must not end it."""
        self.parent_lives()
        if self._over is not None:
            raise self._over
        if self._beside:
            return
        if self._leases and time.monotonic() - self._checked > _RENEW_SECONDS:
            self._renew(self._open())

    def lost(self) -> Mapping[str, str]:
        with self._lock:
            return {name: str(error) for name, error in self._lost.items()}

    def confirm(self) -> Mapping[str, str]:
        """Renews once more, and waits a little for a ledger that is away: unasked, it confirms nothing."""
        end = time.monotonic() + _CONFIRM_SECONDS

        def renewed() -> bool:
            try:
                self._renew(self._open())
            except (Fenced, LeaseLost):
                raise
            except FleetError:
                if time.monotonic() >= end:
                    raise
                return False
            return True

        if self._leases:
            wait_until(
                renewed, bool, timeout=float("inf"), interval=1.0, wanted="the leases confirmed", beat=self.parent_lives
            )
        return self.lost()

    def hold(self, nodes: Sequence[str]) -> None:
        """Take the leases before a long wait, so that its turns renew them; all of them, or none."""
        self.parent_lives()
        self._still_ours(nodes)
        new = [name for name in nodes if name not in self._leases]
        if new:
            self._first_write(new, "")

    def hold_each(self, names: Sequence[str]) -> dict[str, str]:
        """Take the leases of a batch; what was in the way, for each node on which another run works.

        Many at once: of leases that are taken one after the other, the first ones expire before the last ones are
        there. Not all in one transaction: PostgreSQL has no room for a lock on each of them.
        """
        self.parent_lives()
        refused: dict[str, FleetError] = {name: self._lost[name] for name in names if name in self._lost}
        new = [name for name in names if name not in self._leases and name not in refused]
        for start in range(0, len(new), _AT_ONCE):
            self._first_write(new[start : start + _AT_ONCE], "", refused)
            if time.monotonic() - self._checked > _RENEW_SECONDS:
                self._renew(self._open())
        return {name: str(refused[name].located(node=name)) for name in names if name in refused}

    @contextlib.contextmanager
    def renewing(self, open_another: Callable[[], Ledger]) -> Iterator[None]:
        """Renews the leases from a thread while the body runs, however long one poll of it lasts.

        The thread has connections of its own, each for one turn: the task's is not made for two threads. What ends it
        ends the leases: nobody else renews them, and the body must not go on as if somebody did.
        """

        def beat() -> None:
            self.parent_lives()
            if not self._leases or time.monotonic() - self._checked < _FRESH_SECONDS:
                return
            try:
                with open_another() as ledger:
                    self._renew(ledger)
            except Fenced:
                raise
            except FleetError:
                pass  # a ledger that is away or locked for a moment is asked again; before a write it must answer
            except Exception as exc:  # whatever it is, nothing was renewed
                self._unrenewed(exc)

        if self._beside:  # a thread does it already
            yield
            return
        self._beside = True
        try:
            with kept_alive(beat, interval=_RENEW_SECONDS):
                yield
        finally:
            self._beside = False

    def foresee(self, nodes: tuple[str, ...]) -> None:
        """Take the leases now, and remember the evidence that is fresh: from here on the leases keep others away.

        A node without such evidence is refused when its destructive write comes, and so is one of which the ledger
        was told otherwise by then.
        """
        self.hold(nodes)
        ids = {self._leases[name].node_id: name for name in nodes if name not in self._evidence}
        latest = self._open().latest(list(ids), "evidence") if ids else {}
        for node_id, event in latest.items():
            if not _problem(event):
                self._evidence[ids[node_id]] = event["id"]

    def parent_lives(self) -> None:
        """:raises Fenced: where the run's main process was killed and this worker is an orphan."""
        if os.getppid() != self._parent or process_start(self._holder.pid) != self._holder.pid_start:
            raise Fenced(
                "the run that this worker belongs to is gone",
                node=self._default,
                do="run again: nothing more is written by this worker",
            )

    def _first_write(self, names: Sequence[str], what: str, refused: dict[str, FleetError] | None = None) -> None:
        """:param refused: takes up what stands in the way of a node; without it one such node stops all."""
        ledger = self._open()
        ids = {name: self._identify(name) for name in names}
        began = time.monotonic()
        taken = {}
        with ledger.transaction() as conn:
            # In one order for every run, or two batches could wait for each other.
            for name, node_id in sorted(ids.items(), key=lambda item: item[1]):
                try:
                    taken[name] = leases.take_in(conn, ledger, node_id, self._holder, node=name)
                except (LeaseHeld, Fenced) as exc:  # it has read alone: the transaction is whole
                    if refused is None:
                        raise
                    refused[name] = exc
            if what:
                intents = self._intents(ids.values(), what)
                ledger.append_in(conn, self._holder.run_id, intents, secrets=self._secrets)
        with self._lock:
            self._leases.update(taken)  # only what was committed is held
            alone = len(self._leases) == len(taken)
        if what:
            self._intended.update(names)
        if alone:  # else nobody has looked at the others now
            self._checked = began

    def _intents(self, node_ids: Iterable[str], what: str) -> list[tuple[str, Event]]:
        intent = Event("intent", self._verb, {**self._intent, "write": what})
        return [(node_id, intent) for node_id in node_ids]

    def _renew(self, ledger: Ledger) -> None:
        """:raises Fenced: where a lease is gone; in a batch it is noted, and concerns that node alone."""
        with self._lock:
            held = dict(self._leases)
        began = time.monotonic()
        gone = leases.renew(ledger, list(held.values()), self._holder)
        self._give_up({name: self._gone(name, mine, gone) for name, mine in held.items() if mine.node_id in gone})
        # Last: whoever sees that the leases were looked at sees also which of them are lost.
        self._checked = began

    def _gone(self, name: str, mine: leases.Lease, gone: Mapping[str, str]) -> FleetError:
        return (LeaseLost if self._batch else Fenced)(
            "the node's lease is no longer ours: another run works on it",
            node=name,
            wanted=f"lease number {mine.fencing} of {mine.run_id}",
            seen=gone[mine.node_id],
            do="run again: the new run reads the node's state afresh",
            details={"node_id": mine.node_id},
        )

    def _unrenewed(self, exc: Exception) -> None:
        """Nobody knows any more whose the leases are: all of them count as lost, and it is told why."""
        seen = unexpected(exc).what
        with self._lock:
            held = list(self._leases)
        error = LeaseLost if self._batch else Fenced
        told = "the node's lease could not be renewed, and counts as lost"
        do = "run again; if it comes back, report it: this is a defect of the collection or of the ledger's database"
        self._give_up({name: error(told, node=name, wanted="the lease renewed", seen=seen, do=do) for name in held})

    def _give_up(self, lost: Mapping[str, FleetError]) -> None:
        """:raises Fenced: where the nodes share one fate, for then the task's own end is due."""
        for error in lost.values():
            if isinstance(error, Fenced):
                self._over = error
                raise error
        with self._lock:
            for name, error in lost.items():
                self._lost[name] = error
                self._leases.pop(name, None)

    def _still_ours(self, names: Sequence[str]) -> None:
        """:raises LeaseLost: naming the first whose lease was lost.

        :raises Fenced: where all nodes share one fate, and a lease is lost.
        """
        if self._over is not None:
            raise self._over
        with self._lock:
            lost = [self._lost[name] for name in names if name in self._lost]
        if lost:
            raise lost[0]

    def _demand_evidence(self, names: Sequence[str], what: str) -> None:
        """Asked for anew at each write: what proved it before may have been taken back since."""
        ledger = self._open()
        ids = {self._leases[name].node_id: name for name in names if name not in self._forced}
        latest = ledger.latest(list(ids), "evidence") if ids else {}
        for node_id, name in ids.items():
            event = latest.get(node_id)
            problem = _problem(event)
            if event is not None and not problem:
                self._evidence[name] = event["id"]
            elif self._stands(name, event):
                continue
            elif self._force_reason:
                note = Event("note", "forced", {"verb": self._verb, "write": what, "reason": self._force_reason})
                ledger.append(self._holder.run_id, [(node_id, note)], secrets=self._secrets)
                self._forced.add(name)
            else:
                raise _evidence_missing(name, what, problem)

    def _stands(self, name: str, latest: Mapping[str, Any] | None) -> bool:
        """Does what this task saw fresh still hold? Nothing that came after it may say otherwise."""
        first = self._evidence.get(name)
        if first is None or latest is None:
            return False
        if latest["id"] == first:
            return True
        later = self._open().history(latest["node_id"], since=first, kinds=("evidence",))
        return all(event["name"] in PERMITS for event in later)

    def _demand_maintenance(self, names: Sequence[str], what: str) -> None:
        """Provisioners revert outside power changes (Ironic within its sync interval), and boot what they like."""
        ids = {self._leases[name].node_id: name for name in names}
        latest = self._open().latest(list(ids), "maintenance")
        for node_id, name in ids.items():
            event = latest.get(node_id)
            if event is not None and event["name"] == "held":
                continue
            if self._force_reason:
                note = Event("note", "forced", {"verb": self._verb, "write": what, "reason": self._force_reason})
                self._open().append(self._holder.run_id, [(node_id, note)], secrets=self._secrets)
                continue
            raise NotOurs(
                f"refused: power and boot of this node belong to its provisioner ({self._managed_by})",
                node=name,
                wanted=f"the node in maintenance under our token, before: {what}",
                seen="the ledger has no maintenance of ours for this node",
                do="let the provisioner do it (provisioner_node), or set its maintenance first (provisioner_node"
                " with state maintenance), or give force_reason, which is recorded",
            )


def _problem(event: Mapping[str, Any] | None) -> str:
    """Why this event, the newest of its kind, permits no destructive write by itself; empty where it does."""
    if event is None:
        return "the ledger has no such event for this node"
    if event["name"] not in PERMITS:
        return f"the newest event of this kind says {event['name']}{_whose(event['data'])}"
    age = time.time() - event["at"]
    if age > EVIDENCE_SECONDS or age < -EVIDENCE_SECONDS:
        return f"event {event['id']} ({event['name']}) is {age:.0f} s old"
    return ""


def _whose(data: Mapping[str, Any]) -> str:
    """Who stands in the way, as the scheduler told it."""
    jobs, reason = data.get("jobs"), data.get("reason")
    return (f", jobs {jobs}" if jobs else "") + (f", reason {reason!r}" if reason else "")


def _evidence_missing(node: str, what: str, problem: str) -> FleetError:
    return EvidenceMissing(
        "refused: this may hit running work",
        node=node,
        wanted=f"proof, at most {EVIDENCE_SECONDS:.0f} s old, that the node is drained or unknown to its scheduler,"
        f" before: {what}",
        seen=problem,
        do="run scheduler_wait (until drained) for this node right before this task,"
        " or give force_reason, which is recorded",
    )
