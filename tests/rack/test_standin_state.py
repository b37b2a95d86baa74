# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's nvidia-smi, as gpu_state_gate reads it: a healthy machine passes, and each fault of a GPU is found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

STANDINS = made.CHECKOUT / "roles" / "virtual_rack" / "files" / "machines" / "standins"
PROGRAM = """#!{python} -B
import sys
from pathlib import Path

sys.path.insert(0, "{standins}")

import gpu_state

home = Path("{home}")
gpu_state.HOME, gpu_state.MANIFEST = home, home / "manifest.json"
gpu_state.SERIAL, gpu_state.BOOT_ID = home / "serial", home / "boot_id"

import smi_tool

sys.exit(smi_tool.main())
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("node")
    (home / "manifest.json").write_text(json.dumps({"driver": "580.105.08", "cuda": "13.0"}), encoding="utf-8")
    for name, text in (("serial", "GFLAB0009"), ("boot_id", "this-boot")):
        (home / name).write_text(f"{text}\n", encoding="ascii")
    tool = home / "nvidia-smi"
    tool.write_text(PROGRAM.format(python=sys.executable, standins=STANDINS, home=home), encoding="utf-8")
    tool.chmod(0o755)
    return home


def judged(home: Path, **faults: dict[str, Any]) -> dict[str, Any]:
    (home / "state.json").write_text(json.dumps({"schema": 1, "faults": faults}), encoding="utf-8")
    profile = yaml.safe_load((made.PROFILES / "h100-sxm-8.yaml").read_text(encoding="utf-8"))
    params = {"nvidia_smi": str(home / "nvidia-smi"), "profile": profile, "again_timeout": 0}
    return dict(gpu_state_gate(params, Context()).data)


def test_the_racks_gpus_pass_by_the_shipped_profile(node: Path) -> None:
    found = judged(node)
    assert found["verdict"] == "pass", found["msg"]
    assert len(found["counters"]) == 8 and all(row["nvlink"] == 0 for row in found["counters"])


@pytest.mark.parametrize(
    ("fault", "told", "remedy"),
    [
        ({"row_remap_failure": {"gpu": 1}}, "GPU 1 (0000:43:00): a row remap failed", "rma"),
        ({"ecc_uncorrected": {"gpu": 4, "count": 3}}, "GPU 4 (0000:9d:00): 3 uncorrected errors in DRAM", "reset_gpu"),
        ({"gpu_missing": {"gpu": 5}}, "7 of 8 GPUs", "power_cycle"),
        ({"xid79": {"gpu": 3, "boot_id": "this-boot"}}, "a GPU has fallen off the bus", "power_cycle"),
    ],
)
def test_c4_each_fault_of_a_gpu_that_the_driver_tells_is_a_failure(
    node: Path, fault: dict[str, Any], told: str, remedy: str
) -> None:
    found = judged(node, **fault)
    assert (found["verdict"], found["remedy"]) == ("fail", remedy), found["msg"]
    assert told in found["msg"]
