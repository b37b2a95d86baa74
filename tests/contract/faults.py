# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a peer does to us, in one small interface: a service behind a proxy and a command-line tool both serve it.

A contract suite calls nothing else, so that a driver's manner of speaking is no part of any test::

    site.faults.forget()                 # a peer in good health, nothing counted yet
    site.faults.outage(times=3)          # the next three calls are not answered; without times: none is, until forget()
    site.faults.strike("standby", 2)     # the same, in one of the other ways that this peer has (site.faults.unusable)
    site.faults.refuse_login()           # until forget()
    site.faults.strike_writes(NO, 2, 2)  # the second write from now is refused; reads and other writes pass
    site.faults.lose_answer(2)           # the second write from now is done, and its answer never comes
    site.faults.writes, site.faults.reads  # what reached the peer, or what stands before it

What an outage, a refusal or garbage looks like is the peer's own, and is given as data where the faults are made.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from contract.faulty_tool import Tool, before, comes
from contract.proxy import DROP, LOSE, Asked, Fault, Proxy

OUTAGE, REFUSAL, GARBAGE = "outage", "refusal", "garbage"
#: The peer understood, and said no.
NO = "no"


@dataclass(frozen=True)
class Call:
    """One thing that was asked of the peer: ``POST /v1/nodes?x=y``, or ``scontrol update NodeName=...``."""

    what: str
    is_write: bool
    body: bytes = b""


class Faults(ABC):
    """The interface. :meth:`forget` before each test."""

    #: All ways in which no usable answer comes; OUTAGE and GARBAGE are among them, what the peer refuses is not.
    unusable: tuple[str, ...]

    @abstractmethod
    def strike(self, way: str, times: Optional[int] = None) -> None:
        """The next calls, or all of them, end in this way; nothing of them is done."""

    @abstractmethod
    def lose_answer(self, nth: int = 1) -> None:
        """The nth write from now is done, and its answer is lost."""

    def strike_writes(self, way: str, first: int, last: Optional[int] = None) -> None:
        """The writes from now of these numbers end in this way, and nothing of them is done; all others pass.

        As with :meth:`slow`, not where a write cannot be told from a read.
        """
        raise NotImplementedError

    def slow(self, until: Path, *, reads: bool = False) -> None:
        """Each write, or each read, is taken up once this machine's uptime is what stands in this file by then.

        Where a write cannot be told from a read on its way, as in an encrypted session, there is no such fault.
        """
        raise NotImplementedError

    @abstractmethod
    def forget(self) -> None:
        """No fault any more, and nothing counted."""

    @property
    @abstractmethod
    def calls(self) -> list[Call]:
        """All that was asked, in its order, also what was answered with a fault."""

    def outage(self, times: Optional[int] = None) -> None:
        self.strike(OUTAGE, times)

    def garbage(self, times: Optional[int] = None) -> None:
        self.strike(GARBAGE, times)

    def refuse_login(self) -> None:
        self.strike(REFUSAL)

    @property
    def writes(self) -> list[Call]:
        return [one for one in self.calls if one.is_write]

    @property
    def reads(self) -> list[Call]:
        return [one for one in self.calls if not one.is_write]


# -- a service ---------------------------------------------------------------------------------------------------

#: What stands before a web service, and the service itself, can say instead of an answer.
HTTP_WAYS: Mapping[str, Fault] = {
    OUTAGE: DROP,
    GARBAGE: (200, {"Content-Type": "text/html"}, b"<h1>Wartung</h1>"),
    "odd json": (200, {"Content-Type": "application/json"}, b'{"nodes": 7}'),
    "502": (502, {}, b""),
    REFUSAL: (401, {}, b""),
    NO: (400, {}, b"not now"),
}


