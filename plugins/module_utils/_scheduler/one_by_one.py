# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trials of many nodes whose verbs are at work at once: one asks their scheduler at a time. PRIVATE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.trials import Job, Trials


class TrialsOfAll(Trials):
    """:param alone: asks in its turn. still: asked right before a write, which has waited for those of others."""

    def __init__(self, of: Trials, alone: Callable[[Callable[[], Any]], Any], still: Callable[[], None]) -> None:
        self._of, self._alone, self._still = of, alone, still

    def _write(self, send: Callable[[], Any]) -> Any:
        def sent() -> Any:
            self._still()
            return send()

        return self._alone(sent)

    def impossible(self, name: str) -> str:
        return str(self._alone(lambda: self._of.impossible(name)))

    def reserve_request(self, name: str, token: str) -> str:
        return str(self._alone(lambda: self._of.reserve_request(name, token)))

    def reserve(self, name: str, token: str) -> None:
        self._write(lambda: self._of.reserve(name, token))

    def submit_request(self, name: str, token: str) -> str:
        return self._of.submit_request(name, token)

    def submit(self, name: str, token: str, script: str, output: str) -> str:
        return str(self._write(lambda: self._of.submit(name, token, script, output)))

    def job(self, number: str) -> Job:
        found: Job = self._alone(lambda: self._of.job(number))
        return found

    def lift_request(self, token: str) -> str:
        return self._of.lift_request(token)

    def lift(self, token: str) -> bool:
        return bool(self._write(lambda: self._of.lift(token)))
