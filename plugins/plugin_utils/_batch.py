# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verbs for a whole batch: one task, one poll for all hosts of the play. PRIVATE to the collection.

Such a task stands under ``run_once: true``; its registered result is there for every host, each of which then
reads its own verdict. Called by several hosts all the same, the workers elect one: the first does the work, the
others wait for its answer and return the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction


class BatchAction(VerbAction):
    """Hands the verb the option ``nodes``: a list of dicts with ``host`` and the host variables in HOST_VARS."""

    LABEL = "batch"
    #: What the verb needs to know of each host: key in the node's dict, by the host variable that fills it.
    HOST_VARS: Mapping[str, str] = {}

    #: What the verb also needs, out of the registered result that the option ``after`` names.
    FROM_AFTER: Sequence[str] = ()

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if not params.get("nodes"):
            params["nodes"] = [self._node(host) for host in self.batch()]
        return params

    def batch(self) -> list[str]:
        """The hosts of this batch that take part, in the play's order.

        A host whose block was rescued counts as alive for Ansible. With the option ``after`` only the hosts take
        part for which that registered result is there and neither failed nor was skipped.
        """
        alive = list(self._vars.get("ansible_play_hosts") or [self._host])
        batch = set(self._vars.get("ansible_play_batch") or alive)
        after = self._params.get("after")
        return [host for host in alive if host in batch and (not after or _succeeded(self.host_var(after, host)))]

    def _node(self, host: str) -> dict[str, Any]:
        node: dict[str, Any] = {"host": host}
        for key, name in self.HOST_VARS.items():
            value = self.host_var(name, host)
            if value is not None:
                node[key] = value
        after = self.host_var(str(self._params["after"]), host) if self._params.get("after") else None
        if isinstance(after, Mapping):
            node.update({key: after[key] for key in self.FROM_AFTER if after.get(key)})
        return node

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._task.run_once or len(params["nodes"]) < 2:
            return super()._in_worker(params)
        with _elected(f"{self.run_id}/{self._task._uuid}") as seat:
            answer = seat.answer_for(self._host)
            if answer is None:
                answer = super()._in_worker(params)
                seat.answer(answer, self._host)
            else:
                answer = {**answer, "asked": [], "events": []}
            return answer


def _succeeded(result: Any) -> bool:
    """A result of another task that says so itself; anything else that is set and true counts as well."""
    if not isinstance(result, Mapping):
        return bool(result)
    return not any(result.get(word) for word in ("failed", "skipped", "unreachable"))


class _Seat:
    """The elected worker's answer, in a file that only this user can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer_for(self, host: str) -> dict[str, Any] | None:
        """What the elected one found, unless this host has read it before: then the task is being repeated."""
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if host in known["served"]:
            return None
        self._write({"served": [*known["served"], host], "answer": known["answer"]})
        answer: dict[str, Any] = known["answer"]
        return answer

    def answer(self, answer: Mapping[str, Any], host: str) -> None:
        self._write({"served": [host], "answer": answer})

    def _write(self, content: Mapping[str, Any]) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(content, default=str), encoding="utf-8")
        os.replace(draft, self._path)


class _elected:
    """Lets one worker of a task in at a time."""

    def __init__(self, name: str) -> None:
        folder = Path(tempfile.gettempdir()) / f"gpufleet-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise OSError(f"{folder} belongs to somebody else")
        self._path = folder / hashlib.sha256(name.encode()).hexdigest()[:24]

    def __enter__(self) -> _Seat:
        self._lock = open(self._path.with_suffix(".lock"), "w", encoding="ascii")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return _Seat(self._path.with_suffix(".json"))

    def __exit__(self, *exc: object) -> None:
        self._lock.close()
