# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands of a provisioner on a login host of the inventory. PRIVATE to the collection.

A worker that is killed takes its turn on the controller with it, and not the command that it had begun over there. So
each command of a turn has a lock there as well, which the kernel frees when it and all that it has begun have ended:
the next turn begins when that has come. None waits for it over there, where it would write after its worker has gone,
and none begins there later than some seconds after it was sent.
"""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _there as there
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers

OPTION = "provisioner_login_host"
SETTING = f"gpufleet_{OPTION}"
#: As the folder of the turns on this machine is called, so that whoever runs the task over there has the same turn.
FOLDER = "gpufleet-provisioner"
#: Commands of one task that run there at once, beside one of a turn: sshd takes ten over one connection, unless it is
#: told otherwise.
_AT_ONCE = 8
#: How a shell that tells no more ends, by a signal's number above it.
_SIGNALS = 128

_PEER = there.Peer(
    "the provisioner", SETTING, slow="run again: what it has done is read back then; look whether it is at work there"
)
#: Its clock; the folder of its locks, in which nobody else can lay anything once it is so; and what is there first.
#: A folder that others can write to, or a link that they have laid, is none.
_FIND = (
    'date +%s; u=$(id -u); d="${TMPDIR:-/tmp}/$0-$u"; [ -d "$d" ] || mkdir -m 700 "$d" 2>/dev/null;'
    ' echo "$(find "$d" -prune -type d -user "$u" ! -perm /077)";'
    ' for one in "$@"; do [ -f "$one" ] && [ -x "$one" ] && printf "%s" "$one" && exit; done; exit 0'
)
#: Who has a lock open, by number and name: a program that a command has left running has it, too. Words of a command
#: are not shown, which may hold a password.
_WHOSE = (
    "exec 9>&-; find /proc/[0-9]*/fd -lname {lock} 2>/dev/null | head -n 5 |"
    ' while IFS=/ read -r _a _b p _c; do echo "held-by $p $(cat "/proc/$p/comm")"; done'
)
_HELD_BY = re.compile(r"^held-by (\d+) ([\w.:+@/-]*)", re.MULTILINE)


class Busy(Unreachable):
    """Another command has the lock over there; nothing was sent."""

    of_peer = False


@dataclass
class Known:
    """What that host has told of itself, for all that go there from one task."""

    clock: there.Clock | None = None
    #: Where its locks are.
    folder: str = ""
    #: Which of these places is a program; one that is nowhere may be installed meanwhile.
    programs: dict[tuple[str, ...], str] = field(default_factory=dict)
    #: One asks at a time, and those that have waited for it know the answer.
    lock: threading.RLock = field(default_factory=threading.RLock)
    free: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_AT_ONCE))


class LoginHost:
    """:param local: how the driver calls its provisioner on that host itself.
    :param known: what others have heard from there."""

    def __init__(self, host: str, local: str, known: Known | None = None) -> None:
        self.host, self.local = host, local
        self.address = f"{host}:{local}"
        self._there = there.There(host, self.address, _PEER)
        self._known = known or Known()
        with self._known.lock:
            if self._known.clock is None:
                self._known.clock = self._there.clock
            self._there.clock = self._known.clock
        #: May the last command have begun there? Who has the next one to send says no first: it may never be sent.
        self.sent = False
        #: Is the next command to be sent a write that goes by a look of a moment ago?
        self.judged = False
        #: Who was at work there when one last had to wait.
        self.waited: Busy | None = None

    def found(self, places: Sequence[str]) -> str:
        """The first of these that is a program there that its user may run; empty where none is."""
        with self._known.lock:
            key = tuple(places)
            if not self._known.programs.get(key):
                self._known.programs[key] = self._look(places)
            return self._known.programs[key]

    def _look(self, places: Sequence[str]) -> str:
        asked = time.monotonic()
        argv = ["/bin/sh", "-c", _FIND, FOLDER, *places]
        told = self._there.run(there.Order(argv, there.WAY_SECONDS, by_input=True)).out
        now, folder, found = (*told.split("\n"), "", "")[:3]
        self._there.clock.hear(now if found in ("", *places) else told, asked)
        self._known.folder = folder
        return found

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str], stdin: str, turn: str) -> there.Ended:
        """One of a turn waits for none of those that only read: what permitted it would grow old meanwhile.

        :param turn: the name of the lock; empty where it has none.
        :raises Busy: where another one has it.
        """
        with nullcontext() if turn else self._known.free:
            checks = self._checks(turn) if turn else ()
            order = there.Order(argv, timeout, reads=stdin, env=env, checks=checks, by_input=True)
            try:
                done = self._there.run(order)
            finally:
                self.sent = self._there.begun
        code = _SIGNALS - done.code if done.code > _SIGNALS else done.code
        return there.Ended(code, done.out, done.err)

    def _checks(self, turn: str) -> Sequence[there.Check]:
        with self._known.lock:
            in_time = self._there.clock.in_time(lambda: self._look(()))
        if not self._known.folder:
            raise self._not_own()
        lock = shlex.quote(f"{self._known.folder}/{turn}")
        return (
            in_time,
            there.Check("command -v flock >/dev/null", self._no_flock),
            # A shell that cannot open what it is told to by exec ends at once, and says nothing.
            there.Check(f"( : >>{lock} ) 2>/dev/null", self._no_lock),
            there.Check(f"exec 9>>{lock} && {{ flock -n 9 || {{ {_WHOSE.format(lock=lock)}; false; }}; }}", self._busy),
        )

    def _no_lock(self, _printed: str) -> FleetError:
        self._there.clock.forget()
        return ConfigError(
            "nothing was sent: the lock on the login host, by which one command writes at a time, cannot be opened",
            address=self.address,
            wanted=f"a file in {self._known.folder} that its user can write to",
            do="run again if that folder was removed, which makes it anew; else look for a full disk there (df, df -i)",
        )

    def _no_flock(self, _printed: str) -> FleetError:
        return ConfigError(
            "nothing was sent: the login host has no flock, by which one command writes at a time",
            address=self.address,
            do="install util-linux there",
        )

    def _not_own(self) -> FleetError:
        return ConfigError(
            "nothing was sent: the folder for locks on the login host is not its user's alone",
            address=self.address,
            wanted=f"$TMPDIR/{FOLDER}-UID, or in /tmp: a folder of that user, mode 0700",
            do="remove it there, or set TMPDIR of that user's login to a folder of its own",
        )

    def _busy(self, printed: str) -> FleetError:
        whose = ", ".join(f"process {pid} ({name})" for pid, name in _HELD_BY.findall(printed))
        return Busy("an earlier command has not ended on the login host", address=self.address, seen=whose)


def led_to(params: Mapping[str, Any], local: str, peers: Peers | None) -> LoginHost | None:
    """The host that these options name; None where the commands run on this machine.

    :param peers: what those have in common that go there at once.
    """
    host = str(params.get(OPTION) or "")
    if not host:
        return None
    return LoginHost(host, local, peers.one((OPTION, host), Known) if peers else None)
