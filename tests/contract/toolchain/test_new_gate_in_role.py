# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate that was begun with ``make new-driver`` is run by the role ``gate``, of which no line was changed for it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.unit.gate import amd, smi
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.toolchain.begun import Copy, written_gate

pytestmark = pytest.mark.slow
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
HOSTS = ("gpu001", "gpu002")
AMD = str(amd.PROFILE["sku"])
OURS = ["kernel_log_gate", "gpu_state_gate", "dcgm_gate", "acme_gate", "gpu_state_gate", "kernel_log_gate"]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return written_gate(tmp_path_factory.mktemp("gate"))


class Batch:
    """Two local hosts with a dcgmi, a kernel log and the program of the new gate."""

    def __init__(self, folder: Path, collections: Path) -> None:
        self.folder, self.collections = folder, collections
        self.hosts = {name: self._host(name) for name in HOSTS}

    def _host(self, name: str) -> dict[str, Any]:
        home = self.folder / name
        home.mkdir()
        self.says(name, "good")
        log = made.machine(home, made.kmsg("quiet"))
        looks = {key: log[key] for key in log if key not in ("profile", "since")}
        diagnosis = {"dcgmi": made.dcgmi(home, made.text(made.dcgm4())), "state_dir": str(home / "jobs")}
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "gpufleet_serial": name,
            "gpufleet_sku": "test-sku",
            "gpufleet_scheduler": "none",
            "kernel_log": looks,
            "dcgm": {**diagnosis, "boot_id_path": looks["boot_id_path"]},
            "dmi": made.dmi(home, name),
            "smi": smi.tool(home, smi.xml()),
            "amd_smi": amd.tool(home, amd.texts(amd.calls())),
            "acme": made.program(home / "acme", f"cat {home}/said"),
        }

    def says(self, name: str, word: str) -> None:
        (self.folder / name / "said").write_text("".join(f"GPU {at}: {word}\n" for at in range(8)), encoding="utf-8")

    def validate(self, **settings: Any) -> subprocess.CompletedProcess[str]:
        """The role alone, in a run that has imaged nothing: the log counts from the boot."""
        (self.folder / "profiles").mkdir(exist_ok=True)
        for sku, content in (("test-sku", smi.profile()), (AMD, amd.PROFILE)):
            (self.folder / "profiles" / f"{sku}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        profile = {"profile_path": [str(self.folder / "profiles")], "dmi_path": "{{ dmi }}"}
        module = "gpufleet.baremetal."
        play = {
            "hosts": "all",
            "gather_facts": False,
            "strategy": "linear",
            "vars": {"gate_dcgm_level": f"{{{{ (gpufleet_sku == '{AMD}') | ternary(0, 2) }}}}", **settings},
            "module_defaults": {
                f"{module}kernel_log_gate": {**profile, **{key: f"{{{{ kernel_log.{key} }}}}" for key in KERNEL_LOG}},
                f"{module}dcgm_gate": {**profile, **{key: f"{{{{ dcgm.{key} }}}}" for key in DCGM}},
                f"{module}gpu_state_gate": {**profile, "nvidia_smi": "{{ smi }}", "amd_smi": "{{ amd_smi }}"},
                f"{module}acme_gate": profile,
                f"{module}gate_wait": {"interval": 0.5},
            },
            "tasks": [
                {"gpufleet.baremetal.ledger_event": {"state": "enrolled"}},
                {"ansible.builtin.import_role": {"name": "gpufleet.baremetal.gate"}},
            ],
        }
        shared = {"gpufleet_ledger_url": f"sqlite:///{self.folder / 'ledger.sqlite'}"}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
        hosts = {"all": {"hosts": self.hosts, "vars": shared}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.collections),
            "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
            "ANSIBLE_HOME": str(self.folder / "home"),
        }
        argv = [str(PLAYBOOK), "-i", "hosts.yml", "play.yml"]
        return subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    def verdicts(self, host: str) -> list[tuple[str, str]]:
        asked = (
            "SELECT e.name, e.data FROM events e JOIN nodes n USING (node_id)"
            " WHERE e.kind = 'verdict' AND n.name = ? ORDER BY e.id"
        )
        with sqlite3.connect(self.folder / "ledger.sqlite") as ledger:
            return [(name, json.loads(data)["verdict"]) for name, data in ledger.execute(asked, (host,))]


