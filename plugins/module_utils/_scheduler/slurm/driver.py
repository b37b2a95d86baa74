# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm, by its commands or by slurmrestd. PRIVATE to the collection.

Slurm cannot compare and swap: right before a write the node is read again and held against what was judged, so that
what a person changes in between is lost only if it falls into those milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Changed,
    FleetError,
    Refused,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    ABSENT,
    NodeView,
    Refusal,
    Scheduler,
    Still,
    Unplaced,
    Work,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.jobs import Ask, Job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import jobs as own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.commands import Commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.files import FORMS, File
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import (
    Reservation,
    is_own_text,
    own_end,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import check_name
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.link import Link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.rest import Rest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.tables import REMEDIES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.trials import SlurmTrials
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.topology import Keeper


class Slurm(Scheduler):
    NAME = "slurm"
    REMEDIES = REMEDIES
    RUNS_JOBS = True
    NAMELESS = "an old slurmrestd names no cluster: leave gpufleet_scheduler_url out for the commands, or update Slurm"

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(params)
        self._link: Link = (
            Rest(self.options)
            if self.options["scheduler_url"]
            else Commands(str(self.options["scheduler_conf"]), str(self.options["scheduler_login_host"]))
        )
        self.address = self._link.address

    def check(self, name: str) -> None:
        check_name(name)

    # -- reading -----------------------------------------------------------------------------------------------

    def states(self, names: Sequence[str]) -> dict[str, NodeView]:
        records, spoilt = self._all_records([check_name(name) for name in dict.fromkeys(names)])
        place = self._link.place()
        absent = [name for name in names if name not in records and name not in spoilt]
        if absent:
            self._nothing_hidden(absent)
        reserved = self._link.reservations() if records else {}
        # The queue is asked after the states: a node that was seen drained gets no new job in between.
        busy = [name for name, record in records.items() if record.may_have_work]
        jobs = self._told_ours(self._link.jobs(busy) if busy else {}, records)
        self._no_work_hidden([name for name, record in records.items() if record.settled and not jobs.get(name)])
        views = {
            name: self._view(records[name], jobs.get(name, ()), reserved.get(name, ()))
            if name in records
            else NodeView(name, state="unknown" if name in spoilt else ABSENT, unread=str(spoilt.get(name, "")))
            for name in names
        }
        return {name: replace(view, place=place) for name, view in views.items()}

    def _told_ours(
        self, jobs: Mapping[str, Sequence[Work]], records: Mapping[str, Record]
    ) -> Mapping[str, Sequence[Work]]:
        """Which of them verify a node that is drained: those are ours to end. Asked only where there may be any."""
        drained = [name for name in jobs if name in records and "DRAIN" in records[name].state.flags and jobs[name]]
        if not drained or not isinstance(self._link, Commands):
            return jobs
        ours = {one.id for one in own.own(self._link)}
        marked = {name: [replace(work, ours=work.id in ours) for work in jobs[name]] for name in drained}
        return {**jobs, **marked}

    def known(self) -> dict[str, tuple[str, ...]]:
        return self._link.known()

    def unplaced(self) -> Unplaced:
        return self._link.unplaced()

    def topology(self, form: str, path: str) -> Keeper:
        if not isinstance(self._link, Commands):
            raise Unsupported(
                "slurmrestd writes no topology",
                address=self.address,
                do="leave gpufleet_scheduler_url out of this task, and delegate it to the machine that runs slurmctld",
            )
        if self._link.far:
            raise Unsupported(
                "no topology is written through a login host: its file is another machine's",
                address=self.address,
                do="leave gpufleet_scheduler_login_host unset for this task, and delegate it to the machine that runs"
                " slurmctld",
            )
        if form not in FORMS:
            raise Unsupported(
                f"Slurm has no {form} for its topology", address=self.address, do="give format conf or yaml"
            )
        return File(self._link, form, path)

    def trials(self) -> SlurmTrials | None:
        return SlurmTrials(self._link) if isinstance(self._link, Commands) else None

    def _all_records(self, names: Sequence[str]) -> tuple[dict[str, Record], dict[str, BadAnswer]]:
        """The records, and the names of nodes whose own cannot be read: those spoil nobody else's.

        :raises BadAnswer: where it is all of them.
        """
        spoilt: dict[str, BadAnswer] = {}
        records = self._link.records(names, spoilt)
        if spoilt and len(spoilt) == len(names):
            raise next(iter(spoilt.values()))
        return records, spoilt

    def _view(self, record: Record, jobs: Sequence[Work], reserved: Sequence[Reservation]) -> NodeView:
        # Who slurmctld writes as is asked only where a reason could be its own.
        user = self._link.slurm_user() if is_own_text(record.reason) or own_end(record.reason) else ()
        return record.view(jobs, user, reserved)

    def clock(self) -> str:
        return self._link.clock()

    def _nothing_hidden(self, absent: Sequence[str]) -> None:
        """A user without rights may be told that a node does not exist."""
        hidden = self._link.hides("nodes")
        if hidden:
            raise Refused(
                "whether Slurm knows this node cannot be told: it hides nodes from this user",
                node=absent[0],
                address=self.address,
                seen=hidden.seen,
                do=hidden.do,
            )

    def _no_work_hidden(self, drained: Sequence[str]) -> None:
        """To such a user the queue may look empty, and a suspended job shows in no node's state."""
        hidden = self._link.hides("jobs") if drained else None
        if hidden:
            raise Refused(
                "whether this drained node has jobs cannot be told: Slurm hides jobs from this user",
                node=drained[0],
                address=self.address,
                seen=hidden.seen,
                do=hidden.do,
            )

    def prerequisites(self) -> Sequence[FleetError]:
        return self._link.prerequisites()

    # -- writing -----------------------------------------------------------------------------------------------

    def hold_request(self, view: NodeView, token: str, kind: str) -> str:
        return self._link.update_request(check_name(view.name), "DRAIN", token)

    def hold(self, view: NodeView, token: str, kind: str) -> None:
        # DRAIN and not DOWN: ReturnToService readmits a DOWN node at its next registration, and never a drained one.
        # The Reason is the only place there is, and says the kind as part of the token.
        self._update(view, "DRAIN", token)

    def resume_request(self, view: NodeView) -> str:
        return self._link.update_request(check_name(view.name), "RESUME")

    def resume(self, view: NodeView) -> None:
        self._update(view, "RESUME")

    def hold_each(
        self, due: Sequence[tuple[NodeView, str, str]], still: Still = lambda name: None
    ) -> dict[str, FleetError]:
        failed: dict[str, FleetError] = {}
        for token in dict.fromkeys(token for _view, token, _kind in due):
            views = [view for view, its, _kind in due if its == token]
            failed.update(self._update_each(views, still, "DRAIN", token))
        return failed

    def resume_each(self, views: Sequence[NodeView], still: Still = lambda name: None) -> dict[str, FleetError]:
        return self._update_each(views, still, "RESUME")

    # -- jobs of our own ---------------------------------------------------------------------------------------

    @property
    def _commands(self) -> Commands:
        """:raises Unsupported: of slurmrestd, by which none is run."""
        if isinstance(self._link, Commands):
            return self._link
        raise Unsupported(
            "no job of ours is run by slurmrestd",
            address=self.address,
            do="leave gpufleet_scheduler_url out for the commands, on a machine that has them",
        )

    def unyielding(self, queue: str, nodes: Sequence[str]) -> Mapping[str, str]:
        if self._commands.far:
            raise Unsupported(
                "no job of ours is run over a login host",
                address=self.address,
                do="leave gpufleet_scheduler_login_host out for it, on a machine that has Slurm's commands",
            )
        return own.unyielding(self._commands, queue, [check_name(name) for name in nodes])

    def spare(self, view: NodeView) -> str:
        return super().spare(view) or ("" if own.spare(view.native) else view.native)

    def run_job(self, ask: Ask) -> str:
        check_name(ask.node)
        return own.run(self._commands, ask)

    def own_jobs(self) -> Sequence[Job]:
        return own.own(self._commands)

    def end_jobs(self, jobs: Sequence[str]) -> None:
        own.end(self._commands, jobs)

    def evict_request(self, view: NodeView) -> str:
        """What verifies the node, and nothing else: people's jobs end by themselves."""
        ours = [work.id for work in view.work if work.ours]
        return f"scancel {' '.join(ours)}" if ours else ""

    def evict(self, view: NodeView) -> Sequence[Refusal]:
        ours = [work.id for work in view.work if work.ours]
        if not ours:
            return super().evict(view)
        self.end_jobs(ours)
        return ()

    def _update(self, view: NodeView, state: str, reason: str | None = None) -> None:
        name = check_name(view.name)
        for changed in self._changed([view]).values():
            raise changed
        self._link.update(name, state, reason)

    def _update_each(
        self, views: Sequence[NodeView], still: Still, state: str, reason: str | None = None
    ) -> dict[str, FleetError]:
        """A write to several that is refused may be half done: those that it has not reached, which one look tells, are
        written to one by one, so that one of them spoils nobody else's."""
        failed = _over(views, still)
        failed.update(self._changed([view for view in views if view.name not in failed]))
        due = {view.name: view for view in views if view.name not in failed}
        told = self._link.update_each(list(due), state, reason)
        for name, why in self._not_done(told, state, reason).items():
            alone = len(due) > 1 and isinstance(why, Refused)
            problem = self._alone(due[name], still, state, reason) if alone else why
            failed.update({name: problem} if problem else {})
        return failed

    def _not_done(self, told: Mapping[str, FleetError], state: str, reason: str | None) -> Mapping[str, FleetError]:
        """Those of a write that failed which do not show it all the same; of one that nobody answered, all."""
        if not told or any(isinstance(why, Unreachable) for why in told.values()):
            return told
        try:
            records = self._all_records(list(told))[0]
        except FleetError:
            return told
        return {name: why for name, why in told.items() if not (name in records and records[name].shows(state, reason))}

    def _alone(self, view: NodeView, still: Still, state: str, reason: str | None) -> FleetError | None:
        try:
            still(view.name)
            self._update(view, state, reason)
        except FleetError as exc:
            return exc
        return None

    def _changed(self, views: Sequence[NodeView]) -> dict[str, Changed]:
        """Those that are no longer what was judged."""
        records = self._all_records([check_name(view.name) for view in views])[0] if views else {}
        reserved = self._link.reservations() if views else {}
        found = {}
        for view in views:
            record = records.get(view.name)
            if record is None or record.version(reserved.get(view.name, ())) != view.version:
                found[view.name] = self._is_changed(view, record)
        return found

    def _is_changed(self, view: NodeView, record: Record | None) -> Changed:
        return Changed(
            "Slurm changed the node, or a person did, between the look at it and the write",
            node=view.name,
            address=self.address,
            wanted=f"{view.native}, reason {view.reason!r}",
            seen=f"{record.native}, reason {record.reason!r}" if record else "no such node",
            do="run again: the node is judged anew",
        )


def _over(views: Sequence[NodeView], still: Still) -> dict[str, FleetError]:
    """Those that may not be written to any more. Asked first: it may take longer than a look at all of them."""
    found: dict[str, FleetError] = {}
    for view in views:
        try:
            still(view.name)
        except FleetError as exc:
            found[view.name] = exc
    return found
