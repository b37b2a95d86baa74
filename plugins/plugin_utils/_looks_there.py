# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that another machine watches, by one look after the other. PRIVATE to the collection.

What a module over there has seen, it tells at its end, hours after the look where it waits by itself. What happened
since the look began it may not have seen. So each look is a call of its own, and the wait is the controller's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction


class WatchAction(BatchAction):
    """Its verb, shipped, is asked for one look at a time."""

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._task.check_mode:  # that is one look
            return super()._shipped(params)
        return self._once(params, self._in_looks)

    def _in_looks(self, params: dict[str, Any]) -> dict[str, Any]:
        self._leave(tuple(self.written(params)) if self.writes(params) else (), destructive=False)
        looks = _Looks(params)
        with suppress(DeadlineExceeded):  # each node's own verdict
            wait_until(
                lambda: self._look(looks),
                bool,
                timeout=float(params["timeout"]),
                interval=float(params["interval"]),
                wanted=str(params["until"]),
                beat=self._line.beat,
            )
        if self._intended:
            self._line.confirm()
        return looks.result()

    def _look(self, looks: _Looks) -> bool:
        """One look; was it the last?"""
        if self.writes(looks.params):
            self.written(looks.params)  # what was lost since is written to by nobody
        try:
            answer = self._sent(looks.asks())
        except AnsibleConnectionFailure:
            if not looks.may_pass:
                raise
            return False
        return looks.takes(answer, self._host)


class _Looks:
    """What is carried from one look to the next: the machine over there remembers nothing."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params
        self._began = time.monotonic()
        self._carried: Mapping[str, Any] = {}
        self._asked: list[Any] = []
        self._answer: dict[str, Any] = {}

    @property
    def may_pass(self) -> bool:
        """Has there been a look, and is there time for another one?"""
        return bool(self._answer) and time.monotonic() - self._began < float(self.params["timeout"])

    def asks(self) -> dict[str, Any]:
        part = {**self._carried, "elapsed": time.monotonic() - self._began, "timeout": float(self.params["timeout"])}
        return {**self.params, "timeout": 0.0, "slice": part}

    def takes(self, answer: dict[str, Any], node: str) -> bool:
        """Is this one the last?"""
        self._answer = answer
        self._asked += answer.get("asked") or []
        part = answer.pop("slice", None)
        if answer.get("failed"):  # a scheduler that restarts is no reason to give up a drain of hours
            return (answer.get("error") or {}).get("kind") != Unreachable.kind
        if not isinstance(part, Mapping):
            raise BadAnswer(
                "the module's answer does not tell how far it came", node=node, seen=f"slice {type(part).__name__}"
            )
        self._carried = {key: part.get(key) or {} for key in ("settled", "stuck")}
        return bool(part.get("over"))

    def result(self) -> dict[str, Any]:
        changed = bool(self._answer.get("changed")) or bool(self._asked)
        return {**self._answer, "changed": changed, "asked": self._asked}
