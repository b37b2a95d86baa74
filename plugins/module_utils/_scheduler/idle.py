# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``gate_idle``: verify idle nodes in jobs of their scheduler, which give way to everybody. PRIVATE.

PRIVATE to the collection. One look at each scheduler a poll, whatever the number of nodes. Nothing is taken out of
service: the job is what has the node, and whoever wants that displaces it, a drain of ours among them. What is believed
is the file of a job that ended by itself and well; of any other nothing is said of its node.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ansible_collections.gpufleet.baremetal.plugins.module_utils._broken_off import BrokenOff
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    DeadlineExceeded,
    FleetError,
    NotOurs,
    Refused,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import jobs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.jobs import Ask, Job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.watched import Watched
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import clean_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until

#: What a call comes to with a node: nothing was begun there, a job had to give way to other work, or to a run or a hold
#: of ours or another's, it ended without a result, the node was judged, or it would be (check mode).
OUTCOMES = (SKIPPED, DISPLACED, YIELDED, CUT, JUDGED, FORETOLD) = (
    *("skipped", "displaced", "yielded", "cut", "judged", "foretold"),
)
#: How long a job that was told to end is waited for at the end; then it ends by its own limit.
_ENDING_SECONDS = 30.0
_ENDING_INTERVAL = 0.5


#: Of a job that was not taken nothing goes on; after any other error it may.
_NOT_SENT = (AuthFailed, ConfigError, Refused, Unsupported)


