# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns: one process of all controllers writes to a peer that loses one of two writes that come at once. PRIVATE.

A turn is a lease of the peer instead of a node. It names the worker that writes, lives as long as a lease, is renewed
from a thread, and is taken over at once where its worker ran on this host and is provably dead, else when it has
expired. Each grant has a number of its own, so that who slept through somebody else's turn notices before the next
write.

Threads of one worker have one turn after the other. Where they serve one task (:func:`together`) the ledger is asked
once for all, and a worker that others wait for gives it away between two of them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease as leases
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Lifeline, Turn, asked_beside
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import kept_alive

with contextlib.suppress(ImportError):  # Ledger itself says what is missing before anything here runs
    import sqlalchemy as sa

#: One that was looked at this short ago is not looked at again.
_FRESH_SECONDS = 5.0
#: It is renewed when this much of its life is gone, for which a thread looks so often.
_RENEW_SECONDS, _BEAT_SECONDS = 15.0, 5.0
#: A command that outlived its turn keeps other controllers waiting for so long: nobody there sees it end.
_OUTLIVED_SECONDS = 300.0
#: When a process began that is gone: none begins then.
_GONE = -1
#: So often whoever waits looks: dozens may, each by a statement of his own.
_LOOK_SECONDS = 0.3
#: So often whoever waits says that he does, and so long it counts.
_ASK_SECONDS, _ASKED_SECONDS = 1.0, 3.0
#: A task for all hosts gives it away after so long, where somebody else waits, and is then the last to ask for so long.
_OURS_SECONDS, _THEIRS_SECONDS = 5.0, 1.0


class _Peer:
    """What the threads of this process have in common at one peer of one ledger."""

    def __init__(self) -> None:
        self.one = threading.Lock()  # who has it may ask the ledger, and write
        self.number, self.since, self.checked = 0, 0.0, 0.0
        self.ledger: Ledger | None = None
        self.theirs_until = self.looked = 0.0

    def forget(self) -> None:
        """It is not ours any more."""
        self.number, self.ledger = 0, None


_LOCK = threading.Lock()
_PEERS: dict[tuple[str, str], _Peer] = {}
#: How many tasks of this process serve all hosts.
_TOGETHER: list[None] = []


