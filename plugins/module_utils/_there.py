# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands on a login host of the inventory, for a controller that has none of its own. PRIVATE to the collection.

What the connection says of how a command ended is not believed. What the command printed, what it said on standard
error and how it ended come in one frame, whose marks nobody over there can have known; without its end it is no answer.

A frame goes there as one line, or, where the command reads something, as what a short line reads: a password is then in
no argument, on no terminal and in no log of the connection. Half a frame is never run.
"""

from __future__ import annotations

import base64
import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _ways as ways
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    FleetError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

#: No answer is longer; what goes on without an end is cut there, and is none.
MOST = 64 * 1024 * 1024
_MOST_SAID = 65_536
#: For the way there and back, beside the command itself.
WAY_SECONDS = 30.0
#: From the first signal to a command that does not end to the one that it cannot outlive.
_GRACE = 5
#: How ``timeout`` ends where it has ended a command, and above which number anybody's signal has.
_TIMED_OUT, _SIGNALS = (124, 137), 128
#: In one line: not every login shell takes more. The inner shell's word alone tells how the command ended; without it
#: the command was ended. A shell's own printf has no arguments that others could read.
_FRAME = (
    "{{ {checks}echo {mark}-out;"
    " e=$({{ {feed}timeout -k {grace} {seconds:.0f} /bin/sh -c {inner} sh {command} {reads}2>&1 >&3 3>&-;"
    r""" printf '\n%s %s\n' {mark}-ended "$?"; }} | tail -c {said});"""
    r""" printf '\n%s\n%s\n' {mark}-err "$e"; }} 3>&1 | head -c {most}"""
)
_INNER = r"""%s"$@"; printf '\n%%s %%s\n' %s-code "$?" >&2"""
#: Before it is read what is read: a shell that says each line it runs (SHELLOPTS of a login) would say that as well, on
#: what some connections make one with the answer.
_BY_INPUT = (
    '{{ set +xv; }} 2>/dev/null; s=$(head -c {size}); case $(command -v printf) in printf) if [ "${{#s}}" -eq {size} ];'
    ' then eval "$(printf %s "$s" | base64 -d)"; else echo {mark}-cut; fi ;; *) echo {mark}-cut;; esac'
)


@dataclass(frozen=True)
class Ended:
    """How a command ended by its own word: a shell's number, of one that a signal ended above 128."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Check:
    """What must be true there before a command is run, in shell; ``why`` is what it is that it was not, by
    what the test has printed there, and whatever the login had before it."""

    test: str
    why: Callable[[str], FleetError]


@dataclass(frozen=True)
class Peer:
    """What is asked there, for messages: what it is, the setting that names the host, and what to do where a command
    does not end."""

    name: str
    setting: str
    slow: str


@dataclass(frozen=True)
class Order:
    """One command. ``reads``: what it is given on its standard input. ``settles``: a line of shell before it, for its
    environment. ``env``: variables of its own. ``by_input``: nothing of it is in an argument of the connection."""

    argv: Sequence[str]
    seconds: float
    reads: str = ""
    settles: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    by_input: bool = False


class Clock:
    """The login host's own, asked once: by it a command that comes there long after it was sent is not begun. Whoever
    sent it may have given up by then, and others go on."""

    def __init__(self, address: str) -> None:
        self._address = address
        #: What it showed when it was asked, and ours from before that.
        self._told: tuple[int, float] | None = None

    def hear(self, told: str, asked: float) -> None:
        """:param told: what ``date +%s`` has printed. :param asked: our own time from before."""
        if not (told.isascii() and told.isdigit()):
            raise BadAnswer("the login host tells no time", address=self._address, seen=short(told))
        self._told = (int(told), asked)

    def forget(self) -> None:
        self._told = None

    def in_time(self, look: Callable[[], object]) -> Check:
        """What is true there for a while from now on.

        :param look: has it heard: for the first time, or where it was forgotten since, as by another thread.
        """
        while (told := self._told) is None:
            look()
        shown, asked = told
        until = int(shown + time.monotonic() - asked + WAY_SECONDS)
        return Check(f'[ "$(date +%s)" -le {until} ]', self._late)

    def _late(self, _printed: str) -> FleetError:
        self.forget()
        return Unreachable(
            "nothing was sent: the command came to the login host too late",
            address=self._address,
            wanted=f"{WAY_SECONDS:g} s at most from here to there",
            do="run again; look at the clock of that host where this goes on",
        )


