# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in service is adopted by the shipped playbook, and what it tells to do next works when it is run."""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.trust.conftest import Image, Machine
from contract.trust.trust_site import VERDICT
from maas_server.config import Config, User
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED, DEPLOYING
from maas_server.store import Machine as Recorded

pytestmark = pytest.mark.slow

MAC = "52:54:00:00:00:01"
ALL = "gpufleet.baremetal.day2_recycle -i INVENTORY --limit gpu001 -e day2_recycle_all=true"


class Working:
    """gpu001 serves: this machine here stands for it, healthy, with the declared image. The ledger is empty."""

    def __init__(self, nodes: Nodes, maas: MaasServer, image: Image) -> None:
        self.nodes, self.maas = nodes, maas
        for part in nodes.folder.glob("ledger.sqlite*"):
            part.unlink()
        machine, home = Machine(nodes.folder / "node"), nodes.folder / "gates"
        (machine.folder / "dmi/product_serial").write_text("SN0001\n")
        home.mkdir()
        (home / "test-sku.yaml").write_text(yaml.safe_dump(made.profile()), encoding="utf-8")
        log = made.machine(home, made.kmsg("quiet"))
        profile = {"profile_path": [str(home)]}
        gates = {**profile, "dmi_path": str(machine.folder / "dmi")}
        nodes.options.update(
            image_verify=machine.options(),
            kernel_log_gate={**{key: log[key] for key in log if key not in ("profile", "since")}, **gates},
            dcgm_gate={"dcgmi": made.dcgmi(home, made.text(made.dcgm4(["software"]))), **gates},
            node_passport=profile,
        )
        self._key = nodes.folder / "key.pem"
        argv = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(self._key)]
        subprocess.run(argv, check=True, capture_output=True)
        nodes.hosts["gpu001"].update(ansible_connection="local", gpufleet_boot_mac=MAC)
        nodes.shared.update(
            gpufleet_sku="test-sku",
            gpufleet_image=image.declared(),
            gpufleet_passport_key_path=str(self._key),
            gpufleet_provisioner="maas",
            gpufleet_provisioner_url=maas.url,
            gpufleet_provisioner_api_key="a:b:c",
        )

    def recorded(self, name: str = "gpu001", status: int = DEPLOYED) -> Recorded:
        """MAAS has the machine with this boot card under a name."""
        one = Recorded(self.maas.store.new_id(), name, status=status, owner="fleet", macs=[MAC])
        one.hardware = {"system_serial": "SN0001"}
        with self.maas.store.changing() as machines:
            machines[one.system_id] = one
        return one

    def told(self, *events: tuple[str, str, dict[str, Any]]) -> None:
        with Ledger(self.nodes.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
            ledger.append("r1", [(node, Event(*one)) for one in events])

    def adopt(self, *, ok: bool = True) -> str:
        return self.nodes.book("adopt", "-e", "adopt_other_name=true", ok=ok)

    @property
    def admitted(self) -> dict[str, Any]:
        """What was recorded with the newest state, which is that it is admitted."""
        name, data = self.nodes.events("gpu001", "state")[-1]
        assert name == "admitted", name
        return data


@contextlib.contextmanager
def at_work(folder: Path, image: Image) -> Iterator[Working]:
    (folder / "maas").mkdir()
    declared = image.declared()
    there = {f"{declared['name']}-{declared['version']}": {"url": "http://127.0.0.1:9/", "sha256": image.sha256}}
    server = MaasServer(Config(users=(User("fleet", "a:b:c"),), state_dir=folder / "maas", images=there))
    server.start()
    with in_service(folder) as nodes:
        yield Working(nodes, server, image)
    server.close()


@pytest.fixture
def working(tmp_path: Path, image: Image) -> Iterator[Working]:
    with at_work(tmp_path, image) as made_so:
        yield made_so


def test_j7_a_node_that_its_provisioner_never_heard_of_is_adopted_and_enrolled_with_its_next_imaging(
    working: Working, image: Image
) -> None:
    told = working.adopt()
    assert (working.admitted["provisioner_record"], working.admitted["provisioner_id"]) == ("absent", ""), told
    assert working.admitted["passport"].startswith("sha256:") and "reason" not in working.admitted
    assert "its provisioner has no record of it" in told and ALL in told, told
    assert not working.maas.store.machines and working.nodes.scheduler("gpu001") == "IDLE", "nothing is written"
    image.artifact.write_bytes(b"what ends it before its deployment")
    later = ("-e", "day2_recycle_all=true", "-e", "enroll_timeout=2")
    told = working.nodes.book("day2_recycle", *later, ok=False)
    [one] = working.maas.store.machines.values()
    assert one.hostname == "gpu001" and "DRAIN gpufleet:" in working.nodes.scheduler("gpu001"), told
    [ordered] = [event for event in working.nodes.events("gpu001", "intent") if event[0] == "provisioner_node"][:1]
    assert ordered[1]["options"]["state"] == "ready" and "drained" in working.nodes.states("gpu001"), told


def test_r5_a_machine_is_asked_for_its_name_before_its_scheduler_is_asked_which_node_it_is(working: Working) -> None:
    own, nodes = platform.node().partition(".")[0], working.nodes
    world = json.loads(nodes.world.read_text(encoding="utf-8"))
    for domain in "ab":
        world["nodes"][f"{own}.{domain}.test"] = dict(world["nodes"]["gpu001"])
    nodes.world.write_text(json.dumps(world), encoding="utf-8")
    nodes.hosts["gpu001"]["gpufleet_scheduler_node"] = f"{own}.a.test"
    told = nodes.book("adopt", ok=False)
    assert f"{own}.a.test, which has {own}.b.test beside it" in told and nodes.states("gpu001") == [], told


def test_r5_another_clusters_node_of_this_name_is_not_adopted_as_this_machine(working: Working) -> None:
    """Both are called gpu001 and serve, and the scheduler of the other one is asked: its node booted yesterday."""
    nodes, up = working.nodes, float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    world = json.loads(nodes.world.read_text(encoding="utf-8"))
    nodes.world.write_text(json.dumps({**world, "ahead": 7200}), encoding="utf-8")
    for apart, ok in ((-86400, False), (0, True)):
        began = time.localtime(time.time() + 7200 - up + apart)  # by the scheduler's own clock
        nodes.scheduler("gpu001", booted=time.strftime("%Y-%m-%dT%H:%M:%S", began))
        told = working.adopt(ok=ok)
        assert ("it is another machine" in told) is not ok and bool(nodes.states("gpu001")) is ok, told


@pytest.mark.parametrize("claim", ["a name", "an id"])
def test_j7_a_record_of_this_machine_under_another_name_or_id_refuses_it(working: Working, claim: str) -> None:
    if claim == "a name":
        working.recorded("stray-one")
    else:
        working.nodes.hosts["gpu001"]["gpufleet_provisioner_id"] = "ab34cd"
    told = working.adopt(ok=False)
    assert working.nodes.states("gpu001") == [] and "correct" in told.lower(), told
    assert ("its MAC belongs to a machine there" in told) if claim == "a name" else ("by ab34cd" in told), told


@pytest.mark.parametrize("doubt", ["its name", "its serial"])
def test_j7_the_playbook_adopts_no_machine_of_another_name_or_another_than_its_bmc_tells(
    working: Working, doubt: str
) -> None:
    if doubt == "its serial":
        folder = Path(working.nodes.options["image_verify"]["dmi_path"])
        (folder / "product_serial").write_text("SN4711\n")
        (folder / "product_uuid").write_text("5ac00000-0000-4000-8000-000000004711\n")
    more = ("-e", "adopt_other_name=true") if doubt == "its serial" else ()
    told = working.nodes.book("adopt", *more, ok=False)
    assert working.nodes.states("gpu001") == [], told
    assert ("SN4711" if doubt == "its serial" else "adopt_other_name=true, which is recorded") in told, told


@pytest.mark.parametrize("flags", [("--check",), ()], ids=["check", "run"])
@pytest.mark.parametrize("setting", ["its profile", "the key"])
def test_h4_a_setting_of_the_site_is_no_finding_of_a_node(
    working: Working, setting: str, flags: tuple[str, ...]
) -> None:
    """With check mode first: else a fleet is adopted with it, and due for ever."""
    nodes, wrong = working.nodes, {"its profile": "gpufleet_sku", "the key": "gpufleet_passport_key_path"}[setting]
    working.recorded()
    working.told()  # no event: a ledger that check mode can read
    right, nodes.shared[wrong] = nodes.shared[wrong], "nowhere"
    told = nodes.book("adopt", "-e", "adopt_other_name=true", *flags, ok=False)
    assert nodes.states("gpu001") == [] and nodes.scheduler("gpu001") == "IDLE", told
    why = {"its profile": "could not judge it, for a setting of the site", "the key": "nowhere"}[setting]
    assert why in told.rpartition("Adoption:")[2], told
    nodes.shared[wrong] = right
    told = nodes.book("adopt", "-e", "adopt_other_name=true", *flags, ok=True)
    assert nodes.states("gpu001") == ([] if flags else ["admitted"]), told


def test_j7_what_was_taken_back_from_day_0_is_adopted_with_the_failure_that_stands(working: Working) -> None:
    """Day 0 quarantined it, its owner resumed it, and level 1 says nothing of what level 3 found."""
    working.recorded()
    asked = {"asked": {"level": 3, "tests": ["memory", "software"]}, "gate": "dcgm_gate"}
    quarantine = {"reason": "GPU 3: memory test failed", "remedy": "reset_gpu"}
    working.told(
        ("state", "imaging", {"deploy_id": "d0"}),
        ("verdict", "dcgm_gate", {**VERDICT, "verdict": "fail", **asked}),
        ("state", "quarantined", quarantine),
    )
    assert "gpufleet.baremetal.adopt -i INVENTORY --limit gpu001" in working.nodes.book("day2_recycle", ok=False)
    told = working.adopt()
    assert "dcgm_gate: fail" in working.admitted["reason"] and not working.admitted["passport"], told
    assert ALL in told and "no passport" in told, told
    later = ("-e", "day2_recycle_all=true", "-e", "deploy_timeout=2")
    working.nodes.book("day2_recycle", *later, ok=False)
    assert "DRAIN gpufleet:" in working.nodes.scheduler("gpu001"), "the command that was told takes it"


def test_j7_what_was_taken_back_is_not_adopted_while_our_order_is_under_way(working: Working) -> None:
    one = working.recorded(status=DEPLOYING)
    working.told(("state", "imaging", {"deploy_id": "d0"}))
    told = working.adopt(ok=False)
    assert "is under way" in told and working.nodes.states("gpu001") == [], told
    with working.maas.store.changing() as machines:
        machines[one.system_id].status = DEPLOYED
    told = working.adopt()
    assert working.admitted["provisioner_id"] == one.system_id and not working.admitted["passport"], told
    assert "no look has proven that d0 reached the node" in working.admitted["reason"], json.dumps(working.admitted)


def test_j7_day_2_ends_no_jobs_of_what_serves_as_it_was_adopted(working: Working) -> None:
    """None of its fleet runs the declared image: that is known since it was adopted, and its jobs end when a person
    says so. What broke since is told, and the run fails."""
    working.recorded()
    working.nodes.options["image_verify"]["manifest_path"] = str(working.nodes.folder / "no-manifest-of-ours.json")
    told = working.adopt()
    assert "manifest" in working.admitted["reason"] and ALL in told, told
    told = working.nodes.book("day2_recycle", ok=True)
    assert working.nodes.scheduler("gpu001") == "IDLE" and not working.nodes.events("gpu001", "note"), told
    lost = made.failing(made.dcgm4(["software"]), "software", 3, made.fault("GPU 3 is too hot", 40))
    working.nodes.options["dcgm_gate"]["dcgmi"] = made.dcgmi(working.nodes.folder / "gates", made.text(lost))
    told = working.nodes.book("day2_recycle", ok=False)
    [(name, data)] = working.nodes.events("gpu001", "note")
    assert (name, "GPU 3: clocks were cut" in data["reason"]) == ("stopped", True), data
    assert working.nodes.scheduler("gpu001") == "IDLE" and working.nodes.states("gpu001") == ["admitted"]
    assert f"Next: ansible-playbook {ALL}" in told, told


def test_j7_what_a_person_took_out_and_put_back_is_adopted_again(working: Working) -> None:
    """As it is: no verb of ours has imaged it."""
    working.recorded()
    working.told(("state", "admitted", {"adopted": True}), ("state", "drained", {"reason": "maintenance is over"}))
    told = working.adopt()
    assert working.admitted["adopted"] and working.admitted["from"] == "drained" and ALL in told, told