class LedgerTurn(Turn):
    """One turn of one thread. ``holder``: this worker, and not its run, which may outlive it."""

    def __init__(self, open_ledger: Callable[[], Ledger], holder: Holder, peer: str) -> None:
        self._open, self._holder, self._name = open_ledger, holder, peer
        self._peer: _Peer | None = None
        self._outlived, self._unheard = 0, False
        self._looked, self._whose = 0.0, ""

    @asked_beside()
    def taken(self) -> str:
        if self._peer is not None:
            return ""
        ledger = self._open()
        with _LOCK:
            peer = _PEERS.setdefault((ledger.url, self._name), _Peer())
        if not peer.one.acquire(blocking=False):
            return "another host of this task"
        whose = ""
        try:
            whose = "" if self._rests(ledger, peer) else self._taken(ledger, peer)
            self._peer = None if whose else peer
        finally:
            if self._peer is None:
                peer.one.release()
        return whose

    def _rests(self, ledger: Ledger, peer: _Peer) -> bool:
        """Is it still ours from before?"""
        if peer.number and time.monotonic() - peer.checked > _FRESH_SECONDS:
            self._renew(ledger, peer)
        return bool(peer.number)

    def _taken(self, ledger: Ledger, peer: _Peer) -> str:
        if time.monotonic() < peer.theirs_until:
            return "others, for whom this task has made way"
        began = time.monotonic()
        if self._whose and began - self._looked < _LOOK_SECONDS:
            return self._whose
        number, self._whose = take(ledger, self._name, self._holder)
        self._looked = time.monotonic()
        if not self._whose:
            peer.number, peer.ledger, peer.since, peer.checked = number, ledger, began, began
        return self._whose

    def still(self) -> None:
        """:raises Unreachable: where it was lost: nothing is sent, and it may be asked again."""
        peer = self._peer
        if peer is None:
            return
        if peer.number and time.monotonic() - peer.checked > _FRESH_SECONDS:
            self._renew(self._open(), peer)
        if not peer.number:
            raise Unreachable(
                "the turn to write was lost, and another run may write now: nothing was sent",
                wanted=f"the turn at {self._name}, renewed in time",
                seen="it has expired while this worker, or the ledger, stood still",
                do="run again",
            )

    def beat(self) -> None:
        """From a thread of its own. A ledger that is away for a moment is asked again."""
        peer = self._peer
        if peer is None or not peer.number or time.monotonic() - peer.checked < _RENEW_SECONDS:
            return
        with contextlib.suppress(FleetError), self._open().another() as ledger:
            self._renew(ledger, peer)

    def _renew(self, ledger: Ledger, peer: _Peer) -> None:
        began, number = time.monotonic(), peer.number
        if renew(ledger, self._name, self._holder, number):
            peer.checked = began
        elif peer.number == number:  # else another turn has begun since
            peer.forget()

    def outlived(self, pid: int) -> None:
        self._outlived = pid

    def unheard(self) -> None:
        """On this machine nothing of it goes on: a lock over there keeps the next turn's commands waiting."""
        self._outlived, self._unheard = self._holder.pid, True

    def left(self) -> None:
        """A ledger that is away then hides no error of the write: the turn expires."""
        peer, self._peer = self._peer, None
        if peer is None:
            return
        try:
            with contextlib.suppress(FleetError):
                self._let_go(peer)
        finally:
            peer.one.release()

    def _let_go(self, peer: _Peer) -> None:
        if not peer.number or (_TOGETHER and not self._outlived and not self._makes_way(peer)):
            return
        number = peer.number
        peer.forget()
        if self._outlived:
            outlast(self._open(), self._name, number, self._outlived, here=not self._unheard)
        else:
            end(self._open(), self._name, number)

    def _makes_way(self, peer: _Peer) -> bool:
        now = time.monotonic()
        if now - peer.since < _OURS_SECONDS or now - peer.looked < _ASK_SECONDS:
            return False
        peer.looked = now
        ledger = self._open()
        row = _row(ledger, self._name)
        if row is None or row["asked"] < ledger.now() - _ASKED_SECONDS:
            return False
        peer.theirs_until = now + _THEIRS_SECONDS
        return True


class TakesTurns(Lifeline):
    """The part of a lifeline that takes turns."""

    _open: Callable[[], Ledger]
    _holder: Holder
    _turn: LedgerTurn | None = None

    @contextmanager
    def turn(self, peer: str) -> Iterator[Turn]:
        mine = os.getpid()
        worker = replace(self._holder, pid=mine, pid_start=process_start(mine))
        before, self._turn = self._turn, LedgerTurn(self._open, worker, peer)
        turn = self._turn
        try:
            with kept_alive(turn.beat, interval=_BEAT_SECONDS):
                yield turn
        finally:
            turn.left()
            self._turn = before

    @contextmanager
    def turns_together(self) -> Iterator[None]:
        with together():
            yield

    def still(self, nodes: Sequence[str] = ()) -> None:
        if self._turn is not None:
            self._turn.still()


@contextmanager
def together() -> Iterator[None]:
    """What is written to one peer meanwhile, by any thread of this process, is written in one turn."""
    with _LOCK:
        _TOGETHER.append(None)
    try:
        yield
    finally:
        with _LOCK:
            _TOGETHER.pop()
            over = [] if _TOGETHER else list(_PEERS.items())
        for (_url, name), peer in over:
            _end_resting(name, peer)


def _end_resting(name: str, peer: _Peer) -> None:
    """Unless a thread that was left behind is at work in it: then it ends with that."""
    if not peer.one.acquire(blocking=False):
        return
    try:
        number, before = peer.number, peer.ledger
        peer.forget()
        if number and before is not None:
            with contextlib.suppress(FleetError), before.another() as ledger:
                end(ledger, name, number)
    finally:
        peer.one.release()


# -- rows ----------------------------------------------------------------------------------------------------------


