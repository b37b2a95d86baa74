# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.info import UNKNOWN, info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import INFO_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._deployments import NOTHING, deployments

_OF_NODE = ("provisioner_id", "image", "boot_mac", "serial", "bmc_address", "bmc_system_id")


class ActionModule(BatchAction):
    """Reads all hosts of the batch by one look at their provisioner, and takes no lease for that."""

    NAME = "provisioner_info"
    SPEC = INFO_SPEC
    PORT: ClassVar[ModuleType | None] = names
    UNTOLD = UNKNOWN
    HOST_VARS = {name: f"gpufleet_{name}" for name in _OF_NODE}
    verb = staticmethod(info)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        params = super().prepare(params)
        known = deployments(self.ledger(), self.ids)
        nodes = [{**known.get(str(node.get("host") or ""), NOTHING), **node} for node in params["nodes"]]
        return {**params, "nodes": nodes, "run_cache": self._run_as.process}

    def _leased(self, nodes: Sequence[dict[str, Any]]) -> dict[str, str]:
        """The ledger's ids of those that it knows. Who only looks keeps nobody from working on a node."""
        ids = {}
        for node in nodes:
            host = str(node.get("host") or "")
            try:
                ids[host] = self.node_id(host, create=False) if host in self._hosts and not node.get("refused") else ""
            except ConfigError as exc:
                node.update(refusal(str(exc.located(node=host)), exc.kind))
        return {host: node_id for host, node_id in ids.items() if node_id}

    def _renewing(self) -> AbstractContextManager[None]:
        return nullcontext()
