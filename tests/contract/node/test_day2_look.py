# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Day 2 of a node in service that cannot be looked at: it is no node that something was found on."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

pytestmark = pytest.mark.slow


def test_n3_a_node_that_cannot_be_looked_at_stays_as_it_is_and_is_told_with_the_next_command(tmp_path: Path) -> None:
    """The machine that answers is this one here, and nothing of it is the node's."""
    fleet = Fleet(tmp_path)
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "gpufleet_sku": "h100-sxm-8"}
    fleet.hosts["admitted"].update(here)
    before = fleet.count()["events"]
    fleet.book("gpufleet.baremetal.day2_recycle", "--limit", "admitted", ok=False)
    text = " ".join(fleet.output.replace("\\n", " ").replace("\\", " ").split())
    assert "1 admitted; stopped at 1" in text and "oob_ready" not in text, fleet.output
    told = text.rpartition('"msg": "admitted:')[2]
    assert "no gate runs on it" in told and "Next: ansible-playbook gpufleet.baremetal.day2_recycle" in told, told
    assert fleet.count()["events"] == before + 1, "what stopped it, and nothing else"


DEAD = "http://127.0.0.1:9"
IMAGES: dict[str, dict[str, Any]] = {
    "nobody signs it": {},
    "its server is away": {"signature_url": f"{DEAD}/SHA256SUMS.asc", "checksums_url": f"{DEAD}/SHA256SUMS"},
}


def notes(fleet: Fleet) -> list[str]:
    with sqlite3.connect(fleet.ledger) as ledger:
        rows = ledger.execute(
            "SELECT data FROM events WHERE kind = 'note' AND name = 'unseen' AND run_id NOT LIKE 'r_'"
        )
        return [json.loads(data)["reason"] for (data,) in rows]


@pytest.mark.parametrize("image", IMAGES)
def test_l1_what_a_setting_or_a_service_keeps_from_being_measured_is_no_finding(tmp_path: Path, image: str) -> None:
    """A typo in the SKU of a whole fleet is no reason to image it."""
    fleet = Fleet(tmp_path)
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    about = {"name": "hpc", "version": "1.4", "url": f"{DEAD}/hpc.img", "keyring": str(keyring), **IMAGES[image]}
    fleet.shared.update(gpufleet_sku="h100-sxm8-typo", gpufleet_image=about)
    before = fleet.count()["events"]
    fleet.book("gpufleet.baremetal.day2_recycle", "--limit", "admitted", ok=False)
    assert "oob_ready" not in fleet.output and "does not answer" not in fleet.output, fleet.output
    [told] = notes(fleet)
    whose = {"nobody signs it": "the image hpc 1.4 itself", "its server is away": "the server of the image hpc 1.4"}[
        image
    ]
    assert "the SKU h100-sxm8-typo has no profile" in told and whose in told, told
    # Three looks, each with its verdict, and what stopped it.
    assert fleet.count()["events"] == before + 4


