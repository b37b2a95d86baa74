# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No gate runs on a machine that is not the node's, nor says anything of the node then."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.gate.case import Case
from contract.gate.cases import GATES
from contract.gate.test_doors import LOOK, PLAYBOOK, Site, dcgm

pytestmark = pytest.mark.skipif(not PLAYBOOK.exists(), reason="ansible-playbook is not installed beside this Python")

THIS, OTHER = str(uuid.UUID(int=7)), str(uuid.UUID(int=9))  #: What boards are delivered with.
AMI = "03000200-0400-0500-0006-000700080009"
HEALTHY = made.text(made.dcgm4(["software"]))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_v2_a_neighbour_that_answers_is_not_looked_at_by_any_gate(site: Site, gate: Case) -> None:
    home = site.host("gpu001")
    site.hosts["gpu001"].update(healthy=(options := gate.healthy(home)), dmi=made.dmi(home, "gpu002"))
    program = made.program(home / "neighbours-tool", f"touch {home}/touched")
    asked = {**{key: f"{{{{ healthy.{key} }}}}" for key in options}, "dmi_path": "{{ dmi }}", "fail_on": "never"}
    asked.update({gate.program: program, "force_reason": "a test"})
    found = site.play({f"gpufleet.baremetal.{gate.name}": asked})["gpu001"]
    assert found["failed"] and found["error"]["kind"] == "wrong_machine", found
    assert "serial gpu001" in found["msg"] and "serial gpu002" in found["msg"] and "ansible_host" in found["msg"]
    assert site.events() == site.events("intent") == [] and not (home / "touched").exists()


def test_v2_a_machine_that_tells_nothing_is_no_node_and_the_message_says_what_to_do(site: Site) -> None:
    for name, told in (("silent", ""), ("filler", "To Be Filled By O.E.M."), ("strange", "strange")):
        dcgm(site, name, HEALTHY)
        site.hosts[name]["dmi"] = made.dmi(site.folder / name, told)
    site.hosts["strange"].update(gpufleet_serial="Default string", gpufleet_node_id=OTHER)
    results = site.play(LOOK)
    for name, found in results.items():
        assert found["failed"] and found["error"]["kind"] == "config", (name, found)
        tells = name == "strange"
        assert ("gpufleet_system_uuid (dmidecode" in found["msg"] and "baseline_bmc_identity" in found["msg"]) is tells
        assert ("no gate can run" in found["msg"]) is not tells and "as root: become" not in found["msg"]
    assert site.events() == []


def test_v2_serial_and_uuid_of_the_inventory_are_each_held_against_the_machine(site: Site) -> None:
    machines = {
        "both": ("BOTH", THIS, THIS), "swapped": ("swapped", str(uuid.UUID(bytes_le=uuid.UUID(THIS).bytes)), THIS),
        "uuid": ("none", THIS.upper(), THIS), "half": ("half", OTHER, THIS), "serial": ("x1", THIS, THIS),
        "ami": ("x2", AMI, AMI),
    }  # fmt: skip
    for name, (serial, told, ours) in machines.items():
        dcgm(site, name, HEALTHY, gpufleet_system_uuid=ours)
        site.hosts[name]["dmi"] = made.dmi(site.folder / name, serial, told)
    results = site.play({"gpufleet.baremetal.dcgm_gate": {**LOOK["gpufleet.baremetal.dcgm_gate"], "fail_on": "never"}})
    wrong = {name for name, found in results.items() if found.get("error", {}).get("kind") == "wrong_machine"}
    assert wrong == {"half", "ami"} and set(site.verdicts()) == set(machines) - wrong


def test_r4_a_uuid_of_a_whole_series_makes_no_neighbour_this_node(site: Site) -> None:
    """The ledger knows whose serial it is that answers."""
    gate = {"gpufleet.baremetal.dcgm_gate": {**LOOK["gpufleet.baremetal.dcgm_gate"], "fail_on": "never"}}
    dcgm(site, "gpu002", HEALTHY)
    assert site.play(gate)["gpu002"]["verdict"] == "pass"
    dcgm(site, "gpu001", HEALTHY, gpufleet_system_uuid=THIS)
    site.hosts["gpu001"]["dmi"] = made.dmi(site.folder / "gpu001", "gpu002", THIS)
    found = site.play(gate)["gpu001"]
    assert found["failed"] and found["error"]["kind"] == "wrong_machine" and "has for gpu002" in found["msg"], found


def test_v2_a_dry_run_looks_at_no_neighbour_either(site: Site) -> None:
    """But nobody could have proven anything in it."""
    for name, told in (("gpu001", "gpu002"), ("silent", "")):
        dcgm(site, name, HEALTHY)
        site.hosts[name]["dmi"] = made.dmi(site.folder / name, told)
    results = site.play(LOOK, "--check")
    assert results["gpu001"]["error"]["kind"] == "wrong_machine" and results["silent"]["verdict"] == "pass"
    assert not site.ledger.exists() or site.events() == []
