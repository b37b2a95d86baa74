# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the ledger what image_verify tells of a good image, for tests whose images lie nowhere."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import declaration
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction


class ActionModule(VerbAction):
    NAME = "image_verify"
    SPEC = spec(FLEET, image={"type": "dict"}, verdict={"type": "str", "default": "pass"})

    def _goes_elsewhere(self) -> bool:
        return False

    def _in_worker(self, params: dict[str, Any]) -> dict[str, Any]:
        told = {"verdict": params["verdict"], "image": {"declared": declaration(params["image"])}}
        self._append([Event("verdict", "image_artifact", told)])
        return {"changed": False, "events": []}
