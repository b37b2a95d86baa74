# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.specs import TRAINING_GATE, TRAINING_GATE_RULES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.claimed import (
    asked,
    lacking,
    of_the_site,
    own,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.gate import training_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.section import training_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction


class ActionModule(GateAction):
    NAME = "training_gate"
    SPEC = TRAINING_GATE
    RULES = TRAINING_GATE_RULES
    LOADS = True
    verb = staticmethod(training_gate)
    _name = ""

    def writes(self, params: Mapping[str, Any]) -> bool:
        return _runs(params)

    def destructive(self, params: Mapping[str, Any]) -> bool:
        """A log is read, and disturbs nobody."""
        return _runs(params)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        self._name = _chosen(params)
        return super().prepare(params)

    def needs(self, wanted: Wanted) -> object:
        return training_of(wanted, self._name)

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return asked(params["profile"], _chosen(params), ran=_runs(params))
        except (ConfigError, KeyError, TypeError, AttributeError):  # a profile that says nothing of this training
            return {"tests": [name for name in (_chosen(params),) if name]}

    def _concluded(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """What nothing but a setting was in the way of is the site's failure: see _quarantine.py."""
        sites = {} if "kind" in result or not of_the_site(result) else {"kind": ConfigError.kind}
        return super()._concluded(params, {**result, **sites})

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return lacking(params["profile"], _chosen(params), verdict, ran=_runs(params))

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return own(params["profile"], _chosen(params), ran=_runs(params))


def _chosen(params: Mapping[str, Any]) -> str:
    return str(params.get("test") or "")


def _runs(params: Mapping[str, Any]) -> bool:
    return bool(params.get("command"))
