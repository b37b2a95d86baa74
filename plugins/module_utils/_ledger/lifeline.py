# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ties a verb in the controller's worker to its run and to the ledger. PRIVATE to the collection.

The first write of a verb takes the node's lease, checks the permit that the write needs (permit.py), and records the
intent, all in one transaction: refused, it leaves neither. A task that finds nothing to do never gets that far. Later
writes and every turn of a wait check that the run's main process still lives and that the lease is still ours.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    EvidenceOld,
    Fenced,
    FleetError,
    LeaseHeld,
    LeaseLost,
    Unreachable,
    unexpected,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease as leases
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.permit import Permits
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.turns import TakesTurns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, asked_beside
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import kept_alive, wait_until

#: A lease that was looked at this short ago is not looked at again.
_FRESH_SECONDS = 5.0
#: A wait renews its leases when this much of their life is gone.
_RENEW_SECONDS = 15.0
#: Whoever waits is told when the leases were not renewed for so long; they end a third of that later.
_OVERDUE_SECONDS = 40.0
#: So many leases are taken in one transaction.
_AT_ONCE = 500
#: So often is a proof renewed that is too old again when it comes to the write.
_RENEWALS = 3
#: So long a ledger that is away is asked for, when a wait is over and its leases must be confirmed.
_CONFIRM_SECONDS = 30.0

Prove = Callable[[Sequence[str], str, float], Mapping[str, FleetError]]


def _nobody_asks(names: Sequence[str], kind: str, from_age: float) -> dict[str, FleetError]:
    return {name: ConfigError(f"nobody here asks for {kind}") for name in names}


