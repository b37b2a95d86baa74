# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine behind one IPMI BMC: asks it, and writes to it. PRIVATE to the collection.

Numbers are those of the IPMI 2.0 specification, section in brackets. The capabilities (power.py, boot.py,
identity.py) stand on it; it knows none of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import quirks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.apart import link_for
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.quirks import Quirk, matching
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, DeadlineExceeded, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

CHASSIS = 0x00
APP = 0x06
_GET_DEVICE_ID = 0x01  # [20.1]
GET_CHASSIS_STATUS = 0x01  # [28.2]
_AGAIN_SECONDS = 3.0
_AGAIN_TIMEOUT = 60.0


class Machine:
    """The machine as its BMC shows it over IPMI."""

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self._deadline = time.monotonic() + float(params.get("timeout") or 300.0)
        self.link = link_for(ctx.peers)(
            str(params["bmc_address"]),
            str(params["bmc_username"]),
            str(params["bmc_password"]),
            wait=ctx.wait,
            deadline=self._deadline,
            privilege=str(params.get("bmc_ipmi_privilege") or ""),
            kg=str(params.get("bmc_ipmi_kg") or ""),
        )
        self.address = self.link.shown
        self._ctx = ctx
        self._quirks: dict[str, Quirk] | None = None

    def ask(self, netfn: int, command: int, data: tuple[int, ...] = (), *, least: int = 0, what: str = "") -> bytes:
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

    def device(self) -> dict[str, str]:
        data = self.ask(APP, _GET_DEVICE_ID, least=11, what="Get Device ID")
        return {
            "manufacturer_id": f"0x{int.from_bytes(data[6:9], 'little'):06x}",
            "product_id": f"0x{int.from_bytes(data[9:11], 'little'):04x}",
            "firmware": f"{data[2] & 0x7F}.{data[3]:02x}",
        }

    def rows(self) -> dict[str, Quirk]:
        """The rows of quirks.py that fit this BMC, by behaviour."""
        if self._quirks is None:
            self._quirks = matching(quirks.QUIRKS, self.device())
        return self._quirks

    def quirk(self, behaviour: str) -> Any:
        """The value of the row that fits this BMC; None where there is none."""
        row = self.rows().get(behaviour)
        return row.value if row else None

    def write(self, command: int, data: tuple[int, ...], shown: str, *, destructive: bool, once: bool = False) -> str:
        limit = min(_AGAIN_TIMEOUT, max(0.0, self._deadline - time.monotonic()))
        last: dict[str, FleetError] = {}
        # A session that broke meanwhile is found out by a read, never by the write.
        if once:
            self.ask(CHASSIS, GET_CHASSIS_STATUS, what="Get Chassis Status")

        def attempt() -> str | None:
            if not self._ctx.may_write(f"{self.address} {shown}", destructive=destructive):
                return c.WITHHELD
            try:
                self.link.command(CHASSIS, command, data, once=once, what=shown)
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

    @property
    def late(self) -> bool:
        """Is the time of this task over?"""
        return time.monotonic() > self._deadline

    def close(self) -> None:
        self.link.close()
