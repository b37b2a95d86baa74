# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leases of a run end with it. PRIVATE to the collection.

They are taken in workers, each of which ends with its task; the main process alone knows when the run is over, and does
not know the ledger. So it is told, over a pipe that is made before its workers fork: the address of a ledger can hold a
password, and must lie in no file. A run that is killed says nothing, and its leases expire.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os

from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: What tells the main process, and where it reads it; made once a process.
_PIPE: list[int] = []
#: More than a pipe holds is never written.
_MOST = 65536


def watch() -> None:
    """Called in the main process, before its workers fork."""
    if _PIPE:
        return
    _PIPE.extend(os.pipe())
    for end in _PIPE:
        os.set_blocking(end, False)
    atexit.register(_end, os.getpid())


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


def _end(main: int) -> None:
    """In the main process, at its end. A ledger that is away keeps nobody waiting for long, and the leases expire."""
    if os.getpid() != main:
        return
    told = b""
    with contextlib.suppress(BlockingIOError):
        told = os.read(_PIPE[0], _MOST)
    for url in told.split(b"\0")[:-1]:
        # Whatever it is, it changes nothing of what the run has done.
        with contextlib.suppress(Exception), Ledger(url.decode(), create=False) as ledger:
            lease.end_all(ledger, this_run(main))
