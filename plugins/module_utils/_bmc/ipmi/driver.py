# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IPMI driver. PRIVATE to the collection. Numbers are those of the IPMI 2.0 specification, section in brackets."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.fru import fru_names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.link import IpmiLink
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.quirks import Quirk, matching
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    FleetError,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

_CHASSIS = 0x00
_APP = 0x06
_GET_DEVICE_ID = 0x01  # [20.1]
_GET_SYSTEM_GUID = 0x37  # [22.14]
_GET_CHASSIS_STATUS = 0x01  # [28.2]
_CHASSIS_CONTROL = 0x02  # [28.3]
_SET_BOOT_OPTIONS = 0x08  # [28.12]
_GET_BOOT_OPTIONS = 0x09  # [28.13]
_VALID_CLEARING = 0x03
_BOOT_FLAGS = 0x05

#: Chassis Control [28.3].
_CONTROL = {c.FORCE_OFF: 0x00, c.POWER_ON: 0x01, c.RESTART: 0x03, c.GRACEFUL_OFF: 0x05}
#: Bits and devices of the boot flags [28.13, table 28-14].
_VALID, _PERSISTENT, _EFI = 0x80, 0x40, 0x20
_FORCE_PXE = 0x04
_DEVICES = {
    0x00: "none",
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
_AGAIN_SECONDS = 3.0
_AGAIN_TIMEOUT = 60.0


class IpmiBmc(c.Bmc):
    """One machine behind one IPMI BMC."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.link = IpmiLink(str(params["bmc_address"]), str(params["bmc_username"]), str(params["bmc_password"]))
        self.address = self.link.shown
        self._ctx = ctx
        self._deadline = time.monotonic() + float(params.get("timeout") or 300.0)
        self._quirks: dict[str, Quirk] | None = None

    # -- reading -----------------------------------------------------------------------------------------------

    def _ask(self, netfn: int, command: int, data: tuple[int, ...] = (), *, least: int = 0, what: str = "") -> bytes:
        """A read; asked again while the BMC is busy or its session broke."""
        limit = min(_AGAIN_TIMEOUT, max(0.0, self._deadline - time.monotonic()))
        last: dict[str, FleetError] = {}

        def attempt() -> bytes | None:
            try:
                return self.link.command(netfn, command, data, what=what)
            except (c.NotNow, c.LostAnswer) as exc:
                last["problem"] = exc
                return None

        answer = attempt()
        if answer is None:
            try:
                answer = self._ctx.wait(
                    attempt, lambda got: got is not None, timeout=limit, interval=_AGAIN_SECONDS, wanted=what
                )
            except DeadlineExceeded as exc:
                raise last["problem"] from exc
        if answer is None or len(answer) < least:
            raise BadAnswer("the BMC's answer is too short", address=self.address, wanted=what, seen=repr(answer))
        return answer

    def power_state(self) -> str:
        status = self._ask(_CHASSIS, _GET_CHASSIS_STATUS, least=1, what="Get Chassis Status")
        return c.ON if status[0] & 0x01 else c.OFF

    def identity(self) -> c.Identity:
        device = self._device()
        names = fru_names(self._ask)
        return c.Identity(
            serial=names.get("serial", ""),
            uuid=self._guid(),
            manufacturer=names.get("manufacturer", ""),
            model=names.get("model", ""),
            bmc_firmware=device["firmware"],
        )

    def _device(self) -> dict[str, str]:
        data = self._ask(_APP, _GET_DEVICE_ID, least=11, what="Get Device ID")
        return {
            "manufacturer_id": f"0x{int.from_bytes(data[6:9], 'little'):06x}",
            "product_id": f"0x{int.from_bytes(data[9:11], 'little'):04x}",
            "firmware": f"{data[2] & 0x7F}.{data[3]:02x}",
        }

    def _guid(self) -> str:
        try:
            data = self._ask(_APP, _GET_SYSTEM_GUID, least=16, what="Get System GUID")
        except FleetError as exc:
            if isinstance(exc, Unreachable):
                raise
            return ""
        # Least significant byte first [20.8]; the same order as SMBIOS, read as a whole from the other end.
        return str(uuid.UUID(bytes=bytes(reversed(data[:16]))))

    def quirk(self, behaviour: str) -> Any:
        if self._quirks is None:
            self._quirks = matching("ipmi", self._device())
        row = self._quirks.get(behaviour)
        return row.value if row else None

    def boot_override(self) -> c.BootOverride:
        flags = self._boot_flags()
        device = _DEVICES.get(flags[1] & 0x3C, c.UNKNOWN)
        mode = c.UEFI if flags[0] & _EFI else c.LEGACY
        if not flags[0] & _VALID:
            return c.BootOverride(enabled=c.DISABLED, target=device, mode=mode)
        return c.BootOverride(enabled=c.CONTINUOUS if flags[0] & _PERSISTENT else c.ONCE, target=device, mode=mode)

    def _boot_flags(self) -> bytes:
        data = self._ask(_CHASSIS, _GET_BOOT_OPTIONS, (_BOOT_FLAGS, 0, 0), least=4, what="Get System Boot Options 5")
        if data[1] & 0x7F != _BOOT_FLAGS:
            raise BadAnswer("the BMC answers with another boot parameter", address=self.address, seen=data.hex())
        return data[2:]

    def capabilities(self) -> c.Capabilities:
        shows = self.quirk("boot_readback") != "blind"
        return c.Capabilities(
            protocol="ipmi",
            power=tuple(_CONTROL),
            boot_targets=(c.PXE,),
            boot_modes=(c.UEFI, c.LEGACY),
            shows_boot_override=shows,
            quirks=tuple(sorted(row.name for row in (self._quirks or {}).values())),
        )

    # -- writing -----------------------------------------------------------------------------------------------

    def set_power(self, kind: str, *, destructive: bool) -> str:
        what = f"Chassis Control {kind}"
        return self._write(_CHASSIS_CONTROL, (_CONTROL[kind],), what, destructive=destructive, once=True)

    def check_boot(self, target: str, mode: str, uri: str) -> None:
        if target == c.PXE and not uri:
            return
        raise Unsupported(
            "IPMI has no boot from a URI",
            address=self.address,
            wanted=target,
            seen="PXE alone",
            do="use bmc_protocol redfish",
        )

    def set_boot_once(self, target: str, mode: str, uri: str) -> str:
        """Both writes of the parameter, the first without effect on a machine: flags that last beyond 60 s."""
        self.check_boot(target, mode, uri)
        if mode == c.KEEP:
            mode = self.boot_override().mode
        with suppress(Unsupported):  # then flags last as the BMC likes, and the read-back says what they became
            self._write(_SET_BOOT_OPTIONS, (_VALID_CLEARING, 0x08), "Set System Boot Options 3", destructive=False)
        flags = _VALID | (_EFI if mode == c.UEFI else 0)
        shown = f"Set System Boot Options 5 device=pxe mode={mode} once"
        return self._write(_SET_BOOT_OPTIONS, (_BOOT_FLAGS, flags, _FORCE_PXE, 0, 0, 0), shown, destructive=False)

    def _write(self, command: int, data: tuple[int, ...], shown: str, *, destructive: bool, once: bool = False) -> str:
        limit = min(_AGAIN_TIMEOUT, max(0.0, self._deadline - time.monotonic()))
        last: dict[str, FleetError] = {}
        # A session that broke meanwhile is found out by a read, never by the write.
        if once:
            self._ask(_CHASSIS, _GET_CHASSIS_STATUS, what="Get Chassis Status")

        def attempt() -> str | None:
            if not self._ctx.may_write(f"{self.address} {shown}", destructive=destructive):
                return c.WITHHELD
            try:
                self.link.command(_CHASSIS, command, data, once=once, what=shown)
            except c.NotNow as exc:
                last["problem"] = exc
                return None
            return c.SENT

        try:
            done = self._ctx.wait(
                attempt,
                lambda got: got is not None,
                timeout=limit,
                interval=_AGAIN_SECONDS,
                wanted=f"the BMC to take {shown}",
            )
        except DeadlineExceeded as exc:
            raise last["problem"] from exc
        return str(done)

    def close(self) -> None:
        self.link.close()
