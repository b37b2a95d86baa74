# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import (
    kernel_log_gate,
    lacking,
    own,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import iso_time
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import KERNEL_LOG_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import BOOT, IMAGING
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import iso
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction, seconds_ago


class ActionModule(GateAction):
    NAME = "kernel_log_gate"
    SPEC = KERNEL_LOG_GATE
    LOADS = False
    BESIDE = ("evidence", "window", "evidence_path")
    verb = staticmethod(kernel_log_gate)

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return lacking(verdict)

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return own(self._window)

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        return {"window": self._window}

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        prepared = super().prepare(params)
        since = str(prepared.get("since") or "")
        if not since:
            age = self.remediated()
            # Of a node that was imaged elsewhere nobody knows when: what is read is its boot, and no more is claimed.
            self._window = BOOT if age is None else IMAGING
            return {**prepared, "since": seconds_ago(age)}
        self._window = self._asked_for(since)
        return prepared

    def _asked_for(self, since: str) -> str:
        """The window as it is compared with others: by name, or by its start on the ledger's clock."""
        if since == BOOT:
            return BOOT
        try:
            return iso(self.ledger().now() - float(since))
        except (ValueError, OverflowError):
            begin = iso_time(since)
            return since if begin is None else iso(begin)
