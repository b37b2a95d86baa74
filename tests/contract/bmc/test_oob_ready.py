# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role oob_ready holds the machine behind the BMC against the inventory, before anything is written anywhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_bmc.sessions import UUID
from maas_server.config import Config, User
from maas_server.server import MaasServer

from .test_macs import SYSTEM, lists, with_cards
from .test_playbook import Make, Play

pytestmark = pytest.mark.slow


def role(form: str) -> list[dict[str, Any]]:
    return [
        {"ansible.builtin.include_role": {"name": "gpufleet.baremetal.oob_ready", "tasks_from": form}},
        {"ansible.builtin.debug": {"msg": "known as {{ gpufleet_serial }}"}},
    ]


#: By tasks of each host's own, and by tasks for all of them.
FORMS = ("main.yml", "for_all.yml")
ROLE = role(FORMS[0])

MAC = "52:54:00:00:00:01"
NOTHING_SHOWS = f"nothing shows that {MAC} is this machine"


def serials(play: Play) -> list[tuple[str, str]]:
    with sqlite3.connect(play.ledger) as ledger:
        return list(ledger.execute("SELECT kind, value FROM aliases ORDER BY kind"))


@pytest.fixture
def play(tmp_path: Path, fake: Make) -> Play:
    made = Play(tmp_path, fake("plain"))
    del made.host["gpufleet_serial"]
    return made


@pytest.mark.parametrize("form", FORMS)
def test_t1_the_serial_of_another_machine_stops_the_play(play: Play, form: str) -> None:
    assert play.ansible(role(form), gpufleet_serial="SN0002").returncode == 2
    assert "says serial SN0001" in play.output and "the inventory says SN0002" in play.output
    assert "known as" not in play.output and play.rig.writes() == 0


def test_t1_a_machine_without_a_serial_stops_the_play(play: Play) -> None:
    play.rig.bmc.vendor["system"] = {**play.rig.bmc.vendor["system"], "SerialNumber": ""}
    for more in ({"gpufleet_serial": "SN0001"}, {}):
        assert play.ansible(ROLE, **more).returncode == 2
        assert "says serial (none)" in play.output and "known as" not in play.output


@pytest.mark.parametrize(
    ("system", "known"),
    [
        ({"Manufacturer": "Dell Inc.", "SerialNumber": "CN7016", "SKU": "6XYZ003"}, {"gpufleet_serial": "6xyz003"}),
        ({"Manufacturer": "Dell Inc.", "SerialNumber": "CN7016", "SKU": "6XYZ003"}, {"gpufleet_serial": "CN7016"}),
        ({"Manufacturer": "Dell Inc.", "SerialNumber": "CN7016", "SKU": "6XYZ003"}, {}),
        ({"SerialNumber": None}, {"gpufleet_system_uuid": UUID.upper()}),
        ({"SerialNumber": None}, {"gpufleet_serial": "ON-THE-LABEL", "gpufleet_system_uuid": UUID}),
    ],
    ids=["tag", "board", "adopted", "uuid", "label"],
)
def test_r6_any_serial_of_the_machine_or_its_uuid_proves_it(
    play: Play, system: dict[str, Any], known: dict[str, str]
) -> None:
    play.rig.bmc.vendor["system"] = {**play.rig.bmc.vendor["system"], **system}
    del play.host["gpufleet_boot_mac"]
    power = {"gpufleet.baremetal.redfish_power": {"state": "on"}}
    assert play.ansible([*ROLE[:1], power], **known).returncode == 0, play.output
    wanted = known.get("gpufleet_serial") or system.get("SKU")
    # As the inventory spells it, which said it first.
    told = [("serial", wanted)] if wanted else [("system_uuid", UUID)]
    assert serials(play) == told and play.rig.power() == "On"


def test_r6_a_uuid_of_another_machine_stops_the_play(play: Play) -> None:
    play.rig.bmc.vendor["system"] = {**play.rig.bmc.vendor["system"], "SerialNumber": None}
    assert play.ansible(ROLE, gpufleet_system_uuid=UUID[:-1] + "2").returncode == 2
    assert f"says serial (none) and system UUID {UUID}" in play.output and "known as" not in play.output


@pytest.mark.parametrize("form", FORMS)
def test_the_node_is_known_by_the_serial_of_its_machine(play: Play, form: str) -> None:
    with_cards(play.rig, EthernetInterfaces=lists(play.rig, SYSTEM, MAC))
    for more in ({"gpufleet_serial": "SN0001"}, {}):
        assert play.ansible(role(form), **more).returncode == 0, play.output
        assert "known as SN0001" in play.output
    assert play.rig.writes() == 0


