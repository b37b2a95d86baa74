# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.image import image
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import rehearse
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import IMAGE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._approved import approved
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction

# Here, in the main process, before its workers fork.
rehearse()


class ActionModule(VerbAction):
    """Brings an image to the provisioner that this run has verified for this host."""

    NAME = "provisioner_image"
    SPEC = IMAGE_SPEC
    verb = staticmethod(image)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, "image_verified": self._verified(params)}

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        """All hosts of this run wait together for a provisioner that is away."""
        return super()._in_worker({**params, "run_cache": self._run_as.process})

    def _verified(self, params: Mapping[str, Any]) -> bool | None:
        """Check mode records no verdicts, and a given reason is in the ledger with the intent: neither is judged."""
        if self._task.check_mode or params.get("force_reason") or not params.get("image"):
            return None
        ids = {self._host: self.node_id()}
        return approved(self.ledger(), self.run_id, ids, {self._host: params["image"]})[self._host]
