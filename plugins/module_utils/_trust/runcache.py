# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run has verified already, so that an image is hashed once a batch and not once a host.

PRIVATE to the collection. An entry is a file below a folder that this user alone may read, named after the run's
process; another run never looks there. Whoever comes second waits for the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import canonical

_OLD_SECONDS = 86400.0


class RunCache:
    """The cache of one run; with an empty name there is none, and everything is done anew.

    :param run: tells this run's main process from every other one, also from later ones of the same job number.
    """

    def __init__(self, run: str) -> None:
        self._folder = _own_folder(run) if run else None

    def get(self, key: Any, find: Callable[[], Any], *, good: Callable[[Any], bool] = lambda value: True) -> Any:
        """The JSON value under a key, found now if this run has not found it yet. A failure is not remembered.

        :param good: whether what this run has found will do here.
        """
        if self._folder is None:
            return find()
        name = hashlib.sha256(canonical(key)).hexdigest()[:32]
        path = self._folder / f"{name}.json"
        with _locked(self._folder / f"{name}.lock"):
            try:
                known = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                known = None
            if known is not None and good(known):
                return known
            value = find()
            private.write(str(path), json.dumps(value))
            return value


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with private.open_lock(str(path)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _own_folder(run: str) -> Path:
    base = Path(tempfile.gettempdir()) / f"gpufleet-trust-{os.getuid()}"
    for folder in (base, base / hashlib.sha256(run.encode()).hexdigest()[:24]):
        folder.mkdir(mode=0o700, exist_ok=True)
        told = folder.lstat()
        if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.getuid() or told.st_mode & 0o077:
            raise ConfigError(
                "the folder for what this run has verified may be written by somebody else",
                seen=str(folder),
                do="remove it, or set TMPDIR to a folder of your own",
            )
    _forget(base, keep=folder)
    return folder


def _forget(base: Path, keep: Path) -> None:
    """Remove what runs of earlier days left."""
    for other in base.iterdir():
        try:
            if other != keep and time.time() - other.stat().st_mtime > _OLD_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            continue  # another run removes it at the same moment
