# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A database server that falls silent is given up. PRIVATE to the collection.

Of a host that is gone the kernel tells, by the limits of TCP. A server that is frozen, while its kernel goes on
acknowledging, would keep a worker for ever: no driver limits how long it waits for an answer, and the server's own
limits are frozen with it. There the line is cut, which is an error of the connection like any other.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

with contextlib.suppress(ImportError):  # whoever asks for a limited engine has made one
    import sqlalchemy as sa

#: Options of libpq: a database host that falls silent is given up after this, well within a lease's life.
TCP = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25000,
}
#: Seconds that one answer may take, whatever is done between two of them. Longer than a statement that waits for
#: another's lock, which the server ends.
ANSWER_SECONDS = 45.0


def limited(engine: Any) -> Any:
    """The engine of PostgreSQL: each answer to one of its connections has its limit, be it to the login, to what
    SQLAlchemy asks there by itself, to a statement, or to a commit."""
    kind = _driver()

    @sa.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, args: Any, options: Any) -> Any:
        return kind.connect(*args, **options)

    return engine


@contextmanager
def unlimited(connection: Any) -> Iterator[None]:
    """In the body one statement may take as long as it needs."""
    connection.limited = False
    try:
        yield
    finally:
        connection.limited = True


@lru_cache(maxsize=1)
def _driver() -> Any:
    """The driver's connection. It waits for each answer in one place; the login alone has a limit of its own."""
    import psycopg  # the engine was made with it

    class Limited(psycopg.Connection[Any]):
        limited = True

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            if self.limited:
                gen = cut_in_the_end(gen, self.fileno())
            return super().wait(gen, *args, **options)

    return Limited


def cut_in_the_end(answers: Any, descriptor: int) -> Any:
    """The same answers; where they do not come in time, the line is shut down in both directions.

    The driver asks them to go on when something has come, and about ten times a second when nothing has: psycopg does
    so from 3.2 on, though until 3.2.10 its waiting in C then says that something had come. Whoever waits looks at the
    clock himself, which spares each statement a thread.
    """
    end = time.monotonic() + ANSWER_SECONDS
    try:
        awaited = next(answers)
        while True:
            ready = yield awaited
            if time.monotonic() > end:
                _shut_down(descriptor)
            awaited = answers.send(ready)
    except StopIteration as done:
        return done.value


def _shut_down(descriptor: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
        line.shutdown(socket.SHUT_RDWR)
