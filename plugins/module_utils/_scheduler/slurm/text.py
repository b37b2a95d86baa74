# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what Slurm's commands print: ``scontrol -o show node`` and ``squeue``. PRIVATE to the collection.

The text forms are the same from 22.05 to 26.05; the JSON forms are not, and scontrol has none in 22.05.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import Marks, Reservation
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import expand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.tables import (
    BASE_STATES,
    FLAGS,
    SUFFIXES,
)

#: Line by line: character by character took ten times as long.
_RECORD = re.compile(r"^NodeName=(\S+)(.*(?:\n(?!NodeName=|Node \S+ not found).*)*)", re.M)
_NOT_FOUND = re.compile(r"^Node (\S+) not found\s*$", re.M)
# A Reason may hold anything, also what looks like fields; but it stands behind all fields that are read here. In front
# of them stands what slurmd sent (OS), which whoever is root on the node chooses, line breaks and all.
_STATE = re.compile(r"\sState=(\S+)")
_BOOTED = re.compile(r"\sBootTime=(\S+)")
_REASON = re.compile(
    r"\sReason=(?P<text>.*?)\s*\[(?P<by>[^\[\]\s@]*)@(?P<at>\d{4}-\d\d-\d\dT[\d:]+)\]\s*(?=\Z|\s[A-Z]\w+=)", re.S
)
_LIAR = "look at scontrol show node of this node alone: its slurmd, or a reason, holds text that reads like a record"
_OTHER_NAMES = re.compile(r"\sNode(?:HostName|Addr)=(\S+)")
#: Of a time from its end: seconds, minutes, hours.
_UNITS = (1, 60, 3600)
_NEVER = frozenset({"None", "Unknown", "N/A", "(null)", ""})


@dataclass(frozen=True)
class SlurmState:
    """A state such as ``IDLE+DRAIN+COMPLETING``: one base and flags."""

    base: str
    flags: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> SlurmState:
        words: list[str] = []
        for word in text.strip().upper().split("+"):
            bare = word.rstrip("".join(SUFFIXES))
            words += [bare, *(SUFFIXES[mark] for mark in word[len(bare) :])]
        if not words or words[0] not in BASE_STATES or not all(words):
            raise BadAnswer("a node state that no known Slurm has", seen=cut(text, 100))
        return cls(words[0], frozenset(words[1:]))

    @property
    def in_the_way(self) -> list[str]:
        """Flags that say something is still under way, and flags that nobody here knows."""
        return sorted(flag for flag in self.flags if FLAGS.get(flag, True))


#: Flags that nobody judges by: measured, they come and go while nobody touches the node.
_PLANS = frozenset({"RESERVED", "PLANNED"})


@dataclass(frozen=True)
class Record:
    """One node of ``scontrol show node``."""

    name: str
    native: str
    state: SlurmState
    reason: str
    set_by: str
    since: str
    booted: str

    @property
    def marks(self) -> Marks:
        return Marks(self.state.base, self.state.flags, self.reason, self.set_by, self.since)

    @property
    def may_have_work(self) -> bool:
        """False only for a node that takes work and has none; any other is looked up in the queue."""
        return self.state.base != "IDLE" or bool(self.state.flags - {"NOT_RESPONDING", "RESERVED", "MAINTENANCE"})

    @property
    def settled(self) -> bool:
        """Nothing runs or is about to, as far as the state tells; the queue has to be asked as well.

        UNKNOWN settles nothing, for that is every node after a restart of slurmctld, with two exceptions: a node
        that never registered (measured: it stays UNKNOWN for good), and one whose registration was refused, for
        which a new image is the very remedy.
        """
        unknown = not self.booted or "INVALID_REG" in self.state.flags
        settled = self.state.base in ("IDLE", "DOWN") or (self.state.base == "UNKNOWN" and unknown)
        return settled and "DRAIN" in self.state.flags and not self.state.in_the_way

    def view(
        self,
        work: Sequence[Work],
        slurm_user: Collection[str] = (),
        reservations: Sequence[Reservation] = (),
    ) -> NodeView:
        flags = self.state.flags
        return NodeView(
            name=self.name,
            state=self._port_state(work),
            version=self.version(reservations),
            native=self.native,
            reason=self.reason,
            set_by=self.set_by,
            booted=self.booted,
            answers="NOT_RESPONDING" not in flags and self.state.base != "UNKNOWN" and bool(self.booted),
            holds=self.marks.holds(slurm_user, reservations),
            blocks_resume=self.marks.blocks(),
            finding=self.marks.finding(),
            waits_for="" if work else "+".join(self.state.in_the_way),
            work=tuple(work),
        )

    def shows(self, state: str, reason: str | None) -> bool:
        """Is it as an update with these leaves it?"""
        drained = "DRAIN" in self.state.flags
        return drained and self.reason == reason if state == "DRAIN" else not drained

    def version(self, reservations: Sequence[Reservation]) -> str:
        """Slurm has none: all that a verb judges by, in one text. Work may come and go, and so may what is planned for
        the node: slurmctld says that a reservation is there seconds after it is."""
        state = "+".join(word for word in self.native.split("+") if word not in _PLANS)
        told = [state, self.reason, self.set_by, self.since, self.booted, *map(repr, reservations)]
        return "\n".join(told)

    def _port_state(self, work: Sequence[Work]) -> str:
        if self.state.flags & {"DRAIN", "FAIL"}:
            return "drained" if self.settled and not work else "draining"
        if "INVALID_REG" in self.state.flags:
            return "down"
        word = BASE_STATES[self.state.base]
        return "allocated" if word == "idle" and (work or "COMPLETING" in self.state.flags) else word


