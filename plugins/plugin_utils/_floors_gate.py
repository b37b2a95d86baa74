# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of a gate that holds figures against the floors of its profile. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction

_Names = Sequence[str]


class Claims(NamedTuple):
    """What a gate's package tells of its floors: those of a profile, all or those named; the question that they are;
    what a claimed pass lacks; and what a pass says."""

    floors: Callable[[Wanted], object]
    asked: Callable[[Mapping[str, Any], _Names], dict[str, Any]]
    lacking: Callable[[Mapping[str, Any], _Names, Mapping[str, Any]], str]
    own: Callable[[Mapping[str, Any], _Names], Own]


class FloorsGate(GateAction, base=True):
    """Such a gate is asked for all floors of its profile, or for those that its option names."""

    LOADS = True
    #: The option that names some of them.
    CHOICE: ClassVar[str]
    CLAIMS: ClassVar[Claims]

    def needs(self, wanted: Wanted) -> object:
        return self.CLAIMS.floors(wanted)

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.CLAIMS.asked(params["profile"], self._chosen(params))
        except (ConfigError, KeyError, TypeError, AttributeError):  # a profile that says nothing of these floors
            return {"tests": sorted(self._chosen(params))}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return self.CLAIMS.lacking(params["profile"], self._chosen(params), verdict)

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return self.CLAIMS.own(params["profile"], self._chosen(params))

    def _chosen(self, params: Mapping[str, Any]) -> list[str]:
        return [str(name) for name in params.get(self.CHOICE) or []]
