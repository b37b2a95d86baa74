# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No driver writes to a machine that is not the one that is meant, nor cuts the power of one that nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.driver import IpmiBmc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import NOBODY_KNOWS, compare
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    FleetError,
    WrongMachine,
)
from fake_bmc import ipmi_server
from fake_bmc.sessions import UUID

from .conftest import Ctx, Rig
from .test_macs import SYSTEM, members, ref, serve, with_cards
from .test_port import boot, change
from .test_redfish import Make

OTHER = "9ac00000-0000-4000-8000-000000000009"
#: The ports of two nodes in one chassis, and the chassis.
A, B = "b8:3f:d2:90:97:0a", "b8:3f:d2:90:97:0b"
ENCLOSURE = "/redfish/v1/Chassis/Enclosure"
BOTH = (SYSTEM, "/redfish/v1/Systems/2")
NOBODY: dict[str, Any] = {"serial": None, "system_uuid": None, "boot_mac": None}


def refused(rig: Rig, error: type[FleetError], **more: Any) -> str:
    """By both verbs, whatever they were to do that could hit a machine, and before any write."""
    rig.force("On")
    before, said = rig.writes(), ""
    for state in ("force_off", "off", "graceful", "cycle", "reset"):
        with pytest.raises(error) as caught:
            change(rig, Ctx(boot_probe=rig.probe), state, **more)
        said = str(caught.value)
    assert rig.writes() == before and rig.power() == "On"
    for shown in ("Off", "On"):
        rig.force(shown)
        before = rig.writes()
        for power in ("none", "on", "restart"):
            with pytest.raises(error):
                boot(rig, Ctx(), power=power, **more)
        assert rig.writes() == before and rig.power() == shown
    return said


def test_r2_another_machine_stops_every_verb_before_its_first_write(rig: Rig) -> None:
    known = next(name for name in ("system_uuid", "serial") if rig.params.get(name))
    other = {**NOBODY, known: OTHER}
    told = refused(rig, WrongMachine, **other)
    assert OTHER in told and f"gpufleet_{known}" in told
    rig.force("Off")
    for act in (lambda: change(rig, Ctx(), "on", **other), lambda: boot(rig, Ctx(), **other)):
        before = rig.writes()
        with pytest.raises(WrongMachine):
            act()
        assert rig.writes() == before
    assert info({**rig.params, **other, "timeout": 5.0}, Ctx()).data["machine"]["contradicts"] == [known]


def test_r2_nothing_in_common_needs_a_reason(rig: Rig) -> None:
    said = refused(rig, EvidenceMissing, **NOBODY)
    assert "force_reason" in said and "bmc_info" in said
    rig.force("On")
    forced = change(rig, Ctx(), "force_off", force_reason="the rack is on fire", **NOBODY)
    assert rig.power() == "Off" and any("force_reason alone" in note for note in forced["notes"])
    # What hits no running work needs none.
    assert change(rig, Ctx(), "on", **NOBODY)["changed"] and rig.power() == "On"


def test_r2_a_network_boot_of_a_machine_that_nobody_knows_needs_a_reason(rig: Rig) -> None:
    """Armed on a machine that runs, it is what the machine's next start makes of it."""
    rig.force("On")
    forced = boot(rig, Ctx(), accept_inconclusive=True, force_reason="it is the one with the blue lamp", **NOBODY)
    assert forced["changed"] and NOBODY_KNOWS in forced["notes"] and rig.power() == "On"


def test_r2_who_armed_a_machine_that_nobody_knows_is_left_alone(fake: Make) -> None:
    rig = fake("supermicro")
    stands = {"enabled": "Once", "target": "UefiBootNext"}
    rig.bmc.machine.override.update(stands)
    for power in ("none", "on", "restart"):
        with pytest.raises(EvidenceMissing):
            boot(rig, Ctx(), power=power, **NOBODY)
    assert rig.writes() == 0 and stands.items() <= rig.bmc.machine.override.items()


def test_r2_an_override_that_stands_where_nothing_is_booted_needs_no_reason(redfish: Any) -> None:
    redfish.bmc.machine.override.update(enabled="Once", target="Pxe")
    for shown, power in (("On", "none"), ("On", "on"), ("Off", "none")):
        redfish.force(shown)
        redfish.bmc.machine.override.update(enabled="Once", target="Pxe")
        before = redfish.writes()
        found = boot(redfish, Ctx(), power=power, **NOBODY)
        assert (found["changed"], found["notes"], redfish.writes()) == (False, [], before)
    redfish.force("Off")
    redfish.bmc.machine.override.update(enabled="Once", target="Pxe")
    with pytest.raises(EvidenceMissing, match="boot override pxe, power on"):
        boot(redfish, Ctx(), power="on", **NOBODY)
    assert redfish.power() == "Off"


def test_r2_one_identifier_in_common_is_enough(rig: Rig) -> None:
    rig.force("On")
    assert change(rig, Ctx(), "force_off")["notes"] == [] and rig.power() == "Off"