@pytest.mark.parametrize("spelled", ["sn0001", "Sn0001"])
def test_n6_the_serial_in_another_case_is_the_machines(play: Play, spelled: str) -> None:
    assert play.ansible(ROLE, gpufleet_serial=spelled).returncode == 0, play.output
    assert "known as SN0001" in play.output


def test_r4_a_node_of_a_chassis_is_known_by_its_boot_port(play: Play) -> None:
    """Its neighbour tells the same serial."""
    with_cards(play.rig, EthernetInterfaces=lists(play.rig, SYSTEM, MAC))
    power = {"gpufleet.baremetal.redfish_power": {"state": "on"}}
    assert play.ansible([*ROLE[:1], power], gpufleet_bmc_system_id="1").returncode == 0, play.output
    assert serials(play) == [("mac", "52:54:00:00:00:01")] and play.rig.power() == "On"


def test_r6_a_row_that_names_a_port_alone_is_not_believed_over_ipmi(tmp_path: Path, ipmi_sim: Any) -> None:
    """Nobody there has a word for ports: what this BMC calls its serial would be taken for the row's from there on."""
    play = Play(tmp_path, ipmi_sim)
    del play.host["gpufleet_serial"]
    ipmi_sim.force("On")
    assert play.ansible([*ROLE[:1], {"gpufleet.baremetal.redfish_power": {"state": "force_off"}}]).returncode == 2
    assert NOTHING_SHOWS in " ".join(play.output.split()) and ipmi_sim.writes() == 0, play.output
    told = play.run({"gpufleet.baremetal.bmc_info": {}})["r0"]["machine"]
    assert (told["agrees"], told["unproven"]) == ([], ["boot_mac"]), told
    # Whoever knows which machine it is says so, and what the ledger knows of that port proves it from then on.
    known = {"gpufleet.baremetal.ledger_event": {"kind": "note", "name": "x", "reason": "known"}}
    assert play.ansible([*ROLE, known], gpufleet_serial="SN0001").returncode == 0, play.output
    assert play.ansible(ROLE).returncode == 0 and "known as SN0001" in play.output, play.output


@pytest.mark.parametrize("listed", [True, False])
def test_r6_a_row_that_names_a_port_alone_needs_a_bmc_that_lists_it(play: Play, listed: bool) -> None:
    if listed:
        with_cards(play.rig, EthernetInterfaces=lists(play.rig, SYSTEM, MAC))
    assert play.ansible(ROLE).returncode == (0 if listed else 2), play.output
    assert (NOTHING_SHOWS in " ".join(play.output.split())) is not listed
    assert ("known as SN0001" in play.output) is listed and play.rig.writes() == 0


@pytest.fixture
def maas(tmp_path: Path) -> Iterator[Any]:
    """It knows one image, which has another digest than the inventory says, and no machine."""
    images = {"gold-1": {"url": "http://127.0.0.1:9/", "sha256": "1" * 64}}
    server = MaasServer(Config(users=(User("fleet", "a:b:c"),), state_dir=tmp_path / "maas", images=images))
    server.start()
    yield server
    server.close()


@pytest.mark.parametrize("form", FORMS)
def test_n8_what_could_not_be_deployed_as_it_is_declared_stops_a_play_that_deploys(
    play: Play, maas: Any, form: str
) -> None:
    """Before the node is held. A play that deploys nothing, such as a renewal of passports, goes on with a warning."""
    with_cards(play.rig, EthernetInterfaces=lists(play.rig, SYSTEM, MAC))
    image = {"name": "gold", "version": "1", "url": "http://127.0.0.1:9/", "sha256": "2" * 64}
    site = {
        "gpufleet_image": image, "gpufleet_provisioner": "maas",
        "gpufleet_provisioner_url": maas.url, "gpufleet_provisioner_api_key": "a:b:c",
    }  # fmt: skip
    assert play.ansible(role(form), **site).returncode == 2
    assert "was left as it is" in play.output and "not the file that the inventory names" in play.output
    assert "known as" not in play.output
    assert play.ansible(role(form), **site, oob_ready_deploys=False).returncode == 0, play.output
    assert "known as SN0001" in play.output and "WARNING" in play.output
    assert not maas.store.machines and play.rig.writes() == 0


def test_one_that_is_not_to_be_asked_is_not_and_says_why(play: Play) -> None:
    """A node with a trouble of its own, which preflight has told."""
    told = {"oob_ready_unfit": "its row names no BMC", "gpufleet_bmc_address": "http://127.0.0.1:9"}
    assert play.ansible(role("for_all.yml"), **told).returncode == 2
    assert "its row names no BMC" in play.output and "known as" not in play.output
    assert "127.0.0.1:9" not in play.output, "nobody was asked"
