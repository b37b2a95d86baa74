# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``scheduler_wait``: watch a batch until each node is drained, or in service again.

One look at each scheduler a poll, whatever the number of nodes. The verdicts are those of the last look: a node
that was drained an hour ago is asked for again, so what the ledger is told is never older than the last poll.
PRIVATE to the collection.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    LeaseLost,
    NotOurs,
    PermitDue,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.absence import doubts, is_elsewhere
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.anew import put_on
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    Hold,
    NodeView,
    Refusal,
    Scheduler,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import evidence, taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import (
    JUDGES,
    Judgement,
    after_eviction,
    after_outage,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.watched import Watched
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result

#: Looks in a row at another scheduler than the host's, after which that is its verdict: a slurm.conf that is being
#: written anew leads elsewhere for seconds, and is no reason to give up a drain of hours.
_ELSEWHERE = 3


class _Cluster:
    """One scheduler and the hosts of the batch that belong to it."""

    def __init__(self, driver: Scheduler, hosts: Sequence[Watched]) -> None:
        self.driver = driver
        self.hosts = list(hosts)
        self.trouble: Unreachable | None = None
        self.moment: Mapping[str, Any] = {}

    def look(self, ctx: Context) -> None:
        moment = ctx.moment()
        try:
            views = self.driver.states([host.name for host in self.hosts])
            doubted = doubts(self.driver, views, {host.name: host.claim for host in self.hosts})
        except Unreachable as exc:
            # A controller that restarts is no reason to give up a drain of hours; the deadline is.
            self.trouble = exc
            for host in self.hosts:
                host.was_away = True
            return
        self.trouble, self.moment = None, moment
        for host in self.hosts:
            host.view = views[host.name]
            other = self.driver.KEEPS_NODES and is_elsewhere(host.view, host.claim)
            host.elsewhere = host.elsewhere + 1 if other else 0
        for host in [one for one in self.hosts if one.name in doubted]:
            told, kind = str(doubted[host.name].located(node=host.host)), doubted[host.name].kind
            if 0 < host.elsewhere < _ELSEWHERE:
                host.doubt(told, kind)
                continue
            host.refuse(told, kind)
            self.hosts.remove(host)

    def end(self) -> None:
        """The deadline: whoever was elsewhere in the last look is told as that."""
        for host in self.hosts if self.trouble is None else ():
            if host.elsewhere:
                host.refuse(host.judgement.reason, host.judgement.kind)

    def evict(self, due: Mapping[str, Watched], ctx: Context) -> None:
        """What is refused is told of its node; the next look shows what has left.

        due: by its node, each host of which something may be made to leave.
        """
        views = [host.view for host in due.values() if host.view is not None]
        told = self.driver.evict_each(views, lambda name: ctx.lifeline.still((due[name].host,)))
        for name, host in due.items():
            self._evicted(host, told[name])
            host.judgement = after_eviction(host.judgement, host.refusals)

    def _evicted(self, host: Watched, told: Union[Sequence[Refusal], FleetError]) -> None:
        if isinstance(told, Unreachable):
            self.trouble = told
        elif isinstance(told, Refused):
            host.refusals = [Refusal("all", str(told), for_good=True)]
        elif isinstance(told, (Changed, LeaseLost, PermitDue)):
            host.refusals = ()  # looked at anew at the next poll, or given up there
        elif isinstance(told, FleetError):
            raise told
        else:
            host.refusals = told


class _Watch:
    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.params = params
        self.ctx = ctx
        self.judge = JUDGES[params["until"]]
        part = params.get("slice") or {}
        self.whole = float(part.get("timeout") or params["timeout"])
        self.begun = time.monotonic() - float(part.get("elapsed") or 0)
        self.over = False
        self.last_told = ""
        self.hosts = [Watched(node, params) for node in params.get("nodes") or []]
        self._goes_on(part)
        self._apart()
        self.clusters = self._clusters()

    def _apart(self) -> None:
        """Two hosts that name one node of one scheduler: one of them is wrong, and nobody can tell which."""
        known: dict[tuple[str, str], list[Watched]] = {}
        for host in self.hosts:
            known.setdefault((repr(host.connection), host.name), []).append(host)
        for (_connection, name), hosts in known.items():
            for host in hosts if len(hosts) > 1 else []:
                others = ", ".join(one.host for one in hosts if one is not host)
                host.refused = host.refused or f"its scheduler_node {name} is also that of {others}: correct one"
                host.judgement = Judgement(False, False, host.refused, kind=ConfigError.kind)

    def _clusters(self) -> list[_Cluster]:
        """The batch by scheduler; a host whose own options are wrong is refused alone."""
        groups: dict[str, list[Watched]] = {}
        drivers: dict[str, Scheduler] = {}
        for host in self.hosts:
            key = repr(host.connection)
            if host.refused:
                continue
            try:
                if key not in drivers:
                    drivers[key] = open_scheduler(host.connection, node=host.host)
                drivers[key].check(host.name)
            except ConfigError as exc:
                host.refused = str(exc.located(node=host.host))
                host.judgement = Judgement(False, False, host.refused, kind=exc.kind)
                continue
            groups.setdefault(key, []).append(host)
        return [_Cluster(drivers[key], hosts) for key, hosts in groups.items()]

    def _goes_on(self, part: Mapping[str, Any]) -> None:
        """A machine elsewhere is sent one look after the other, and remembers nothing of the one before."""
        settled, stuck, again = (part.get(key) or {} for key in ("settled", "stuck", "again"))
        for host in self.hosts:
            host.was_away = host.host in (part.get("away") or ())
            host.elsewhere = int((part.get("elsewhere") or {}).get(host.host) or 0)
            if host.host in again:
                host.hold_again(str(again[host.host]))
            if host.host in settled:
                host.settled_before = True
                host.settled_after = float(settled[host.host])
            if host.host in stuck:
                host.stuck_since = self.begun + float(stuck[host.host])

    def carried(self) -> dict[str, Any]:
        """What the next look has to know, in seconds since the beginning; is this one the last?"""
        stuck = {host.host: host.stuck_since - self.begun for host in self.hosts if host.stuck_since is not None}
        settled = {host.host: host.settled_after for host in self.hosts if host.judgement.settled}
        away = [host.host for host in self.hosts if host.was_away]
        elsewhere = {host.host: host.elsewhere for host in self.hosts if host.elsewhere}
        again = {host.host: host.claim.incarnation for host in self.hosts if host.again}
        line = {"due": self.ctx.lifeline.due(), "late": self.ctx.lifeline.late(), "clock": clock()}
        seen = {"settled": settled, "stuck": stuck, "away": away, "elsewhere": elsewhere, "again": again}
        return {"over": self.over, **seen, **line}

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self.ctx.wait(
                self._poll,
                bool,
                timeout=0 if self.ctx.check_mode else float(self.params["timeout"]),
                interval=float(self.params["interval"]),
                wanted=str(self.params["until"]),
            )
        except DeadlineExceeded:
            # The deadline is each node's own verdict, not the batch's failure.
            self._no_answer_at_all()
            for cluster in self.clusters:
                cluster.end()

    def give_up(self, lost: Mapping[str, str]) -> None:
        """A host that another run has taken meanwhile is none of ours any more: no verdict, no evidence."""
        for host, reason in lost.items():
            for cluster in self.clusters:
                cluster.hosts = [one for one in cluster.hosts if one.host != host]
            for one in self.hosts:
                if one.host == host:
                    one.refuse(reason, NotOurs.kind)

    def _poll(self) -> bool:
        self.give_up(self.ctx.lifeline.lost())
        for cluster in self.clusters:
            cluster.look(self.ctx)
            if cluster.trouble is None:
                self._consider_all(cluster)
        self._tell()
        unread = any(cluster.trouble for cluster in self.clusters)
        self.over = not unread and all(host.refused or host.judgement.settled for host in self.hosts)
        return self.over

    def _consider_all(self, cluster: _Cluster) -> None:
        """Judged each by itself; what is to leave is asked together."""
        due: dict[str, Watched] = {}
        judged: list[tuple[Watched, NodeView, Judgement]] = []
        for host in cluster.hosts:
            view, before = host.view, host.judgement
            if view is None:
                continue
            if self.judge is JUDGES["drained"] and host.claim.lost(view) and not self.ctx.check_mode:
                self._hold_again(cluster, host, view)
                continue
            judged.append((host, view, before))
            due.update({view.name: host} if self._may_evict(cluster.driver, host, view) else {})
        cluster.evict(due, self.ctx)
        for host, view, before in judged:
            self._considered(cluster, host, view, before)

    def _may_evict(self, driver: Scheduler, host: Watched, view: NodeView) -> bool:
        """Judges it: is anything due to leave, and may it be asked?"""
        host.judgement = self.judge(view, host.claim, kept=driver.KEEPS_NODES, check_mode=self.ctx.check_mode)
        host.refusals = ()
        request = driver.evict_request(view) if host.judgement.evict else ""
        with contextlib.suppress(LeaseLost, PermitDue):  # given up at the next poll, or sent with leave at the next
            return bool(request) and self.ctx.may_write(request, nodes=(host.host,))
        return False

    def _considered(self, cluster: _Cluster, host: Watched, view: NodeView, before: Judgement) -> None:
        if host.judgement.settled and not before.settled and not host.settled_before:
            host.settled_after = time.monotonic() - self.begun
        host.settled_before = host.judgement.settled and host.settled_before
        self._stuck(host, view, cluster.driver)

    def _hold_again(self, cluster: _Cluster, host: Watched, view: NodeView) -> None:
        """Its record was made anew, as by a reimage, and our hold went with the old one; the next poll sees."""
        host.judgement = Judgement(False, False, "its record was made anew without our hold, which is put on again")
        try:
            if put_on(cluster.driver, self.ctx, view, host.claim.token, hosts=(host.host,)):
                host.hold_again(view.incarnation)
        except Unreachable as exc:
            cluster.trouble = exc
        except Refused as exc:
            host.judgement = Judgement(False, True, f"its record was made anew without our hold: {exc}")
        except (LeaseLost, PermitDue, Changed):
            return  # given up, sent with leave, or judged anew at the next poll

    def _stuck(self, host: Watched, view: NodeView, driver: Scheduler) -> None:
        """Work that ended and does not go away."""
        if not view.waits_for:
            host.stuck_since = None
            host.stuck_told = False
            return
        now = time.monotonic()
        host.stuck_since = now if host.stuck_since is None else host.stuck_since
        host.stuck_remedy = driver.REMEDIES.stuck
        if now - host.stuck_since >= float(self.params["completing_timeout"]) and not host.stuck_told:
            host.stuck_told = True
            self.ctx.say(f"{host.host}: {_stuck_text(host, view)}")

    def _no_answer_at_all(self) -> None:
        lost = [cluster for cluster in self.clusters if cluster.trouble is not None]
        if lost and len(lost) == len(self.clusters):
            raise lost[0].trouble or Unreachable("the scheduler does not answer")
        for cluster in lost:
            for host in cluster.hosts:
                host.view = None
                host.judgement = Judgement(False, True, str(cluster.trouble), kind=Unreachable.kind)

    def _tell(self) -> None:
        """One line whenever something changed."""
        counts = Counter(host.view.state if host.view else ("refused" if host.refused else "?") for host in self.hosts)
        text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        waiting = [host for host in self.hosts if not host.refused and not host.judgement.settled]
        if waiting:
            shown = "; ".join(f"{host.host}: {host.judgement.reason}" for host in waiting[:3])
            text += f"; waiting for {len(waiting)} ({shown}{'; ...' if waiting[3:] else ''})"
        if text != self.last_told:
            self.last_told = text
            self.ctx.say(text)

    # -- the end -----------------------------------------------------------------------------------------------

    def verdict(self, host: Watched) -> dict[str, Any]:
        view = host.view or NodeView(host.name, state="unknown")
        judgement = self._last_word(host, view)
        return {
            "ok": judgement.ok,
            "state": view.state,
            "native": view.native,
            "reason": judgement.reason,
            "seconds": round(host.settled_after if judgement.settled else time.monotonic() - self.begun, 1),
            "jobs": view.jobs,
            "waits": _waits(host, view),
            "owner": host.claim.owner(view) if host.view else "",
            "holds": host.claim.told(view),
            "finding": view.finding,
            "kind": "" if judgement.ok else judgement.kind,
        }

    def _last_word(self, host: Watched, view: NodeView) -> Judgement:
        """No wait goes on: what has not come by now is told as that, and whether the node is to blame for it."""
        judgement = host.judgement
        if not judgement.settled and not host.refused and not self.ctx.check_mode:
            reason = f"not within {self.whole:g} s: {_stuck_text(host, view) or judgement.reason}"
            judgement = replace(judgement, reason=reason)
        away = host.was_away and not host.refused
        return after_outage(judgement, view, str(host.connection.get("scheduler") or "it")) if away else judgement

    def events(self) -> list[Event]:
        seen = [(one, host, host.view) for one in self.clusters for host in one.hosts if host.view is not None]
        anew = [(host, replace(view, incarnation=host.claim.incarnation)) for _in, host, view in seen if host.again]
        again = [taken(Hold(host.claim.token), view, host.claim, host.host) for host, view in anew]
        return again + [
            evidence(view, host.claim, scheduler=cluster.driver.NAME, host=host.host, moment=cluster.moment)
            for cluster, host, view in seen
        ]


def _waits(host: Watched, view: NodeView) -> dict[str, str]:
    """Why work does not leave, by its id: what the scheduler tells of it, and what refused the eviction."""
    told = {work.id: work.waits_for for work in view.work if work.waits_for}
    return {**told, **{refusal.work: refusal.reason for refusal in host.refusals}}


def _stuck_text(host: Watched, view: NodeView) -> str:
    if host.stuck_since is None or not view.waits_for:
        return ""
    seconds = time.monotonic() - host.stuck_since
    still = f" ({view.waits_for})" if view.waits_for not in view.native else ""
    return f"{view.native} for {seconds:.0f} s although no job runs{still}: {host.stuck_remedy}"


def scheduler_wait(params: Mapping[str, Any], ctx: Context) -> Result:
    """Verdicts by host. Fails itself only on what concerns all: no rights, no answer until the deadline."""
    watch = _Watch(params, ctx)
    try:
        watch.run()
    except FleetError as exc:
        exc.located(address=watch.clusters[0].driver.address if watch.clusters else "")
        raise
    watch.give_up(ctx.lifeline.confirm())
    verdicts = {host.host: watch.verdict(host) for host in watch.hosts}
    return Result(
        changed=bool(ctx.asked),
        data={
            "until": params["until"],
            "verdicts": verdicts,
            "not_ok": sorted(host for host, verdict in verdicts.items() if not verdict["ok"]),
            **({"slice": watch.carried()} if params.get("slice") else {}),
        },
        events=watch.events(),
    )
