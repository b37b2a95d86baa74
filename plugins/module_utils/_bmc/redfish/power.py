# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's power over Redfish. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import SAME_LOOK, Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, Unsupported

_STATES = {"On": c.ON, "Off": c.OFF, "PoweringOn": c.CHANGING, "PoweringOff": c.CHANGING, "Paused": c.CHANGING}
#: ResetTypes that do what a kind of change asks, best first. What is missing is done by the verb in two steps.
_RESET_TYPES = {
    c.POWER_ON: ("On",),
    c.FORCE_OFF: ("ForceOff",),
    # Off is no standard ResetType, and whether it asks the operating system first is known of single BMCs (quirks.py).
    c.GRACEFUL_OFF: ("GracefulShutdown",),
    c.RESTART: ("ForceRestart", "PowerCycle", "GracefulRestart"),
}
#: A LastResetTime that was never set, as OpenBMC and BlueField-3 show it while the machine runs.
_NEVER = "1970-01-01"


class RedfishPower(c.Power):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address
        self._resets: tuple[str, ...] | None | bool = False
        self._looked = False

    def state(self) -> str:
        # The look that chose the system is the first one; every later one asks anew.
        system = self._machine.system(max_age=0.0 if self._looked else SAME_LOOK)
        self._looked = True
        return _STATES.get(str(system.get("PowerState")), c.UNKNOWN)

    def restart_marker(self) -> str:
        told = str(self._machine.system().get("LastResetTime") or "")
        if told and not told.startswith(_NEVER):
            return told
        counter = self._machine.quirk("restart_counter")
        count = self._within(counter) if counter else None
        return str(count) if isinstance(count, int) else ""

    def restart_proof(self) -> str:
        return c.RESET_COUNT if self.restart_marker().isdecimal() else c.RESET_TIME

    def start_stage(self) -> str:
        known = self._machine.quirk("start_stage")
        word = self._within(known.path) if known else None
        return c.LATE if known and word in known.late else c.EARLY if known and word in known.early else ""

    def _within(self, path: Sequence[str]) -> Any:
        return select.section(self._machine.system(), *path[:-1]).get(path[-1])

    def offer(self) -> tuple[str, ...] | None:
        return None if self._reset_types() is None else tuple(kind for kind in _RESET_TYPES if self._reset_type(kind))

    def _reset_types(self) -> tuple[str, ...] | None:
        """What the BMC lists, in the action or its ActionInfo; None where it lists nothing."""
        if self._resets is False:
            action = select.reset_action(self._machine.system())
            listed = action.get("ResetType@Redfish.AllowableValues")
            if not isinstance(listed, list) and isinstance(action.get("@Redfish.ActionInfo"), str):
                try:
                    listed = _allowed_in(self._machine.read(action["@Redfish.ActionInfo"]))
                except (Unsupported, BadAnswer):
                    listed = None
            self._resets = tuple(str(name) for name in listed) if isinstance(listed, list) else None
        return None if isinstance(self._resets, bool) else self._resets

    def _reset_type(self, kind: str) -> str:
        listed = self._reset_types()
        never = self._machine.quirk("power_never") or ()
        own = (self._machine.quirk("power_names") or {}).get(kind)
        names = (own, *_RESET_TYPES[kind], (self._machine.quirk("power_also") or {}).get(kind))
        # A list that is missing allows the two that every machine has, and nothing else.
        allowed = ("On", "ForceOff") if listed is None else listed
        return next((name for name in names if name and name in allowed and name not in never), "")

    def set(self, kind: str, *, destructive: bool) -> str:
        machine, name = self._machine, self._reset_type(kind)
        if not name:
            raise Unsupported(
                f"this BMC offers no reset that does {kind}",
                address=self.address,
                wanted=" or ".join(_RESET_TYPES[kind]),
                seen=", ".join(self._reset_types() or ()) or "no list",
                do="use another state of redfish_power",
            )
        target = select.reset_action(machine.system()).get("target")
        if not isinstance(target, str) or not target:  # it may be gone since the system was chosen
            raise BadAnswer("the BMC does not say where its reset is", address=self.address, wanted="a target of it")
        again = float(machine.quirk("power_on_again") or 0.0) if kind == c.POWER_ON else 0.0
        answer = machine.write(
            "POST", target, {"ResetType": name}, f"ResetType={name}", destructive=destructive, settling=again
        )
        return c.WITHHELD if answer is None else c.SENT


def _allowed_in(info: Mapping[str, Any]) -> list[Any] | None:
    parameters = info.get("Parameters")
    for item in parameters if isinstance(parameters, list) else []:
        if isinstance(item, dict) and item.get("Name") == "ResetType" and isinstance(item.get("AllowableValues"), list):
            return list(item["AllowableValues"])
    return None
