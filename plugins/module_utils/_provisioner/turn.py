# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time, for provisioners that lose one of two writes that come at once. PRIVATE to the collection."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    DeadlineExceeded,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: A writer that others keep waiting for longer than this says so; one write of a slow provisioner takes seconds.
TIMEOUT = 600.0
INTERVAL = 0.1


class NoTurn(Unreachable):
    """Others wrote all the time. Nothing was sent; it may be asked again."""


@contextmanager
def turn(driver: Driver, ctx: Context) -> Iterator[None]:
    """Where the provisioner loses one of two writes that come at once, wait until nobody else writes.

    The lock is a file of this user on this machine: it holds between all workers of a run and between all runs of
    this user here, and the kernel frees it when its holder dies. It does not hold against other users, other
    controllers, or people who type the provisioner's own commands: a driver that is ``serial`` therefore reads back
    what it wrote as well.
    """
    if not driver.serial or ctx.check_mode:
        yield
        return
    with open(_lock_path(driver), "w", encoding="ascii") as lock:
        _wait_for(lock, driver, ctx)
        yield


def _wait_for(lock: IO[str], driver: Driver, ctx: Context) -> None:
    """:raises NoTurn: and no :class:`DeadlineExceeded`, which a batch would take for the end of its own time."""
    try:
        ctx.wait(
            lambda: _locked(lock),
            bool,
            timeout=TIMEOUT,
            interval=INTERVAL,
            wanted=f"the turn to write to {driver.name}",
        )
    except DeadlineExceeded as exc:
        raise NoTurn(
            f"others of this controller keep {driver.name} to themselves",
            address=driver.address,
            wanted="the turn to write",
            seen=f"no turn within {TIMEOUT:g} s",
            do="look for a run that hangs; it keeps the others from writing",
        ) from exc


def _lock_path(driver: Driver) -> Path:
    digest = hashlib.sha256(f"{driver.name} {driver.address}".encode()).hexdigest()[:24]
    return _lock_folder() / f"{digest}.lock"


def _lock_folder() -> Path:
    """A folder of this user alone: others must be able neither to take our locks nor to lead us elsewhere."""
    folder = Path(tempfile.gettempdir()) / f"gpufleet-provisioner-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(
            "the folder for locks is not this user's alone",
            seen=f"{folder}, owner {found.st_uid}, mode {stat.S_IMODE(found.st_mode):o}",
            do=f"remove {folder}, or set TMPDIR to a folder of your own",
        )
    return folder


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
