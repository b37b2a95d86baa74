# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of one run tell each other of a service that is away. PRIVATE to the collection.

They take their turns in processes of their own. So it lies in a folder that this user alone may read, named after the
run's process; another run never looks there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until

T = TypeVar("T")

_OLD_SECONDS = 86400.0
#: Seconds for which a run waits for a service that is away, all its hosts together, and after which it does so again.
#: One that is restarted is back by then.
AWAY_SECONDS, AWAY_AGAIN_SECONDS = 30.0, 300.0
#: Seconds between two times that it is asked.
AWAY_INTERVAL = 1.0
#: One that let a request wait for so long, as one that is frozen does, is for so long not asked by each host in turn.
SLOW_SECONDS, REMEMBERED_SECONDS = 5.0, 60.0
#: Seconds within which no second answer is noted.
_NOTED_SECONDS = 1.0
#: By lock file, whose turn it is in this process: hundreds of threads that wait for it would each have it open.
_TURNS: dict[str, threading.RLock] = {}
_OWN = ("what", "address", "wanted", "seen", "do")


class Away:
    """How long the hosts of one run wait, together, for what is away; with an empty name a host waits alone.

    So it does where nothing can be kept in the folder for temporary files: then a service that answers is not missed.

    :param run: tells this run's main process from every other one, also from later ones of the same job number.
    :param host: who asks; without a name it is this process.
    """

    def __init__(self, run: str, host: str = "") -> None:
        self._run, self._host = run, host or f"process {os.getpid()}"
        #: Names of the services that have answered here: they are asked, whatever another host has met since.
        self._known: set[str] = set()

    @cached_property
    def _notes(self) -> _Notes:
        with suppress(OSError, ConfigError):
            return _Notes(own_folder(self._run) if self._run else None)
        return _Notes(None)

    def heard(
        self,
        url: str,
        ask: Callable[[], T],
        *,
        beat: Callable[[], None] | None = None,
        final: Callable[[], object] = lambda: False,
        remembered: bool = True,
    ) -> T:
        """What the server of a URL answers, asked anew while it is away and the run has patience with it.

        :param beat: called before it is asked anew: raises where the run is gone.
        :param final: whether it is too late to ask anew, as it is after a write.
        :param remembered: whether this host may be told what another one has met; a node that takes work asks itself.
        :raises Unreachable: where it stays away, or has let another host of the run wait in vain just now.
        """
        answers: list[T] = []
        failed: list[float] = []
        if remembered and _name(url) not in self._known:
            self._refuse(url)

        def tried() -> bool:
            begun = time.monotonic()
            try:
                answers.append(ask())
            except Unreachable as exc:
                if not exc.of_peer or exc.details.get("tls") or final():
                    raise  # a certificate does not become trusted by waiting
                waited, now = float(exc.details.get("slow") or 0.0), time.monotonic()
                failed.append(max(now - waited, self._back(_name(url))))
                # What other hosts are answered gives this one no more time.
                if min(self.patience(url, waited), failed[0] + AWAY_SECONDS - now) > 0:
                    return False
                self._remember(url, exc, begun, waited)
                raise
            self._answered(url)
            return True

        def alive() -> None:
            if failed and beat is not None:
                beat()

        wait_until(tried, bool, timeout=float("inf"), interval=AWAY_INTERVAL, wanted="an answer", beat=alive)
        return answers[0]

    def patience(self, url: str, waited: float = 0.0) -> float:
        """The seconds for which the run still waits for the server of a URL: called where it was found away.

        They begin with the first host that finds it so since it last answered. A host alone has its own.

        :param waited: for how long a request to it just now had no answer.
        """
        now, name = time.monotonic(), _name(url)
        with self._notes.turn(name):
            since = self._notes.read(f"{name}.away")
            if since is None or not now - AWAY_AGAIN_SECONDS < since <= now:
                since = max(now - waited, self._back(name))
                if not self._notes.write(f"{name}.away", since):
                    return float("inf")
        return float(since) + AWAY_SECONDS - now

    def once(self, what: str, ask: Callable[[], T], seconds: float) -> T:
        """What a service has answered another host of this run not longer ago than that; else it is asked, once for all
        who wait for it. It must be what JSON can hold.

        :param what: which answer; as :meth:`heard` names a server, and what was asked of it.
        """
        name = hashlib.sha256(what.encode()).hexdigest()[:32]
        with self._notes.turn(name):
            note = self._notes.read(f"{name}.told")
            if note and 0 <= time.monotonic() - note["at"] < seconds:
                told: T = note["told"]
                return told
            began = time.monotonic()
            told = ask()
            self._notes.write(f"{name}.told", {"at": began, "told": told})
            return told

    def _answered(self, url: str) -> None:
        """Nothing that was met before counts any more, also of a request that began before and is still out.

        So it is noted where nothing was met as well: by then nobody may have told of that request.
        """
        name = _name(url)
        self._known.add(name)
        old = [note for note in (f"{name}.away", f"{name}.silent") if self._notes.read(note) is not None]
        if not old and time.monotonic() - self._back(name) < _NOTED_SECONDS:
            return
        with self._notes.turn(name):
            self._notes.write(f"{name}.back", time.monotonic())
            for note in old:
                self._notes.drop(note)

    def _back(self, name: str) -> float:
        """When it last answered, to the second; what another boot of this machine has noted is none."""
        back = self._notes.read(f"{name}.back") or 0.0
        return float(back) if back <= time.monotonic() else 0.0

    def _remember(self, url: str, exc: Unreachable, begun: float, waited: float) -> None:
        name = _name(url)
        if waited < SLOW_SECONDS:
            return
        with self._notes.turn(name):
            if begun > self._back(name):
                told = {one: getattr(exc, one) for one in _OWN}
                heard = (self._notes.read(f"{name}.silent") or {}).get("heard", [])
                note = {"at": time.monotonic(), "told": told, "heard": [*heard, self._host]}
                self._notes.write(f"{name}.silent", note)

    def _refuse(self, url: str) -> None:
        """:raises Unreachable: as another host of this run has met it just now; to each host once."""
        name = _name(url)
        with self._notes.turn(name):
            note = self._notes.read(f"{name}.silent")
            ago = time.monotonic() - note["at"] if note else -1.0
            if not note or not 0 <= ago < REMEMBERED_SECONDS or self._host in note["heard"]:
                return
            note["heard"].append(self._host)
            if not self._notes.write(f"{name}.silent", note):
                return
        told = note["told"]
        told["seen"] = f"{told['seen']} (by another host of this run, {ago:.0f} s ago)".strip()
        raise Unreachable(**told)


