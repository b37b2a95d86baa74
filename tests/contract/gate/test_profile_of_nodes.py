# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook gate_profile: nodes whose nvidia-smi and BMC show a new model, and the file that is made of them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nodes, nvbw, smi
from contract.gate.test_doors import PLAYBOOK, Site
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from fake_bmc.tls import Authority
from suite import playbook

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PLAYBOOK.exists(), reason="ansible-playbook is not installed beside this Python"),
]
BOOK = made.CHECKOUT / "playbooks" / "gate_profile.yml"
DEVICE = "29bc"
MODEL = {"pci/pci_device_id": f"{DEVICE.upper()}10DE"}
COMMON = {"gate_profile_sku": "new-8", "gate_profile_title": "Eight of a new model", "gate_profile_like": "h100-sxm-8"}
PARTS = {"MemorySummary": {"TotalSystemMemoryGiB": 2048}, "ProcessorSummary": {"Count": 2, "Model": "Xeon 8480CL"}}
#: What the playbook's tasks are told of these machines, and of no site's.
HERE = {
    "gpufleet.baremetal.gate_profile": {
        **{name: f"{{{{ {name} }}}}" for name in ("nvidia_smi", "pci_path")},
        "dmi_path": "{{ dmi }}",
    }
}


class Nodes(Site):
    """A site with some nodes of a new model."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.profiles = folder / "profiles"
        self.profiles.mkdir()

    def node(self, name: str, text: str = "", *, device: str = DEVICE, **variables: Any) -> None:
        home = self.host(name, gpufleet_sku="new-8")
        self.hosts[name].update(
            nvidia_smi=smi.tool(home, text or nodes.document(MODEL)),
            pci_path=made.pci(home, device=device),
            **variables,
        )

    def make(self, *argv: str, ok: bool = True, limit: str = "all", **said: Any) -> str:
        [play] = yaml.safe_load(BOOK.read_text(encoding="utf-8"))
        book = self.folder / "gate_profile.yml"
        book.write_text(yaml.safe_dump([{**play, "module_defaults": HERE}]), encoding="utf-8")
        shared = {"gpufleet_ledger_url": f"sqlite:///{self.ledger}"}
        inventory = self.folder / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": self.hosts, "vars": shared}}), encoding="utf-8")
        given = {**COMMON, "gate_profile_dest": str(self.profiles), "gate_profile_hardware": False, **said}
        command = ["-i", str(inventory), str(book), "-e", json.dumps(given), *argv]
        env = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(made.CHECKOUT / "build" / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
            "GPUFLEET_PROFILE_PATH": str(self.profiles),
        }
        done = playbook.run([*command, *(["--limit", limit] if limit else [])], env=env, timeout=120, cwd=self.folder)
        output = done.stdout + done.stderr
        assert (done.returncode == 0) == ok, output[-4000:]
        return output

    def told(self) -> dict[str, Any]:
        return profiles.read(self.profiles / "new-8.yaml", "new-8", made.PROFILE_SCHEMA).data

    def empty(self) -> bool:
        return list(self.profiles.iterdir()) == []


@pytest.fixture
def site(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


@contextlib.contextmanager
def bmc_of(site: Nodes, name: str, **parts: Any) -> Iterator[None]:
    """The node's BMC, which tells these parts."""
    authority = Authority(site.folder / f"tls-{name}")
    with FakeBmc("plain", context=authority.server_context("127.0.0.1")) as bmc:
        bmc.vendor = {**bmc.vendor, "system": {**bmc.vendor["system"], "SerialNumber": name, **PARTS, **parts}}
        told = {"protocol": "redfish", "address": bmc.url, "username": USER, "password": PASSWORD}
        told["ca_path"] = str(authority.path)
        site.hosts[name].update({f"gpufleet_bmc_{key}": value for key, value in told.items()})
        yield


def test_nodes_become_a_profile_by_which_the_gate_passes_them_and_fails_a_node_with_a_gpu_less(site: Nodes) -> None:
    for name in ("gpu001", "gpu002"):
        site.node(name)
    with bmc_of(site, "gpu001"), bmc_of(site, "gpu002"):
        dry = site.make("--check", "--diff", gate_profile_hardware=True)
        assert "+sku: new-8" in dry and site.empty()
        site.make(gate_profile_hardware=True)
    told = site.told()
    assert told["gpu"]["device_ids"]["value"] == [DEVICE] and told["gpu"]["count"]["value"] == 8
    assert "on gpu001, gpu002" in told["gpu"]["power"]["source"]
    parts = {cell: entry["value"] for cell, entry in told["hardware"].items()}
    assert parts["memory_gib"] == 2048 and parts["cpu_sockets"] == 2
    assert {row["name"] for row in told["dcgm"]["tests"]} >= {"software", "memtest"}
    assert "changed=0" in site.make() and "gate_profile" in (site.profiles / "new-8.yaml").read_text()
    site.node("less", nodes.document(MODEL, 7))
    asks = {
        "gpufleet.baremetal.gpu_state_gate": {"nvidia_smi": "{{ nvidia_smi }}", "profile_path": [str(site.profiles)]}
    }
    found = site.play(asks)
    assert {name: one["verdict"] for name, one in found.items()} == {"gpu001": "pass", "gpu002": "pass", "less": "fail"}


