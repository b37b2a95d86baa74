# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine watches, by one look after the other. PRIVATE to the collection.

What a module over there has seen, it tells at its end, hours after the look where it waits by itself. What happened
since the look began it may not have seen. So each look is a slice of its own, and the wait is the controller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._slices import Slices


class Looks(Slices):
    """Each host is asked for to the end: what was drained an hour ago may be at work again."""

    def __init__(self, params: Mapping[str, Any], verb: str) -> None:
        super().__init__(params, verb)
        self._carried: Mapping[str, Any] = {}
        self._over = False
        #: Those whose work was to leave at some look: leave is there for the next one before it is due again.
        self._evicted: set[str] = set()

    @property
    def over(self) -> bool:
        return self._over

    def asks(self, leave: Mapping[str, Any]) -> dict[str, Any]:
        part = {**leave, **self._carried, "elapsed": self.elapsed, "timeout": float(self._params["timeout"])}
        return {**self._params, "timeout": 0.0, "slice": part}

    def takes(self, answer: dict[str, Any], node: str) -> bool:
        if answer.get("failed") and self.passes(str((answer.get("error") or {}).get("kind"))):
            # It had an answer from no scheduler at all, and cannot tell the next one.
            self._carried = {**self._carried, "away": list(self.open)}
        over = super().takes(answer, node)
        first = set(self.due) - self._evicted
        self._evicted |= first
        self.pause = 0.0 if first else min(self.interval, self.left)
        settled = self._carried.get("settled") or {}
        self.due = {host: False for host in self.open if host in self._evicted and host not in settled}
        return over

    def note(self, part: Mapping[str, Any], verdicts: Mapping[str, Any]) -> None:
        self._carried = {key: part.get(key) or {} for key in ("settled", "stuck", "away", "elsewhere", "again")}
        self._over = bool(part.get("over")) or not self.left

    def passes(self, kind: str) -> bool:
        """A scheduler that restarts is no reason to give up a drain of hours."""
        return kind == Unreachable.kind

    def close(self, host: str, reason: str, kind: str) -> None:
        """The next look tells it so."""
        node = self.open.pop(host, None)
        if isinstance(node, dict):
            node.update(refusal(reason, kind))
            self.due.pop(host, None)

    def result(self) -> dict[str, Any]:
        kept = {key: value for key, value in self._answer.items() if key != "slice"}
        changed = bool(kept.get("changed")) or bool(self._asked)
        evidence = {"evidence": self.evidence} if self.evidence else {}
        return {**kept, "changed": changed, "asked": self._asked, **evidence}
