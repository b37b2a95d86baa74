# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``node_passport`` on the controller: hands the verb what the ledger knows, and keeps what it issues."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import check_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.called import OWN_NAME
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import KIND
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.last_look import NAME as LAST
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import seconds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.passport import node_passport, place_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import NODE_PASSPORT, PASSPORT_RULES
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._in_force import policy_of
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._keys import listed
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._node_identity import read_identity


class ActionModule(VerbAction):
    NAME = "node_passport"
    SPEC = NODE_PASSPORT
    RULES = PASSPORT_RULES
    TELLS = {KIND: (LAST,)}
    verb = staticmethod(node_passport)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("evidence"):
            raise ConfigError("evidence is not for a task to set", do="leave it out: it is read from the ledger")
        if params["same_boot"] and (params.get("identity") or params.get("path")):
            raise ConfigError(
                "a last look is one of now",
                wanted="the node itself, and the ledger's passport",
                do="leave identity and path out",
            )
        params["key_path"] = params.get("key_path") or self.host_var("gpufleet_passport_key_path")
        params["public_keys"] = listed(params.get("public_keys") or self.host_var("gpufleet_passport_public_keys"))
        params["policy"], problem = policy_of(params)
        if params["state"] == "verified" and params.get("path"):
            # A document, looked at for itself; neither ledger nor node is asked. Who names an SKU has it held to that.
            params["evidence"] = {"profile_problem": problem if params.get("sku") else ""}
            return params
        if params["state"] == "exported":
            check_file(place_of(str(params.get("path") or ""), self._host), "the passport")
        else:
            params["identity"] = params.get("identity") or self._read_identity(params)
        params["evidence"] = {**self._evidence(params["state"]), "profile_problem": problem}
        return params

    def _looks(self) -> bool:
        return bool(self._params["same_boot"]) and super()._looks()

    def _goes_elsewhere(self) -> bool:
        return False  # ledger and key are on the controller

    def _evidence(self, state: str) -> dict[str, Any]:
        node_id = self.node_id(create=state == "issued" and not self._task.check_mode)
        empty: dict[str, Any] = {"verdicts": [], "history": [], "last_event": 0, "now": self.ledger().now()}
        empty.update(dict.fromkeys(("imaged", "quarantined", "stored")))
        return {
            **(evidence(self.ledger(), node_id) if node_id else empty),
            "node": {"id": node_id, "name": self._host},
            "run": self.run_id,
            "controller": socket.gethostname(),
        }

    def _read_identity(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Not another machine's word, which a delegated task would bring."""
        if self._task.delegate_to:
            raise ConfigError(
                "the node's identity cannot be read through a delegated task",
                do="leave delegate_to out, or give identity",
            )
        return read_identity(self._low_level_execute_command, params)

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        # The last look is what a resume rests on, and its scheduler may have the machine under another name.
        for event in result["events"]:
            if event["kind"] == KIND:
                event["data"][OWN_NAME] = str((params.get("identity") or {}).get(OWN_NAME) or "")
        issued = any(event["kind"] == "passport" for event in result["events"])
        if issued and not self._task.check_mode:
            passport = result["passport"]
            self.ledger().save_passport(
                self.run_id,
                self.node_id(),
                issued=seconds(passport["issued"]),
                expires=seconds(passport["expires"]),
                digest=passport["digest"],
                envelope=result["envelope"],
            )
        return result
