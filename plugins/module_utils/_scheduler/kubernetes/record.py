# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of Kubernetes, in the words of the port. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Block, NodeView, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.fields import (
    amount,
    mapping,
    rows,
    shown,
    word,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.holds import (
    Marks,
    Standing,
    blocks,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.settling import unsettled
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.tables import (
    GPU,
    HOLD,
    PRESSURES,
    REASON,
)

#: Of its status, and none of it tells of holds, GPUs or boots.
_NOT_READ = ("images", "volumesInUse", "volumesAttached", "config")
#: What Ready may say, and the state of a node that nobody holds.
_READY: Mapping[str, str] = {"True": "idle", "False": "down", "Unknown": "unknown"}


@dataclass(frozen=True)
class Wanted:
    """What a node shows before it is given work: ``RESOURCE=COUNT`` that can be had, or ``LABEL=VALUE``."""

    pairs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Record:
    """One object of the kind Node."""

    raw: Mapping[str, Any]
    standing: Standing
    wanted: Wanted

    @property
    def name(self) -> str:
        return word(self.raw, "metadata", "name")

    @property
    def uid(self) -> str:
        return word(self.raw, "metadata", "uid")

    @property
    def version(self) -> str:
        """:raises BadAnswer: for an object without one: nothing could be compared."""
        version = word(self.raw, "metadata", "resourceVersion")
        if not version or not self.uid:
            raise BadAnswer("a node without uid and resourceVersion", node=self.name, seen=short(self.raw, 100))
        return f"{self.uid} {version}"

    @property
    def marks(self) -> Marks:
        return Marks(self.raw, self.standing)

    @property
    def taints(self) -> list[dict[str, Any]]:
        """All, as they stand there."""
        return rows(self.raw, "spec", "taints")

    def also(self) -> tuple[str, ...]:
        """Whatever else it is called or reached by."""
        addresses = [str(one.get("address")) for one in rows(self.raw, "status", "addresses")]
        host = word(self.raw, "metadata", "labels", "kubernetes.io/hostname")
        return tuple(dict.fromkeys(one for one in (host, *addresses) if one and one != self.name))

    # -- its kubelet, and its GPUs -----------------------------------------------------------------------------

    @property
    def ready(self) -> str:
        return self._condition("Ready") or "Unknown"

    def _condition(self, kind: str) -> str:
        told = [one for one in rows(self.raw, "status", "conditions") if one.get("type") == kind]
        return str(told[-1].get("status")) if told else ""

    def _gpus(self) -> tuple[int, int]:
        """How many can be given to pods, and how many there are, of all kinds; 0 of 0 where none was registered."""
        there, free = mapping(self.raw, "status", "capacity"), mapping(self.raw, "status", "allocatable")
        names = [name for name in there if GPU.fullmatch(name)]
        return sum(amount(free.get(name) or 0) for name in names), sum(amount(there[name]) for name in names)

    def _unregistered(self) -> bool:
        """Its device plugin is still to come: a kubelet on a new disk shows 0 until then."""
        names = [name for name in mapping(self.raw, "status", "capacity") if GPU.fullmatch(name)]
        return bool(names) and self._gpus()[1] == 0

    def bare(self) -> str:
        """A new object, and a kubelet on a new disk, tell of no GPUs at all until the device plugin has come; so does a
        node that has none. What a site wants to see instead of them is looked at by itself."""
        if self.wanted.pairs or any(GPU.fullmatch(name) for name in mapping(self.raw, "status", "capacity")):
            return ""
        return "no GPU registered (if claims alone give them out, name what shows them in gpufleet_scheduler_ready)"

    def _lacking(self) -> Iterator[tuple[str, bool]]:
        """What of the wanted is not there yet, and whether some of it is: then more of it will hardly come."""
        free, labels = mapping(self.raw, "status", "allocatable"), mapping(self.raw, "metadata", "labels")
        for name, value in self.wanted.pairs:
            if name in free and value.isdigit():
                has = amount(free[name])
                if has < int(value):
                    yield f"{has} of {value} {name}", has > 0
            elif labels.get(name) != value:
                yield f"no {name}={value}", False

    @property
    def answers(self) -> bool:
        """Its kubelet reports, and the device plugin of this boot has brought what the node is there for."""
        begun = self.ready == "True" and bool(self.booted) and not self._unregistered()
        return begun and all(some for _what, some in self._lacking())

    @property
    def booted(self) -> str:
        return word(self.raw, "status", "nodeInfo", "bootID")

    @property
    def machine(self) -> str:
        return word(self.raw, "status", "nodeInfo", "systemUUID")

    def findings(self) -> list[str]:
        free, there = self._gpus()
        found = [f"{free} of {there} GPUs can be given to pods"] if free < there else []
        found += [what for what, some in self._lacking() if some]
        found += [kind for kind in sorted(PRESSURES) if self._condition(kind) == "True"]
        return found + self._of_detectors()

    def _of_detectors(self) -> list[str]:
        """Conditions that others than the kubelet keep (node-problem-detector, NVSentinel), of which True is bad. They
        are told, and hinder nothing by themselves: some of them never go back."""
        rest = [one for one in rows(self.raw, "status", "conditions") if one.get("type") not in (*PRESSURES, "Ready")]
        return [
            f"{short(one.get('type'), 60)}: {short(one.get('message') or one.get('reason'), 200)}"
            for one in rest
            if one.get("status") == "True"
        ]

    def blocks(self) -> Iterator[Block]:
        free, there = self._gpus()
        lack = [f"{free} of {there} GPUs can be given to pods"] if free < there else []
        for what in lack + [what for what, some in self._lacking() if some]:
            yield Block(
                "not all of its GPUs can be given to pods",
                seen=what,
                do="look at the device plugin's log on the node, and at the GPUs (nvidia-smi, Xid in the kernel log)",
            )
        yield from blocks(self.marks.holds())

    # -- as a view ---------------------------------------------------------------------------------------------

    def unsettled(self, date: str, settling: float) -> str:
        """Why no pod on it is no proof yet that none comes, by the date of an answer that is not older than it."""
        return unsettled(self.marks.since, date, settling) if self.marks.token and settling else ""

    def view(self, work: Sequence[Work], unsettled: str = "") -> NodeView:
        """unsettled: why its hold does not make it drained yet."""
        holds = self.marks.holds()
        under_way = self._leaving() or (unsettled if self.marks.keeps_away() else "")
        lasting = [hold for hold in holds if not hold.passing]
        finding = "; ".join(self.findings())
        return NodeView(
            name=self.name,
            state=self._state(bool(work), under_way),
            version=self.version,
            native=self._native(),
            reason="; ".join(hold.text for hold in lasting),
            set_by=", ".join(dict.fromkeys(hold.author for hold in lasting if hold.author)),
            booted=self.booted,
            answers=self.answers,
            bare=self.bare(),
            holds=holds,
            blocks_resume=tuple(self.blocks()),
            finding=finding,
            waits_for="" if work else under_way,
            work=tuple(work),
            machine=self.machine,
            incarnation=self.uid,
        )

    def _leaving(self) -> str:
        """An object that is being deleted takes its hold along."""
        ends = word(self.raw, "metadata", "deletionTimestamp")
        return "its object is being deleted" if ends else ""

    def _state(self, busy: bool, under_way: str) -> str:
        if self.marks.keeps_away():
            return "draining" if busy or under_way else "drained"
        word_of = _READY.get(self.ready)
        if word_of is None:
            raise BadAnswer("a Ready that is none", node=self.name, seen=short(self.ready, 50))
        return "allocated" if busy and word_of == "idle" else word_of

    def _native(self) -> str:
        words = {"True": "Ready", "False": "NotReady"}.get(self.ready, "Ready unknown")
        marks = self.marks
        if marks.cordoned:
            words += ", SchedulingDisabled"
        elif marks.tainted:
            words += ", held by the taint alone (somebody lifted the cordon)"
        elif marks.token:
            words += ", the taint of its hold is gone: it takes pods"
        lacks = [what for what, some in self._lacking() if not some]
        if self._unregistered():
            lacks.append("no GPU registered yet")
        return f"{words}, waits for: {shown(lacks)}" if lacks and self.ready == "True" else words


def light(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what is the bulk of it and is never looked at: of thousands all are kept until their pods are known."""
    about, status = raw.get("metadata"), raw.get("status")
    if isinstance(status, dict):
        for name in _NOT_READ:
            status.pop(name, None)
    marks = about.get("annotations") if isinstance(about, dict) else None
    if isinstance(marks, dict):
        for name in [name for name in marks if name != HOLD and not REASON.search(name)]:
            del marks[name]
    return raw


def wanted_of(told: Any) -> Optional[Wanted]:
    """None for what is no list of pairs."""
    pairs = [str(one).partition("=") for one in told or ()]
    if isinstance(told, str) or not all(name and value for name, _equals, value in pairs):
        return None
    return Wanted(tuple((name.strip(), value.strip()) for name, _equals, value in pairs))
