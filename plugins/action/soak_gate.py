# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Refused, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import specs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.job import ANOTHER, NO_SOAK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import (
    ASKED,
    LACKING,
    OWN,
    SOAK_GATE,
    SOAKED,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.claimed import question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.part import hours_of, limit_of, loads_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._detached import DetachedGate
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._soaking import begun_last, cut_off

#: What says nothing of a node that may soak on, by the finding: whose failure it is instead.
_OF_NOBODY: Mapping[str, str] = {
    "unreachable": Unreachable.kind,
    "late": Unreachable.kind,
    BUSY: Refused.kind,
    ANOTHER: ConfigError.kind,
}


class ActionModule(DetachedGate):
    NAME = "soak_gate"
    SPEC = specs.SOAK_GATE
    LOADS = True
    #: A node that was drained anew is soaked anew.
    BEGINS = ("imaging", "validating", "drained")
    verb = staticmethod(SOAK_GATE)

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        hours_of(params)
        self._idle = False
        # Only one that goes on by itself can be told to end.
        params = {**params, "detached": bool(params["detached"] or params["stop"])}
        if params["stop"] and not params["job"] and not self._task.check_mode:
            params.update(self._going_on(params))
        params = super().prepare(params)
        if params["job"] and params["detached"] and not params["stop"] and not self._task.check_mode:
            counted = cut_off(self.ledger(), self.node_id(), params["job"])
            params["cut_off"] = max(int(params["cut_off"]), counted)
        return params

    def _going_on(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The soak that goes on by the ledger, in the words that it was begun with: who ends it need not know them."""
        begun = begun_last(self.ledger(), self.node_id())
        self._idle = begun is None
        if begun is None:
            return {"job": NO_SOAK}
        options, name = begun["data"].get("options") or {}, begun["data"].get("job")
        words = {"hours": params["hours"], "tests": None, "state_dir": params["state_dir"], "job": name}
        return {key: options.get(key, value) for key, value in words.items()} if name else {}

    def _shipped(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._idle:  # nothing is asked of the node: it may be away, or have no soak in its profile
            return _nothing("by the ledger no soak goes on here", [])
        return super()._shipped(params)

    def _answered(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        told = super()._answered(params, result)
        if params["stop"] and _found(told) == {NO_SOAK}:
            why = "no soak goes on here"
            return _nothing(why, [{"kind": "note", "name": self.NAME, "data": {NO_SOAK: True, "reason": why}}])
        told = self._of_nobody(told)
        if ANOTHER in _found(told) and not params["stop"]:
            data = {ANOTHER: True, "job": params["job"], "reason": told["msg"]}
            told["events"] = [{"kind": "note", "name": self.NAME, "data": data}]
        return told

    def collected(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return self._of_nobody(super().collected(params))

    def _of_nobody(self, told: dict[str, Any]) -> dict[str, Any]:
        """What is no word of the soak itself quarantines nobody: a network that is away would have all nodes imaged."""
        found = _found(told)
        if not found or (told.get("tool") or {}).get("name") != self.NAME or not found <= set(_OF_NOBODY):
            return told
        told = {**told, "kind": _OF_NOBODY[min(found)]}
        return {**told, "failed": True, "events": []} if ANOTHER in found else told

    def epoch(self, node: str) -> Mapping[str, Any] | None:
        """A failure that was written down stands there: what is begun after it is measured, and not told again."""
        began = super().epoch(node)
        since = int(began["id"]) if began else 0
        told = self.ledger().history(node, since=since, kinds=("verdict",), names=(self.NAME,)) if began else []
        return next((one for one in reversed(told) if one["data"].get("verdict") == FAIL), began)

    def announced(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A state that was recorded since its begin makes it no younger."""
        known = self.ledger().history(self.node_id(), kinds=("intent",), names=(self.NAME,))
        return [one for one in known if one["data"].get("job") == params["job"]] or super().announced(params)

    def needs(self, wanted: Wanted) -> object:
        SOAKED.needs(wanted, [])
        return None

    def destructive(self, params: Mapping[str, Any]) -> bool:
        return not params["stop"]

    def job_limit(self, params: Mapping[str, Any]) -> float:
        return limit_of(params, hours_of(params))

    def job_question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        loads = SOAKED.loads(wanted_of(params["profile"]), loads_of(params))
        return question(params["profile"], hours_of(params), loads)

    def job_parts(self, params: Mapping[str, Any]) -> list[Any]:
        # Not the hours: the same soak may be asked for more of them.
        return [sorted(loads_of(params))]

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return dict(ASKED[self.NAME](self.job_question(params), verdict))
        except (ConfigError, KeyError, TypeError, AttributeError):  # a profile that says nothing of a soak
            return {"level": hours_of(params), "tests": sorted(loads_of(params))}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return LACKING[self.NAME](verdict, self.job_question(params))

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return OWN[self.NAME](verdict, self.job_question(params))


def _found(told: Mapping[str, Any]) -> set[str]:
    return {str(row["id"]) for row in told.get("findings") or []}


def _nothing(why: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    """Where nothing goes on nothing is ended, and nobody is judged."""
    return {"changed": False, NO_SOAK: True, "msg": why, "events": events}
