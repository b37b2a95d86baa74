# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time, for provisioners that lose one of two writes that come at once. PRIVATE to the collection."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._locks import locked, own_folder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import login_host
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import copied
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Turn, asked_beside

#: A writer that others keep waiting for longer than this says so; one write of a slow provisioner takes seconds.
TIMEOUT = 600.0
INTERVAL = 0.1
#: On a login host, which each look goes to.
INTERVAL_THERE = 1.0

#: So often one that waits behind others of its own task looks whether its run is still there.
_BEAT_SECONDS = 1.0

#: Locks of turns that were given up, by the commands that went on and may have closed their own hold on them.
_FREEING = threading.Lock()
_KEPT: list[tuple[IO[str], tuple[subprocess.Popen[str], ...]]] = []


class NoTurn(Unreachable):
    """Others wrote all the time. Nothing was sent; it may be asked again. The provisioner is not away for that."""

    of_peer = False


class _Place:
    refused: NoTurn | None = None


class Queue:
    """The hosts of one task that wait for the same turn, in the order in which they came: one of them tries for it.

    Where that one waited in vain, so did those behind it: each by itself would wait as long once more.
    """

    def __init__(self) -> None:
        self._moves = threading.Condition()
        self._waiting: deque[_Place] = deque()

    @contextmanager
    def place(self, beat: Callable[[], None]) -> Iterator[None]:
        """:raises NoTurn: of the one before it, which those behind have as well."""
        mine = _Place()
        with self._moves:
            self._waiting.append(mine)
        try:
            while not self._is_first(mine):
                beat()
            if mine.refused is not None:
                raise copied(mine.refused)
            yield
        except NoTurn as exc:
            if mine.refused is None:  # else it has not tried, and those behind it may have come since
                self._refuse_all(exc)
            raise
        finally:
            with self._moves:
                self._waiting.remove(mine)
                self._moves.notify_all()

    def _refuse_all(self, why: NoTurn) -> None:
        with self._moves:
            for one in self._waiting:
                one.refused = why

    def _is_first(self, mine: _Place) -> bool:
        """Or there is nothing to wait for any more."""
        with self._moves:
            return self._moves.wait_for(lambda: mine.refused is not None or self._waiting[0] is mine, _BEAT_SECONDS)


def turn(driver: Driver, ctx: Context, hosts: Sequence[str] = ()) -> AbstractContextManager[bool]:
    """Where the provisioner loses one of two writes that come at once, wait until nobody else writes.

    Between the controllers of one ledger the turn is a lease there, by driver and address. Below it lies a lock, which
    is a file of this user on this machine: a module that is called by itself has no ledger, and takes this alone. The
    kernel frees the lock when its holder has died and with it every command that it had begun in its turn
    (:func:`~.command.run`). A command that does not end in its time was the last of its turn, and the next turn comes
    when it has gone. On a login host each command has a lock of the same name beside it, so that the next turn's first
    command waits for what a killed worker left there. Neither holds against controllers of another ledger, or people
    who type the provisioner's own commands: a driver that is ``serial`` therefore reads back what it wrote as well.
    Hosts that one task serves queue for it, so that however many they are each comes to its turn.

    :param hosts: whose leases are taken before the wait, so that no other run works on these nodes meanwhile.
    :return: had it to be waited for? A person may have changed a node meanwhile: judge it again before the write.
    """
    if not driver.serial or ctx.check_mode:
        return nullcontext(False)
    return _its_turn(driver, ctx, hosts)


@contextmanager
def _its_turn(driver: Driver, ctx: Context, hosts: Sequence[str]) -> Iterator[bool]:
    with asked_beside():
        ctx.lifeline.hold(hosts)
    with _queued(driver, ctx), _taken(driver, ctx):
        yield True


