# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leases of a run live as long as it does, and end with it. PRIVATE to the collection.

They are taken in workers, each of which ends with its task; the main process alone lives from the first to the last of
them, and does not know the ledger. So it is told, over a pipe that is made before its workers fork: the address of a
ledger can hold a password, and must lie in no file. A thread of the main process renews them from then on, whatever the
run does that takes no lease itself: a command of its user's, a pause, a long module. It ends with the process, and
stands still with it. A run that is killed says nothing, and its leases expire.

Workers are forked all the time, and what a thread holds in that moment is locked in the fork for ever. So nothing is
forked while a beat asks the ledger, and each beat has a connection of its own. Least of all while it has SQLite's file
open: the fork would take that lock for its own, hold none, and the next process that closes the ledger would remove the
journal that it writes to. For a file each fork therefore waits, and the beat never waits long.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import multiprocessing
import os
import threading

from ansible import constants as C
from ansible import context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder, this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import default_url
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import kept_alive

#: So often the leases of a run are renewed, whatever it does.
BEAT_SECONDS = 15.0
#: A file that another process has locked is let go after so long, at each of a beat's few steps: forks wait for it.
_PATIENCE_SECONDS = 0.5
#: And is asked again so soon: among many writers a beat may come in vain, and none of a lease's time is lost by that.
_AGAIN_SECONDS = 1.0
#: A fork waits so long for a database server. A beat that lasts longer waits for that, and holds nothing it needs.
_FORK_SECONDS = 2.0
#: What tells the main process, and where it reads it; made once a process.
_PIPE: list[int] = []
#: More than a pipe holds is never written.
_MOST = 65536
#: The ledgers that the workers of this process have told of.
_URLS: list[str] = []
#: Held while a beat has a file open; the thread that forks may take it twice.
_files = threading.RLock()
#: Held while a beat asks a database server.
_asks = threading.Lock()
#: Whether the thread that forks has that.
_forks = threading.local()
#: Has the newest beat found a file that it could not ask?
_missed = threading.Event()
_beating = contextlib.ExitStack()


def watch() -> None:
    """Called in the main process, before its workers fork."""
    if _PIPE:
        return
    _PIPE.extend(os.pipe())
    for end in _PIPE:
        os.set_blocking(end, False)
    atexit.register(_end, os.getpid())
    # A process that uses our actions without a command line of Ansible's is nobody's run: it has no end to wait for.
    if context.CLIARGS and multiprocessing.parent_process() is None:
        keep(os.getpid())


def keep(main: int) -> None:
    """From now on the leases of this process's run are renewed."""
    os.register_at_fork(before=_before_a_fork, after_in_parent=_after_a_fork, after_in_child=_in_a_fork)
    _beating.enter_context(kept_alive(lambda: beat(main), interval=_until_the_next))


def used(url: str) -> None:
    """Called in a worker that may take leases in this ledger."""
    if not _PIPE:
        return
    digest = hashlib.sha256(url.encode()).hexdigest()[:24]
    # Once a run: a pipe is small, and a run may have many tasks.
    with contextlib.suppress(OSError):
        note = os.path.join(C.DEFAULT_LOCAL_TMP, f"gpufleet-used-{digest}")
        os.close(os.open(note, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.write(_PIPE[1], url.encode() + b"\0")


def beat(main: int) -> None:
    """Renew what this run holds. A ledger that is away is asked again by the next one; a lease that has expired stays
    so: its node may have been somebody else's since."""
    run, missed = this_run(main), False
    for url in _told():
        on_server = (url or default_url()).startswith("postgresql")
        with _asks if on_server else _files:
            missed = not (_renewed(url, run) or on_server) or missed
    (_missed.set if missed else _missed.clear)()


def _renewed(url: str, run: Holder) -> bool:
    """Was it asked? However that ends, it is closed when this returns."""
    try:
        with Ledger(url, create=False, patience=_PATIENCE_SECONDS) as ledger:
            lease.renew_all(ledger, run)
    except Exception:
        return False
    return True


def _until_the_next() -> float:
    return min(BEAT_SECONDS, _AGAIN_SECONDS) if _missed.is_set() else BEAT_SECONDS


def _told() -> list[str]:
    told = b""
    with contextlib.suppress(BlockingIOError):
        told = os.read(_PIPE[0], _MOST)
    _URLS.extend(url.decode() for url in told.split(b"\0")[:-1])
    return list(_URLS)


def _before_a_fork() -> None:
    _forks.waits = have = False
    while not have:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):  # raised from here, it would let the fork pass
            have = _files.acquire()
    _forks.waits = _asks.acquire(timeout=_FORK_SECONDS)


def _after_a_fork() -> None:
    if _forks.waits:
        _asks.release()
    with contextlib.suppress(RuntimeError):  # as often as it was taken
        while True:
            _files.release()


def _in_a_fork() -> None:
    """No beat runs here, whoever has the locks over there."""
    global _asks, _files  # pylint: disable=global-statement
    _asks, _files = threading.Lock(), threading.RLock()


def _end(main: int) -> None:
    """In the main process, at its end. A ledger that is away keeps nobody waiting for long, and the leases expire."""
    if os.getpid() != main:
        return
    with contextlib.suppress(Exception):
        _beating.close()
    for url in _told():
        # Whatever it is, it changes nothing of what the run has done.
        with contextlib.suppress(Exception), Ledger(url, create=False) as ledger:
            lease.end_all(ledger, this_run(main))
