# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each gate that loads the GPUs has them alone: what is measured beside a run that was killed is no verdict."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.gate import collective_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.gate import cpu_memory_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.gate import gpu_bandwidth_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_burn.gate import gpu_burn_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.gate import storage_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.training.gate import training_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import burning, nccl, nvbw, nvme, stress, trained
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

TRY = """import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def dcgm(folder: Path, output: str, *, body: str) -> dict[str, Any]:
    tool = made.dcgmi(folder, output, body=body)
    return {"dcgmi": tool, "level": 2, "profile": made.profile(), "pci_path": made.pci(folder), "busy_timeout": 0}


def storage(folder: Path, output: str, *, body: str) -> dict[str, Any]:
    params = nvme.params(folder, output, body=body)
    nvme.linked(folder / "sys" / "bus" / "pci" / "devices", Path(made.pci(folder)))
    return params


def cpu_memory(folder: Path, output: str, *, body: str) -> dict[str, Any]:
    params = stress.params(folder, output, body=body)
    nvme.linked(folder / "sys" / "bus" / "pci" / "devices", Path(made.pci(folder)))
    return params


GATES = {
    "collective_gate": (collective_gate, nccl.params, nccl.table()),
    "cpu_memory_gate": (cpu_memory_gate, cpu_memory, stress.metrics()),
    "dcgm_gate": (dcgm_gate, dcgm, made.text(made.dcgm4())),
    "gpu_bandwidth_gate": (gpu_bandwidth_gate, nvbw.params, nvbw.text()),
    "gpu_burn_gate": (gpu_burn_gate, burning.params, burning.output()),
    "storage_gate": (storage_gate, storage, json.dumps(nvme.document())),
    "training_gate": (training_gate, trained.params, trained.log()),
}


@pytest.mark.parametrize("name", GATES)
def test_t1_a_gate_that_loads_the_gpus_measures_alone(tmp_path: Path, name: str) -> None:
    gate: Callable[..., Any]
    gate, options, healthy = GATES[name]
    (tmp_path / "try.py").write_text(TRY, encoding="utf-8")
    place = made.pci(tmp_path)
    body = f"{sys.executable} {tmp_path}/try.py {place} 2>/dev/null; echo $? >> {tmp_path}/tried"
    params = options(tmp_path, healthy, body=body)
    other = os.open(place, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    beside = gate({**params, "timeout": 0.3}, Context()).data
    assert (beside["verdict"], beside["remedy"], beside["findings"][0]["id"]) == ("inconclusive", "retest", "busy")
    assert not (tmp_path / "tried").exists(), "nothing was run beside the other one"
    os.close(other)
    found = gate({**params, "timeout": 20}, Context()).data
    assert found["verdict"] == "pass", found["msg"]
    assert set((tmp_path / "tried").read_text(encoding="utf-8").split()) == {"1"}, "it is held while the tool runs"
    assert gate({**params, "timeout": 20}, Context()).data["verdict"] == "pass", "and let go"
