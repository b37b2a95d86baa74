# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IPMI's boot flags at BMCs that tell none, or that lack a parameter."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import boot, power, settle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import link as ipmi_link
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.driver import IpmiBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused, Unsupported
from fake_bmc.ipmi_memory import Session

from .conftest import PXE, Ctx

pytestmark = pytest.mark.skipif(bool(ipmi_link.LIBRARY_PROBLEM), reason="needs pyghmi")
SET, GET, DEVICE = (0x00, 0x08), (0x00, 0x09), (0x06, 0x01)


class Flags:
    """A BMC with boot flags, each parameter answered with a completion code of its own."""

    def __init__(self, flags: str = "0000000000", **codes: int) -> None:
        self.flags = bytes.fromhex(flags)
        self.codes = codes
        device = bytes.fromhex("20010203022000a21000010000")
        self.session = Session({SET: self.set, GET: self.get, DEVICE: lambda _data: (0, device)})

    def set(self, data: tuple[int, ...]) -> tuple[int, bytes]:
        code = self.codes.get(f"set{data[0] & 0x7F}", 0)
        if not code and data[0] == 5:
            self.flags = bytes(data[1:])
        return code, b""

    def get(self, data: tuple[int, ...]) -> tuple[int, bytes]:
        return self.codes.get(f"get{data[0] & 0x7F}", 0), bytes([1, data[0]]) + self.flags

    def bmc(self, ctx: Any = None) -> IpmiBmc:
        bmc = IpmiBmc({"bmc_address": "bmc", "bmc_username": "u", "bmc_password": "p", "timeout": 1.0}, ctx or Ctx())
        bmc.machine.link._session = self.session
        return bmc

    def sent(self) -> list[tuple[int, ...]]:
        return [data for netfn, command, data in self.session.heard if (netfn, command) == SET]


@pytest.mark.parametrize(
    ("flags", "told", "sent"),
    [
        ("0000000000", c.UNKNOWN, 0xA0),
        ("2004000000", c.UNKNOWN, 0xA0),
        ("8008000000", c.LEGACY, 0x80),
        ("a008000000", c.UEFI, 0xA0),
        ("c008000000", c.LEGACY, 0x80),
    ],
)
def test_b2_a_mode_to_be_kept_is_that_of_valid_flags_alone(flags: str, told: str, sent: int) -> None:
    rig = Flags(flags)
    with rig.bmc() as bmc:
        assert bmc.boot.override().mode == told
        bmc.boot.set_once(c.PXE, c.KEEP, "", destructive=False)
    assert rig.sent()[-1][:3] == (5, sent, 0x04)


@pytest.mark.parametrize(("mode", "sent"), [(c.UEFI, 0xA0), (c.LEGACY, 0x80)])
def test_b2_a_mode_that_is_named_is_sent_whatever_stood_there(mode: str, sent: int) -> None:
    rig = Flags()
    with rig.bmc() as bmc:
        bmc.boot.set_once(c.PXE, mode, "", destructive=False)
        assert bmc.boot.override() == c.BootOverride(c.ONCE, c.PXE, mode)
    assert rig.sent()[-1][1] == sent


@pytest.mark.parametrize("code", [0x80, 0x82, 0xCC, 0xC9])
def test_b2_a_bmc_without_parameter_3_boots_from_the_network(code: int) -> None:
    rig = Flags(set3=code)
    with rig.bmc() as bmc:
        assert bmc.boot.set_once(c.PXE, c.KEEP, "", destructive=False) == c.SENT
    assert [data[0] for data in rig.sent()] == [3, 5]


@pytest.mark.parametrize(("codes", "kind"), [({"set5": 0x80}, Unsupported), ({"set5": 0xCC}, Refused)])
def test_b2_a_bmc_without_parameter_5_does_not(codes: dict[str, int], kind: Any) -> None:
    rig = Flags(**codes)
    with rig.bmc() as bmc, pytest.raises(kind, match="0x(80|cc)"):
        bmc.boot.set_once(c.PXE, c.KEEP, "", destructive=False)


@pytest.mark.parametrize(("stuck", "shows"), [(False, True), (True, True), (False, False)])
def test_j8_a_network_boot_that_fails_disarms_over_ipmi(
    monkeypatch: pytest.MonkeyPatch, stuck: bool, shows: bool
) -> None:
    """The machine is off, and its BMC refuses to switch it on; or to take the flags back as well, or shows none."""
    rig = Flags()
    if not shows:  # OpenIPMI's simulator says who it is, and is known not to
        rig.session.says[DEVICE] = lambda _data: (0, bytes.fromhex("200102030220911200020f0000"))

    def refuses(_data: tuple[int, ...]) -> tuple[int, bytes]:
        rig.codes.update({"set5": 0xCC} if stuck else {})
        return 0xCC, b""

    rig.session.says.update({(0x00, 0x02): refuses, (0x00, 0x01): lambda _data: (0, bytes(4))})
    monkeypatch.setattr(settle, "PACE", ((float("inf"), 0.01),))
    monkeypatch.setattr(power, "_REFUSED_SECONDS", 0.05)
    monkeypatch.setattr(boot, "connect", lambda params, ctx: rig.bmc(ctx))
    given = {**PXE, "power": "on", "force_reason": "a test", "timeout": 1.0, "accept_inconclusive": True}
    with pytest.raises(Refused) as caught:
        boot.pxe_boot(given, Ctx())
    armed = rig.flags[1] & 0x3C == 0x04
    told = "target none for node1" in caught.value.do
    assert armed is stuck and told is (stuck or not shows), (rig.flags.hex(), caught.value)


def test_j8_flags_that_name_no_device_are_no_override() -> None:
    rig = Flags("a004000000")
    with rig.bmc() as bmc:
        assert bmc.boot.override().stands() and bmc.boot.clear() == c.SENT
        assert not bmc.boot.override().stands() and rig.sent() == [(5, 0x80, 0, 0, 0, 0)]


def test_b2_0x80_of_another_command_is_a_refusal() -> None:
    rig = Flags()
    rig.session.says[DEVICE] = lambda _data: (0x80, b"")
    with rig.bmc() as bmc, pytest.raises(Refused):
        bmc.quirks()