def parse_nodes(text: str, asked: Collection[str] | None = None) -> dict[str, Record]:
    """The records in what ``scontrol -o show node`` printed.

    :param asked: the names that it was asked for, where only those may stand in it.
    :raises BadAnswer: also for a name that was not asked for or is told twice, and for fields that are: one node's
        record holds text of its own making, which may read like another record.
    """
    _no_other(text, asked)
    records = {}
    for name, body in _RECORD.findall(text):
        state, booted = _fields(name, body)
        reason = _REASON.search(body, booted.end())
        records[name] = Record(
            name=name,
            native=state[1],
            state=SlurmState.parse(state[1]),
            reason=_reason_text(reason, body, booted.end()),
            set_by=reason["by"] if reason else "",
            since=reason["at"] if reason else "",
            booted="" if booted[1] in _NEVER else booted[1],
        )
    return records


def parse_names(text: str) -> dict[str, tuple[str, ...]]:
    """By the name of each node in what ``scontrol -o show node`` printed, the others that stand anywhere in its record:
    what a node puts there itself may add to them, and takes nothing away."""
    found: dict[str, tuple[str, ...]] = {}
    for name, body in _RECORD.findall(text):
        found[name] = (*found.get(name, ()), *_OTHER_NAMES.findall(body))
    return found


def _no_other(text: str, asked: Collection[str] | None) -> None:
    """Each name once, found or not found, and no other name."""
    told = Counter([*re.findall(r"^NodeName=(\S+)", text, re.M), *_NOT_FOUND.findall(text)])
    wanted = None if asked is None else frozenset(asked)
    for name, times in told.items():
        if times > 1 or (wanted is not None and name not in wanted):
            what = "a node that is told twice" if times > 1 else "a node that was not asked for"
            raise BadAnswer(what, node=name, seen=cut(text, 300), do=_LIAR)


def _fields(name: str, body: str) -> tuple[re.Match[str], re.Match[str]]:
    """State and BootTime, told once before the reason, and not both of them again in or behind it."""
    states, boots = list(_STATE.finditer(body)), list(_BOOTED.finditer(body))
    if not states or not boots:
        raise BadAnswer("a node without State or BootTime", node=name, seen=cut(body, 200))
    state, booted = states[0], boots[0]
    again = bool(states[1:]) and (bool(boots[1:]) or states[1].start() < booted.start())
    if again or booted.start() < state.start():
        raise BadAnswer("a node whose State or BootTime is told twice", node=name, seen=cut(body, 300), do=_LIAR)
    return state, booted


def _reason_text(found: re.Match[str] | None, body: str, start: int) -> str:
    """A reason without user and time is one all the same: it must not look as if there were none."""
    if found:
        return found["text"]
    bare = re.search(r"\sReason=(.*)", body[start:], re.S)
    return bare[1].strip() if bare else ""


def not_found(text: str) -> set[str]:
    """The names that scontrol says do not exist."""
    return set(_NOT_FOUND.findall(text))


def parse_jobs(text: str) -> Mapping[str, list[Work]]:
    """Jobs by node, from ``squeue -h -o '%i|%T|%N|%M'``; a pending job is on no node yet."""
    jobs: dict[str, list[Work]] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        number, first, rest = line.strip().partition("|")
        state, second, rest = rest.partition("|")
        nodes, _third, time_used = rest.partition("|")
        if not first or not second or not number or not state:
            raise BadAnswer("a line of squeue that cannot be read", seen=cut(line, 200))
        if state.upper() == "PENDING":
            continue
        for node in expand(nodes):
            jobs.setdefault(node, []).append(Work(number, runs=seconds(time_used)))
    return jobs


def seconds(time_used: str) -> float | None:
    """As squeue(1) has %M, ``days-hours:minutes:seconds``, where the first ones may be missing; None for what is no
    time, such as ``INVALID`` of a clock that was set."""
    days, dash, rest = time_used.strip().rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, *([days] if dash else [])]) or len(parts) > len(_UNITS):
        return None
    return float(sum(int(part) * unit for part, unit in zip(reversed(parts), _UNITS)) + int(days or 0) * 86400)
