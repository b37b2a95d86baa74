# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hold of ours that went with the scheduler's record of the node is put on again. PRIVATE to the collection.

Where a reimage has the record deleted and made anew, the node takes work that no gate has allowed, and nobody has
lifted anything. A person who gives a node back leaves its record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import kind_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: A scheduler shows a change of its own books at once; this only covers a slow answer.
READ_BACK_SECONDS = 15.0


class _Asks(Protocol):
    """A call about one node."""

    ctx: Context
    driver: Scheduler
    claim: Claim

    def read(self) -> NodeView: ...


def put_on(driver: Scheduler, ctx: Context, view: NodeView, token: str, *, hosts: tuple[str, ...] = ()) -> bool:
    """As it was, if it may be written. :param hosts: of a batch, whose node it is."""
    kind = kind_of(token)
    more: dict[str, Any] = {"nodes": hosts} if hosts else {}
    if not ctx.may_write(driver.hold_request(view, token, kind), **more):
        return False
    driver.hold(view, token, kind)
    return True


def with_its_hold(node: _Asks, view: NodeView) -> NodeView:
    """Before it is given back: what a resume has to prove is asked of a node that is held."""
    token = node.claim.token
    if not node.claim.lost(view) or node.ctx.check_mode:
        return view
    if put_on(node.driver, node.ctx, view, token):
        node.ctx.say("its record in the scheduler was made anew, without our hold: held again")
    return read_back(node, token, lambda now: now.held)


def read_back(node: _Asks, token: str, shows: Callable[[NodeView], bool]) -> NodeView:
    """The node once its scheduler shows the hold. What was written stays so, whatever the next look meets, such as a
    slurm.conf that was changed in between: the error says that it is begun."""
    try:
        found: NodeView = node.ctx.wait(
            node.read,
            lambda view: shows(view) and any(hold.text.startswith(token) for hold in view.holds),
            timeout=READ_BACK_SECONDS,
            interval=1.0,
            wanted=f"the node held with the reason {token}",
            seen=lambda now: f"{now.native} {now.reason}",
            do="look at the node in the scheduler: did somebody else change it at the same moment?",
        )
    except FleetError as exc:
        exc.details.setdefault("begun", "held")
        raise
    return found
