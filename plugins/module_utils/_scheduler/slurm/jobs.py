# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of our own, by Slurm's commands: started on idle nodes, displaced by any other job. PRIVATE to the collection.

Measured with 22.05.8 and 26.05.3: with ``--no-requeue`` a job that is preempted ends as PREEMPTED, by exit code 0 as
often as not, and does not come back; the job that displaced it starts after a cycle of the scheduler, the other's end
and the site's Epilog. With GraceTime it waits for that as well, and the batch script hears of it only when it is over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import jobs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.jobs import Ask, Job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.commands import Commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import expand

#: By which partitions displace each other's jobs; by QOS it is another kind, of which nothing is asked here.
_BY_PARTITION = "preempt/partition_prio"
#: What keeps a job where it is, whatever its partition: the time for which each job is left alone, and the words for
#: none (measured with 22.05, and man slurm.conf); in releases after that also a priority from which on nobody displaces
#: a job.
_EXEMPT_TIME, _NO_TIME = "PreemptExemptTime", frozenset({"", "00:00:00", "NONE", "-1"})
_EXEMPT_PRIORITY = "min_exempt_priority"
#: What becomes of a displaced job so that its node is free: suspended it would keep its memory, that of the GPUs too.
_FREES = ("CANCEL", "REQUEUE")
_FIELD = re.compile(r"(?:^|\s)(PartitionName|Nodes|PriorityTier|PreemptMode|GraceTime|State)=(\S*)")
_GRES = re.compile(r"\sGres=(\S+)")
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:(),]+)?:(\d+)")
_NUMBER = re.compile(r"\d+")
#: What stands beside IDLE for as long as a node lives, and keeps no job away; any other mark does, or may.
_LASTING = frozenset({"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "EXTERNAL"})

#: By Slurm's word for a job's state.
STATES: Mapping[str, str] = {
    **dict.fromkeys(("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"), jobs.WAITS),
    **dict.fromkeys(("CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING"), jobs.RUNS),
    "COMPLETED": jobs.DONE,
    "PREEMPTED": jobs.DISPLACED,
    **dict.fromkeys(("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"), jobs.CUT),
    **dict.fromkeys(("REVOKED", "TIMEOUT"), jobs.CUT),
}


@dataclass(frozen=True)
class Queue:
    """A partition, as far as it says who has to give way to whom."""

    name: str
    nodes: frozenset[str]
    tier: int
    mode: str
    grace: str
    state: str


def parse_queues(text: str) -> dict[str, Queue]:
    """:raises BadAnswer: for a line that does not tell all of it."""
    found = {}
    for line in filter(str.strip, text.splitlines()):
        told = dict(reversed(_FIELD.findall(line)))
        if len(told) < 6 or not _NUMBER.fullmatch(told["PriorityTier"]):
            raise BadAnswer("a line of scontrol show partition that cannot be read", seen=cut(line, 200))
        nodes = () if told["Nodes"] in ("", "(null)") else expand(told["Nodes"])
        rest = (int(told["PriorityTier"]), told["PreemptMode"], told["GraceTime"], told["State"])
        found[told["PartitionName"]] = Queue(told["PartitionName"], frozenset(nodes), *rest)
    return found


def unyielding(link: Commands, queue: str, nodes: Sequence[str]) -> dict[str, str]:
    """As :meth:`.Scheduler.unyielding`."""
    kind = link.setting("PreemptType")
    if kind != _BY_PARTITION:
        raise ConfigError(
            "Slurm does not displace jobs by their partition, so a verification would hold up users",
            address=link.address,
            wanted=f"PreemptType={_BY_PARTITION} in slurm.conf",
            seen=f"PreemptType={kind or 'none'}",
            do="set it as docs/how-to/verify-idle-nodes.md shows, and restart slurmctld",
        )
    _demand_none_exempt(link)
    known = parse_queues(link.ask("scontrol", "--all", "-o", "show", "partition"))
    if queue not in known:
        raise ConfigError(f"Slurm has no partition {queue}", address=link.address, wanted=", ".join(sorted(known)))
    mine = known[queue]
    _demand_that_it_frees(link, mine)
    rivals = [one for one in known.values() if one.name != queue and one.tier <= mine.tier]
    return {node: why for node in nodes for why in [_why_not(mine, rivals, node)] if why}


def _demand_none_exempt(link: Commands) -> None:
    """A user would wait for as long as Slurm leaves a job alone, whatever partition it is in."""
    seconds, parameters = link.setting(_EXEMPT_TIME), link.setting("PreemptParameters")
    exempt = [one for one in parameters.lower().split(",") if one.partition("=")[0] == _EXEMPT_PRIORITY]
    seen = [f"{_EXEMPT_TIME}={seconds}"] if seconds.upper() not in _NO_TIME else []
    seen += [f"PreemptParameters={one}" for one in exempt]
    if seen:
        raise ConfigError(
            "Slurm would leave a verification alone though a user waits for its node",
            address=link.address,
            wanted=f"{_EXEMPT_TIME}=0, and no {_EXEMPT_PRIORITY} in PreemptParameters",
            seen=", ".join(seen),
            do="take it out of slurm.conf, and run scontrol reconfigure; or do without verifications of idle nodes",
        )


def _demand_that_it_frees(link: Commands, mine: Queue) -> None:
    wanted = {"PreemptMode": " or ".join(_FREES), "GraceTime": "0", "State": "UP"}
    seen = {"PreemptMode": mine.mode, "GraceTime": mine.grace, "State": mine.state}
    wrong = [key for key, value in seen.items() if value not in wanted[key].split(" or ")]
    if wrong:
        raise ConfigError(
            f"a job in the partition {mine.name} does not give its node up at once",
            address=link.address,
            wanted=", ".join(f"{key}={wanted[key]}" for key in wrong),
            seen=", ".join(f"{key}={seen[key]}" for key in wrong),
            do="set it in slurm.conf, and run scontrol reconfigure",
        )


def _why_not(mine: Queue, rivals: Sequence[Queue], node: str) -> str:
    if node not in mine.nodes:
        return f"the partition {mine.name} does not have it"
    above = [one.name for one in rivals if node in one.nodes]
    if not above:
        return ""
    lower = f"the PriorityTier of {mine.name}, {mine.tier}, is not below theirs"
    return f"jobs of {', '.join(above)} would wait for the verification: {lower}"


def spare(native: str) -> bool:
    """Idle, and nothing beside that: no reservation, no plan of the scheduler, no node that would have to wake up."""
    base, *marks = native.split("+")
    return base == "IDLE" and set(marks) <= _LASTING


def run(link: Commands, ask: Ask) -> str:
    """As :meth:`.Scheduler.run_job`."""
    minutes = math.ceil(ask.seconds / 60) + 1
    argv = [
        *("--parsable", f"--partition={ask.queue}", f"--nodelist={ask.node}", "--nodes=1", "--exclusive"),
        *("--no-requeue", f"--time={minutes}", f"--job-name={jobs.NAME}", f"--comment={ask.token}"),
        *("--chdir=/", "--output=/dev/null", "--export=ALL", *_gpus(link, ask.node)),
    ]
    return link.job_number(link.tell("sbatch", *argv, script=ask.script), ask.node)


def _gpus(link: Commands, node: str) -> list[str]:
    """All of them: where the site keeps jobs from GPUs that they did not ask for, the gates would find none."""
    count = gpus_in(link.ask("scontrol", "--all", "-o", "show", "node", node))
    return [f"--gres=gpu:{count}"] if count else []


def gpus_in(record: str) -> int:
    """How many of them Slurm counts on this node, by ``scontrol -o show node``; whatever their types are."""
    found = _GRES.search(record)
    return sum(map(int, _GPUS.findall(re.sub(r"\([^()]*\)", "", found[1])))) if found else 0


def own(link: Commands) -> list[Job]:
    """As :meth:`.Scheduler.own_jobs`: those of the user that we are, since a comment may hold anything, lines too."""
    mine = ("-u", link.user(), "-n", jobs.NAME)
    return parse_own(link.ask("squeue", "--all", "-h", *mine, "-t", "all", "-o", "%i|%T|%k"))


def parse_own(text: str) -> list[Job]:
    """:raises BadAnswer: for a line that tells no job."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        number, first, rest = line.strip().partition("|")
        state, second, token = rest.partition("|")
        if not first or not second or not _NUMBER.fullmatch(number):
            raise BadAnswer("a line of squeue that cannot be read", seen=cut(line, 200))
        node = jobs.node_of(token)
        if node:
            found.append(Job(number, node, token, STATES.get(state, jobs.UNKNOWN), state))
    return found


def end(link: Commands, numbers: Sequence[str]) -> None:
    """As :meth:`.Scheduler.end_jobs`. Named with what they are, so that a number that was given anew hits nobody."""
    if numbers:
        link.ask("scancel", "-u", link.user(), "-n", jobs.NAME, *numbers)
