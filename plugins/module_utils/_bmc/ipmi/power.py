# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's power over IPMI. PRIVATE to the collection. Numbers: IPMI 2.0, section in brackets."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.machine import (
    CHASSIS,
    GET_CHASSIS_STATUS,
    Machine,
)

_CHASSIS_CONTROL = 0x02  # [28.3]
_CONTROL = {c.FORCE_OFF: 0x00, c.POWER_ON: 0x01, c.RESTART: 0x03, c.GRACEFUL_OFF: 0x05}


class IpmiPower(c.Power):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def state(self) -> str:
        status = self._machine.ask(CHASSIS, GET_CHASSIS_STATUS, least=1, what="Get Chassis Status")
        return c.ON if status[0] & 0x01 else c.OFF

    def offer(self) -> tuple[str, ...] | None:
        return tuple(_CONTROL)

    def set(self, kind: str, *, destructive: bool) -> str:
        what = f"Chassis Control {kind}"
        return self._machine.write(_CHASSIS_CONTROL, (_CONTROL[kind],), what, destructive=destructive, once=True)
