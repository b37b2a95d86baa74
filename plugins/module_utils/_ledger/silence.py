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
import threading
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

        def wait(self, *args: Any, **options: Any) -> Any:
            with cut_in_the_end(self.fileno()) if self.limited else contextlib.nullcontext():
                return super().wait(*args, **options)

    return Limited


@contextmanager
def cut_in_the_end(descriptor: int) -> Iterator[None]:
    """The body waits for answers on this socket; where they do not come in time, it is shut down in both directions."""
    with socket.socket(fileno=os.dup(descriptor)) as line:  # its own: the other one's number may be given away again

        def cut() -> None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        watch = threading.Timer(ANSWER_SECONDS, cut)
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()