@pytest.mark.parametrize("more", [{}, {"bmc_system_id": "1"}], ids=["found", "named"])
def test_r2_a_serial_of_another_machine_stops_redfish(redfish: Rig, more: dict[str, str]) -> None:
    told = refused(redfish, WrongMachine, serial="SN0002", system_uuid=None, **more)
    assert "SN0002" in told and "SN0001" in told


def test_r2_a_boot_mac_is_an_identifier(redfish: Any) -> None:
    """Where neither serial nor UUID are known, the ports of the machine are asked."""
    ports = "/redfish/v1/Systems/1/EthernetInterfaces"
    serve(redfish, {ports: members(f"{ports}/1"), f"{ports}/1": {"MACAddress": "52:54:00:00:00:01"}})
    with_cards(redfish, EthernetInterfaces=ref(ports))
    told = {**NOBODY, "boot_mac": "52-54-00-00-00-01"}
    redfish.force("On")
    assert change(redfish, Ctx(), "force_off", **told)["changed"]
    assert "boot_mac" in refused(redfish, EvidenceMissing, **{**told, "boot_mac": "52-54-00-00-00-02"})


class Telling(c.Identify):
    """A BMC of whatever kind that tells this of its machine."""

    def __init__(self, **told: tuple[str, ...]) -> None:
        self.has, self._told = (self,), c.KnownBy(**told)

    def identity(self) -> c.Identity:
        raise NotImplementedError

    def known_by(self, *, parts: bool = False) -> c.KnownBy:
        return self._told


@pytest.mark.parametrize(
    ("of", "serial", "contradicts"),
    [
        ("of_the_bmc", "SN0001", ()),
        ("uuids", "SN0001", ("system_uuid",)),
        ("of_the_bmc", "", ("system_uuid",)),
    ],
)
def test_r2_what_may_be_a_bmcs_own_uuid_says_nothing_beside_a_serial_that_agrees(
    of: str, serial: str, contradicts: tuple[str, ...]
) -> None:
    bmc: Any = Telling(serials=("SN0001",), **{of: (OTHER,)})
    found = compare(bmc, {"serial": serial, "system_uuid": UUID})
    assert (found.agrees, found.contradicts) == (("serial",) if serial else (), contradicts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tells", "known", "agrees", "contradicts"),
    [
        ({}, {"serial": "sn0001"}, ("serial",), ()),
        ({}, {"serial": "SN0002"}, (), ("serial",)),
        ({}, {"serial": "SN0001", "system_uuid": OTHER}, ("serial",), ()),
        ({}, {"serial": "SN0002", "system_uuid": ipmi_server.UUID}, ("system_uuid",), ("serial",)),
        ({"serial": "", "board": "BD7"}, {"serial": "bd7"}, ("serial",), ()),
        ({"serial": "", "board": "BD7"}, {"serial": "SN0002"}, (), ()),
        ({"serial": "", "chassis": "CH7"}, {"serial": "CH7"}, ("serial",), ()),
        ({"board": "BD7", "chassis": "CH7"}, {"serial": "CH7"}, (), ("serial",)),
        ({"board": "BD7", "chassis": "CH7"}, {"serial": "BD7", "boot_mac": A}, (), ("serial",)),
        ({"chassis": "CH7"}, {"serial": "CH7", "system_uuid": ipmi_server.UUID}, ("serial", "system_uuid"), ()),
        ({"serial": "To be filled by O.E.M."}, {"serial": "SN0002"}, (), ()),
        ({"guid": "00" * 16, "serial": ""}, {"system_uuid": OTHER}, (), ()),
        ({"guid": "00" * 16, "serial": ""}, {"boot_mac": "52:54:00:00:00:01"}, (), ()),
    ],
)
def test_r2_what_ipmi_tells_of_a_machine(
    tmp_path: Path, tells: dict[str, str], known: dict[str, str], agrees: tuple[str, ...], contradicts: tuple[str, ...]
) -> None:
    """The product's serial is the machine's own; a board's, a chassis's and a BMC's own UUID can only agree."""
    if not ipmi_server.PROGRAM:
        pytest.skip("needs ipmi_sim (Debian package openipmi)")
    with ipmi_server.IpmiSim(tmp_path / "sim", **tells) as sim:
        reached = {"bmc_address": f"{sim.address}:{sim.port}", "bmc_username": ipmi_server.USER}
        with IpmiBmc({**reached, "bmc_password": ipmi_server.PASSWORD, "timeout": 20.0}, Ctx()) as bmc:
            found = compare(bmc, known)
    assert (found.agrees, found.contradicts) == (agrees, contradicts)