class There:
    """:param address: what messages say, with the host in it."""

    def __init__(self, host: str, address: str, peer: Peer) -> None:
        self.host, self.address, self.peer = host, address, peer
        self.clock = Clock(address)
        #: May the last command have begun there?
        self.begun = False
        self._ask: ways.Ask | None = None
        self._answered = False

    def run(self, order: Order) -> Ended:
        """Each word of the command is one to the shell there, and comes there once.

        :raises FleetError: of the check that was not true: then nothing was run.
        :raises Unreachable: where there was no answer, or the command did not end in its time.
        :raises BadAnswer: where the answer has no end: nobody knows what the command has done.
        """
        mark = f"gpufleet-{secrets.token_hex(12)}"
        line, reads = framed(order, mark)
        if self._ask is None:
            self._ask = ways.to(self.host, self.peer.setting)
        self.begun, began = True, time.monotonic()
        told, problem = self._ask(line, reads, order.seconds + _GRACE + WAY_SECONDS)
        return self._read(order, told, problem, mark, time.monotonic() - began)

    def _read(self, order: Order, told: str, problem: str, mark: str, took: float) -> Ended:
        failed = re.search(rf"^{mark}-not-(\d+)$", told, re.MULTILINE)
        if failed:
            self.begun = False
            raise order.checks[int(failed[1])].why(told[: failed.start()])
        out, _sep, err = told.partition(f"{mark}-out\n")[2].rpartition(f"\n{mark}-err\n")
        ended = re.search(rf"(?:^|\n){mark}-code (\d+)\n\s*{mark}-ended \d+\s*\Z", err)
        if ended:
            self._answered = True
            return Ended(int(ended[1]), out, err[: ended.start()])
        killed = re.search(rf"^{mark}-ended (\d+)\s*\Z", err, re.MULTILINE)
        by = int(killed[1]) if killed else 0
        if by in _TIMED_OUT and took >= round(order.seconds):
            raise Unreachable(
                f"{_name(order)} did not end within {order.seconds:g} s",
                address=self.address,
                do=self.peer.slow,
                details={"slow": order.seconds},
            )
        if by > _SIGNALS:
            raise BadAnswer(
                f"{_name(order)} was killed on the login host, and nobody knows what it has done",
                address=self.address,
                seen=f"signal {by - _SIGNALS} after {took:.0f} s",
                do="run again; what it has done is read back then; look who kills there (a lack of memory, a limit)",
            )
        raise self._unended(order, told, problem, mark)

    def _unended(self, order: Order, told: str, problem: str, mark: str) -> FleetError:
        begun = f"{mark}-out" in told
        # What came after the beginning is the command's own, which may print a password.
        seen = short(problem or told.partition(mark)[0]) or "nothing"
        if self._answered and (problem or not begun):
            return Unreachable(
                f"the way to the login host was lost before {_name(order)} had answered",
                address=self.address,
                wanted="an answer; whether the command has done its work nobody knows",
                seen=seen,
                do="run again; what the command has done is read back then",
            )
        if problem or not begun:
            return Unreachable(
                f"the login host that {self.peer.name} is asked on cannot be reached",
                address=self.address,
                wanted=f"an answer of {_name(order)} there",
                seen=seen,
                do="look at the way to that host (its address, the key, ansible_user), or name another one in"
                f" {self.peer.setting}",
            )
        return BadAnswer(
            f"the answer of {_name(order)} on the login host has no end",
            address=self.address,
            seen=f"{len(told)} characters",
            do="run again; what the command has done is read back then",
        )


def framed(order: Order, mark: str) -> tuple[str, str]:
    """The line of shell, and what it reads."""
    checks = "".join(f"{check.test} || {{ echo {mark}-not-{n}; exit; }}; " for n, check in enumerate(order.checks))
    given = base64.b64encode(order.reads.encode()).decode()
    variables = "".join(f"export {key}={shlex.quote(value)}; " for key, value in order.env.items())
    frame = order.settles + _FRAME.format(
        mark=mark,
        checks=checks,
        feed=f"printf %s {given} | base64 -d 2>/dev/null | " if given else "",
        reads="" if given else "</dev/null ",
        inner=shlex.quote(_INNER % (variables, mark)),
        grace=_GRACE,
        seconds=order.seconds,
        command=" ".join(map(shlex.quote, order.argv)),
        said=_MOST_SAID,
        most=MOST,
    )
    if not (order.by_input or given):
        return frame, ""
    coded = base64.b64encode(frame.encode()).decode()
    return _BY_INPUT.format(size=len(coded), mark=mark), coded


def _name(order: Order) -> str:
    return order.argv[0]