class Aide(Protocol):
    """What only the controller knows of the hosts, and can do there."""

    def working(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Those on which another run works now, and which."""

    def dead(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """By host, a run that worked on it last and is certainly over."""

    def script(self, host: str) -> tuple[str, float]:
        """What its job runs, and for how many seconds at most. :raises FleetError: where nothing can be run there."""

    def let_go(self, host: str) -> None:
        """Another run may take it from now on."""

    def judged(self, host: str) -> Mapping[str, Any]:
        """What its job has found, written down; :data:`JUDGED` is what it came to where that is a verdict."""

    def tidy(self, hosts: Sequence[str]) -> None:
        """Take away what their jobs may have left there."""


class _Node(Watched):
    """One host: what is done with it, and what came of that."""

    def __init__(self, node: Mapping[str, Any], params: Mapping[str, Any], run: str) -> None:
        super().__init__(node, params)
        self.token = jobs.token(run, self.name)
        self.job = ""
        self.since: float | None = None
        #: Told to end, as what.
        self.ending: tuple[str, str] | None = None
        self.verdict: dict[str, Any] | None = None

    @property
    def waits(self) -> bool:
        return self.verdict is None and self.since is None

    @property
    def open(self) -> bool:
        return self.verdict is None and self.since is not None

    def conclude(self, came_to: str, reason: str, kind: str = "", **more: Any) -> None:
        told = {"ok": False, "verdict": "", "reason": reason, "kind": kind, "findings": [], "remedy": "none"}
        seconds = 0.0 if self.since is None else round(time.monotonic() - self.since, 1)
        self.verdict = {**told, "event": 0, "came_to": came_to, "job": self.job, "seconds": seconds, **more}


class _Cluster:
    """One scheduler, and those of the hosts that belong to it."""

    def __init__(self, driver: Scheduler, nodes: Sequence[_Node], queue: str) -> None:
        self.driver, self.nodes, self.queue = driver, list(nodes), queue
        self.trouble: Unreachable | None = None
        self.views: Mapping[str, NodeView] = {}
        self.jobs: dict[str, Job] = {}
        self.all: Sequence[Job] = ()

    def demand_yields(self) -> None:
        """Before anything is begun: whoever cannot displace a job of ours is not disturbed by one."""
        try:
            why = self.driver.unyielding(self.queue, [node.name for node in self.nodes])
        except (ConfigError, Unsupported) as exc:
            for node in self.nodes:
                node.conclude(SKIPPED, str(exc), exc.kind)
            return
        for node in (one for one in self.nodes if one.name in why):
            node.conclude(SKIPPED, why[node.name], ConfigError.kind)

    def look(self) -> bool:
        """Did it answer? One that is away is asked again at the next poll; its jobs go on or end without us."""
        left = [node.name for node in self.nodes if node.verdict is None]
        if not left:
            return False
        try:
            self.views, self.all = self.driver.states(left), self.driver.own_jobs()
        except Unreachable as exc:
            self.trouble = exc
            return False
        self.trouble = None
        self.jobs = {job.token: job for job in sorted(self.all, key=lambda one: int(one.id) if one.id.isdigit() else 0)}
        return True


class _Idle:
    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.params, self.ctx = params, ctx
        self.aide: Aide = params["aide"]
        self.run = str(params["run_id"])
        self.nodes = [_Node(node, params, self.run) for node in params.get("nodes") or []]
        for node in self.nodes:
            if node.refused:
                node.conclude(SKIPPED, node.refused, node.judgement.kind or NotOurs.kind)
        self.clusters = self._clusters()
        self.events: list[Event] = []
        self.failed = False
        self.said = ""

    def _clusters(self) -> list[_Cluster]:
        groups: dict[str, list[_Node]] = {}
        drivers: dict[str, Scheduler] = {}
        for node in (one for one in self.nodes if one.verdict is None):
            key = repr(node.connection)
            try:
                drivers.setdefault(key, open_scheduler(node.connection, node=node.host)).check(node.name)
            except ConfigError as exc:
                node.conclude(SKIPPED, str(exc.located(node=node.host)), exc.kind)
                continue
            groups.setdefault(key, []).append(node)
        return [_Cluster(drivers[key], nodes, str(self.params["queue"])) for key, nodes in groups.items()]

    # -- the loop ----------------------------------------------------------------------------------------------

    def go(self) -> None:
        for cluster in self.clusters:
            cluster.demand_yields()
        self._end_what_is_left()
        with contextlib.suppress(DeadlineExceeded):
            timeout = 0 if self.ctx.check_mode else float(self.params["timeout"])
            interval = float(self.params["interval"])
            self.ctx.wait(self._poll, bool, timeout=timeout, interval=interval, wanted="idle nodes verified")

    def _poll(self) -> bool:
        """Is all over?"""
        for cluster in self.clusters:
            if cluster.look():
                self._follow(cluster)
                self._begin(cluster)
        self._tell()
        return all(node.verdict is not None for node in self.nodes)

    def _follow(self, cluster: _Cluster) -> None:
        going = [node for node in cluster.nodes if node.open]
        others = self.aide.working([node.host for node in going]) if going else {}
        ended = []
        for node in going:
            job = cluster.jobs.get(node.token)
            if job is None or job.over:
                self._over(node, job)
                continue
            node.job = job.id
            why = self._must_yield(node, cluster.views[node.name], job, others.get(node.host, ""))
            if why and node.ending is None:
                node.ending = (YIELDED, why)
                ended.append(job.id)
        self._end_jobs(cluster, ended)

    def _must_yield(self, node: _Node, view: NodeView, job: Job, other: str) -> str:
        """Why a job that nobody has displaced is ended by us: it is never what a drain, or another run, waits for."""
        if other:
            return f"another run works on the node: {other}"
        if view.held:
            return f"the node is held: {'; '.join(map(str, view.holds))}"
        late = node.since is not None and time.monotonic() - node.since > float(self.params["start_timeout"])
        return f"its job did not start within {self.params['start_timeout']:g} s" if late and _waits(job) else ""

    def _over(self, node: _Node, job: Job | None) -> None:
        """A result is that of a job that ended by itself; whatever else became of one says nothing of its node."""
        if job is None and node.since is not None and time.monotonic() - node.since < float(self.params["interval"]):
            return  # begun just now; what was listed may be older
        node.job = job.id if job is not None else node.job
        if job is not None and job.state == jobs.DONE and node.ending is None:
            self._judge(node)
        elif node.ending is not None:
            node.conclude(*node.ending)
        elif job is not None and job.state == jobs.DISPLACED:
            node.conclude(DISPLACED, "other work has displaced the verification, which says nothing of the node")
        else:
            native = job.native if job is not None else "unknown to the scheduler"
            node.conclude(CUT, f"its job ended without a result: {native}")
        self._note(node)
        self.aide.tidy([node.host])

    def _judge(self, node: _Node) -> None:
        found = dict(self.aide.judged(node.host))
        node.conclude(found.pop("came_to"), found.pop("reason"), found.pop("kind", ""), **found)
        self.failed = self.failed or found["verdict"] == "fail"

    def _note(self, node: _Node) -> None:
        """That it was tried, for whoever reads the node's history; of a verdict the ledger has more already."""
        told = node.verdict or {}
        if told.get("came_to") != JUDGED:
            data = {"text": told.get("reason", ""), "came_to": told.get("came_to", ""), "job": node.job}
            self.events.append(Event("note", "gate_idle", data, node.host))

    # -- a beginning -------------------------------------------------------------------------------------------

    def _begin(self, cluster: _Cluster) -> None:
        """In the order of the hosts, which is by their newest verdict, the oldest first."""
        for node in [one for one in cluster.nodes if one.waits]:
            going = sum(one.open for one in self.nodes)
            if going >= int(self.params["at_once"]) and not self.ctx.check_mode:
                return
            if self.failed:  # whoever holds the node that failed comes behind this call
                node.conclude(SKIPPED, "a node has failed, and nothing new was begun before that is dealt with")
                continue
            self._begin_one(cluster, node)

    def _begin_one(self, cluster: _Cluster, node: _Node) -> None:
        why = cluster.driver.spare(cluster.views[node.name])
        if why:
            node.conclude(SKIPPED, f"not idle: {why}", NotOurs.kind)
            return
        other = self.aide.working([node.host]).get(node.host)
        if other:
            node.conclude(SKIPPED, f"another run works on the node: {other}", NotOurs.kind)
            return
        try:
            script, seconds = self.aide.script(node.host)
            if not self.ctx.may_write(f"sbatch {jobs.NAME} on {node.name}", nodes=(node.host,)):
                node.conclude(FORETOLD, f"would be verified by a job in {cluster.queue}")
                return
            self._sent(cluster, node, Ask(node.name, node.token, cluster.queue, seconds, script))
        except FleetError as exc:
            if node.waits:  # else it may have been taken all the same, which the next look tells by its token
                node.conclude(SKIPPED, str(exc.located(node=node.host)), exc.kind)

    def _sent(self, cluster: _Cluster, node: _Node, ask: Ask) -> None:
        node.since = time.monotonic()
        try:
            node.job = cluster.driver.run_job(ask)
        except _NOT_SENT:
            node.since = None
            raise
        finally:
            self.aide.let_go(node.host)

    # -- an end ------------------------------------------------------------------------------------------------

    def _end_what_is_left(self) -> None:
        """Of a run that was killed: its jobs would keep their nodes from being looked at until their own limit."""
        if self.ctx.check_mode:
            return
        for cluster in self.clusters:
            if not cluster.look():
                continue
            over = self.aide.dead([node.host for node in cluster.nodes])
            for node in cluster.nodes:
                run = over.get(node.host)
                left = [job.id for job in cluster.all if job.node == node.name and not job.over and _is_of(job, run)]
                if left and self._may_end(node, left):
                    self._end_jobs(cluster, left)

    def _may_end(self, node: _Node, left: Sequence[str]) -> bool:
        try:
            return self.ctx.may_write(f"scancel {' '.join(left)}", nodes=(node.host,))
        except FleetError:
            return False  # somebody works on it now, and ends what is in the way
        finally:
            self.aide.let_go(node.host)

    def _end_jobs(self, cluster: _Cluster, ids: Sequence[str]) -> None:
        """What was not taken is sent again: at the next poll, or at the end."""
        try:
            cluster.driver.end_jobs(ids)
        except FleetError as exc:
            self.ctx.warnings.append(f"not ended: {', '.join(ids)}: {exc}")

    def end(self) -> None:
        """Nothing of this call is left behind, however it ends."""
        left = [(cluster, node) for cluster in self.clusters for node in cluster.nodes if node.open]
        for cluster in {id(one): one for one, _node in left}.values():
            self._end_all(cluster, [node for one, node in left if one is cluster])
        for _cluster, node in left:
            came_to, reason = node.ending or (YIELDED, f"not within {self.params['timeout']:g} s: its job was ended")
            node.conclude(came_to, reason)
            self._note(node)
        if left:
            self.aide.tidy([node.host for _cluster, node in left])
        for node in (one for one in self.nodes if one.verdict is None):
            trouble = next((str(one.trouble) for one in self.clusters if node in one.nodes and one.trouble), "")
            kind = Unreachable.kind if trouble else ""
            node.conclude(SKIPPED, trouble or "its turn did not come within the time of this call", kind)

    def _end_all(self, cluster: _Cluster, nodes: Sequence[_Node]) -> None:
        tokens = {node.token for node in nodes}

        def gone() -> bool:
            with contextlib.suppress(Unreachable):
                going = [job.id for job in cluster.driver.own_jobs() if job.token in tokens and not job.over]
                cluster.driver.end_jobs(going)
                return not going
            return False

        try:
            timeout, interval = _ENDING_SECONDS, _ENDING_INTERVAL
            wait_until(gone, bool, timeout=timeout, interval=interval, wanted="the jobs of this call ended")
        except FleetError as exc:
            ids = ", ".join(node.job or node.name for node in nodes)
            self.ctx.warnings.append(f"these jobs may go on to their own limit: {ids}: {exc}")

    # -- the result --------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        going, over = sum(node.open for node in self.nodes), sum(node.verdict is not None for node in self.nodes)
        text = f"{going} idle nodes are being verified, {over} of {len(self.nodes)} are done with"
        if text != self.said:
            self.said = text
            self.ctx.say(text)

    def result(self) -> Result:
        verdicts = {node.host: node.verdict for node in self.nodes}
        data = {"gate": str(self.params["gate"]), "verdicts": verdicts}
        return Result(changed=bool(self.ctx.asked), data=data, events=self.events)


def _waits(job: Job) -> bool:
    return job.state in (jobs.WAITS, jobs.UNKNOWN)


def _is_of(job: Job, run: str | None) -> bool:
    return bool(run) and job.run == clean_run(str(run))


def gate_idle(params: Mapping[str, Any], ctx: Context) -> Result:
    """Verdicts by host. Fails itself only on what concerns all."""
    idle, broken = _Idle(params, ctx), BrokenOff()
    broken.hold()
    try:
        idle.go()
    finally:
        broken.leaving()
        try:
            idle.end()
        finally:
            broken.release()
    return idle.result()
