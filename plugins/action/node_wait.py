# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for a batch of nodes in one worker; see the module of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._node.reach import SPEC, wait_for_nodes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._watched import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _ssh_options as ssh_options
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._batch import BatchAction


class ActionModule(BatchAction):
    NAME = "node_wait"
    SPEC = SPEC
    UNTOLD = {"seconds": 0.0}
    HOST_VARS = {"address": "ansible_host", "port": "ansible_port"}
    verb = staticmethod(wait_for_nodes)

    def _node(self, host: str) -> dict[str, Any]:
        """With what Ansible would tell OpenSSH of the way to it."""
        node = super()._node(host)
        if self.host_var("ansible_connection", host) not in (None, "", "ssh", "smart"):
            return node
        try:
            found = ssh_options.options(host, lambda name: self.host_var(name, host))
            return {**node, "words": ssh_options.words(found)}
        except ConfigError as exc:
            return {**node, **refusal(f"{host}: {exc}", exc.kind)}

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False
