# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's commands on a login host of the inventory, for a controller that has none. PRIVATE to the collection.

What the connection says of how a command ended is not believed. What the command printed, what it said on standard
error and how it ended come in one frame, whose marks nobody over there can have known; without its end it is no answer.
"""

from __future__ import annotations

import re
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from functools import cached_property

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import ways

SETTING = "gpufleet_scheduler_login_host"
#: Nobody's table of nodes is longer; what goes on without an end is cut there, and is no answer.
_MOST = 64 * 1024 * 1024
_MOST_SAID = 65_536
#: For the way there and back, beside the command itself.
_WAY_SECONDS = 30.0
_NOT_FOUND, _TOO_SLOW = 127, (124, 137)
#: A user's own settings would hide jobs and nodes from us there as well.
_SETTLED = (
    r"for v in $(env | sed -n 's/^\(S[A-Z]*_[A-Za-z0-9_]*\)=.*/\1/p'); do"
    ' case $v in {kept}) ;; {hiding}) unset "$v";; esac; done;'
    " export LC_ALL=C SLURM_TIME_FORMAT=standard{conf}; "
)
#: In one line: not every login shell takes more.
_FRAME = (
    "{{ echo {mark}-out;"
    ' e=$({{ {check}timeout -k 5 {seconds:.0f} {command} </dev/null 2>&1 >&3 3>&-; echo "{mark}-code $?"; }}'
    " | tail -c {said});"
    r""" printf '\n%s\n%s\n' {mark}-err "$e"; }} 3>&1 | head -c {most}"""
)


class There:
    """:param hiding, kept: of the variables of Slurm's commands, the beginnings of those that are taken away, and the
    names of those that stay."""

    def __init__(self, host: str, conf: str, seconds: float, hiding: Sequence[str], kept: Sequence[str]) -> None:
        self.host, self._conf, self._seconds = host, conf, seconds
        self.address = f"{host}:{conf}" if conf else host
        shown = f" SLURM_CONF={shlex.quote(conf)}" if conf else ""
        self._settled = _SETTLED.format(
            kept="|".join(sorted(kept)), hiding="|".join(f"{one}*" for one in hiding), conf=shown
        )
        self._ask: ways.Ask | None = None

    def run(self, program: str, *argv: str) -> subprocess.CompletedProcess[str]:
        """As the command ended by its own word; a shell there reads each of its words as one."""
        mark = f"gpufleet-{secrets.token_hex(12)}"
        # The commands would retry for a minute.
        check = f"[ -r {shlex.quote(self._conf)} ] || {{ echo {mark}-no-conf; exit; }}; " if self._conf else ""
        line = self._settled + _FRAME.format(
            mark=mark,
            check=check,
            seconds=self._seconds,
            command=" ".join(map(shlex.quote, [program, *argv])),
            said=_MOST_SAID,
            most=_MOST,
        )
        if self._ask is None:
            self._ask = ways.to(self.host, self._seconds + _WAY_SECONDS, SETTING)
        told, problem = self._ask(line)
        return self._read(program, told, problem, mark)

    def _read(self, program: str, told: str, problem: str, mark: str) -> subprocess.CompletedProcess[str]:
        out, _sep, err = told.partition(f"{mark}-out\n")[2].rpartition(f"\n{mark}-err\n")
        if f"{mark}-no-conf" in err:
            raise ConfigError(
                "there is no such slurm.conf on the login host, or none that its user may read",
                address=self.address,
                do="set gpufleet_scheduler_conf to the cluster's slurm.conf there",
            )
        ended = re.search(rf"^{mark}-code (\d+)\n?\Z", err, re.MULTILINE)
        if not ended:
            raise self._unended(program, told, problem, begun=f"{mark}-out" in told)
        return self._judged(program, int(ended[1]), out, err[: ended.start()])

    def _judged(self, program: str, code: int, out: str, err: str) -> subprocess.CompletedProcess[str]:
        if code == _NOT_FOUND:
            raise ConfigError(
                f"the command {program} is not to be found on the login host",
                address=self.address,
                seen=short(err),
                do=f"name a host with Slurm's commands in the PATH of its login in {SETTING}",
            )
        if code in _TOO_SLOW:
            raise Unreachable(
                f"{program} did not end within {self._seconds:g} s",
                address=self.address,
                do="check that slurmctld answers: scontrol ping",
                details={"slow": self._seconds},
            )
        return subprocess.CompletedProcess([program], code, out, err)

    def _unended(self, program: str, told: str, problem: str, *, begun: bool) -> Exception:
        if problem or not begun:
            return Unreachable(
                "the login host that Slurm is asked on cannot be reached",
                address=self.address,
                wanted=f"an answer of {program} there",
                seen=short(problem or told) or "nothing",
                do="look at the way to that host (its address, the key, ansible_user), or name another one in"
                f" {SETTING}",
            )
        return BadAnswer(
            f"the answer of {program} on the login host has no end",
            address=self.address,
            seen=f"{len(told)} characters",
            do="run again; what the command has done is read back then",
        )

    @cached_property
    def identity(self) -> tuple[int, str]:
        """Number and name of the user that the commands run as."""
        told = self.run("sh", "-c", "id -u; id -un").stdout.split()
        if len(told) != 2 or not told[0].isdigit():
            raise BadAnswer("the login host tells no user", address=self.address, seen=short(" ".join(told)))
        return int(told[0]), told[1]
