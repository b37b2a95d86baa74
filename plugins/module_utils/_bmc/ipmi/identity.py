# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the machine is, over IPMI. PRIVATE to the collection. Numbers: IPMI 2.0, section in brackets."""

from __future__ import annotations

import uuid

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.fru import read_fru
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.machine import APP, Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, FleetError, Unreachable

_GET_SYSTEM_GUID = 0x37  # [22.14]


class IpmiIdentity(c.Identify):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def identity(self) -> c.Identity:
        device = self._machine.device()
        fru = read_fru(self._machine.ask)
        return c.Identity(
            serial=fru.serial or fru.board,
            uuid=self._guid(),
            manufacturer=fru.manufacturer,
            model=fru.model,
            bmc_firmware=device["firmware"],
        )

    def known_by(self, *, parts: bool = False) -> c.KnownBy:
        """The GUID is to be the one of SMBIOS; some BMCs send one of their own."""
        fru = read_fru(self._machine.ask)
        return c.KnownBy(serials=(fru.serial,), of_parts=(fru.board, fru.chassis), of_the_bmc=(self._guid(),))

    def _guid(self) -> str:
        try:
            data = self._machine.ask(APP, _GET_SYSTEM_GUID, least=16, what="Get System GUID")
        except FleetError as exc:
            if isinstance(exc, (AuthFailed, Unreachable)):
                raise
            return ""
        # Least significant byte first [20.8]; the same order as SMBIOS, read as a whole from the other end.
        return str(uuid.UUID(bytes=bytes(reversed(data[:16]))))
