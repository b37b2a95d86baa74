# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's commands on a login host of the inventory, for a controller that has none. PRIVATE to the collection."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from functools import cached_property

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _there as there
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

SETTING = "gpufleet_scheduler_login_host"
PEER = there.Peer("Slurm", SETTING, slow="check that slurmctld answers: scontrol ping")
_NOT_FOUND = 127
#: A user's own settings would hide jobs and nodes from us there as well.
_SETTLED = (
    r"for v in $(env | sed -n 's/^\(S[A-Z]*_[A-Za-z0-9_]*\)=.*/\1/p'); do"
    ' case $v in {kept}) ;; {hiding}) unset "$v";; esac; done;'
    " export LC_ALL=C SLURM_TIME_FORMAT=standard{conf}; "
)
#: Words of scontrol and sacctmgr that change nothing.
_ASKING = frozenset({"show", "token"})
_WHO = ("sh", "-c", "id -u; id -un")


class There:
    """:param hiding, kept: of the variables of Slurm's commands, the beginnings of those that are taken away, and the
    names of those that stay."""

    def __init__(self, host: str, conf: str, seconds: float, hiding: Sequence[str], kept: Sequence[str]) -> None:
        self.address = f"{host}:{conf}" if conf else host
        self._seconds = seconds
        shown = f" SLURM_CONF={shlex.quote(conf)}" if conf else ""
        self._settles = _SETTLED.format(
            kept="|".join(sorted(kept)), hiding="|".join(f"{one}*" for one in hiding), conf=shown
        )
        # The commands would retry for a minute.
        self._checks = (there.Check(f"[ -r {shlex.quote(conf)} ]", self._no_conf),) if conf else ()
        self._there = there.There(host, self.address, PEER)

    def run(self, program: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """As the command ended by its own word; a shell there reads each of its words as one.

        One that writes is not begun there later than some seconds after it was sent.
        """
        words = [program, *argv]
        checks = self._checks if _asks(program, argv) else (*self._checks, self._there.clock.in_time(self._look))
        done = self._there.run(there.Order(words, self._seconds, settles=self._settles, checks=checks))
        if done.code == _NOT_FOUND:
            raise ConfigError(
                f"the command {program} is not to be found on the login host",
                address=self.address,
                seen=short(done.err),
                do=f"name a host with Slurm's commands in the PATH of its login in {SETTING}",
            )
        return subprocess.CompletedProcess([program], done.code, done.out, done.err)

    def _look(self) -> None:
        asked = time.monotonic()
        told = self._there.run(there.Order(["date", "+%s"], there.WAY_SECONDS)).out.strip()
        self._there.clock.hear(told, asked)

    def _no_conf(self, _printed: str) -> ConfigError:
        return ConfigError(
            "there is no such slurm.conf on the login host, or none that its user may read",
            address=self.address,
            do="set gpufleet_scheduler_conf to the cluster's slurm.conf there",
        )

    @cached_property
    def identity(self) -> tuple[int, str]:
        """Number and name of the user that the commands run as."""
        told = self.run(*_WHO).stdout.split()
        if len(told) != 2 or not told[0].isdigit():
            raise BadAnswer("the login host tells no user", address=self.address, seen=short(" ".join(told)))
        return int(told[0]), told[1]


def _asks(program: str, argv: Sequence[str]) -> bool:
    """Does it change nothing? Whatever is not known to ask alone is a write."""
    if program in ("scontrol", "sacctmgr"):
        return not _ASKING.isdisjoint(argv)
    return program == "squeue" or (program, *argv) == _WHO
