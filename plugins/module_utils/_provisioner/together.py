# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of one task ask of one provisioner at the same time is asked for all of them. PRIVATE.

For drivers that ask by commands, whose login is that of the machine on which they run: each host has a driver of its
own, and nothing but the address tells two provisioners apart. Who has the turn asks alone: all others wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Callable, TypeVar, cast

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver

T = TypeVar("T")
U = TypeVar("U")

#: Of the thread that asks for all: what it needs to know for that is no question of all.
_HERE = threading.local()


def of_each(
    driver: Driver, what: str, about: Mapping[str, T], read: Callable[[Mapping[str, T]], Mapping[str, U]]
) -> dict[str, U]:
    """What is read of these nodes, those that are not known left out.

    :param about: by node, what is to be known of it before it is read.
    :param read: reads of any nodes. What it raises befalls all that ask.
    """

    def of_all(asked: Sequence[Mapping[str, T]]) -> list[dict[str, U]]:
        told = read({name: said for one in asked for name, said in one.items()})
        return [{name: told[name] for name in one if name in told} for one in asked]

    return cast("dict[str, U]", _asked(driver, what, about, of_all))


def same(driver: Driver, what: str, ask: Callable[[], T]) -> T:
    """One answer, for all that ask this."""
    return cast(T, _asked(driver, what, None, lambda asked: [ask()] * len(asked)))


def once(driver: Driver, what: str, ask: Callable[[], T]) -> T:
    """The same, for as long as the task lasts: of what nobody changes meanwhile."""
    peers = driver.ctx.peers
    return ask() if peers is None else peers.one((driver.name, driver.address, what), ask)


def _asked(driver: Driver, what: str, about: Any, serve: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
    peers = driver.ctx.peers
    if peers is None or driver.kept_open or getattr(_HERE, "asks", False):
        return serve([about])[0]

    def for_all(asked: Sequence[Any]) -> Sequence[Any]:
        _HERE.asks = True
        try:
            return serve(asked)
        finally:
            _HERE.asks = False

    return peers.rounds.ask((driver.name, driver.address, what), about, for_all)
