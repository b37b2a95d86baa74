# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger that takes nobody more for the moment is asked again for a while. PRIVATE to the collection.

Each worker of each slice has a connection of its own, for as long as one task of one host lasts: where they are more
than the server takes, one of them ends in a moment.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    FleetError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until

with contextlib.suppress(ImportError):  # whoever waits for an engine has made one
    import sqlalchemy as sa


class Busy(NamedTuple):
    """``words`` of an error that passes. To log in costs a server a process: it is asked less often than a file is."""

    words: tuple[str, ...]
    interval: float
    seen: str
    do: str


BUSY: Mapping[str, Busy] = {
    # Another process sets a new file up, which SQLite's own time limit does not cover.
    "sqlite": Busy(("locked",), 0.05, "locked by another process", "look for a process that holds its file"),
    # Error 53300: libpq keeps the number of a login's error to itself.
    "postgresql": Busy(
        ("too many clients", "too many connections", "remaining connection slots are reserved"),
        0.25,
        "too many connections",
        "raise max_connections there (or the limit of the role or database) above forks times slices of all runs at"
        " once, or run with fewer forks; then run again",
    ),
}


class Away(NamedTuple):
    what: str
    do: str


_TIMED_OUT = Away("ended our transaction", "look at the load of this controller and of the database, and run again")
#: States of PostgreSQL (appendix A of its manual: error codes) in which it serves nobody, or nobody who writes. psycopg
#: counts its class 25 among the program's own mistakes; the others, as class 57, are its OperationalError.
AWAY: Mapping[str, Away] = {
    "25006": Away(  # read_only_sql_transaction
        "takes no writes",
        "is it a standby, after a failover? Let gpufleet_ledger_url lead to the server that takes writes",
    ),
    "25P03": _TIMED_OUT,  # idle_in_transaction_session_timeout
    "25P04": _TIMED_OUT,  # transaction_timeout
}

#: How SQLite and PostgreSQL say that their disk is full.
FULL = re.compile("disk is full|No space left on device")


def no_room(problem: Any, address: str) -> Unreachable:
    return Unreachable(
        f"the ledger has no room: {problem}",
        address=address,
        do="make room on its disk, and run again: what could not be written was not done",
    )


def refused(problem: Any, address: str) -> FleetError:
    """What a driver counts among the program's own mistakes: an outage all the same, or no ledger of ours."""
    away = AWAY.get(getattr(problem, "sqlstate", None) or "")
    if FULL.search(str(problem)):
        return no_room(problem, address)
    if away is not None:
        return Unreachable(f"the ledger {away.what}: {problem}", address=address, do=away.do)
    return BadAnswer(
        f"the ledger refused a statement: {problem}",
        address=address,
        do="is it a ledger of this collection? A file that another program made is not touched",
    )


def waited_for(connect: Callable[[], Any], dialect: str, *, patience: float, address: str) -> Any:
    """A connection.

    :raises Unreachable: where none was to be had in time: the node has no part in that.
    """
    busy = BUSY[dialect]

    def connected() -> Any:
        try:
            return connect()
        except sa.exc.OperationalError as exc:
            if any(words in str(exc.orig) for words in busy.words):
                return None
            raise

    try:
        return wait_until(
            connected,
            lambda found: found is not None,
            timeout=patience,
            interval=busy.interval,
            wanted="the ledger open",
        )
    except DeadlineExceeded as exc:
        raise Unreachable(
            f"the ledger took no further connection for {patience:g} s",
            address=address,
            wanted="the ledger open",
            seen=busy.seen,
            do=busy.do,
        ) from exc