@pytest.mark.parametrize(
    ("system", "chassis", "known", "agrees"),
    [
        ({"SerialNumber": "1662923610124"}, "1663123000052", {"serial": "1663123000052"}, ["serial"]),
        ({"SerialNumber": None}, "1333024020524", {"serial": "1333024020524"}, ["serial"]),
        ({"SerialNumber": None}, "1333024020524", {"serial": "S7"}, []),
        ({"SerialNumber": None}, "1333024020524", {"serial": "S7", "system_uuid": UUID}, ["system_uuid"]),
        ({"Manufacturer": "Dell Inc.", "SerialNumber": "CN7016", "SKU": ""}, None, {"serial": "6XYZ003"}, []),
    ],
)
def test_r6_the_serial_on_the_label_may_be_the_chassis(
    redfish: Any, system: dict[str, Any], chassis: Optional[str], known: dict[str, str], agrees: list[str]
) -> None:
    """DGX H100 and GB200 as they were recorded; a board's number contradicts nothing."""
    with_cards(redfish, **system, Links={"Chassis": [ref("/redfish/v1/Chassis/none"), ref("/redfish/v1/Chassis/Own")]})
    alone = {"ComputerSystems": [ref(SYSTEM)]}
    serve(redfish, {"/redfish/v1/Chassis/Own": {"SerialNumber": chassis, "Links": alone}})
    params = {**redfish.params, "system_uuid": None, **known, "timeout": 5.0}
    found = info(params, Ctx()).data["machine"]
    assert (found["agrees"], found["contradicts"]) == (agrees, [])
    # Another serial is another machine's where the system's own one is told, whatever its chassis says.
    told = info({**params, "serial": "S9", "system_uuid": None}, Ctx()).data["machine"]["contradicts"]
    assert told == (["serial"] if system["SerialNumber"] and "SKU" not in system else [])


def in_a_chassis(rig: Any, lists: tuple[str, ...], port: str = B) -> None:
    """Node B of a chassis whose serial each of its nodes tells beside its own, and which lists these systems."""
    ports = f"{SYSTEM}/EthernetInterfaces"
    with_cards(rig, SerialNumber="NODE-B", Links={"Chassis": [ref(ENCLOSURE)]}, EthernetInterfaces=ref(ports))
    holds = {"ComputerSystems": [ref(uri) for uri in lists]}
    serve(rig, {ENCLOSURE: {"SerialNumber": "CHASSIS-1", "Links": holds}})
    serve(rig, {ports: members(f"{ports}/1"), f"{ports}/1": {"MACAddress": port}})


@pytest.mark.parametrize("lists", [(), BOTH, (SYSTEM,)], ids=["nobody", "both", "itself"])
def test_r2_the_serial_of_a_chassis_does_not_make_a_neighbour_the_machine(redfish: Any, lists: tuple[str, ...]) -> None:
    """Each BMC of a chassis of several nodes may list its own alone: the port that is known is the other node's."""
    in_a_chassis(redfish, lists)
    told = refused(redfish, WrongMachine, serial="CHASSIS-1", boot_mac=A, system_uuid=None)
    assert "CHASSIS-1 is a part's" in told and "NODE-B" in told


@pytest.mark.parametrize(
    ("lists", "port", "known", "agrees"),
    [
        ((), B, {}, []),
        (BOTH, B, {}, []),
        ((SYSTEM.upper() + "/",), B, {}, ["serial"]),
        ((), B, {"boot_mac": B}, ["serial"]),
        (BOTH, B, {"boot_mac": B}, ["serial"]),
        (BOTH, B, {"system_uuid": UUID}, ["serial", "system_uuid"]),
        (BOTH, B, {"system_uuid": OTHER}, []),
        # A BMC that lists nothing but its own way to the host says nothing of the machine's ports.
        ((SYSTEM,), "02:00:00:00:00:01", {"boot_mac": A}, ["serial"]),
        (BOTH, "02:00:00:00:00:01", {"boot_mac": A}, []),
    ],
)
def test_r6_what_a_serial_of_the_chassis_needs_beside_it(
    redfish: Any, lists: tuple[str, ...], port: str, known: dict[str, str], agrees: list[str]
) -> None:
    in_a_chassis(redfish, lists, port)
    params = {**redfish.params, **NOBODY, "serial": "chassis-1", **known, "timeout": 5.0}
    found = info(params, Ctx()).data["machine"]
    assert found["agrees"] == agrees and ("serial" in found["contradicts"]) is (not agrees)
    assert found["serial"] == ("CHASSIS-1" if "serial" in agrees else "NODE-B")


def test_r6_a_serial_that_one_chassis_shares_is_not_another_ones_alone(redfish: Any) -> None:
    """A blade that tells the serial of the enclosure that it stands in."""
    in_a_chassis(redfish, BOTH)
    blade = "/redfish/v1/Chassis/Blade"
    with_cards(redfish, Links={"Chassis": [ref(blade), ref(ENCLOSURE)]})
    serve(redfish, {blade: {"SerialNumber": "CHASSIS-1", "Links": {"ComputerSystems": [ref(SYSTEM)]}}})
    refused(redfish, WrongMachine, serial="CHASSIS-1", system_uuid=None, boot_mac=None)
