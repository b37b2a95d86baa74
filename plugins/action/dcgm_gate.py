# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import (
    asked,
    lacking,
    own,
    question_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate, limit_of, stresses
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import canonical
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import DCGM_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._detached import DetachedGate


class ActionModule(DetachedGate):
    NAME = "dcgm_gate"
    SPEC = DCGM_GATE
    LOADS = True
    BESIDE = ("evidence", "gpus", "evidence_path")
    verb = staticmethod(dcgm_gate)

    def needs(self, wanted: Wanted) -> object:
        return section_of(wanted)

    def writes(self, params: Mapping[str, Any]) -> bool:
        return stresses(params) or bool(params["detached"]) or bool(params.get("health"))

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return stresses(params)

    def job_limit(self, params: Mapping[str, Any]) -> float:
        return limit_of(params)

    def job_question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return question_of(params)

    def job_parts(self, params: Mapping[str, Any]) -> list[Any]:
        # As it was before there were others: a job that goes on over an upgrade is found again.
        return [params.get("level"), params.get("tests"), *(["health"] if params.get("health") else [])]

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return asked(self.job_question(params), verdict)
        except (ConfigError, KeyError, TypeError, AttributeError):  # a profile that says nothing of DCGM
            names = [canonical(name) for name in params["tests"] or []]
            asked_for = names + (["health"] if params.get("health") else [])
            return {"level": 0 if names else int(params["level"]), "tests": sorted(asked_for)}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return lacking(verdict, self.job_question(params))

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return own(verdict, self.job_question(params))
