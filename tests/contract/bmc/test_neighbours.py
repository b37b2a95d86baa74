# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""R6: a row that names a machine's boot port, and the BMC or the system of its neighbour."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing, WrongMachine

from .test_macs import CHASSIS, SYSTEM, lists, ref, serve, with_cards
from .test_playbook import Make as MakePlay
from .test_playbook import Play
from .test_redfish import Make, change

OURS, THEIRS = "b8:3f:d2:00:00:0a", "b8:3f:d2:00:00:0b"
ROLE = {"ansible.builtin.include_role": {"name": "gpufleet.baremetal.oob_ready"}}
OFF = {"gpufleet.baremetal.redfish_power": {"state": "force_off"}}
DRAINED = {"gpufleet.baremetal.scheduler_wait": {"until": "drained"}, "run_once": True}


@pytest.mark.parametrize("listed", [OURS, THEIRS])
def test_r6_a_bmc_that_lists_other_ports_does_not_say_itself_whose_it_is(
    tmp_path: Path, fake: MakePlay, listed: str
) -> None:
    """The row names a port alone. What this BMC calls its serial would be taken for the row's from there on."""
    play = Play(tmp_path, fake("plain"))
    del play.host["gpufleet_serial"]
    with_cards(play.rig, EthernetInterfaces=lists(play.rig, SYSTEM, listed))
    play.rig.force("On")
    play.ansible([DRAINED, ROLE, OFF], gpufleet_boot_mac=OURS, gpufleet_scheduler="none")
    told = " ".join(play.output.split())
    assert (play.rig.writes() > 0) == (listed == OURS), told
    assert (f"It lists network ports, and not {OURS}" in told) == (listed == THEIRS), told


@pytest.mark.parametrize("listed", [OURS, THEIRS])
def test_r6_a_serial_that_a_chassis_shares_does_not_outweigh_the_port(fake: Make, listed: str) -> None:
    """Two systems behind one BMC have one serial; the row names the neighbour's, with its own port."""
    rig = fake("blades")
    rig.params["system_uuid"] = ""
    with_cards(rig, EthernetInterfaces=lists(rig, "/redfish/v1/Systems/Node0", listed))
    rig.force("On")
    refusal = pytest.raises(WrongMachine, match="gpufleet_boot_mac") if listed == THEIRS else nullcontext()
    with refusal:
        change(rig, "force_off", serial="SN0001", boot_mac=OURS, bmc_system_id="Node0")
    assert (rig.writes() > 0) == (listed == OURS)


def test_r6_a_port_that_somebody_gave_out_beside_anothers_hides_no_neighbour(fake: Make) -> None:
    """Beside the ports of the maker many a BMC lists its own USB port, whose address says nothing of the machine."""
    rig = fake("blades")
    rig.params["system_uuid"] = ""
    with_cards(rig, EthernetInterfaces=lists(rig, "/redfish/v1/Systems/Node0", THEIRS, "02:3f:d2:00:00:01"))
    rig.force("On")
    with pytest.raises(WrongMachine, match="gpufleet_boot_mac"):
        change(rig, "force_off", serial="SN0001", boot_mac=OURS, bmc_system_id="Node0")
    assert rig.writes() == 0


def test_r6_where_its_own_uuid_agrees_a_port_that_is_not_listed_is_a_hole(fake: Make) -> None:
    """What each system has for itself outweighs a list, which may lack the card that was put in last."""
    rig = fake("blades")
    with_cards(rig, EthernetInterfaces=lists(rig, "/redfish/v1/Systems/Node0", THEIRS))
    rig.force("On")
    for serial in ("SN0001", ""):
        rig.force("On")
        change(rig, "force_off", serial=serial, boot_mac=OURS, bmc_system_id="Node0")
        assert rig.power() == "Off"


@pytest.mark.parametrize("listed", [OURS, THEIRS])
def test_r6_a_chassis_serial_of_several_systems_says_nothing_beside_another_port(fake: Make, listed: str) -> None:
    rig = fake("plain")
    rig.params["system_uuid"] = ""
    ports = lists(rig, SYSTEM, listed)
    with_cards(rig, SerialNumber=None, EthernetInterfaces=ports, Links={"Chassis": [ref(CHASSIS)]})
    both = {"ComputerSystems": [ref(SYSTEM), ref("/redfish/v1/Systems/2")]}
    serve(rig, {CHASSIS: {"SerialNumber": "CH1", "Links": both}})
    rig.force("On")
    refusal = pytest.raises(EvidenceMissing, match="nothing shows") if listed == THEIRS else nullcontext()
    with refusal:
        change(rig, "force_off", serial="CH1", boot_mac=OURS)
    assert (rig.writes() > 0) == (listed == OURS)