class LedgerLifeline(TakesTurns):
    """The lifeline of one task: its own node, or the nodes of a batch.

    :param open_ledger: opens the ledger at the first need; a task that never writes never opens it.
    :param identify: gives the node id of a name.
    :param parent: the pid that must be this process's parent to the end; the present one without it.
    :param permits: as of :class:`Permits`.
    :param say: shows a line to a person.
    :param prove: asks the scheduler again for these nodes, or for a maintenance their provisioner, and writes what it
        says; why not, for each that could not be asked for. Without it no proof is ever renewed.
    :param refuse: raises where this node is somebody's for whom the run does not work.
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
        parent: int = 0,
        batch: bool = False,
        say: Callable[[str], None] = lambda line: None,
        prove: Prove | None = None,
        refuse: Callable[[str], None] = lambda name: None,
        **permits: Any,
    ) -> None:
        self._open, self._holder = open_ledger, holder
        self._verb, self._intent = verb, dict(intent)
        self._identify, self._default, self._secrets = identify, default_node, secrets
        self._permits = Permits(open_ledger, verb=verb, force_reason=force_reason, **permits)
        self._prove, self._refuse = prove or _nobody_asks, refuse
        self._batch, self._say, self._warned = batch, say, False
        self._leases: dict[str, leases.Lease] = {}
        self._lost: dict[str, FleetError] = {}
        #: Two threads renew the leases of a batch. Does one renew them now?
        self._lock, self._beside = threading.Lock(), False
        #: Why nothing may be written any more, where all nodes share one fate.
        self._over: Fenced | None = None
        self._intended: set[tuple[str, str]] = set()
        self._checked, self._parent = 0.0, parent or os.getppid()
        self._of_a_lease = LeaseLost if batch else Fenced

    def notes(self, **more: Any) -> None:
        """What the intent also tells, known since the task was prepared."""
        self._intent.update(more)

    def refuse_others(self, nodes: Sequence[str]) -> None:
        for name in nodes or (self._default,):
            self._refuse(name)

    def before_write(
        self, what: str, *, destructive: bool, nodes: tuple[str, ...] = (), lasts: float = 0.0
    ) -> str | None:
        """:param lasts: so many seconds after this the write may still come; what permits it must be young enough."""
        self.parent_lives()
        self.refuse_others(nodes)
        names = nodes or (self._default,)
        for renewals_left in reversed(range(_RENEWALS + 1)):
            try:
                return self._allowed(names, what, destructive=destructive, lasts=lasts)
            except EvidenceOld as exc:
                if not renewals_left:
                    raise
                self._prove_anew(exc)
        raise AssertionError("the last turn returns or raises")

    @asked_beside()
    def still(self, nodes: Sequence[str] = ()) -> None:
        self.parent_lives()
        super().still(nodes)
        names = nodes or (self._default,)
        self._still_ours(names)
        if all(name in self._leases for name in names) and time.monotonic() - self._checked > _FRESH_SECONDS:
            self._renew(self._open())
            self._still_ours(names)

    def _allowed(self, names: Sequence[str], what: str, *, destructive: bool, lasts: float) -> str | None:
        self.still(names)
        if all((name, self.order) in self._intended for name in names):
            self._permitted(names, what, destructive=destructive, lasts=lasts)
        else:
            self._announced(names, what, destructive=destructive, lasts=lasts)
        self._still_ours(names)  # a ledger may have kept us waiting
        return self._permits.told(names[0])

    def _prove_anew(self, old: EvidenceOld) -> None:
        """Outside of any transaction: whoever is asked may take a while.

        :raises EvidenceMissing: where that is not possible. :raises Unreachable: where it may be later.
        """
        failed = self._prove(old.nodes, old.kind_of_event, old.from_age)
        silent = [name for name in old.nodes if isinstance(failed.get(name), Unreachable)]
        for name in (name for name in old.nodes if name in failed):
            if name in silent:
                failed[name].details["nodes"] = silent  # the others may be asked for, and written to
                raise failed[name].located(node=name)
            old.node = name
            old.seen = f"{old.seen}, and cannot be renewed: {failed[name]}"
            raise old from failed[name]

    def _permitted(self, names: Sequence[str], what: str, *, destructive: bool, lasts: float) -> None:
        """A further write to nodes whose intent is recorded; a permit that stands costs no transaction."""
        permit = self._permits.demand(self._ids(names), what, destructive=destructive, lasts=lasts)
        if permit.notes:
            self._open().append(self._holder.run_id, permit.notes, secrets=self._secrets)
        self._permits.keep(permit)

    def _announced(self, names: Sequence[str], what: str, *, destructive: bool, lasts: float) -> None:
        """Leases, permit and intents of a write together: what is refused for one of its nodes is recorded of none."""
        ledger = self._open()
        new = {name: self._identify(name) for name in names if name not in self._leases}
        ids = {**new, **self._ids([name for name in names if name not in new])}
        began = time.monotonic()
        with ledger.transaction() as conn:
            taken = self._taken(conn, ledger, new)
            permit = self._permits.demand(ids, what, destructive=destructive, lasts=lasts)
            # Some of their leases may have been taken before a wait, without a write in sight.
            orders = {"orders": self.order} if self.order else {}
            intent = Event("intent", self._verb, {**self._intent, "write": what, **orders})
            # An intent tells of one order, or of none.
            new_to = [name for name in names if (name, self.order) not in self._intended]
            told = [*permit.notes, *((ids[name], intent) for name in new_to)]
            ledger.append_in(conn, self._holder.run_id, told, secrets=self._secrets)
        self._hold_taken(taken, began)
        self._permits.keep(permit)
        self._intended.update((name, order) for name in names for order in ("", self.order))

    @asked_beside()
    def beat(self) -> None:
        """With a thread that renews beside it, a wait asks no ledger: one that is away for a moment must not end it."""
        self.parent_lives()
        if self._over is not None:
            raise self._over
        if self._beside:
            self._warn_if_overdue()
            return
        if self._leases and time.monotonic() - self._checked > _RENEW_SECONDS:
            self._renew(self._open())

    def _warn_if_overdue(self) -> None:
        """The thread may hang in a ledger that fell silent. The wait goes on all the same, for it writes nothing, and a
        write asks the ledger itself. But nobody is to take it for a run that keeps its nodes."""
        age = time.monotonic() - self._checked
        overdue = bool(self._leases) and age > _OVERDUE_SECONDS
        if overdue and not self._warned:
            self._say(
                f"the leases of this task were last renewed {age:.0f} s ago: the ledger does not answer, and another"
                " run may soon take the nodes; nothing is written to them before it answers"
            )
        self._warned = overdue

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
            self._take(new)

    def hold_each(self, names: Sequence[str]) -> dict[str, str]:
        """Take the leases of a batch; what was in the way, for each node on which another run works.

        Many at once: of leases that are taken one after the other, the first ones expire before the last ones are
        there. Not all in one transaction: PostgreSQL has no room for a lock on each of them.
        """
        self.parent_lives()
        refused: dict[str, FleetError] = {name: self._lost[name] for name in names if name in self._lost}
        new = [name for name in names if name not in self._leases and name not in refused]
        for start in range(0, len(new), _AT_ONCE):
            self._take(new[start : start + _AT_ONCE], refused)
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

    def cut(self) -> None:
        """From now on this is as of a run that is gone: whatever goes on here stops at its next turn."""
        self._parent = -1

    def parent_lives(self) -> None:
        """:raises Fenced: where the run's main process was killed and this worker is an orphan."""
        if os.getppid() != self._parent or process_start(self._holder.pid) != self._holder.pid_start:
            do = "run again: nothing more is written by this worker"
            raise Fenced("the run that this worker belongs to is gone", node=self._default, do=do)

    def _take(self, names: Sequence[str], refused: dict[str, FleetError] | None = None) -> None:
        """Leases without a write."""
        ledger = self._open()
        ids = {name: self._identify(name) for name in names}
        began = time.monotonic()
        with ledger.transaction() as conn:
            taken = self._taken(conn, ledger, ids, refused)
        self._hold_taken(taken, began)

    def _taken(
        self, conn: Any, ledger: Ledger, ids: Mapping[str, str], refused: dict[str, FleetError] | None = None
    ) -> dict[str, leases.Lease]:
        """:param refused: takes up what stands in the way of a node; without it one such node stops all."""
        taken = {}
        # In one order for every run, or two batches could wait for each other.
        for name, node_id in sorted(ids.items(), key=lambda item: item[1]):
            try:
                taken[name] = leases.take_in(conn, ledger, node_id, self._holder, node=name)
            except (LeaseHeld, Fenced) as exc:  # it has read alone: the transaction is whole
                if refused is None:
                    raise
                refused[name] = exc
        return taken

    def _hold_taken(self, taken: Mapping[str, leases.Lease], began: float) -> None:
        """Only what was committed is held."""
        with self._lock:
            self._leases.update(taken)
            alone = len(self._leases) == len(taken)
        if taken and alone:  # else nobody has looked at the others now
            self._checked = began

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
        return self._of_a_lease(
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
        error, told = self._of_a_lease, "the node's lease could not be renewed, and counts as lost"
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

    def _ids(self, names: Sequence[str]) -> dict[str, str]:
        """By name, the ledger's ids of nodes that we hold; a thread may notice at any time that we do not."""
        with self._lock:
            found = {name: self._leases[name].node_id for name in names if name in self._leases}
        if len(found) < len(set(names)):
            self._still_ours(names)
        return found

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
