# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of one task ask of one provisioner at the same time is asked for all of them. PRIVATE.

For drivers that ask by commands, whose login is that of the machine on which they run: each host has a driver of its
own, and nothing but the address tells two provisioners apart. Who has the turn asks alone: all others wait for it.

What is in one host's way is its own. Whoever asked first lends the others its driver, and with it its lease: one that
was lost is nobody else's, and no outage of its ledger is. And where what is told of all cannot be read, each is asked
for alone.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Callable, TypeVar, cast

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    Fenced,
    MissingLibrary,
    NotOurs,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver

T = TypeVar("T")
U = TypeVar("U")
_Serve = Callable[[Sequence[Any]], Sequence[Any]]

#: Of the thread that asks for all: what it needs to know for that is no question of all.
_HERE = threading.local()

#: The end of the run, or of the lease, of whoever lent its driver.
_OWN = (Fenced, NotOurs)
#: These say nothing of any node: nobody is asked for alone.
_CONCERN_ALL = (Unreachable, AuthFailed, MissingLibrary)
#: In place of an answer: ask anew with the others, or by yourself.
_ANEW, _ALONE = object(), object()
#: So many ask by themselves at once.
_ALONE_AT_ONCE = 4


def of_each(
    driver: Driver, what: str, about: Mapping[str, T], read: Callable[[Mapping[str, T]], Mapping[str, U]]
) -> dict[str, U]:
    """What is read of these nodes, those that are not known left out.

    :param about: by node, what is to be known of it before it is read.
    :param read: reads of any nodes. What it raises of what it was told befalls those alone for whom it is read.
    """

    def of_all(asked: Sequence[Mapping[str, T]]) -> list[dict[str, U]]:
        told = read({name: said for one in asked for name, said in one.items()})
        return [{name: told[name] for name in one if name in told} for one in asked]

    return cast("dict[str, U]", _asked(driver, what, about, of_all, apart=True))


def same(driver: Driver, what: str, ask: Callable[[], T]) -> T:
    """One answer, for all that ask this."""
    return cast(T, _asked(driver, what, None, lambda asked: [ask()] * len(asked)))


def once(driver: Driver, what: str, ask: Callable[[], T]) -> T:
    """The same, for as long as the task lasts: of what nobody changes meanwhile."""
    peers = driver.ctx.peers
    return ask() if peers is None else peers.one((driver.name, driver.address, what), ask)


def _asked(driver: Driver, what: str, about: Any, serve: _Serve, *, apart: bool = False) -> Any:
    """:param apart: can each be asked for alone?"""
    peers = driver.ctx.peers
    if peers is None or driver.kept_open or getattr(_HERE, "asks", False):
        return serve([about])[0]
    key = (driver.name, driver.address, what)

    def for_all(asked: Sequence[Any]) -> Sequence[Any]:
        others = len(asked) - 1
        try:
            return _here(serve, asked)
        except (*_OWN, *_CONCERN_ALL) as exc:
            if _is_own(exc):  # of the first one, whose driver this is
                return [exc, *[_ANEW] * others]
            raise
        except Exception:  # what a stranger wrote may break whatever reads it
            if not (apart and others):
                raise
            return [_ALONE] * len(asked)

    answer = _ANEW
    while answer is _ANEW:
        answer = peers.rounds.ask(key, about, for_all)
    if answer is not _ALONE:
        return answer
    with peers.one((*key, _ALONE), lambda: threading.Semaphore(_ALONE_AT_ONCE)):
        return _here(serve, [about])[0]


def _is_own(exc: Exception) -> bool:
    """Or it was its ledger, which it asked beside, that did not answer."""
    return isinstance(exc, _OWN) or (isinstance(exc, Unreachable) and not exc.of_peer)


def _here(serve: _Serve, asked: Sequence[Any]) -> Sequence[Any]:
    _HERE.asks = True
    try:
        return serve(asked)
    finally:
        _HERE.asks = False
