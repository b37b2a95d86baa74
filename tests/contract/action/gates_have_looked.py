# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the ledger verdicts of gates as the gates do, for tests without a GPU: only verbs can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


def looked(url: str, serial: str, verdict: Mapping[str, Any], names: Iterable[str]) -> None:
    """All these gates, now, with this verdict."""
    with Ledger(url) as ledger:
        node = ledger.identify("x", aliases=[("serial", serial)])
        told = {**verdict, **ledger.moment().as_data()}
        ledger.append("gates", [(node, Event("verdict", name, {**told, "gate": name})) for name in names])


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        if self._task.check_mode:
            return {"skipped": True}
        looked(**self._task.args)
        return {"changed": True}
