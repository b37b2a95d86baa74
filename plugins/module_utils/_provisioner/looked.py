# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look, and right after it the write that goes by it. PRIVATE to the collection.

Controllers of other ledgers, and people, write to the same provisioner. What was judged is judged anew where one of
them was at work on the login host between both, and what was allowed is asked for again where the look took its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.command import Overtaken, overtaken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver

T = TypeVar("T")
U = TypeVar("U")


def looked(driver: Driver, look: Callable[[], T], send: Callable[[T], U], *, renew: bool = True) -> U:
    """
    :param look: once leave was given; what it finds is what is sent by.
    :param send: begins with the write.
    :param renew: of one node: ask again for leave that has grown old; whoever writes to many does so for each.
    :raises Overtaken: where others came between again and again; nothing was sent.
    """
    until = time.monotonic() + turns.TIMEOUT
    try:
        while True:
            try:
                found = _seen(driver, look)
                if renew:
                    driver.ctx.renew()
                return _sent(driver, send, found)
            except Overtaken:
                if time.monotonic() > until:
                    raise
    finally:
        driver.ctx.allowed.clear()


def _seen(driver: Driver, look: Callable[[], T]) -> T:
    """In which no other command came between its own: what was read first may be old by the end."""
    host = driver.login_host
    if host is None:
        return look()
    host.waited = None
    found = look()
    if host.waited is not None:
        raise overtaken(driver, host, host.waited)
    return found


def _sent(driver: Driver, send: Callable[[T], U], found: T) -> U:
    host = driver.login_host
    if host is None:
        return send(found)
    host.judged = True
    try:
        return send(found)
    finally:
        host.judged = False


@contextmanager
def begun(marks: set[str], names: Collection[str]) -> Iterator[None]:
    """These are marked while they are sent an order, whatever becomes of it; not where it was never sent."""
    new = set(names) - marks
    marks.update(new)
    try:
        yield
    except Overtaken:
        marks.difference_update(new)
        raise
