# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reservation of Slurm's for one node, and a job of ours in it, by the commands. PRIVATE to the collection.

Measured with 22.05.8: a job in a reservation of a drained node waits, and starts within seconds of the resume; a
reservation with such a job cannot be deleted; one for maintenance may overlap with any other, so what stands there is
read back. There is no comment in ``scontrol create`` of that release, so the name is the token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, FleetError, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut, short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.commands import Commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import reserved
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import check_name
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.tables import (
    NEVER_STARTS,
    NOT_OVER,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.trials import Job, Trials
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form

#: A job that is over is forgotten after this; whoever looks every few seconds has to see it.
_REMEMBERED_SECONDS = 30
_NAME = "gpufleet-trial"
_MINUTES = "2"
_JOB = re.compile(r"(?:^|\s)(JobState|Reason|NodeList|BatchHost|ExitCode|Reservation|NumNodes)=(\S*)")
_GONE, _IN_USE = "reservation is invalid", "reservation is in use"


class SlurmTrials(Trials):
    def __init__(self, link: Commands) -> None:
        self._link = link

    def impossible(self, name: str) -> str:
        for problem in self._link.prerequisites():
            return f"{problem.what}: {problem.seen}"
        others = self._others(name)
        if others:
            return f"the node is in the reservation {', '.join(others)}, which is not ours"
        if not self._partitions(name):
            return "no partition that takes jobs of one node has it"
        kept = re.match(r"\d+", self._link.setting("MinJobAge"))
        if kept and 0 < int(kept[0]) < _REMEMBERED_SECONDS:
            return f"Slurm forgets jobs too soon (MinJobAge={kept[0]})"
        return ""

    def _others(self, name: str) -> list[str]:
        return [one for one in reserved(self._link.shown("reservation"), name) if not has_form(one)]

    def _partitions(self, name: str) -> list[str]:
        """Those that are open, the default first."""
        found = [one for one in self._link.partitions() if one.open and name in one.nodes]
        return [one.name for one in sorted(found, key=lambda one: not one.default)]

    # -- writing -----------------------------------------------------------------------------------------------

    def reserve_request(self, name: str, token: str) -> str:
        return " ".join(["scontrol", *self._reserve(name, token)])

    def _reserve(self, name: str, token: str) -> list[str]:
        # Without an end: when it ended, a node that nothing has tried would be everybody's.
        return [
            *("create", "reservation", f"ReservationName={token}", f"Nodes={check_name(name)}"),
            *("StartTime=now", "Duration=UNLIMITED", f"Users={self._link.user()}", "Flags=STATIC_ALLOC"),
        ]

    def reserve(self, name: str, token: str) -> None:
        self._link.done("scontrol create reservation", "scontrol", *self._reserve(name, token))
        there = reserved(self._link.shown("reservation"), name)
        if token not in there:
            raise BadAnswer(
                "Slurm took a reservation, and shows none",
                node=name,
                address=self._link.address,
                wanted=token,
                seen=", ".join(there) or "no reservation",
                do="look at slurmctld's log",
            )
        if there != [token]:
            raise Refused(
                "the node is in another reservation than ours",
                node=name,
                address=self._link.address,
                wanted=token,
                seen=", ".join(there),
                do="ask whoever made it; when it is over, run again",
            )

    def submit_request(self, name: str, token: str) -> str:
        return f"sbatch --reservation={token} -w {name}"

    def submit(self, name: str, token: str, script: str, output: str) -> str:
        """In the first partition that takes it: which one lets us in, only Slurm knows."""
        refused: FleetError | None = None
        for partition in self._partitions(name):
            try:
                return self._submitted(name, partition, token, script, output)
            except Refused as exc:
                refused = exc
        raise refused or Refused("no partition that takes jobs has this node any more", node=name)

    def _submitted(self, name: str, partition: str, token: str, script: str, output: str) -> str:
        said = self._link.done(
            "sbatch",
            "sbatch",
            *("--parsable", "--export=NIL", "--no-requeue", f"--time={_MINUTES}", f"--job-name={_NAME}"),
            *(f"--reservation={token}", f"--comment={token}", "-p", partition, "-w", check_name(name)),
            *("-N1", "-n1", "-D", "/", "-o", output, f"--wrap={script}"),
        )
        return self._link.job_number(said, name)

    def job(self, number: str) -> Job:
        told = self._link.done("scontrol show job", "scontrol", "--all", "-o", "show", "job", number)
        # The first one counts: a comment and the words of a command may read like a field.
        fields: Mapping[str, str] = dict(reversed(_JOB.findall(told)))
        if not {"JobState", "ExitCode"} <= set(fields) or not told.startswith(f"JobId={number} "):
            raise BadAnswer("scontrol show job that cannot be read", address=self._link.address, seen=cut(told, 200))
        state, reason = fields["JobState"], fields.get("Reason", "")
        nodes = {fields.get("NodeList", ""), fields.get("BatchHost", "")} - {"", "(null)"}
        return Job(
            f"{state} {reason}, exit {fields['ExitCode']}",
            node=",".join(sorted(nodes)),
            inside=fields.get("Reservation", ""),
            over=state not in NOT_OVER,
            well=state == "COMPLETED" and fields["ExitCode"] == "0:0",
            refused=reason if state == "PENDING" and reason.startswith(NEVER_STARTS) else "",
        )

    def lift_request(self, token: str) -> str:
        return f"scontrol delete ReservationName={token}"

    def lift(self, token: str) -> bool:
        done = self._link.ran("scontrol", "delete", f"ReservationName={token}")
        said = short(done.stderr + " " + done.stdout)
        if _IN_USE in said:
            self._link.done("scancel", "scancel", f"--reservation={token}")
            return False
        if done.returncode != 0 and _GONE not in said:
            raise self._link.error(done, "scontrol delete reservation")
        return f"ReservationName={token} " not in self._link.shown("reservation")