def test_l1_a_profile_without_what_a_gate_must_see_is_the_sites_fault(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    bare = {key: value for key, value in made.profile().items() if key != "dcgm"}
    [said] = fleet.play(
        {"gpufleet.baremetal.dcgm_gate": {"profile": bare}, "ignore_errors": True}, flags=("--limit", "admitted")
    )
    assert "no section dcgm" in said["msg"] and not quarantines(said), said


#: Of the driver, as it logs a GPU that is gone.
XID_79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def looked_at(nodes: Nodes, log: str) -> None:
    """This machine here stands for gpu001, with a kernel log of its own, and a profile of the tests' SKU."""
    home = nodes.folder / "gpu001"
    home.mkdir()
    (home / "test-sku.yaml").write_text(yaml.safe_dump(made.profile()), encoding="utf-8")
    nodes.hosts["gpu001"].update(ansible_connection="local", gpufleet_sku="test-sku")
    gates = {"profile_path": [str(home)], "dmi_path": made.dmi(home, "SN0001")}
    gate = {key: value for key, value in made.machine(home, log).items() if key not in ("profile", "since")}
    nodes.options["kernel_log_gate"] = {**gate, **gates}
    nodes.options["dcgm_gate"] = {"dcgmi": made.dcgmi(home, made.text(made.dcgm4(["software"]))), **gates}


@pytest.mark.parametrize("log", [XID_79, "quiet"], ids=["xid79", "quiet"])
def test_l2_what_a_look_has_proven_stands_though_the_next_look_breaks(tmp_path: Path, log: str) -> None:
    """An image that nobody declared breaks the third look, and says nothing of what the first one found."""
    with in_service(tmp_path) as nodes:
        looked_at(nodes, made.kmsg(log, step=999.0))
        told = nodes.book("day2_recycle", "--limit", "gpu001", ok=False)
        found = log == XID_79
        assert ("draining" in nodes.states("gpu001")) is found, told
        assert ("IDLE+DRAIN gpufleet:" in nodes.scheduler("gpu001")) is found
        assert found or "gpufleet_image" in nodes.events("gpu001", "note")[0][1]["reason"], told
        assert not found or "fallen off the bus (Xid 79)" in nodes.events("gpu001", "state")[0][1]["reason"]


def test_c3_a_node_that_hangs_after_its_login_is_left_as_it_is_and_noted(tmp_path: Path) -> None:
    """It takes the connection, and its shell waits; all others of the batch would wait with it."""
    with in_service(tmp_path) as nodes:
        client = tmp_path / "ssh"
        client.write_text("#!/bin/sh\nexec sleep 15\n", encoding="utf-8")
        client.chmod(0o755)
        nodes.hosts["gpu001"].update(ansible_connection="ssh", ansible_ssh_executable=str(client))
        told = nodes.book("day2_recycle", "-e", "day2_recycle_look_timeout=2", ok=False)
        [(name, note)] = nodes.events("gpu001", "note")
        assert name == "unseen" and "the node hangs" in note["reason"] and "within 2 s" in note["reason"], told
        assert nodes.scheduler("gpu001") == "IDLE" and not nodes.states("gpu001"), told


def test_u7_what_was_not_delivered_as_ordered_is_looked_at_again_before_it_is_wiped(tmp_path: Path) -> None:
    """Its wipe would be in vain, or nobody would have verified it. What had passed is asked for nothing more."""
    with in_service(tmp_path, 2) as nodes:
        for name, verdict in zip(nodes.hosts, ("inconclusive", "pass")):
            told = [Event("state", "quarantined", {"reason": "its parts", "remedy": "retest"})]
            told.append(Event("verdict", "hardware_verify", {"verdict": verdict}))
            with Ledger(nodes.url) as ledger:
                ledger.append("r1", [(nodes.node_id(name), event) for event in told])
            nodes.hosts[name].update(ansible_connection="local", csv_cpu_count=8)
        for name, bmc in nodes.bmcs.items():
            bmc.vendor = {**bmc.vendor, "system": {**bmc.vendor["system"], "ProcessorSummary": {"Count": 2}}}
            (tmp_path / name).mkdir()
            nodes.hosts[name]["dmi"] = made.dmi(tmp_path / name, nodes.hosts[name]["gpufleet_serial"])
        nodes.options["image_verify"] = {"dmi_path": "{{ dmi }}"}
        nodes.book("day2_recycle", ok=False)
        looks = {name: [data["verdict"] for what, data in nodes.events(name, "verdict")] for name in nodes.hosts}
        assert looks == {"gpu001": ["fail"], "gpu002": []}, nodes.output[-4000:]
        state, told_of = nodes.events("gpu001", "state")[-1]
        assert state == "quarantined" and "cpu_sockets" in told_of["reason"] and told_of["remedy"] == "reseat", told_of


@pytest.mark.parametrize(("serial", "uuid"), [("SN0002", ""), ("SN0001", "5ac00000-0000-4000-8000-000000000002")])
def test_r5_a_machine_that_says_it_is_another_one_is_not_recycled_and_nobody_is_quarantined(
    tmp_path: Path, serial: str, uuid: str
) -> None:
    """The address leads to a neighbour, whose jobs would end; BMC and ledger agree with each other."""
    with in_service(tmp_path) as nodes:
        with Ledger(nodes.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
            ledger.append("r1", [(node, Event("state", "quarantined", {"reason": "x", "remedy": "reset_gpu"}))])
        nodes.hosts["gpu001"]["ansible_connection"] = "local"
        nodes.options["image_verify"] = {"dmi_path": made.dmi(tmp_path, serial, uuid)}
        told = nodes.book("day2_recycle", ok=False)
        assert "the machine that answers is not the one behind this node's BMC" in told, told
        assert nodes.scheduler("gpu001") == "IDLE" and not nodes.states("gpu001"), told
        made.dmi(tmp_path, "SN0001")
        nodes.book("day2_recycle", ok=False)
        assert "gpufleet:" in nodes.scheduler("gpu001"), "its own machine is taken"
