# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-time boot device over IPMI. PRIVATE to the collection. Numbers: IPMI 2.0, section in brackets."""

from __future__ import annotations

from contextlib import suppress

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.machine import CHASSIS, Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, Refused, Unsupported

_SET_BOOT_OPTIONS = 0x08  # [28.12]
_GET_BOOT_OPTIONS = 0x09  # [28.13]
_VALID_CLEARING = 0x03
_BOOT_FLAGS = 0x05
#: Bits and devices of the boot flags [28.13, table 28-14].
_VALID, _PERSISTENT, _EFI = 0x80, 0x40, 0x20
_NO_DEVICE, _FORCE_PXE = 0x00, 0x04
_DEVICES = {
    0x00: c.NOTHING,
    0x04: c.PXE,
    0x08: "disk",
    0x0C: "safe_disk",
    0x10: "diagnostics",
    0x14: "cd",
    0x18: "bios_setup",
    0x1C: "remote_floppy",
    0x20: "remote_cd",
    0x24: "remote_media",
    0x2C: "remote_disk",
    0x3C: "floppy",
}
#: The flags have no word for "as it is". Where none is in force the mode to be kept is not told: a request has one all
#: the same, and machines with GPUs boot by UEFI.
_UNTOLD = c.UEFI


class IpmiBoot(c.Boot):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def override(self) -> c.BootOverride:
        flags = self._boot_flags()
        device = _DEVICES.get(flags[1] & 0x3C, c.UNKNOWN)
        if not flags[0] & _VALID:  # then none of them says anything, the mode as little as the rest
            return c.BootOverride(enabled=c.DISABLED, target=device)
        mode = c.UEFI if flags[0] & _EFI else c.LEGACY
        return c.BootOverride(enabled=c.CONTINUOUS if flags[0] & _PERSISTENT else c.ONCE, target=device, mode=mode)

    def _boot_flags(self) -> bytes:
        what = "Get System Boot Options 5"
        data = self._machine.ask(CHASSIS, _GET_BOOT_OPTIONS, (_BOOT_FLAGS, 0, 0), least=4, what=what)
        if data[1] & 0x7F != _BOOT_FLAGS:
            raise BadAnswer("the BMC answers with another boot parameter", address=self.address, seen=data.hex())
        return data[2:]

    def offer(self) -> c.BootOffer:
        shows = self._machine.quirk("boot_readback") != "blind"
        return c.BootOffer(targets=(c.PXE,), modes=(c.UEFI, c.LEGACY), shows=shows)

    def check(self, target: str, mode: str, uri: str) -> None:
        if target == c.PXE and not uri:
            return
        raise Unsupported(
            "IPMI has no boot from a URI",
            address=self.address,
            wanted=target,
            seen="PXE alone",
            do="use bmc_protocol redfish",
        )

    def clear(self, *, destructive: bool = False) -> str:
        """Valid flags that name no device: what others call ``bootdev none``."""
        told, shown = (_BOOT_FLAGS, _VALID, _NO_DEVICE, 0, 0, 0), "Set System Boot Options 5 device=none"
        return self._machine.write(_SET_BOOT_OPTIONS, told, shown, destructive=destructive)

    def set_once(self, target: str, mode: str, uri: str, *, destructive: bool) -> str:
        """Both writes of the parameter, the first without effect on a machine: flags that last beyond 60 s."""
        self.check(target, mode, uri)
        if mode == c.KEEP:
            told = self.override().mode
            mode = told if told != c.UNKNOWN else _UNTOLD
        write = self._machine.write
        with suppress(Unsupported, Refused):  # then flags last as the BMC likes, and the read-back says what became
            write(_SET_BOOT_OPTIONS, (_VALID_CLEARING, 0x08), "Set System Boot Options 3", destructive=destructive)
        flags = _VALID | (_EFI if mode == c.UEFI else 0)
        shown = f"Set System Boot Options 5 device=pxe mode={mode} once"
        return write(_SET_BOOT_OPTIONS, (_BOOT_FLAGS, flags, _FORCE_PXE, 0, 0, 0), shown, destructive=destructive)
