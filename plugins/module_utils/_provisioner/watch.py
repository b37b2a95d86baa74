# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind provisioner_wait: one list request a poll for a whole batch. PRIVATE to the collection.

A node that rests on its way is sent on by its next step, once. A node that failed, came back to where it was, or
is somebody else's gets a verdict; it never stops the others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    DeadlineExceeded,
    Fenced,
    FleetError,
    MissingLibrary,
    NotOurs,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    ABSENT,
    DEPLOYING,
    DONE,
    FAILED,
    STOP,
    WAIT,
    Driver,
    Image,
    NodeState,
    Wanted,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import with_deploy_id
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import connected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form, known_runs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

#: A provisioner may need this long to show that it has taken a step.
_GRACE = 20.0
#: These concern all nodes: no verdict of one node can tell them.
_OF_ALL = (AuthFailed, Fenced, MissingLibrary)
#: These may pass; only at the deadline they are the error.
_OUTAGE = (Unreachable, BadAnswer)


def watch(params: Mapping[str, Any], ctx: Context) -> Result:
    """Poll the batch until every node has a verdict, or the time is up."""
    wanted, verdicts = _batch(params, ctx)
    with connected(params, ctx) as driver:
        batch = _Batch(driver, str(params["until"]), wanted, verdicts, ctx)
        try:
            ctx.wait(
                batch.poll,
                lambda left: not left,
                timeout=0 if ctx.check_mode else float(params["timeout"]),
                interval=float(params["interval"]),
                wanted=f"{len(wanted)} nodes {params['until']}",
                seen=lambda left: batch.line(),
            )
        except DeadlineExceeded:
            batch.time_is_up(float(params["timeout"]))
    sent = {host: steps for host, steps in batch.steps.items() if steps}
    return Result(
        changed=bool(sent),
        data={"verdicts": batch.verdicts, "polls": batch.polls, "summary": batch.line(), "steps": sent},
    )


def _batch(params: Mapping[str, Any], ctx: Context) -> tuple[list[Wanted], dict[str, dict[str, Any]]]:
    """What is known of each node; those that this call cannot watch get their verdict at once."""
    wanted: list[Wanted] = []
    verdicts: dict[str, dict[str, Any]] = {}
    provisioner = str(params.get("provisioner") or "")
    for item in params.get("nodes") or []:
        host = str(item.get("host") or item.get("name") or item.get("provisioner_id") or "")
        if not host:
            raise ConfigError("a node without host", seen=str(item), do="give each entry of nodes the key host")
        elsewhere = _elsewhere(item, params)
        if elsewhere:
            verdicts[host] = _verdict(False, 0.0, None, elsewhere)
            continue
        wanted.append(
            Wanted(
                host=host,
                provisioner_id=str(item.get("provisioner_id") or ""),
                name=str(item.get("name") or host),
                boot_mac=str(item.get("boot_mac") or ""),
                serial=str(item.get("serial") or ""),
                image=Image.of(with_deploy_id(item.get("image"), item.get("deploy_id")), node=host),
                extras=own_extras({"driver": item.get("driver") or params.get("driver")}, provisioner),
                erase=bool(params.get("erase")),
                run=str(params.get("run_id") or "module"),
                runs=known_runs(item),
            )
        )
    if not wanted and not verdicts:
        raise ConfigError("no nodes to watch", node=ctx.node, do="give nodes, or call it in a play with hosts")
    return wanted, verdicts


