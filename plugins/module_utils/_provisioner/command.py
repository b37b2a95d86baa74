# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of a provisioner on this machine, for drivers that have nothing better to ask. PRIVATE to the collection.

Every command of a driver is run here: one that still writes after its worker was killed keeps the turn.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver

#: A command of a provisioner that is at work takes seconds.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Answer:
    """What a command said. Its exit status is its own word, and may lie like any other."""

    code: int
    out: str
    err: str


def run(
    driver: Driver, argv: Sequence[str], *, timeout: float = TIMEOUT, env: Mapping[str, str] | None = None
) -> Answer:
    """Run one command to its end.

    It has the lock of our turn open as well: when this worker is killed, nobody else writes before the command and
    all that it has begun have ended. To kill it with its worker would leave half a write behind, and what it had
    begun elsewhere would go on.

    :raises Unreachable: where it does not start, or does not end; then nobody knows what it has done.
    """
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # both doors of a verb come here
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
            pass_fds=driver.kept_open,
        )
    except OSError as exc:
        raise Unreachable(f"the command does not start: {exc}", address=driver.address) from exc
    except subprocess.TimeoutExpired as exc:
        raise Unreachable(
            "the command does not end",
            address=driver.address,
            wanted=f"an answer within {timeout:g} s",
            do="look whether the provisioner is at work on this machine",
        ) from exc
    return Answer(done.returncode, done.stdout, done.stderr.strip())