def test_one_bad_node_ends_the_run_with_its_finding_and_no_file(site: Nodes) -> None:
    site.node("gpu001")
    broken = {**MODEL, "remapped_rows/remapped_row_failure": "Yes"}
    site.node("gpu002", nodes.document(broken))
    told = site.make(ok=False)
    assert "gpu002: GPU 0 (0000:10:00): a row remap failed" in told.replace("\n", " ") and site.empty()
    site.hosts["gpu002"]["nvidia_smi"] = "/nonexistent/nvidia-smi"
    assert "nvidia-smi is not installed" in site.make("--check", ok=False)
    site.hosts["gpu002"]["dmi"] = made.dmi(site.folder, "another")
    assert "another machine answers" in site.make(ok=False) and site.empty()
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_timeout": 5}
    site.hosts["gpu002"].update(away)
    assert "cannot be reached" in site.make(ok=False) and site.empty()
    site.make(limit="gpu001")
    assert "on gpu001" in site.told()["gpu"]["count"]["source"]


def test_nodes_that_differ_are_named_with_field_and_values(site: Nodes) -> None:
    site.node("gpu001")
    site.node("gpu002", nodes.document({**MODEL, "gpu_power_readings/current_power_limit": "600.00 W"}))
    told = site.make(ok=False).replace("\n", " ")
    assert "gpu.power: 700 (gpu001), 600 (gpu002)" in told and site.empty()
    assert "no look tells powr" in site.make(ok=False, gate_profile_leave_out=["powr"])
    site.make(gate_profile_leave_out="power,drive_count")
    assert "power" not in site.told()["gpu"]


def test_a_run_that_names_no_nodes_or_no_model_is_refused(site: Nodes) -> None:
    site.node("gpu001")
    assert "--limit is not set" in site.make(ok=False, limit="").replace("\n", " ")
    assert "gate_profile_sku not set" in site.make(ok=False, gate_profile_sku="").replace("\n", " ")
    assert site.empty()


def test_what_gates_have_measured_of_the_nodes_becomes_floors(site: Nodes) -> None:
    site.node("gpu001")
    site.make("--check")  # no ledger yet
    site.make()
    with_ledger = {"gpufleet.baremetal.gpu_state_gate": {"nvidia_smi": "{{ nvidia_smi }}", "profile": site.told()}}
    site.play(with_ledger)
    site.add_event(60, "verdict", "gpu_bandwidth_gate", nodes.bandwidth(371.2))
    differs = site.make(ok=False).replace("\n", " ")
    assert (
        "says another thing" in differs and f"gpu_bandwidth.cases.{nvbw.PEERS}.minimum: not told (the file)" in differs
    )
    site.make(gate_profile_replace=True, gate_profile_margin=10)
    assert site.told()["gpu_bandwidth"]["cases"][0]["minimum"] == 334.08
    site.add_event(30, "verdict", "gpu_bandwidth_gate", nodes.bandwidth(20.5, verdict="fail"))
    assert "newest verdict is no pass" in site.make(ok=False, gate_profile_replace=True).replace("\n", " ")


def test_gpus_that_a_profile_knows_and_a_file_that_is_there_need_a_word(site: Nodes) -> None:
    site.node("gpu001", nodes.document({}), device="2330")
    told = site.make(ok=False).replace("\n", " ")
    assert "a profile knows the GPUs of the device 2330 already" in told and "h100-sxm-8 (" in told and site.empty()
    assert "known to h100-sxm-8" in site.make(gate_profile_beside_known=True).replace("\n", " ")
    path = site.profiles / "new-8.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("value: 700", "value: 650"), encoding="utf-8")
    path.chmod(0o640)
    kept = path.read_text(encoding="utf-8")
    refused = site.make(ok=False, gate_profile_beside_known=True).replace("\n", " ")
    assert "gpu.power.value: 650 (the file), 700 (these nodes)" in refused and path.read_text("utf-8") == kept
    more = {"gate_profile_beside_known": True, "gate_profile_replace": True}
    dry = site.make("--check", "--diff", **more)
    assert "-    value: 650" in dry and "+    value: 700" in dry and path.read_text("utf-8") == kept
    site.make(**more)
    assert path.read_text("utf-8") == text and path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"gate_profile_dest": "/nonexistent"}, "the folder of the site's profiles is none"),
        ({"gate_profile_dest": str(made.PROFILES)}, "an update of the collection replaces"),
        ({"gate_profile_sku": "../new"}, "is no name of a profile"),
        ({"gate_profile_like": "h800"}, "the SKU h800 has no profile"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(site: Nodes, said: dict[str, Any], word: str) -> None:
    site.node("gpu001")
    assert word in site.make(ok=False, **said).replace("\n", " ") and site.empty()
    assert not (Path(sys.prefix) / "new.yaml").exists()
