# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at hosts in processes of their own, for a library that serves one at a time. PRIVATE to the collection.

Each process looks at its hosts one after another. One that hangs is ended, and the hosts behind the one over which it
hung are dealt out to as many others as may run. Those behind one that hung there again are looked at by none: else the
times of all that hang would add up.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import ONE_NODE, Cause

#: So often a process may hang before one host, and then one that took its place, until the others behind are left.
_HANGS = 2

Look = Callable[[str], "Cause | None"]


@dataclass
class _Child:
    """hosts: of which it has told nothing yet; the first of them is the one that it looks at. hung: how often a process
    has hung over a host that stood before these."""

    hosts: list[str]
    process: int
    reading: int
    heard: float
    hung: int = 0
    said: bytes = b""


class Children:
    """silent: the seconds without a word after which one is ended. check: as in a Cause. most: how many run at once."""

    def __init__(self, check: str, look: Look, silent: float, most: int) -> None:
        self._check, self._look, self._silent, self._most = check, look, silent, most
        self._living: list[_Child] = []

    def fork(self, hosts: list[str], hung: int = 0) -> None:
        """A copy of this process looks at these hosts, and writes what is wrong; it ends by itself."""
        reading, writing = os.pipe()
        asker = os.getpid()
        process = os.fork()
        if process:
            os.close(writing)
            self._living.append(_Child(list(hosts), process, reading, time.monotonic(), hung))
            return
        try:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8") as out:
                for host in hosts:
                    if os.getppid() != asker:  # nobody waits for what this would find
                        break
                    cause = self._looked(host)
                    out.write(json.dumps(asdict(cause) if cause else None) + "\n")
                    out.flush()
        finally:
            os._exit(0)

    def _looked(self, host: str) -> Cause | None:
        try:
            return self._look(host)
        except Exception as exc:  # it would end this process without a word, and each one that is asked to run again
            what = "the look at this BMC met a defect of the collection or of a library"
            return Cause(self._check, ONE_NODE, what, seen=short(repr(exc)), do="report it, with what was seen")

    def answers(self) -> Iterator[tuple[str, Cause | None]]:
        """What is wrong with each host, as it comes; of all processes at once.

        Begin with it when the threads of the run's other looks have ended: it may fork, and in a copy that was made
        while another thread held a lock, nobody ever lets go of that. Ansible's own worker, in which this runs, has
        one thread.
        """
        while self._living:
            ready = self._readable()
            for child in list(self._living):
                yield from self._heard(child) if child.reading in ready else self._silence(child)

    def end(self) -> None:
        """End those that still run."""
        while self._living:
            self._ended(self._living[0])

    def _readable(self) -> set[int]:
        """Those that wrote or ended; none where the first is silent for too long before that."""
        until = min(child.heard for child in self._living) + self._silent
        with selectors.PollSelector() as eyes:
            for child in self._living:
                eyes.register(child.reading, selectors.EVENT_READ)
            return {key.fd for key, _events in eyes.select(max(0.001, until - time.monotonic()))}

    def _heard(self, child: _Child) -> Iterator[tuple[str, Cause | None]]:
        more = os.read(child.reading, 65536)
        *lines, child.said = (child.said + more).split(b"\n")
        child.heard = time.monotonic()
        for line in lines:
            told = json.loads(line)
            yield child.hosts.pop(0), Cause(**told) if told else None
        if not more:
            what = "the look at this BMC was broken off"
            yield from self._without_the_first(child, Cause(self._check, ONE_NODE, what, do="run again"), child.hung)

    def _silence(self, child: _Child) -> Iterator[tuple[str, Cause | None]]:
        if time.monotonic() - child.heard >= self._silent:
            what = f"its look did not end within {self._silent:g} s"
            cause = Cause(self._check, ONE_NODE, what, do="look at this BMC")
            yield from self._without_the_first(child, cause, child.hung + 1)

    def _without_the_first(self, child: _Child, cause: Cause, hung: int) -> Iterator[tuple[str, Cause | None]]:
        """What went wrong went wrong over the first host of which nothing was told; the others get other processes."""
        self._ended(child)
        first, others = child.hosts[:1], child.hosts[1:]
        if hung < _HANGS:
            for part in parts(others, max(1, self._most - len(self._living))):
                self.fork(part, hung)
        else:
            what = f"its BMC was not asked: the looks at {hung} others before it did not end"
            left = Cause(self._check, ONE_NODE, what, do="look at those BMCs, or leave those nodes out, and run again")
            yield from ((host, left) for host in others)
        yield from ((host, cause) for host in first)

    def _ended(self, child: _Child) -> None:
        self._living.remove(child)
        os.close(child.reading)
        os.kill(child.process, signal.SIGKILL)  # nobody has waited for it yet: the number is its own
        os.waitpid(child.process, 0)


def parts(hosts: Sequence[str], most: int) -> list[list[str]]:
    """At most so many, as even as it goes."""
    return [list(hosts[at::most]) for at in range(min(most, len(hosts)))]


@contextmanager
def apart(check: str, hosts: Sequence[str], look: Look, silent: float, most: int) -> Iterator[Children]:
    """A process for each part of the hosts, at most so many, forked here and now: come before you have threads."""
    children = Children(check, look, silent, most)
    try:
        for part in parts(hosts, most):
            children.fork(part)
        yield children
    finally:
        children.end()