class HttpFaults(Faults):
    """Behind a :class:`Proxy`, which may go on being used by itself."""

    def __init__(self, proxy: Proxy, ways: Optional[Mapping[str, Fault]] = None) -> None:
        self._proxy = proxy
        self._ways = ways or HTTP_WAYS
        self.unusable = tuple(way for way in self._ways if way not in (REFUSAL, NO))

    def strike(self, way: str, times: Optional[int] = None) -> None:
        answer = self._ways[way]
        left = iter(range(sys.maxsize if times is None else times))
        self._proxy.fault = lambda asked: None if next(left, None) is None else answer

    def strike_writes(self, way: str, first: int, last: Optional[int] = None) -> None:
        hit, count = range(first, 1 + (sys.maxsize - 1 if last is None else last)), itertools.count(1)
        self._proxy.fault = lambda asked: self._ways[way] if asked.is_write and next(count) in hit else None

    def lose_answer(self, nth: int = 1) -> None:
        count = iter(range(nth, -sys.maxsize, -1))
        self._proxy.fault = lambda asked: LOSE if asked.is_write and next(count) == 1 else None

    def slow(self, until: Path, *, reads: bool = False) -> None:
        self._proxy.fault = lambda asked: comes(str(until)) if asked.is_write is not reads else None

    def forget(self) -> None:
        self._proxy.forget()

    @property
    def calls(self) -> list[Call]:
        return [_told(one) for one in self._proxy.asked]


def _told(asked: Asked) -> Call:
    what = f"{asked.method} {asked.path}" + (f"?{asked.query}" if asked.query else "")
    return Call(what, asked.is_write, asked.body)


# -- a command-line tool -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """How a tool ends: its exit status, or minus the number of the signal that ends it, and what it prints."""

    code: int = 1
    out: str = ""
    err: str = ""


class ToolFaults(Faults):
    """Wrappers of one or more tools, in ``folder/bin``: a test puts :attr:`path` before the others in PATH.

    :param tools: name of the command -> argv of the real one, or a function that is it (a test's own tool).
    :param writes: patterns that are searched in ``NAME ARGUMENT ...``; a call that matches one is a write.
    :param ways: OUTAGE, REFUSAL, GARBAGE and any more.
    :param reads: the tools are functions, and are given what stands on their standard input.
    """

    def __init__(
        self,
        folder: Path,
        tools: Mapping[str, Tool],
        writes: Sequence[str],
        ways: Mapping[str, Said],
        reads: bool = False,
    ) -> None:
        self.path = folder / "bin"
        self._state = folder / "faults.json"
        self._log = folder / "calls.jsonl"
        self._ways = ways
        self._writes = [re.compile(pattern) for pattern in writes]
        self.unusable = tuple(way for way in ways if way not in (REFUSAL, NO))
        self.path.mkdir(parents=True, exist_ok=True)
        for name, tool in tools.items():
            before(self.path / name, str(folder), tool, reads)
        self.forget()

    def strike(self, way: str, times: Optional[int] = None) -> None:
        self._set({"way": asdict(self._ways[way]), "left": times})

    def strike_writes(self, way: str, first: int, last: Optional[int] = None) -> None:
        times = None if last is None else last - first + 1
        self._set({"way": asdict(self._ways[way]), "left": times, "pass": first - 1})

    def lose_answer(self, nth: int = 1) -> None:
        self._set({"lose": nth})

    def slow(self, until: Path, *, reads: bool = False) -> None:
        self._set({"slow": str(until), "reads": reads})

    def forget(self) -> None:
        self._set({})
        self._log.write_text("", encoding="utf-8")

    def _set(self, state: Mapping[str, Any]) -> None:
        """The wrappers count down in it, under the same lock."""
        state = {"writes": [pattern.pattern for pattern in self._writes], **state}
        with open(self._state.with_suffix(".lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._state.write_text(json.dumps(state), encoding="utf-8")

    @property
    def calls(self) -> list[Call]:
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return [self._told(json.loads(line)) for line in lines]

    def _told(self, argv: Sequence[str]) -> Call:
        what = " ".join(argv)
        return Call(what, any(pattern.search(what) for pattern in self._writes))
