# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this node where the wait wants it, or never going to be? One function a goal. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    NotOurs,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    AT_WORK,
    NodeView,
    Refusal,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import name_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import FOREIGN, FREE, OURS, Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import ABSENT, DRAINED


@dataclass(frozen=True)
class Judgement:
    """ok: the goal is reached. settled: waiting longer changes nothing. evict: work may be made to leave.

    kind: whose failure it is where it stays like that, as in _watched.py; empty where it is the node's own.
    """

    ok: bool
    settled: bool
    reason: str
    evict: bool = False
    kind: str = ""


def _foreign(view: NodeView, claim: Claim) -> Judgement:
    holds = "; ".join(map(str, claim.holds_of(view, FOREIGN)))
    return Judgement(False, True, f"held by somebody else: {holds}; left alone", kind=NotOurs.kind)


def after_eviction(judgement: Judgement, refusals: Sequence[Refusal]) -> Judgement:
    """What would not leave is told; it is waited for, unless a person has to act first."""
    if not refusals:
        return judgement
    shown = "; ".join(map(str, refusals[:3])) + ("; ..." if refusals[3:] else "")
    for_good = any(refusal.for_good for refusal in refusals)
    words = "will not leave by itself" if for_good else "may not leave yet"
    return replace(judgement, settled=for_good, reason=f"{judgement.reason}; {words}: {shown}")


def after_outage(judgement: Judgement, view: NodeView, system: str) -> Judgement:
    """A scheduler that was away itself in the same wait: the node's agent had nobody to answer to, and may not have had
    the time to since. So the node is not to blame for its silence; it is for what the scheduler found as it answered.
    Whether there is more to it, the next run finds.

    :param system: the scheduler's name, by which people look for what was away.
    """
    if judgement.ok or judgement.kind or (judgement.settled and not view.silent):
        return judgement
    words = f"{judgement.reason}; {system} was away itself meanwhile, so that this says nothing of the node; run again"
    return replace(judgement, reason=words, kind=Unreachable.kind)


def until_drained(view: NodeView, claim: Claim, *, kept: bool = True, check_mode: bool = False) -> Judgement:
    """Held by us with nothing on it; or not the scheduler's at all."""
    if view.unread:
        return Judgement(False, False, view.unread, kind=BadAnswer.kind)
    name = name_of(view, claim)
    if name == ABSENT:
        return Judgement(True, True, "the scheduler does not know it")
    if name == DRAINED:
        return Judgement(True, True, f"drained, held by us: {view.reason}")
    owner = claim.owner(view)
    if owner == FOREIGN:
        return _foreign(view, claim)
    if claim.keep(view) and view.state == "drained" and not view.work:
        return Judgement(True, True, f"drained, kept by a person: {view.reason}")
    quarantine = claim.quarantine(view)
    if quarantine:
        return Judgement(
            False, True, f"in quarantine: {quarantine.text}; no run takes it for its work", kind=NotOurs.kind
        )
    if check_mode and owner != OURS:
        return Judgement(True, True, f"{view.native} now; would be held and then waited for")
    if owner != OURS:
        free = "it is in service" if owner == FREE else f"the scheduler took it down: {view.reason or view.native}"
        do = "hold it first: scheduler_node with state held"
        return Judgement(False, True, f"not held by us ({free}); {do}", kind=NotOurs.kind)
    if check_mode:
        return Judgement(True, True, f"{view.native} now; would be waited for")
    if view.state in AT_WORK:
        words = f"our hold keeps nothing away any more ({view.native}); hold it anew: scheduler_node with state held"
        return Judgement(False, True, words, kind=NotOurs.kind)
    staying = [work for work in view.work if work.stays]
    if staying:  # nobody else is disturbed for a drain that cannot come to its end
        shown = ", ".join(map(str, staying[:5]))
        return Judgement(False, True, f"{len(staying)} job(s) are not asked to leave: {shown}", kind=NotOurs.kind)
    jobs = f"{len(view.work)} job(s) run: {', '.join(map(str, view.work[:5]))}" if view.work else ""
    kind = NotOurs.kind if jobs else ""  # what runs there is its owner's
    still = f": {view.waits_for}" if view.waits_for not in view.native else ""
    return Judgement(False, False, jobs or f"{view.native}, no job runs{still}", evict=bool(view.work), kind=kind)


def until_idle(view: NodeView, claim: Claim, *, kept: bool = True, check_mode: bool = False) -> Judgement:
    """In service: a node that already got a job again is what we wanted, too. kept: it belongs to a scheduler."""
    if view.unread:
        return Judgement(False, False, view.unread, kind=BadAnswer.kind)
    if view.absent:
        reason = "the scheduler does not know it" if kept else "it belongs to no scheduler"
        return Judgement(not kept, True, reason, kind=ConfigError.kind if kept else "")
    if view.in_service:
        return Judgement(True, True, f"in service ({view.state})")
    owner = claim.owner(view)
    if owner == FOREIGN:
        return _foreign(view, claim)
    if check_mode:
        return Judgement(True, True, f"{view.native} now; would be waited for")
    if view.held:
        holder = "by us" if owner == OURS else "by the scheduler itself"
        kind = NotOurs.kind if owner == OURS else ""  # another run's, or a person's through us
        return Judgement(False, True, f"held {holder}: {view.reason or view.native}", kind=kind)
    return Judgement(False, False, f"{view.native}: its agent does not answer yet")


JUDGES: dict[str, Callable[..., Judgement]] = {"drained": until_drained, "idle": until_idle}