def _elsewhere(item: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    for key in ("provisioner", "provisioner_url"):
        own, asked = item.get(key), params.get(key)
        if own and asked and own != asked:
            return f"its {key} is {own}, and this batch asks {asked}: watch them in separate plays"
    return ""


def _verdict(ok: bool, seconds: float, node: NodeState | None, reason: str) -> dict[str, Any]:
    return {
        "ok": ok,
        "state": node.state if node else ABSENT,
        "provision_state": node.native if node else "",
        "provisioner_id": node.id if node else "",
        "seconds": round(seconds, 1),
        "reason": reason,
    }


@dataclass
class _Sent:
    """The last step that a node was sent on by."""

    native: str
    step: str
    stamp: str
    at: float


class _Batch:
    def __init__(
        self,
        driver: Driver,
        goal: str,
        wanted: Sequence[Wanted],
        verdicts: dict[str, dict[str, Any]],
        ctx: Context,
    ) -> None:
        self.verdicts = verdicts
        self.polls = 0
        self.steps: dict[str, list[str]] = {one.host: [] for one in wanted}
        self._driver = driver
        self._goal = goal
        self._open = {one.host: one for one in wanted}
        self._total = len(wanted)
        self._ctx = ctx
        self._began = time.monotonic()
        self._ids: dict[str, str] | None = None
        self._last: dict[str, NodeState] = {}
        self._sent: dict[str, list[_Sent]] = {}
        self._outage: FleetError | None = None
        self._unsent: dict[str, str] = {}
        self._said = ""

    def poll(self) -> int:
        """Look at all open nodes once; returns how many are still without a verdict."""
        if not self._open:
            return 0
        try:
            if self._ids is None:
                self._ids = self._driver.resolve(list(self._open.values()))
            found = self._driver.states([self._ids[host] for host in self._open if host in self._ids])
        except _OUTAGE as exc:
            self._outage = exc
            self._ctx.say(f"no usable answer from {self._driver.name}, asking again: {exc.what}")
            return len(self._open)
        self._outage = None
        self.polls += 1
        for host, wanted in list(self._open.items()):
            node = found.get(self._ids.get(host, ""))
            self._look(wanted, node)
        if self.polls == 1:
            self._foresee()
        self._progress()
        return len(self._open)

    def _look(self, wanted: Wanted, node: NodeState | None) -> None:
        host = wanted.host
        if node is None:
            self._close(host, False, f"{self._driver.name} does not know {wanted.key}")
            return
        self._last[host] = node
        try:
            self._judge(wanted, node)
        except _OF_ALL:
            raise
        except _OUTAGE as exc:
            self._unsent[host] = str(exc)  # asked again at the next poll
        except FleetError as exc:
            self._close(host, False, str(exc.located(node=host)))

    def _judge(self, wanted: Wanted, node: NodeState) -> None:
        step = self._driver.next_step(node, self._goal, wanted)
        if step == DONE:
            self._close(wanted.host, True, "")
        elif wanted.not_ours(node):
            self._close(wanted.host, False, f"not ours to touch: {wanted.not_ours(node)}")
        elif node.state == FAILED:
            self._close(wanted.host, False, f"{node.native}: {node.last_error or 'no reason given'}")
        elif step == STOP:
            self._close(wanted.host, False, f"{node.native} needs a person: {node.last_error or 'no reason given'}")
        elif step == WAIT:
            return
        elif node.maintenance and has_form(node.hold) and not self._driver.left_over(node):
            self._close(wanted.host, False, f"in our own maintenance ({node.hold}): nothing goes on until it is lifted")
        elif self._ctx.check_mode:
            return
        elif self._may_send(wanted.host, node, step):
            self._send(wanted, node, step)

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
        self._close(host, False, f"{step} led back to {node.native}: {reason}")
        return False

    def _send(self, wanted: Wanted, node: NodeState, step: str) -> None:
        self._driver.start(step, node, wanted)
        self._sent[wanted.host].append(_Sent(node.native, step, node.stamp, time.monotonic()))
        self.steps[wanted.host].append(step)
        self._unsent.pop(wanted.host, None)
        self._ctx.say(f"{wanted.host}: {node.native}: {step}")

    def _foresee(self) -> None:
        """The proof that a node is drained is fresh now, and may be minutes old when a later step needs it."""
        if self._ctx.check_mode:
            return
        for host in self._open:
            node = self._last.get(host)
            if node is None or node.state == DEPLOYING:
                continue
            try:
                self._ctx.lifeline.foresee((host,))
            except NotOurs:
                continue  # told when, and if, the step comes

    def _close(self, host: str, ok: bool, reason: str) -> None:
        node = self._last.get(host)
        self.verdicts[host] = _verdict(ok, time.monotonic() - self._began, node, reason)
        self._open.pop(host, None)

    def line(self) -> str:
        """For instance ``12/40 deployed, 25 deploying, 3 failed``."""
        passed = sum(1 for verdict in self.verdicts.values() if verdict["ok"])
        parts = [f"{passed}/{len(self.verdicts) + len(self._open)} {self._goal}"]
        underway = Counter(self._last[host].native for host in self._open if host in self._last)
        parts += [f"{count} {native}" for native, count in sorted(underway.items())]
        failed = len(self.verdicts) - passed
        if failed:
            parts.append(f"{failed} not")
        return ", ".join(parts)

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
            node = self._last.get(host)
            error = self._unsent.get(host) or (node.last_error if node else "")
            still = f"still {node.native if node else 'unknown'} after {timeout:g} s"
            self._close(host, False, f"{still}; {error}" if error else still)
