# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind provisioner_wait: one list request a poll for a whole batch. PRIVATE to the collection.

A node that rests on its way is sent on by its next step, once. A node that failed, came back to where it was, must
be booted by others, or is somebody else's gets a verdict; it never stops the others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    NotOurs,
    PermitDue,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import wanted as wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import BOOT, DONE, STOP, WAIT
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    FAILED,
    OF_ALL,
    Driver,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import (
    can,
    demand_deployable,
    demand_its_card,
    demand_known,
    not_ours,
    right_machine,
    verified,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.standing import demand_its_place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.turn import NoTurn, turn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.verdicts import failure, summary, verdict
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import not_taken, refused, untaken

#: A provisioner may need this long to show that it has taken a step.
_GRACE = 20.0
#: These may pass; only at the deadline they are the error.
_OUTAGE = (Unreachable, BadAnswer)
_BOOT_IS_DUE = "the record is right, and the machine must now boot from the network"


def watch(params: Mapping[str, Any], ctx: Context) -> Result:
    """Poll the batch until every node has a verdict, or the time is up."""
    part = params.get("slice") or {}
    with connected(params, ctx) as driver:
        can(driver, params)
        batch = _Batch(driver, params, ctx)
        batch.goes_on(part)
        try:
            ctx.wait(
                batch.poll,
                # With no time left nobody waits for leave either.
                lambda left: not left or (bool(ctx.lifeline.due()) and params["timeout"] > 0),
                timeout=0 if ctx.check_mode else float(params["timeout"]),
                interval=float(params["interval"]),
                wanted=f"{batch.total} nodes {params['until']}",
                seen=lambda left: batch.line(),
            )
        except DeadlineExceeded:
            if not part or part.get("last"):
                batch.time_is_up(float(part.get("timeout") or params["timeout"]))
        except FleetError as exc:  # it ends the wait, and takes nothing back
            taken = {"begun": batch.steps.get(ctx.node) or "", "ordered": ctx.ordered.get(ctx.node) or ""}
            exc.details.update({key: word for key, word in taken.items() if word})
            raise
        batch.give_up(ctx.lifeline.confirm())
    sent = {host: steps for host, steps in batch.steps.items() if steps}
    line = {"due": ctx.lifeline.due(), "late": ctx.lifeline.late(), "clock": clock()}
    told = {"slice": {**batch.carried(), **line}} if part else {}
    return Result(
        changed=bool(sent),
        events=[] if part else ctx.told,  # of a slice the controller makes them
        data={"verdicts": batch.verdicts, "polls": batch.polls, "summary": batch.line(), "steps": sent, **told},
    )


@dataclass
class _Sent:
    """The last step that a node was sent on by."""

    native: str
    step: str
    stamp: str
    at: float


class _Batch:
    def __init__(self, driver: Driver, params: Mapping[str, Any], ctx: Context) -> None:
        self.verdicts: dict[str, dict[str, Any]] = {}
        self.refused: list[str] = []
        self.polls = 0
        self._driver = driver
        self._goal = str(params["until"])
        self._booted = bool(params.get("booted"))
        self._open: dict[str, Wanted] = {}
        self._take_up(params, ctx)
        self.total = len(self._open)
        self.steps: dict[str, list[str]] = {host: [] for host in self._open}
        self._ctx = ctx
        self._began = time.monotonic()
        self._ids: dict[str, str] | None = None
        self._last: dict[str, NodeState] = {}
        self._sent: dict[str, list[_Sent]] = {}
        self._due: dict[str, list[tuple[NodeState, Wanted]]] = {}
        self._outage: FleetError | None = None
        self._unsent: dict[str, FleetError] = {}
        self._said = ""

    def _take_up(self, params: Mapping[str, Any], ctx: Context) -> None:
        """What is known of each node; those that this call cannot watch get their verdict at once."""
        for item in params.get("nodes") or []:
            host = wants.host_of(item)
            why, kind = refused(item)
            elsewhere = why or wants.elsewhere(item, params)
            wanted = wants.of_batch(item, params, self._driver.name, self._driver.image_needs)
            flaw = wanted.unread or (wanted.flaw if self._goal == DEPLOYED else None)
            if ctx.check_mode and item.get("coming") and not elsewhere:
                self.verdicts[host] = verdict(True, 0.0, None, "check mode: it would be enrolled, and then waited for")
            elif elsewhere or flaw:
                kind = kind or ConfigError.kind
                self.verdicts[host] = verdict(False, 0.0, None, elsewhere or str(flaw), kind=kind)
            else:
                self._open[host] = wanted
        if not self._open and not self.verdicts:
            raise ConfigError("no nodes to watch", node=ctx.node, do="give nodes, or call it in a play with hosts")

    # -- a slice of a wait -------------------------------------------------------------------------------------

    def goes_on(self, part: Mapping[str, Any]) -> None:
        """Where a slice before this one has left off."""
        self._began -= float(part.get("elapsed") or 0.0)
        for host, sent in (part.get("sent") or {}).items():
            self._sent[host] = [_Sent(native, step, stamp, self._began + at) for native, step, stamp, at in sent]
        self._ctx.ordered.update(part.get("ordered") or {})

    def carried(self) -> dict[str, Any]:
        """What the next slice needs to know of nodes without a verdict, and who was refused in this one."""
        sent = {host: self._sent[host] for host in self._open if self._sent.get(host)}
        told = {host: [[one.native, one.step, one.stamp, one.at - self._began] for one in sent[host]] for host in sent}
        return {"sent": told, "refused": self.refused, "ordered": self._ctx.ordered}

    # -- one poll ----------------------------------------------------------------------------------------------

    def poll(self) -> int:
        """Look at all open nodes once; returns how many are still without a verdict."""
        self.give_up(self._ctx.lifeline.lost())
        if not self._open:
            return 0
        found = self._seen(list(self._open.values()))
        if found is None:
            return len(self._open)
        self.polls += 1
        self._due = {}
        for host, wanted in list(self._open.items()):
            self._on_its_own(host, self._look, wanted, found.get((self._ids or {}).get(host, "")))
        due, self._due = self._due, {}
        for step, nodes in due.items():
            self._send(step, nodes)
        self._progress()
        return len(self._open)

    def give_up(self, lost: Mapping[str, str]) -> None:
        """A host that another run has taken has no verdict but that, whatever was found before."""
        for host, reason in lost.items():
            if host in self.steps:
                self._close(host, False, reason, kind=NotOurs.kind)

    def _seen(self, nodes: Sequence[Wanted]) -> dict[str, NodeState] | None:
        """These nodes by their ids; None in an outage, which may pass."""
        try:
            if self._ids is None:
                self._ids = self._driver.resolve(list(self._open.values()))
                self._apart(self._ids)
            found = self._driver.states([self._ids[one.host] for one in nodes if one.host in self._ids])
        except _OUTAGE as exc:
            self._outage = exc
            self._ctx.say(f"no usable answer from {self._driver.name}, asking again: {exc.what}")
            return None
        self._outage = None
        return found

    def _apart(self, ids: Mapping[str, str]) -> None:
        """Two hosts that are one node of the provisioner: one of them is wrong, and nobody can tell which."""
        hosts: dict[str, list[str]] = {}
        for host, node in ids.items():
            hosts.setdefault(node, []).append(host)
        for node, same in hosts.items():
            for host in same if len(same) > 1 else []:
                others = ", ".join(one for one in same if one != host)
                told = f"its node {node} is also that of {others}: correct one"
                self._close(host, False, told, kind=ConfigError.kind)

    def _on_its_own(self, host: str, do: Any, *args: Any) -> bool:
        """Did it go well? What goes wrong with one node is that node's verdict, unless it concerns all."""
        try:
            do(*args)
        except OF_ALL:
            raise
        except FleetError as exc:
            self._went_wrong(host, exc)
            return False
        return True

    def _went_wrong(self, host: str, exc: FleetError) -> None:
        if isinstance(exc, (*_OUTAGE, PermitDue)):
            self._unsent[host] = exc  # asked again at the next poll
        else:
            self._close(host, False, str(exc.located(node=host)), kind=exc.kind)

    def _look(self, wanted: Wanted, node: NodeState | None) -> None:
        demand_its_place(self._driver, node, wanted)
        if node is None:
            told = ": ".join(filter(None, (f"{self._driver.name} does not know {wanted.key}", self._driver.hidden)))
            self._close(wanted.host, False, told, kind=ConfigError.kind)
            return
        if self._ctx.ordered.get(wanted.host) == DEPLOYED:
            # What is deployed there, or just being, is ours.
            wanted = replace(wanted, deployed=True, deploy_ids=frozenset(), stamps=frozenset())
        before, self._last[wanted.host] = self._last.get(wanted.host), node
        right_machine(self._driver, node, wanted, ask=False)
        step = self._driver.next_step(node, self._goal, wanted)
        if step == WAIT or (before and before.native != node.native):
            self._unsent.pop(wanted.host, None)  # the step was taken, whoever heard so: an outage that is over
        if step == DONE or (step == BOOT and not self._booted):
            right_machine(self._driver, node, wanted)  # who believes this verdict boots the machine, or hands it on
        reason, kind = ("", "") if step == DONE else self._no_way_on(wanted, node, step)
        if step == DONE or reason:
            self._close(wanted.host, step == DONE, reason, kind=kind)
        elif step == BOOT and not self._booted:
            self._close(wanted.host, False, _BOOT_IS_DUE, step=BOOT)
        elif step not in (WAIT, BOOT) and not self._ctx.check_mode and self._may_send(wanted.host, node, step):
            demand_known(self._driver, node, wanted)  # before the write
            demand_its_card(self._driver, step, node, wanted)
            verified(self._driver, wanted, self._goal)
            self._deployable(wanted, node)
            self._due.setdefault(step, []).append((node, wanted))

    def _deployable(self, wanted: Wanted, node: NodeState) -> None:
        """Once, before the first step of ours: the order to deploy is not the first where a release comes before it."""
        if self._goal == DEPLOYED and not self.steps[wanted.host]:
            demand_deployable(self._driver, node, wanted)

    def _no_way_on(self, wanted: Wanted, node: NodeState, step: str) -> tuple[str, str]:
        """Why nothing of ours brings this node on, in words, and of what kind that is; empty where something does."""
        foreign = not_ours(self._driver, node, wanted)
        if foreign:
            return f"not ours to touch: {foreign}", NotOurs.kind
        error = node.last_error or "no reason given"
        if node.state == FAILED:
            return failure(self._driver.name, node, f"{node.native}: {error}")
        if step == STOP:
            return f"{node.native} needs a person: {error}", ""
        if step != WAIT and node.maintenance and has_form(node.hold) and not self._driver.left_over(node):
            return f"in our own maintenance ({node.hold}): nothing goes on until it is lifted", NotOurs.kind
        return "", ""

    def _may_send(self, host: str, node: NodeState, step: str) -> bool:
        """Each step once: a node that is back where it was has not made it."""
        sent = self._sent.setdefault(host, [])
        before = next((one for one in sent if (one.native, one.step) == (node.native, step)), None)
        if before is None:
            return True
        unmoved = before is sent[-1] and before.stamp == node.stamp
        if unmoved and time.monotonic() - before.at < _GRACE:
            return False
        reason = node.last_error or "the provisioner gives no reason"
        told, kind = failure(self._driver.name, node, f"{step} led back to {node.native}: {reason}")
        self._close(host, False, told, kind=kind)
        return False

    def _send(self, step: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> None:
        nodes = self._leased([(node, wanted) for node, wanted in nodes if wanted.host in self._open])
        orders = self._orders(nodes)
        with self._ctx.lifeline.turns_together():
            while orders:
                now = orders.pop(0)
                try:
                    with turn(self._driver, self._ctx) as waited:
                        now = self._judged_again(step, now) if waited else now
                        failed = self._begun(step, now)
                except NoTurn as exc:
                    now = [one for order in [now, *orders] for one in order]
                    orders, failed = [], {wanted.host: exc for _node, wanted in now}
                self._note(step, now, failed)

    def _orders(self, nodes: Sequence[tuple[NodeState, Wanted]]) -> list[Sequence[tuple[NodeState, Wanted]]]:
        """What is written in one turn. One write after the other takes time, in which a person may take a node whose
        turn is yet to come: where each has a write of its own, each has a turn and a judgement of its own."""
        if self._driver.serial and type(self._driver).start_many is Driver.start_many:
            return [[one] for one in nodes]
        return [nodes] if nodes else []

    def _begun(self, step: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> Mapping[str, FleetError]:
        """By host, why not. What was told as taken stands, whatever befell the rest of them; of whom nothing was told
        nothing was taken, and an outage is asked again."""
        hosts = [wanted.host for _node, wanted in nodes]
        earlier = {host: self._ctx.ordered.pop(host) for host in hosts if host in self._ctx.ordered}
        told: dict[str, FleetError | None] = {}
        rest: FleetError = BadAnswer(f"the driver of {self._driver.name} does not say whether it was taken")
        try:
            for host, why in self._driver.order(step, nodes):
                told[host] = why
        except FleetError as exc:
            rest = exc
            if isinstance(exc, OF_ALL):
                raise
        finally:
            failed = {host: why for host in hosts if (why := told.get(host, rest)) is not None}
            self._not_taken(failed, earlier)
        return failed

    def _not_taken(self, failed: Mapping[str, FleetError], earlier: Mapping[str, str]) -> None:
        """Of an order that was announced the ledger is told that it was not taken, also where that ends the wait. What
        was ordered before it stands."""
        for host, exc in failed.items():
            said_no = not_taken("provisioner_wait", host, exc, announced=host in self._ctx.ordered)
            self._ctx.told += said_no
            self.refused += [event.node for event in said_no]
            untaken(self._ctx.ordered, host, exc)
        for host, goal in earlier.items():
            self._ctx.ordered.setdefault(host, goal)

    def _note(self, step: str, nodes: Sequence[tuple[NodeState, Wanted]], failed: Mapping[str, FleetError]) -> None:
        for node, wanted in nodes:
            host = wanted.host
            if host in failed:
                self._went_wrong(host, failed[host])
                continue
            self._sent[host].append(_Sent(node.native, step, node.stamp, time.monotonic()))
            self.steps[host].append(step)
            self._unsent.pop(host, None)
            self._ctx.say(f"{host}: {node.native}: {step}")

    def _leased(self, nodes: Sequence[tuple[NodeState, Wanted]]) -> list[tuple[NodeState, Wanted]]:
        """Those whose lease is ours before the wait for a turn: nobody else works on them until it comes."""
        if not self._driver.serial:
            return list(nodes)
        hold = self._ctx.lifeline.hold
        return [(node, wanted) for node, wanted in nodes if self._on_its_own(wanted.host, hold, (wanted.host,))]

    def _judged_again(self, step: str, nodes: Sequence[tuple[NodeState, Wanted]]) -> list[tuple[NodeState, Wanted]]:
        """A person may have changed a node while others wrote: those of which this step is still the next."""
        found = self._seen([wanted for _node, wanted in nodes])
        if found is None:
            return []
        self._due = {}
        for _node, wanted in nodes:
            self._on_its_own(wanted.host, self._look, wanted, found.get((self._ids or {}).get(wanted.host, "")))
        return self._due.pop(step, [])

    # -- verdicts ----------------------------------------------------------------------------------------------

    def _close(self, host: str, ok: bool, reason: str, step: str = "", kind: str = "") -> None:
        node, boots = self._last.get(host), self._driver.owns_power
        self.verdicts[host] = verdict(ok, time.monotonic() - self._began, node, reason, step, kind, boots)
        self._open.pop(host, None)

    def line(self) -> str:
        seen = (self._last[host].native if host in self._last else "" for host in self._open)
        return summary(self._goal, self.verdicts, Counter(seen))

    def _progress(self) -> None:
        line = self.line()
        if line != self._said:
            self._said = line
            self._ctx.say(line)

    def time_is_up(self, timeout: float) -> None:
        """Verdicts for what is left; an outage that lasted to the end is the whole task's error."""
        if self._outage is not None:
            raise self._outage
        for host in list(self._open):
            if self._ctx.check_mode:
                self._close(host, True, "check mode: nothing was begun, so nothing was waited for")
                continue
            node, unsent = self._last.get(host), self._unsent.get(host)
            error = str(unsent) if unsent else node.last_error if node else ""
            still = f"still {node.native if node else 'unknown'} after {timeout:g} s"
            # A step that the service never took says nothing of the node.
            self._close(host, False, f"{still}; {error}" if error else still, kind=unsent.kind if unsent else "")
