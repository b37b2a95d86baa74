# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a node over its own connection, once it is known to be that node; see the module of that name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._evidence.specs import NODE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._right_machine import OnItsMachine

#: What a module over there tells; whatever else stands in its answer is nobody's.
_TOLD = ("changed", "failed", "msg", "error", "boot_id", "readings")


class ActionModule(OnItsMachine):
    NAME = "node_evidence"
    SPEC = NODE

    def _goes_elsewhere(self) -> bool:
        return True

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        self.on_its_own_node()
        self._right_machine()
        answer = super()._shipped({name: params[name] for name in ("readings", "timeout")})
        return {name: answer[name] for name in _TOLD if name in answer}
