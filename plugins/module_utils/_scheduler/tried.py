# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job of ours tries a node before its resume gives it to others. PRIVATE to the collection.

The node is reserved for us while it is still held, the job waits inside, the resume lets it start, and once it has
ended as it was to, the reservation goes. From the hold on there is no moment at which somebody else's job could get
there. Where anything else comes of it the node is held again first, and the reservation goes then: one that cannot be
held is safe inside, and the next run finds it there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    Changed,
    ConfigError,
    DeadlineExceeded,
    EvidenceMissing,
    FleetError,
    NotProven,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import (
    BOOTED,
    ELSEWHERE,
    FAILED,
    HUNG,
    LEFT,
    OURS,
    UNSEEN,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.names import ALWAYS, NEVER
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.trials import Job, Trials
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

#: What says that this site, or this login, cannot have it; nothing of the node.
_NOT_HERE = (AuthFailed, ConfigError, Refused, Unsupported)
#: Where every system lets every user write, and what is written outlives a job's own /tmp.
_FOLDER = "/var/tmp"
#: It says where it runs by what the scheduler's agent gave it, and by the kernel; on another node it fails by itself.
_SCRIPT = """\
PATH=/usr/bin:/bin
echo "{said}"
{readable}
[ "$SLURMD_NODENAME" = "{node}" ]
"""

Hold = Callable[[Any, str], None]


class _Unwanted(Refused):
    """The scheduler lets the job wait for what no node could bring about."""


class _Trial:
    """One node of one call. node: as of ``scheduler_node``."""

    def __init__(self, node: Any, trials: Trials) -> None:
        self.node, self.trials, self.ctx = node, trials, node.ctx
        self.token = make_token(str(node.params["run_id"]), f"trial-{node.name}")
        self.said = f"gpufleet-{secrets.token_hex(12)}"
        #: Where nobody can read it, it leaves nothing behind either.
        self.output = f"{_FOLDER}/{self.said}.out" if self.ctx.node_file is not None else ""
        self.job = ""
        self.reserved = False
        #: Is the node about to be resumed, or is it already?
        self.open = False

    def prepare(self, ready: NodeView) -> NodeView:
        """Reserve, and have the job wait; the node as it is then."""
        node, trials = self.node, self.trials
        self.ctx.may_write(trials.reserve_request(node.name, self.token))
        self.reserved = True  # from here on it may be there, whatever became of the write
        trials.reserve(node.name, self.token)
        node.claim = replace(node.claim, trial=self.token)
        self.ctx.may_write(trials.submit_request(node.name, self.token))
        readable = f'chmod 0644 "{self.output}"' if self.output else ":"
        script = _SCRIPT.format(said=self.said, readable=readable, node=node.name)
        self.job = trials.submit(node.name, self.token, script, self.output or "/dev/null")
        self._demand_wanted(trials.job(self.job))
        now = self._still_ours()
        node.look.check(ready, now)
        self.open = True
        return now

    def drop(self, exc: FleetError) -> NodeView:
        """It cannot be had here: the node without it.

        :raises Refused: where it must be had.
        """
        _not_here(self.node, exc)
        self.lift()
        self.job = ""
        return self._still_ours()

    def _still_ours(self) -> NodeView:
        view: NodeView = self.node.read()
        self.node.may_resume(view)
        return view

    def _demand_wanted(self, job: Job) -> None:
        if job.refused:
            raise _Unwanted(
                "the scheduler never starts a job of ours on this node",
                node=self.node.name,
                address=self.node.driver.address,
                seen=f"job {self.job}: {job.state}, {job.refused}",
                do="let this user run jobs there, or say trial=never (of the role join: join_trial)",
            )

    def judge(self, ready: NodeView) -> None:
        """Wait until it has ended, and see that it did so there, and said what it was to say.

        :raises NotProven: which is a verdict about the node. In its details, ``held_for``: in words for the hold.
        """
        try:
            job: Job = self.ctx.wait(
                self._look,
                lambda seen: seen.over,
                timeout=float(self.node.params["timeout"]),
                interval=float(self.node.params["interval"]),
                wanted=f"job {self.job} of ours at its end on this node",
                seen=lambda seen: f"{seen.state} on {seen.node or 'no node'}",
                do="look at the scheduler's agent on the node, at its prolog, and at scontrol show job",
            )
        except DeadlineExceeded as exc:
            exc.details["held_for"] = HUNG
            raise
        if (job.node or job.well) and (job.node != self.node.name or job.inside != self.token):
            raise self._wrong(ELSEWHERE, f"{job.state} on {job.node or 'no node'}, in {job.inside or 'no reservation'}")
        if not job.well:
            raise self._wrong(FAILED, job.state)
        self._read()
        self._demand_same_boot(ready)
        self.node.tried.update(made=True, job=self.job)
        self.node.noted.append(Event("note", "tried_by_a_job", {"job": self.job, "reservation": self.token}))

    def _demand_same_boot(self, ready: NodeView) -> None:
        try:
            self.node.look.check(ready, self.node.read())
        except EvidenceMissing as exc:
            exc.details["held_for"] = BOOTED
            raise

    def _look(self) -> Job:
        job: Job = self.node._heard(lambda: self.trials.job(self.job))
        self._demand_wanted(job)
        return job

    def _read(self) -> None:
        """Where this task has a way to the node; else its own exit status has to do."""
        told = self.ctx.node_file(self.output) if self.output and self.ctx.node_file is not None else None
        if told is not None and self.said not in told.split():
            raise self._wrong(
                UNSEEN, f"in {self.output} of the machine that this host is: {cut(told, 100) or 'nothing'}"
            )

    def _wrong(self, why: str, seen: str) -> NotProven:
        return NotProven(
            f"{why}, so the node is given to nobody",
            node=self.node.name,
            address=self.node.driver.address,
            wanted=f"job {self.job} COMPLETED on {self.node.name}, with its output there",
            seen=seen,
            do="look at the log of the scheduler's agent on the node and at its prolog and epilog; where it is the site"
            " that cannot have such jobs, say trial=never (of the role join: join_trial)",
            details={"held_for": why},
        )

    def lift(self) -> None:
        lift(self.node, self.trials, self.token)
        self.reserved = False


def lift(node: Any, trials: Trials, token: str) -> None:
    """Take away what keeps others off; asked again while a job of ours is just ending there, or Slurm is away."""
    node.ctx.written(
        trials.lift_request(token),
        lambda: bool(node._heard(lambda: trials.lift(token))),
        bool,
        timeout=float(node.params["timeout"]),
        interval=float(node.params["interval"]),
        wanted=f"no reservation {token}",
        do="delete it by hand: scontrol delete ReservationName=...",
    )


def without_leftovers(node: Any, view: NodeView, hold: Hold) -> NodeView:
    """A run was killed in the middle: what it left is taken away behind a hold, and all begins anew."""
    left = [one.text for one in view.holds if one.trial and node.claim.owner_of(one) == OURS]
    if not left or node.ctx.check_mode:
        return view
    trials = node.driver.trials()
    if trials is None:
        raise Unsupported(
            "a reservation of ours is left there, and this way to the scheduler can delete none",
            node=node.name,
            address=node.driver.address,
            seen=left[0],
            do="delete it by hand: scontrol delete ReservationName=" + left[0],
        )
    if not any(not one.trial for one in view.holds):
        hold(node, LEFT)
    for token in left:
        lift(node, trials, token)
    found: NodeView = node.read()
    return found


def planned(node: Any, view: NodeView) -> Trials | None:
    """None where the node is resumed as it is; ``node.tried`` says why.

    :raises Refused: where it must be tried, and cannot be.
    """
    asked = str(node.params.get("trial") or NEVER)
    if asked == NEVER:
        return None
    trials = node.driver.trials()
    of_none = "this way to its scheduler runs no jobs"
    why = of_none if trials is None else str(node._heard(lambda: trials.impossible(node.name)))
    if why:
        _not_here(node, Refused(why, node=node.name, address=node.driver.address))
        return None
    node.tried = {"made": False, "why": "", "job": ""}
    return trials


def _not_here(node: Any, exc: FleetError) -> None:
    node.tried = {"made": False, "why": str(exc), "job": ""}
    if node.params["trial"] == ALWAYS:
        raise Refused(
            "no job of ours can try this node, and it must not be resumed without",
            node=node.name,
            address=node.driver.address,
            wanted="a job of ours on it, before it is given to others",
            seen=f"{exc.what}{f': {exc.seen}' if exc.seen else ''}",
            do=exc.do or "mend that, or say trial=auto or never (of the role join: join_trial)",
        ) from exc


@contextmanager
def tried_by_a_job(node: Any, trials: Trials | None, ready: NodeView, hold: Hold) -> Iterator[NodeView]:
    """Around the write that resumes the node: yields what is to be resumed.

    :param hold: holds the node again for a reason.
    """
    if trials is None:
        yield ready
        return
    trial = _Trial(node, trials)
    try:
        try:
            ready = trial.prepare(ready)
        except _NOT_HERE as exc:
            ready = trial.drop(exc)
        yield ready
        if trial.job:
            try:
                trial.judge(ready)
            except _Unwanted as exc:
                _not_here(node, exc)
    except FleetError as exc:
        _back(trial, exc, hold)
        raise
    if trial.reserved:
        trial.lift()


def _back(trial: _Trial, exc: FleetError, hold: Hold) -> None:
    """Held first, then without its reservation; what fails of that is told in the error, and the node safe still."""
    node = trial.node
    try:
        if trial.open and not isinstance(exc, Changed):
            hold(node, str(exc.details.pop("held_for", HUNG)))
        if trial.reserved:
            trial.lift()
    except FleetError as failed:
        exc.seen = f"{exc.seen}; {failed}"
        exc.do = f"{exc.do}; its reservation {trial.token} keeps everybody away until it is run again"
