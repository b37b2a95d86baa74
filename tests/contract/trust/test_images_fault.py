# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image that is missing, or is not what was signed, is no verdict about the node that it was meant for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.trust.conftest import Image, Machine
from contract.trust.trust_site import EVENT, IMAGED, NODE, Site, passport

#: Each test starts ansible-playbook, some of them several times.
pytestmark = pytest.mark.slow

ROLE = "ansible.builtin.import_role"
PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"


def unsigned(image: Image) -> None:
    image.publish(signer="stranger")


def missing(image: Image) -> None:
    image.artifact.unlink()


def changed(image: Image) -> None:
    image.artifact.write_bytes(b"another")


def quarantined(site: Site) -> bool:
    return ("state", "quarantined") in site.events()


@pytest.mark.parametrize(
    ("harm", "word", "whose"),
    [
        (unsigned, "signed by a key that is not trusted", "the image hpc 1.4 itself"),
        (missing, "hpc-1.4.tar.gz", "the image hpc 1.4 itself"),
        (changed, "the artifact hpc-1.4.tar.gz is not the one that was signed", "the image hpc 1.4 itself"),
        (None, "127.0.0.1:9", "the server of the image hpc 1.4"),
    ],
    ids=["signature", "missing", "digest", "server"],
)
def test_an_image_that_does_not_pass_quarantines_nobody_and_is_named(
    site: Site, image: Image, harm: Callable[[Image], None] | None, word: str, whose: str
) -> None:
    declared = image.declared()
    if harm:
        harm(image)
    else:
        declared = {**declared, **{key: f"http://127.0.0.1:9/{key}" for key in declared if key.endswith("url")}}
    tried = [{"vars": {"gpufleet_image": declared}, ROLE: {"name": "gpufleet.baremetal.image"}}]
    kept = {"vars": {"gpufleet_scheduler": "none"}, ROLE: {"name": "gpufleet.baremetal.quarantine"}}
    begun = {EVENT: {"state": "enrolled"}}
    site.play(begun, {"block": tried, "rescue": [kept], "ignore_errors": False})
    assert site.events()[-1] == ("note", "stopped") and not quarantined(site), site.said[-4000:]
    said = site.play({"gpufleet.baremetal.fleet_status": {}})[0]["result"]["nodes"]["gpu001"]
    assert said["state"] == "enrolled" and f"{whose}, and no verdict about the node" in said["stopped"]
    assert word in said["stopped"], said


def test_a_look_at_a_node_that_ends_at_the_image_quarantines_nobody_and_one_that_does_not_does(
    site: Site, image: Image, machine: Machine
) -> None:
    kept = {"vars": {"gpufleet_scheduler": "none"}, ROLE: {"name": "gpufleet.baremetal.quarantine"}}
    look = {"block": [NODE], "rescue": [kept], "ignore_errors": False}
    site.play(*({EVENT: {"state": state}} for state in ("enrolled", "imaging", "validating")))
    unsigned(image)
    site.play(look)
    assert site.events()[-1] == ("note", "stopped") and not quarantined(site), site.said[-4000:]
    image.publish()
    (machine.folder / "manifest.json").unlink()
    site.play(look)
    assert quarantined(site), site.said[-4000:]


class Day2:
    """The shipped look of day 2 at a node in service, with a DCGM and a kernel log of its own."""

    def __init__(self, site: Site, machine: Machine, home: Path) -> None:
        self.site, self.home, self.book = site, home, home / "day2.yml"
        home.mkdir()
        (home / "test-sku.yaml").write_text(yaml.safe_dump(made.profile()), encoding="utf-8")
        log = made.machine(home, made.kmsg("quiet"))
        gates = {"profile_path": [str(home)], "dmi_path": str(machine.folder / "dmi")}
        plays = yaml.safe_load((PLAYBOOKS / "day2_recycle.yml").read_text(encoding="utf-8"))
        ours = "gpufleet.baremetal."
        options = {
            f"{ours}kernel_log_gate": {**{key: log[key] for key in log if key not in ("profile", "since")}, **gates},
            f"{ours}dcgm_gate": {"dcgmi": str(home / "dcgmi"), **gates},
            f"{ours}image_verify": machine.options(),
        }
        for play in plays:
            play["module_defaults"] = options
        self.book.write_text(yaml.safe_dump(plays), encoding="utf-8")
        site.play(*IMAGED)
        site.gates("dcgm_gate", "kernel_log_gate")
        site.play(passport("issued"), {EVENT: {"state": "admitted"}})

    def run(self, gpu: str = "Pass") -> str:
        """What stopped it, if anything did."""
        found = made.dcgm4(["software"])
        made.result_of(found, "software", 3)["status"] = gpu
        made.dcgmi(self.home, made.text(found))
        before = len(self.site.events())
        self.site.book(str(self.book), "-e", json.dumps({"gpufleet_sku": "test-sku", "gpufleet_scheduler": "none"}))
        assert ("state", "draining") not in self.site.events()[before:]
        if not {("note", "stopped"), ("note", "unseen")} & set(self.site.events()[before:]):
            return ""
        with sqlite3.connect(self.site.folder / "ledger.sqlite") as ledger:
            asked = "SELECT data FROM events WHERE name IN ('stopped', 'unseen') ORDER BY id DESC LIMIT 1"
            return str(ledger.execute(asked).fetchone()[0])


def test_day2_leaves_a_healthy_node_in_service_whose_image_cannot_be_verified(
    site: Site, image: Image, machine: Machine, tmp_path: Path
) -> None:
    day2 = Day2(site, machine, tmp_path / "looks")
    assert day2.run() == "", site.said[-6000:]
    unsigned(image)
    assert "the image hpc 1.4 itself" in day2.run(), site.said[-6000:]
    assert "gpufleet_bmc_address" in day2.run("Fail"), "what DCGM found is gone on with: this node has no BMC"
