# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many who are at work at once ask one peer together. PRIVATE to the collection.

Each works in a thread of its own, by the code that serves one alone. What they ask of a peer that takes many at once
waits until all are there, or until nobody has come for a while: then one of them asks for all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

#: Nobody is waited for any longer when none has come for so many seconds: one sleeps between two looks, or hangs.
QUIET_SECONDS = 0.5

#: What was asked, each by one of them -> the answer to each, or what was in its way.
Serve = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass
class _Asked:
    what: Any
    answer: Any = None
    answered: bool = False


@dataclass
class _Group:
    serve: Serve
    asked: list[_Asked] = field(default_factory=list)


class Rounds:
    """One thread asks at a time, so what is asked needs no lock of its own."""

    def __init__(self, quiet: float = QUIET_SECONDS) -> None:
        self._quiet = quiet
        self._turn = threading.Condition()
        self._there = self._waiting = 0
        self._asks = False
        self._last = 0.0
        self._groups: dict[Hashable, _Group] = {}

    def enter(self) -> None:
        """One more is at work, and may ask. Called before its thread begins: nobody asks before all have begun."""
        with self._turn:
            self._there += 1

    def leave(self) -> None:
        with self._turn:
            self._there -= 1
            if self._due():
                self._turn.notify()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Around the work of one that has entered."""
        try:
            yield
        finally:
            self.leave()

    def ask(self, key: Hashable, what: Any, serve: Serve) -> Any:
        """The answer to this one's question.

        :param key: those of the same are asked together.
        :param serve: asks for all; that of whoever asked first. What it raises befalls each of them.
        :raises: an answer that is an exception, each a copy of its own: whoever catches one adds where it was.
        """
        mine = _Asked(what)
        with self._turn:
            self._groups.setdefault(key, _Group(serve)).asked.append(mine)
            # The first one keeps the time; all the others are woken when their answers are there.
            patience = self._quiet if not self._waiting else None
            self._waiting += 1
            self._last = time.monotonic()
            while not mine.answered:
                if self._due():
                    self._serve()
                else:
                    self._turn.wait(patience)
        if isinstance(mine.answer, BaseException):
            raise copied(mine.answer)
        return mine.answer

    def _due(self) -> bool:
        if self._asks or not self._waiting:
            return False
        return self._waiting >= self._there or time.monotonic() - self._last >= self._quiet

    def _serve(self) -> None:
        """Called with the lock, which others have meanwhile: they ask in the next round."""
        groups, self._groups = self._groups, {}
        self._waiting, self._asks = 0, True
        self._turn.release()
        try:
            for group in groups.values():
                _answer(group)
        finally:
            self._turn.acquire()
            self._asks = False
            self._turn.notify_all()


def _answer(group: _Group) -> None:
    answers: Sequence[Any]
    try:
        answers = group.serve([one.what for one in group.asked])
    except BaseException as exc:  # raised in each thread that asked
        answers = [exc] * len(group.asked)
    for one, answer in zip(group.asked, answers):
        one.answer, one.answered = answer, True


def copied(error: BaseException) -> BaseException:
    """Another one of the same: an error is told where it happened, and each happened elsewhere."""
    other = type(error).__new__(type(error))
    other.args = error.args
    told = {key: dict(value) if isinstance(value, dict) else value for key, value in vars(error).items()}
    other.__dict__.update(told)
    other.__cause__ = error.__cause__
    return other


class Peers:
    """What all that are at work at once have in common."""

    def __init__(self) -> None:
        self.rounds = Rounds()
        self._lock = threading.Lock()
        self._makers: dict[Hashable, threading.Lock] = {}
        self._known: dict[Hashable, Any] = {}

    def one(self, key: Hashable, made: Callable[[], T]) -> T:
        """What was made for this key, by whoever came first. Whoever wants the same waits for that, and nobody else
        does: to make it may take as long as a command, which needs other things that are made once."""
        with self._lock:
            maker = self._makers.setdefault(key, threading.Lock())
        with maker:
            if key not in self._known:
                self._known[key] = made()
            found: T = self._known[key]
        return found