class _Notes:
    """What lies in the folder; without one, or where that cannot be used, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        with ExitStack() as held:
            with suppress(OSError):
                if self._folder is not None:
                    held.enter_context(locked(self._folder / f"{name}.lock"))
            yield

    def read(self, note: str) -> Any:
        with suppress(OSError, ValueError):
            return json.loads((self._folder / note).read_text(encoding="utf-8")) if self._folder else None
        return None

    def write(self, note: str, told: Any) -> bool:
        with suppress(OSError):
            if self._folder is not None:
                private.write(str(self._folder / note), json.dumps(told))
                return True
        return False

    def drop(self, note: str) -> None:
        with suppress(OSError):
            if self._folder is not None:
                (self._folder / note).unlink()


def _name(url: str) -> str:
    """Of the file for a server: the same for all that it serves."""
    return hashlib.sha256((urlsplit(url).netloc or url).encode()).hexdigest()[:32]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with _TURNS.setdefault(str(path), threading.RLock()), private.open_lock(str(path)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def own_folder(run: str) -> Path:
    """What the hosts of the run share.

    :raises ConfigError: where somebody else may write there.
    """
    base = Path(tempfile.gettempdir()) / f"gpufleet-trust-{os.getuid()}"
    new = False
    for folder in (base, base / hashlib.sha256(run.encode()).hexdigest()[:24]):
        new = _made(folder)
        told = folder.lstat()
        if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.getuid() or told.st_mode & 0o077:
            raise ConfigError(
                "the folder for what this run has verified may be written by somebody else",
                seen=str(folder),
                do="remove it, or set TMPDIR to a folder of your own",
            )
    if new:  # once a run: a busy controller has hundreds of these, and each task of each host comes by
        _forget(base, keep=folder)
    return folder


def _made(folder: Path) -> bool:
    """Is it by this task that it is there?"""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _forget(base: Path, keep: Path) -> None:
    """Remove what runs of earlier days left."""
    for other in base.iterdir():
        try:
            if other != keep and time.time() - other.stat().st_mtime > _OLD_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue  # another run removes it at the same moment
