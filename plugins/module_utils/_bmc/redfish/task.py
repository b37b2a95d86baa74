# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follows what a BMC does later: 202 and a task. PRIVATE to the collection.

Not by sushy's TaskMonitor (5.14): it takes each 200 for the end, while a BMC whose Location names the task itself
(iDRAC, iLO, sushy-tools) answers 200 all along: on the test server's task of 0.3 s it reported the end at its first
request. Its own ``wait`` sleeps without a look at our lease and our parent, and its Task needs an Id and a Name that
monitors of some leave out.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, Refused, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: TaskStates (DMTF Task) after which nothing more happens; the rest are on their way.
DONE = frozenset({"Completed"})
FAILED = frozenset({"Exception", "Killed", "Cancelled", "Interrupted"})
POLL_SECONDS = 1.0
_GONE = "gone"


def follow(link: Any, answer: Any, ctx: Context, *, deadline: float) -> None:
    """Wait for the end of the task that a 202 speaks of. Without a Location the read-back alone decides.

    :raises Refused: when the task ended badly, with what its messages say.
    """
    uri = _here(answer.headers.get("Location") or _own_uri(answer))
    if not uri:
        return
    last: dict[str, Any] = {}
    state = ctx.wait(
        lambda: _state(link, uri, last),
        lambda seen: seen != "",
        timeout=max(0.0, deadline - time.monotonic()),
        interval=POLL_SECONDS,
        wanted="the end of the BMC's task",
        seen=lambda seen: seen or "still running",
    )
    if state in FAILED:
        told = last.get("Messages")
        items = [item for item in told if isinstance(item, dict)] if isinstance(told, list) else []
        raise Refused(
            "the BMC's task ended badly",
            address=uri,
            seen=" | ".join([state, *answers.spoken(items)]),
            do="read the BMC's own log for the cause",
            details={"messages": answers.wordless(items)},
        )


def _here(location: str) -> str:
    """A task's place on this BMC: behind a router or a proxy it may call itself by another name than we do."""
    try:
        parts = urlsplit(location)
    except ValueError:  # a place that is none: the read-back alone decides
        return ""
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _own_uri(answer: Any) -> str:
    body = answers.body_of(answer)
    return str(body.get("@odata.id") or "") if isinstance(body, dict) and "Task" in str(body.get("@odata.type")) else ""


def _state(link: Any, uri: str, last: dict[str, Any]) -> str:
    """A final state; empty while it runs. A monitor that is gone has ended: some delete it with the task."""
    try:
        answer = link.get(uri)
    except Unsupported:
        return _GONE
    if answer.status_code == 202:
        return ""
    body = answers.body_of(answer)
    problem: FleetError | None = answers.refusal(answer, "TASK", uri)
    if problem is not None:
        raise problem
    state = body.get("TaskState") if isinstance(body, dict) else None
    if state is None:
        return next(iter(DONE))
    last.update(body)
    if state in DONE and str(body.get("TaskStatus") or "OK") == "Critical":
        return "Exception"
    return str(state) if state in DONE | FAILED else ""