def take(ledger: Ledger, peer: str, holder: Holder) -> tuple[int, str]:
    """The number of the turn that was granted; or whose it is, in words. Who waits only reads, and says so at times."""
    before, now = _row(ledger, peer), ledger.now()
    whose = _held(before, now, holder)
    if whose and before is not None and before["asked"] > now - _ASK_SECONDS:
        return 0, whose
    with ledger.transaction() as conn:
        if ledger.dialect == "postgresql":
            # A row that is not there yet cannot be locked: two would both be the first.
            conn.execute(sa.text("SELECT pg_advisory_xact_lock(20867, hashtext(:peer))"), {"peer": peer})
        now = ledger.now_in(conn)
        found = conn.execute(sa.text("SELECT * FROM turns WHERE peer = :peer"), {"peer": peer}).mappings().first()
        whose = _held(found, now, holder)
        if whose:
            conn.execute(sa.text("UPDATE turns SET asked = :now WHERE peer = :peer"), {"now": now, "peer": peer})
            return 0, whose
        number = int(found["number"]) + 1 if found is not None else 1
        _grant(conn, peer, holder, number, now)
    return number, ""


def renew(ledger: Ledger, peer: str, holder: Holder, number: int) -> bool:
    """Is it still ours? One that has expired is nobody's, whoever had it last."""
    with ledger.transaction() as conn:
        now = ledger.now_in(conn)
        changed = conn.execute(
            sa.text(
                "UPDATE turns SET renewed = :now, expires = :end"
                " WHERE peer = :peer AND run_id = :run AND number = :number AND expires > :now"
            ),
            {"now": now, "end": now + leases.LEASE_SECONDS, "peer": peer, "run": holder.run_id, "number": number},
        )
        return bool(changed.rowcount)


def end(ledger: Ledger, peer: str, number: int) -> None:
    """It is free at once, where it is still the turn of that number."""
    with ledger.transaction() as conn:
        conn.execute(
            sa.text("UPDATE turns SET expires = :now WHERE peer = :peer AND number = :number AND expires > :now"),
            {"now": ledger.now_in(conn), "peer": peer, "number": number},
        )


def outlast(ledger: Ledger, peer: str, number: int, pid: int, *, here: bool = True) -> None:
    """It is that process's from here on. Where it ran, the lock tells when all that it had begun has ended; anywhere
    else nobody sees that, and it is waited for.

    :param here: else that process has begun something on another machine, and is as good as gone on this one.
    """
    told = {"peer": peer, "number": number, "pid": pid, "start": (here and process_start(pid)) or _GONE}
    with ledger.transaction() as conn:
        now = ledger.now_in(conn)
        conn.execute(
            sa.text(
                "UPDATE turns SET pid = :pid, pid_start = :start, expires = :end"
                " WHERE peer = :peer AND number = :number AND expires > :now"
            ),
            {**told, "now": now, "end": now + _OUTLIVED_SECONDS},
        )


def _row(ledger: Ledger, peer: str) -> dict[str, Any] | None:
    found = ledger._rows("SELECT * FROM turns WHERE peer = :peer", {"peer": peer})
    return found[0] if found else None


def _held(row: Mapping[str, Any] | None, now: float, asker: Holder) -> str:
    """Who has it, in words, as far as nobody can see that he is dead."""
    if row is None or not leases.live(row, now, asker):
        return ""
    host = str(row["host"]).partition("#")[0]
    return f"{row['run_id']}, process {row['pid']} on {host}, renewed {max(0.0, now - row['renewed']):.0f} s ago"


def _grant(conn: Any, peer: str, holder: Holder, number: int, now: float) -> None:
    mine = {"peer": peer, "run_id": holder.run_id, "host": holder.host, "pid": holder.pid}
    mine.update(pid_start=holder.pid_start, boot_id=holder.boot_id, number=number)
    mine.update(renewed=now, expires=now + leases.LEASE_SECONDS, asked=0.0)
    columns = ", ".join(mine)
    changes = ", ".join(f"{column} = excluded.{column}" for column in mine if column != "peer")
    values = ", ".join(f":{column}" for column in mine)
    sql = f"INSERT INTO turns ({columns}) VALUES ({values}) ON CONFLICT (peer) DO UPDATE SET {changes}"
    conn.execute(sa.text(sql), mine)