KERNEL_LOG = (
    *("source", "path", "uptime_path", "boot_id_path", "kmsg_path"),
    *("pstore_path", "pstore_archive"),
)
DCGM = ("dcgmi", "state_dir", "boot_id_path")
MORE = {"gpufleet.baremetal.acme_gate": {"program": "{{ acme }}", "timeout": 20}}


@pytest.fixture
def batch(gate: Copy, tmp_path: Path) -> Batch:
    return Batch(tmp_path, gate.root / "build" / "collections")


def test_a6_a_gate_that_a_variable_names_is_run_permitted_and_recorded(batch: Batch) -> None:
    done = batch.validate(gate_more=MORE)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    for host in HOSTS:
        assert batch.verdicts(host) == [(name, "pass") for name in OURS]


def test_a6_a_node_that_fails_it_goes_no_further_and_the_others_do(batch: Batch) -> None:
    batch.says("gpu002", "bad")
    done = batch.validate(gate_more=MORE)
    assert done.returncode == 2 and "GPU 0 is bad" in done.stdout, done.stdout[-6000:]
    assert batch.verdicts("gpu001") == [(name, "pass") for name in OURS]
    assert batch.verdicts("gpu002") == [
        *(("kernel_log_gate", "pass"), ("gpu_state_gate", "pass"), ("dcgm_gate", "pass"), ("acme_gate", "fail")),
    ]


def test_a6_without_the_variable_the_role_runs_its_own_and_a_failed_row_remap_stops_a_node_before_dcgm(
    batch: Batch,
) -> None:
    """DCGM need not notice it: the driver tells it, and the part is replaced."""
    smi.tool(batch.folder / "gpu002", smi.xml({"remapped_rows__remapped_row_failure": "Yes"}))
    done = batch.validate()
    assert done.returncode == 2 and "a row remap failed" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
    assert batch.verdicts("gpu001") == [(name, "pass") for name in OURS if name != "acme_gate"]
    assert batch.verdicts("gpu002") == [("kernel_log_gate", "pass"), ("gpu_state_gate", "fail")]


@pytest.mark.parametrize("host", HOSTS)
def test_a_node_of_amd_is_judged_without_dcgm_beside_one_of_nvidia_whichever_comes_first(
    batch: Batch, host: str
) -> None:
    [other] = set(HOSTS) - {host}
    batch.hosts[host]["gpufleet_sku"] = AMD
    done = batch.validate(gate_more=MORE)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert batch.verdicts(host) == [(name, "pass") for name in OURS if name != "dcgm_gate"]
    assert batch.verdicts(other) == [(name, "pass") for name in OURS]


def test_nodes_of_amd_alone_wait_for_no_diagnosis_and_a_broken_one_goes_no_further(batch: Batch) -> None:
    for host in HOSTS:
        batch.hosts[host]["gpufleet_sku"] = AMD
    amd.tool(batch.folder / "gpu002", amd.texts(amd.changed("metric", "ecc/total_uncorrectable_count", 2)))
    done = batch.validate(gate_more=MORE, gate_level="smoke", gate_levels={"smoke": {"more": [*MORE]}})
    assert done.returncode == 2, done.stdout[-6000:] + done.stderr[-2000:]
    assert batch.verdicts("gpu001") == [(name, "pass") for name in OURS if name != "dcgm_gate"]
    assert batch.verdicts("gpu002") == [("kernel_log_gate", "pass"), ("gpu_state_gate", "fail")]
