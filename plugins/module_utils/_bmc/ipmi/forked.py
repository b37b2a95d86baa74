# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pyghmi in a process that was forked from one that has spoken IPMI. PRIVATE to the collection.

pyghmi keeps one thread and its sockets for all sessions of a process, made at the first session. A fork has no threads:
its first session would be handed one of the other process' sockets, and wait without an end for a thread that is not
there.
"""

from __future__ import annotations

import os
import threading
from typing import Any

#: What this was written for, as pip has it.
KNOWN = "pyghmi~=1.6.10"
#: What a fork has to forget, by its owner; names that pyghmi keeps to itself.
_OF_THE_MODULE = (
    *("iothread", "iothreadready", "selectdeadline", "KEEPALIVE_SESSIONS", "WAITING_SESSIONS"),
    *("iosockets", "iothreadwaiters", "ioqueue", "sessionqueue"),
)
_OF_A_SESSION = (
    *("bmc_handlers", "waiting_sessions", "initting_sessions", "keepalive_sessions", "peeraddr_to_nodes"),
    *("iterwaiters", "socketpool", "socketchecking"),
)


def begin_anew_in_forks(session: Any) -> str | None:
    """Let each process that is forked from this one begin as if it had never spoken IPMI.

    :param session: the module ``pyghmi.ipmi.private.session`` (1.6).
    :returns: what is wrong with another version: half of it forgotten would let a fork wait for ever.
    """
    lacks = [name for name in _OF_THE_MODULE if not hasattr(session, name)]
    lacks += [f"Session.{name}" for name in _OF_A_SESSION if not hasattr(session.Session, name)]
    if lacks:
        return f"this pyghmi has no {', '.join(lacks)} in {session.__name__}; {KNOWN} is known to work"

    def forget() -> None:
        session.iothread, session.iothreadready, session.selectdeadline = None, False, 0
        # The other process still uses its sockets: nothing is said to them, and this one's copies go with the fork.
        for kept in (session.iosockets, session.iothreadwaiters, session.ioqueue, session.sessionqueue):
            kept.clear()
        for its in ("bmc_handlers", "waiting_sessions", "initting_sessions", "keepalive_sessions", "peeraddr_to_nodes"):
            getattr(session.Session, its).clear()
        session.Session.iterwaiters.clear()
        session.Session.socketpool.clear()
        for kind in (session.Session, *session.Session.__subclasses__()):
            kind.socketchecking = None
        # Another thread may have had them at the fork, and lets nothing go here.
        session.KEEPALIVE_SESSIONS, session.WAITING_SESSIONS = threading.RLock(), threading.RLock()

    os.register_at_fork(after_in_child=forget)
    return None
