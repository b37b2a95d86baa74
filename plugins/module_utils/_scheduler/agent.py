# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for the node's agent, before its hold is lifted and after that. PRIVATE to the collection."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView


def registered(node: Any, view: NodeView) -> NodeView:
    """The hold is lifted only when the node's agent is there; until then the hold is what protects it."""
    if _ready(node, view):
        return view
    node.ctx.say("waits for the node's agent to register with the scheduler")
    ready = node.ctx.wait(
        node.read,
        lambda now: _ready(node, now) or not now.held,
        timeout=float(node.params["timeout"]),
        interval=float(node.params["interval"]),
        wanted="the node registered with its scheduler; it is still held",
        seen=lambda now: "; ".join(filter(None, (f"{now.native}, booted {now.booted or 'never'}", now.bare))),
        do=f"{node.driver.REMEDIES.silent}; the hold was left as it is",
    )
    if ready.held:
        node.may_resume(ready)
    return ready


def _ready(node: Any, view: NodeView) -> bool:
    """Its agent is there, with the GPUs of which the last look at the node has counted some."""
    return view.answers and not (view.bare and int(node.params.get("looked_gpus") or 0))


def answering(node: Any, view: NodeView) -> NodeView:
    """Wait until the scheduler sees the node answer, and make sure that nobody holds it again."""
    if node.ctx.check_mode or view.in_service:
        after = view
    else:
        after = node.ctx.wait(
            node.read,
            lambda now: now.in_service or now.held,
            timeout=float(node.params["timeout"]),
            interval=float(node.params["interval"]),
            wanted="the node in service, and answering its scheduler",
            seen=lambda now: f"{now.native}, booted {now.booted or 'not known'}",
            do=node.driver.REMEDIES.silent,
        )
    if after.held and not node.ctx.check_mode:
        raise NotProven(
            "the node was resumed, and was taken out of service again",
            node=node.name,
            wanted="in service",
            seen="; ".join([after.native, *map(str, after.holds)]),
            do="look into that reason: a health check or somebody else holds the node now",
            details={"reason": after.reason, "finding": after.finding, "holds": node.claim.told(after)},
        )
    return after
