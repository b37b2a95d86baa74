# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place in the collection that sleeps. PRIVATE to the collection.

Everything that waits (a power state, a deploy, a drain, a retry after HTTP 503, the renewal of a lease beside a
long remote command) goes through :func:`wait_until`, so that every wait has a deadline, says what it waited for,
and stops when the run it belongs to is gone.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded

T = TypeVar("T")


def wait_until(
    read: Callable[[], T],
    done: Callable[[T], bool],
    *,
    timeout: float,
    interval: float | Callable[[], float],
    wanted: str,
    seen: Callable[[T], str] = str,
    beat: Callable[[], None] | None = None,
    do: str = "",
    pause: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Read until ``done(value)`` or the deadline has passed; return the value that satisfied it.

    :param read: one look at the world; it is called at least once, also with a timeout of 0.
    :param timeout: seconds from now.
    :param interval: seconds between two reads, or what is asked for them before each pause; spread by up to a tenth,
        so that a fleet does not poll in step.
    :param wanted: what is waited for, in words, for the message.
    :param seen: renders the last value for the message.
    :param beat: called before each read: raises when the run is orphaned or has lost its lease.
    :param pause: how to wait; a threading.Event's wait is good where somebody may call it off.
    :raises DeadlineExceeded: with the last value seen.
    """
    end = clock() + timeout
    while True:
        if beat is not None:
            beat()
        value = read()
        if done(value):
            return value
        left = end - clock()
        if left <= 0:
            raise DeadlineExceeded(
                f"waited {timeout:g} s in vain",
                wanted=wanted,
                seen=seen(value),
                do=do or "look at the node's console and at the peer's own log, then run again",
            )
        seconds = interval() if callable(interval) else interval
        pause(min(left, seconds * random.uniform(0.9, 1.1)))


@contextmanager
def kept_alive(beat: Callable[[], None] | None, *, interval: float | Callable[[], float] = 15.0) -> Iterator[None]:
    """Call ``beat`` every ``interval`` seconds in a thread while the body runs; its error is raised at the end.

    For a call that blocks for minutes and cannot beat by itself, such as a gate that runs on the node.
    """
    if beat is None:
        yield
        return
    over = threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            wait_until(
                over.is_set, bool, timeout=float("inf"), interval=interval, wanted="", beat=beat, pause=over.wait
            )
        except BaseException as exc:  # handed to the caller below, never lost
            failure.append(exc)

    thread = threading.Thread(target=run, name="gpufleet-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=30)
    if failure:
        raise failure[0]