def _queued(driver: Driver, ctx: Context) -> AbstractContextManager[None]:
    if ctx.peers is None:
        return nullcontext()
    return ctx.peers.one(("turn", _key(driver)), Queue).place(ctx.lifeline.beat)


@contextmanager
def _taken(driver: Driver, ctx: Context) -> Iterator[None]:
    lock = private.open_lock(str(_lock_path(driver)))
    try:
        with ctx.lifeline.turn(_key(driver)) as among_all:
            _wait_for(lock, among_all, driver, ctx)
            driver.kept_open = (lock.fileno(),)
            ctx.allowed.clear()
            try:
                yield
            finally:
                for command in driver.unended:
                    among_all.outlived(command.pid)
                if driver.unheard:
                    among_all.unheard()
    finally:
        with _FREEING:
            _KEPT.append((lock, driver.unended))
        driver.kept_open, driver.unended, driver.unheard = (), (), False
        _free_ended()


@contextmanager
def alone(driver: Driver, ctx: Context, what: str, *, timeout: float) -> Iterator[None]:
    """No other run of this user on this machine works at this thing of the provisioner's meanwhile; it may take hours.

    It is no turn: what concerns nodes goes on beside it.
    """
    if ctx.check_mode:
        yield
        return
    lock = private.open_lock(str(_lock_path(driver, what)))
    try:
        ctx.wait(
            lambda: locked(lock),
            bool,
            timeout=timeout,
            interval=1.0,
            wanted=f"nobody else of this machine at work on {what} at {driver.name}",
            do="look for a run that hangs, or give a longer timeout",
        )
        yield
    finally:
        lock.close()


def _free_ended() -> None:
    """Close the locks of those whose commands have ended; what these have begun and left keeps its own hold on them.

    To close is not to unlock: the next turn opens the file anew, and the kernel lets it wait for all that have it.
    """
    with _FREEING:  # hosts that one task serves are threads
        for kept in list(_KEPT):
            lock, commands = kept
            if all(command.poll() is not None for command in commands):
                _KEPT.remove(kept)
                lock.close()


def _whose(lock: IO[str], among_all: Turn) -> str:
    """Who has the turn, in words; empty where it is ours. Whoever waits for the ledger keeps no lock from others."""
    _free_ended()
    return among_all.taken() or ("" if locked(lock) else "another process of this user on this machine")


def _wait_for(lock: IO[str], among_all: Turn, driver: Driver, ctx: Context) -> None:
    """:raises NoTurn: and no :class:`DeadlineExceeded`, which a batch would take for the end of its own time."""
    try:
        ctx.wait(
            lambda: _whose(lock, among_all),
            lambda whose: not whose,
            timeout=TIMEOUT,
            interval=INTERVAL,
            wanted=f"the turn to write to {driver.name}",
        )
    except DeadlineExceeded as exc:
        raise NoTurn(
            f"others keep {driver.name} to themselves",
            address=driver.address,
            wanted="the turn to write",
            seen=f"no turn within {TIMEOUT:g} s: {exc.seen}",
            do="look for a run that hangs; it keeps the others from writing",
        ) from exc


def lock_name(provisioner: str, address: str, what: str = "") -> str:
    return f"{_digest(provisioner, address, what)}.lock"


def _digest(provisioner: str, address: str, what: str) -> str:
    """An address may hold what is not to be read elsewhere."""
    return hashlib.sha256(f"{provisioner} {address} {what}".rstrip().encode()).hexdigest()[:24]


def _key(driver: Driver) -> str:
    return f"{driver.name} {_digest(driver.name, driver.address, '')}"


def _lock_path(driver: Driver, what: str = "") -> Path:
    return _lock_folder() / lock_name(driver.name, driver.address, what)


def _lock_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"{login_host.FOLDER}-{os.getuid()}"
    elsewhere = "set TMPDIR to a folder of your own"
    own_folder(str(folder), "locks", denied=elsewhere, foreign=f"remove {folder}, or {elsewhere}")
    return folder
