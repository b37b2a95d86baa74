# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb bmc_log on the controller."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import rehearse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.specs import LOG_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import CertifiedAction

# The system's CA bundle is read and the ways through the libraries are walked once, here, before the workers fork.
rehearse()


class ActionModule(CertifiedAction):
    """Reads a BMC's log from the controller's worker process."""

    NAME = "bmc_log"
    SPEC = LOG_SPEC
    verb = staticmethod(log)

    def _serial_on_record(self, params: Mapping[str, Any]) -> dict[str, str]:
        """A look is a look where there is no ledger, or it is away."""
        with contextlib.suppress(FleetError):
            return super()._serial_on_record(params) if self._has_ledger() else {}
        return {}

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False
