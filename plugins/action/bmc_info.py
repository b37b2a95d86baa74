# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb bmc_info on the controller."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import rehearse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import INFO_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import same_serial
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import CertifiedAction
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._for_all import ForAll
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._heard import heard

# The system's CA bundle is read and the ways through the libraries are walked once, here, before the workers fork.
rehearse()


class ActionModule(ForAll, CertifiedAction):
    """Reads a BMC from the controller's worker process."""

    NAME = "bmc_info"
    FIXES = True
    SPEC = INFO_SPEC
    verb = staticmethod(info)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        heard(self)  # the playbook identity begins with it, and what it tells confirms whose machine a node is
        return super().prepare(params)

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """What no BMC can say of a boot port the ledger may know of its machine."""
        machine = result.get("machine") or {}
        if machine.get("unproven") and self._has_ledger():
            with contextlib.suppress(FleetError):  # a look is a look where the ledger is away, too
                known = same_serial(self._on_record(str(machine.get("serial") or "")), machine.get("serial"))
                machine["unproven"] = [] if known else machine["unproven"]
        if machine.get("serial") and not machine.get("agrees") and self._has_ledger():
            with contextlib.suppress(FleetError):
                machine["known_as"] = self._standing(str(machine["serial"]))
        return super().finish(params, result)

    def _standing(self, serial: str) -> dict[str, Any]:
        """What the ledger has of the machine of this serial; empty of one that it does not know.

        A play took such a host for a new one before its BMC had told, so it goes on with nothing but a hold of its own.
        """
        node = self.ledger().owner("serial", serial)
        if not node or self.ledger().retired(node):
            return {}
        one, name = status(self.ledger(), {self._host: node}, self.run_id)[self._host], self.ledger().name(node)
        new = name == self._host and one["state"] == "discovered" and not one["admitted_before"]
        return {"name": name, "state": one["state"], "begun": new and bool(one["hold"]), "other": not new}

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False
