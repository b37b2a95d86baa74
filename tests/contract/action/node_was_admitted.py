# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the ledger that the host is admitted, as on a passport, for tests whose hosts are no machines.

Who is admitted for a reason has shown nothing of its image, so ``ledger_event`` is not the same.
"""

from __future__ import annotations

from typing import Any, Optional

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp: Optional[str] = None, task_vars: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        if self._task.check_mode:
            return {"skipped": True}
        told = task_vars or {}
        with Ledger(self._templar.template(told["gpufleet_ledger_url"])) as ledger:
            serial = self._templar.template(told["gpufleet_serial"])
            node = ledger.identify(told["inventory_hostname"], aliases=[("serial", serial)])
            ledger.append("admits", [(node, Event("state", "admitted", {"from": "validating"}))])
        return {"changed": True}
