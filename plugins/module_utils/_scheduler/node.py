# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``scheduler_node``: hold a node, resume it, or look at it. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Callable

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    EvidenceMissing,
    FleetError,
    NotOurs,
    PermitDue,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import absence, agent, called, placed, tried
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import evidence as evidences
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.anew import (
    read_back,
    with_its_hold,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.boots import LastLook
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    KEEP,
    QUARANTINE,
    WORK,
    Hold,
    NodeView,
    Scheduler,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import evidence, released, taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import (
    BOOTED,
    FOREIGN,
    OURS,
    SCHEDULER,
    Claim,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.of_all import of_all
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token, run_of, says, says_just
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result

#: A node that changes between look and write as often as this is being worked on by somebody else.
_LOOKS = 5
#: What a part of a call on another machine tells the next one: it has resumed the node, which had this boot then.
_BEGUN = "resumed, booted "


class _Node:
    """One node, one scheduler, one call."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.params, self.ctx = params, ctx
        self._moment: Mapping[str, Any] = {}
        #: What came of a job of ours that was to try it, and what the ledger is told of that.
        self.tried: dict[str, Any] = {}
        self.noted: list[Event] = []
        self.name = str(params.get("scheduler_node") or params.get("name") or "")
        require({"scheduler_node": self.name}, "scheduler_node", node=ctx.node)
        self.driver: Scheduler = of_all(open_scheduler(params, node=ctx.node), ctx.peers, ctx.lifeline.still)
        self._away = Away(str(params.get("run_cache") or ""), ctx.node or self.name)
        self.known: absence.Known = lambda: self._heard(self.driver.known)  # type: ignore
        self.claim = Claim.of(absence.as_shown(self, self.name, params))
        ago, boot_id = params.get("looked_ago"), str(params.get("looked_boot") or "")
        self.look = LastLook(ago, lambda: str(self._heard(self.driver.clock)), boot_id, ctx.boot_probe)

    def read(self) -> NodeView:
        """Asked anew while it is away. :raises FleetError: where what the scheduler says of it proves nothing."""
        return self._heard(self._read)  # type: ignore

    def _heard(self, ask: Callable[[], Any]) -> Any:
        """Another host's word keeps no node in service: not before a hold, and not in a call that wrote."""
        remembered = self.params["state"] != "held" and not (self.ctx.asked or self.ctx.begun)
        name = f"{self.driver.NAME} {self.driver.address}"
        return self._away.heard(name, ask, beat=self.ctx.lifeline.beat, remembered=remembered)

    def may_resume(self, view: NodeView) -> None:
        _may_resume(self, view)

    def _read(self) -> NodeView:
        moment = self.ctx.moment()
        views = self.driver.states([self.name])
        for doubt in absence.doubts(self.driver, views, {self.name: self.claim}).values():
            raise doubt
        self._moment, view = moment, views[self.name]
        if view.place.is_other(self.claim.place):  # to which a person has moved it: our hold is in the old one
            self.claim = replace(self.claim, left=True)
        return view

    def result(self, before: NodeView, after: NodeView, events: list[Event], *, wrote: bool) -> Result:
        owner, events = self.claim.owner(after), [*events, *self.noted, *called.named(self, after)]
        return Result(
            before=_short(before),
            after=_short(after),
            changed=wrote,
            data={
                "scheduler_node": self.name,
                **after.place.data(),
                "state": after.state,
                "native": after.native,
                "reason": after.reason,
                "foreign": owner == FOREIGN,
                "owner": owner,
                "holds": self.claim.told(after),
                "answers": after.answers,
                "booted": after.booted,
                "finding": after.finding,
                "blocks_resume": [block.reason for block in after.blocks_resume],
                "waits_for": after.waits_for,
                "jobs": after.jobs,
                "trial": self.tried,
            },
            events=[*events, evidence(after, self.claim, scheduler=self.driver.NAME, moment=self._moment)],
        )


def scheduler_node(params: Mapping[str, Any], ctx: Context) -> Result:
    """Hold, resume or look.

    :raises NotOurs: where somebody else holds the node; nothing was written then.
    :raises Changed: where it changed again and again between look and write; nothing was written then.
    :raises NotProven: where the scheduler accepted a write that did not show.
    """
    return _STATES[params["state"]](_Node(params, ctx))


def _judged_anew(attempt: Callable[[_Node], Result]) -> Callable[[_Node], Result]:
    """Look, judge and write; all of it again where the node was no longer what had been judged."""

    def verb(node: _Node) -> Result:
        for _look in range(_LOOKS - 1):
            try:
                return attempt(node)
            except Changed:
                continue
        return attempt(node)

    return verb


def _present(node: _Node) -> Result:
    view = node.read()
    # By whoever told nobody, such as a person in the scheduler itself; in another one our hold may stand still.
    lifted = not (view.absent or view.held or node.claim.lost(view))
    result = node.result(view, view, _found_lifted(node, view) if lifted else [], wrote=False)
    own = str(node.params.get("called") or "").strip()
    result.data["rather"] = node._heard(lambda: absence.rather(node.driver, node.name, own))
    result.data["booted_at"] = node.look.began(view) if own else 0.0
    return result


# -- hold ------------------------------------------------------------------------------------------------------


def _held(node: _Node) -> Result:
    require(node.params, "run_id", node=node.ctx.node)
    before = node.read()
    if before.absent:
        return node.result(before, before, [], wrote=False)
    why, owner = str(node.params["why"]), node.claim.owner(before)
    if owner == FOREIGN:
        absence.its_own(node.driver, before, node.claim, str(node.params["run_id"]))
        raise node.claim.not_ours(before, wanted=f"a hold of ours ({why})")
    if node.claim.stranger and node.claim.serves(before):
        raise absence.somebody_elses(node.driver, before, node.ctx.node)
    absence.demand_named(node.driver, before, node.claim, node.known)
    called.demand(node, before)
    kind = _kind(node, before)
    if _is_drain(before) and _stands(node, before, kind, why):
        return node.result(before, before, _taken(node, before, node.claim), wrote=False)
    if kind == KEEP and not node.params.get("over_keep"):
        node.claim.demand_unkept(before, node.ctx.node, why)
    token = make_token(str(node.params["run_id"]), why, kind)
    known = node.claim
    if not node.ctx.may_write(node.driver.hold_request(before, token, kind)):
        node.claim = known.with_token(token)
        holds = (Hold(token, kind=kind), *node.claim.holds_of(before, SCHEDULER))
        after = replace(before, state=_expected(before), reason=token, holds=holds)
        return node.result(before, after, [], wrote=True)
    node.driver.hold(before, token, kind)
    node.claim = known.with_token(token)
    after = read_back(node, token, _is_drain)
    # A hold of somebody else that came meanwhile is in the result, and no evidence that the node may be touched.
    return node.result(before, after, _taken(node, after, known), wrote=True)


def _kind(node: _Node, view: NodeView) -> str:
    """A run leaves a quarantine what it is; a person may keep such a node as well."""
    asked = str(node.params.get("kind") or WORK)
    return QUARANTINE if asked == WORK and node.claim.quarantine(view) else asked


def _stands(node: _Node, view: NodeView, kind: str, why: str) -> bool:
    """Taken by this run or an earlier one of ours; or the scheduler's own finding stands where our token stood; or a
    quarantine, which no other reason of ours replaces."""
    if kind == QUARANTINE:
        return True
    if bool(node.claim.keep(view)) != (kind == KEEP):
        return False
    holds = node.claim.holds_of(view, OURS)
    if kind == KEEP:  # a person gives another reason by leaving the end of the first away, such as its date
        return any(says_just(node.claim.token if hold.overwrites else hold.token, why) for hold in holds)
    return any(says(hold.text, why) or hold.overwrites for hold in holds)


def _is_drain(view: NodeView) -> bool:
    return view.state in ("draining", "drained")


def _expected(view: NodeView) -> str:
    """What a hold would make of it, for check mode."""
    return "draining" if view.work or view.waits_for or view.state in ("allocated", "mixed", "unknown") else "drained"


def _taken(node: _Node, view: NodeView, known: Claim) -> list[Event]:
    """The ledger learns of a hold once, with who set it; a token that it knows already is no news, unless it stands in
    another record of the node, or another scheduler, now."""
    noted = known.place != Place() or view.place == Place()
    anew = known.left or not noted or (bool(known.incarnation) and view.incarnation != known.incarnation)
    holds = [hold for hold in node.claim.holds_of(view, OURS) if run_of(hold.text) and not hold.trial]
    return [taken(hold, view, known) for hold in holds if anew or not known.has(hold)]


# -- resume ----------------------------------------------------------------------------------------------------


def _resumed(node: _Node) -> Result:
    before = node.read()
    if before.absent:
        if node.driver.KEEPS_NODES:
            raise Refused(
                "the scheduler does not know this node, so it cannot be resumed",
                node=node.name,
                address=node.driver.address,
                do=node.driver.REMEDIES.absent,
            )
        return node.result(before, before, [], wrote=False)
    absence.demand_called(node.driver, before, node.claim, node.known)
    called.demand(node, before)
    before = with_its_hold(node, before)
    if not before.held:
        placed.demand(node)
        after = agent.answering(node, before)
        if node.ctx.begun:  # by an earlier part of this call, which came back to hold it again, or for no reason
            _of_the_same_boot(node, replace(before, booted=node.ctx.begun.removeprefix(_BEGUN)), after)
        return node.result(before, after, _found_lifted(node, before), wrote=False)
    _may_resume(node, before)
    _may_serve(node)
    placed.demand(node)
    before = tried.without_leftovers(node, before, _hold_again)
    trials = tried.planned(node, before)
    if node.ctx.check_mode:
        after = replace(before, state="idle", reason="", holds=(), blocks_resume=(), finding="")
        return node.result(before, after, [], wrote=True)
    ready = agent.registered(node, before)
    if not ready.held:
        # Somebody else lifted it while we waited for the agent.
        return node.result(before, agent.answering(node, ready), _found_lifted(node, before), wrote=False)
    node.look.check(before, ready)
    with tried.tried_by_a_job(node, trials, ready, _hold_again) as ready:
        if node.ctx.may_write(node.driver.resume_request(ready)):
            node.driver.resume(ready)
            node.ctx.begun = f"{_BEGUN}{ready.booted}"
    after = agent.answering(node, ready)
    _of_the_same_boot(node, ready, after)
    lifted = next(hold.text for hold in node.claim.holds_of(before, OURS) if not hold.trial)
    return node.result(before, after, released(lifted, after, node.claim), wrote=True)


def _hold_again(node: _Node, why: str) -> None:
    node.params = {**node.params, "why": why, "kind": WORK}
    _judged_anew(_held)(node)


def _may_resume(node: _Node, view: NodeView) -> None:
    owner = node.claim.owner(view)
    if owner == SCHEDULER:
        raise NotOurs(
            "the scheduler itself took this node out of service, and we hold it not",
            node=node.name,
            wanted="a hold of ours, to be lifted",
            seen=f"{view.native}, reason {view.reason!r}",
            do="look into that reason; take the hold first (scheduler_node with state held), then resume it",
        )
    if owner != OURS:
        raise node.claim.not_ours(view, wanted="a hold of ours, to be lifted")
    _not_in_quarantine(node, view)
    if view.blocks_resume:
        first = view.blocks_resume[0]
        raise Refused(
            "; ".join(block.reason for block in view.blocks_resume),
            node=node.name,
            wanted="nothing that stands in the way of a resume",
            seen=first.seen,
            do=first.do,
            details={"finding": view.finding, "blocks_resume": [block.reason for block in view.blocks_resume]},
        )


def _may_serve(node: _Node) -> None:
    """What the ledger said under our lease: nobody but us has imaged the node, or put it into quarantine, since.

    :raises EvidenceMissing: where the node would be given work without a passport.
    """
    lacks = str(node.params.get("lacks") or "")
    if lacks and not node.params.get("force_reason"):
        raise EvidenceMissing(
            "refused: nothing shows that this node is fit to serve",
            node=node.name,
            wanted=lacks,
            seen="the node held by us",
            do="run the playbook readmit, which looks at the node anew (without a valid passport revalidate before it),"
            " or give force_reason, which is recorded",
        )


def _not_in_quarantine(node: _Node, view: NodeView) -> None:
    quarantine = node.claim.quarantine(view)
    if quarantine:
        raise Refused(
            "the node is in quarantine, and no run lifts that",
            node=node.name,
            wanted="a hold of a run's own work, to be lifted",
            seen=f"{view.native}, {quarantine}",
            do="apply the remedy that its text names, then resume the node in the scheduler itself and run again",
            details={"reason": quarantine.text, "holds": node.claim.told(view)},
        )


def _of_the_same_boot(node: _Node, ready: NodeView, after: NodeView) -> None:
    """It went down right after the write, and is given work now: not for long."""
    try:
        node.look.check(ready, after)
    except EvidenceMissing as exc:
        try:
            _hold_again(node, BOOTED)
        except PermitDue:
            raise
        except FleetError as failed:
            exc.seen = f"{exc.seen}; it is IN SERVICE, and could not be held again: {failed}"
            exc.do = f"take it out of service (playbook drain); {exc.do}"
        raise exc


def _found_lifted(node: _Node, view: NodeView) -> list[Event]:
    """By somebody else; where the machine has left the scheduler of our hold, that may stand there still."""
    found = [] if node.claim.left else evidences.lifted(view, node.claim)
    return [replace(event, data={**event.data, **node._moment}) for event in found]


def _short(view: NodeView) -> dict[str, Any]:
    return {"state": view.state, "reason": view.reason}


_STATES: dict[str, Callable[[_Node], Result]] = {
    "held": _judged_anew(_held),
    "resumed": _judged_anew(_resumed),
    "present": _present,
}
