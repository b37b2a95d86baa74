# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine sends on by its steps, a few seconds at a time. PRIVATE to the collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import PermitDue, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.names import GOALS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.verdicts import summary, verdict
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import not_taken
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _slices as slices


class Steps(slices.Slices):
    """A host that has its verdict is asked for no more."""

    def __init__(self, params: Mapping[str, Any], verb: str) -> None:
        super().__init__(params, verb)
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._steps: dict[str, list[str]] = {}
        self._polls = 0
        self._sent: Mapping[str, Any] = {}
        self._ordered: dict[str, str] = {}

    @property
    def over(self) -> bool:
        return not self.open

    def asks(self, leave: Mapping[str, Any]) -> dict[str, Any]:
        left = self.left
        part = {
            **leave,
            "sent": self._sent,
            "ordered": self._ordered,
            "elapsed": self.elapsed,
            "timeout": float(self._params["timeout"]),
            "last": left <= slices.SLICE_SECONDS,
        }
        nodes = list(self.open.values())
        return {**self._params, "nodes": nodes, "timeout": min(left, slices.SLICE_SECONDS), "slice": part}

    def note(self, part: Mapping[str, Any], verdicts: Mapping[str, Any]) -> None:
        self._sent = part.get("sent") or {}
        for host in [host for host in self.open if host in verdicts]:
            self._verdicts[host] = self._why(host, verdicts[host])
            del self.open[host]
        for host, steps in (self._answer.get("steps") or {}).items():
            self._steps.setdefault(str(host), []).extend(steps)
        self._polls += int(self._answer.get("polls") or 0)
        self._hear(part)

    def _hear(self, part: Mapping[str, Any]) -> None:
        """Of this call's hosts; what else is told there is a stranger's word."""
        for host in map(str, part.get("refused") or []):
            if host in self._verdicts:
                reason = str(self._verdicts[host].get("reason"))
                self.events += not_taken(self._verb, host, Refused(cut(reason, 1000)))

        ordered = part.get("ordered")
        for host, goal in ordered.items() if isinstance(ordered, Mapping) else ():
            if goal in GOALS and host in (*self.open, *self._verdicts) and self._ordered.get(host) != goal:
                self._ordered[host] = goal
                self.events.append(Event("outcome", self._verb, {"ordered": goal}, host))

    def _why(self, host: str, told: dict[str, Any]) -> dict[str, Any]:
        """Over there nobody knows more than that leave was due to the end."""
        silent = self._silent.get(host)
        if silent is None or told.get("kind") != PermitDue.kind:
            return told
        why = f"no leave to write within {self._params['timeout']:g} s: {silent}"
        return {**told, "reason": why, "kind": silent.kind}

    def close(self, host: str, reason: str, kind: str) -> None:
        if self.open.pop(host, None) is not None:
            self._verdicts[host] = verdict(False, self.elapsed, None, reason, kind=kind)
            self.due.pop(host, None)

    def result(self) -> dict[str, Any]:
        events = [event.as_dict() for event in self.events]
        if self._answer.get("failed"):
            return {**self._answer, "events": events}
        told = {
            "changed": bool(self._steps),
            "verdicts": self._verdicts,
            "polls": self._polls,
            "steps": self._steps,
            "asked": self._asked,
            "summary": summary(str(self._params["until"]), self._verdicts, Counter()),
        }
        kept = {key: value for key, value in self._answer.items() if key != "slice"}
        evidence = {"evidence": self.evidence} if self.evidence else {}
        return {"before": {}, "after": {}, **kept, **told, **evidence, "events": events}
