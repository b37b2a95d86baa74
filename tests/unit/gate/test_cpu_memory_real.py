# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu_memory_gate loads this machine with the real stress-ng."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.gate import cpu_memory_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import stress

PRESENT = shutil.which("stress-ng") is not None


@pytest.fixture(name="here")
def _here(tmp_path: Path) -> dict[str, Any]:
    """This machine, with memory controllers of our making, since a virtual one has none."""
    stress.machine(tmp_path)
    for name in ("cpu", "node"):
        shutil.rmtree(tmp_path / "sys/devices/system" / name)
        (tmp_path / "sys/devices/system" / name).symlink_to(f"/sys/devices/system/{name}")
    shown = machine.shown("/sys", "/proc")
    assert shown.online and shown.memory
    wanted = {"cpu_threads": shown.online, "cpu_sockets": shown.sockets, "numa_nodes": shown.nodes}
    wanted.update({"memory_gib": shown.memory / (1 << 20), "machine_checks": None})
    return {"wanted": wanted, "sysfs_path": str(tmp_path / "sys"), "timeout": 60}


def _real(here: dict[str, Any], *loads: dict[str, Any]) -> dict[str, Any]:
    options = {key: value for key, value in here.items() if key != "wanted"}
    params = {**options, "profile": stress.profile(*loads, **here["wanted"])}
    return dict(cpu_memory_gate(params, Context()).data)


@pytest.mark.skipif(not PRESENT, reason="there is no stress-ng here")
def test_the_real_stress_ng_loads_this_machine(here: dict[str, Any]) -> None:
    cpu = stress.load(seconds=2, method="matrixprod", minimum=None, version=None)
    fill = stress.load(stress.MEMORY, "vm", seconds=2, memory_percent=1)
    found = _real(here, cpu, fill)
    assert found["verdict"] == "pass", found["msg"]
    assert all(row["measured"] > 0 for row in found["checks"] if row["id"].startswith("load."))


@pytest.mark.skipif(not PRESENT, reason="there is no stress-ng here")
def test_the_real_stress_ng_says_what_it_cannot_do(here: dict[str, Any]) -> None:
    version = _real(here, stress.load(seconds=1, minimum=None, version=None))["tool"]["version"]
    slow = _real(here, stress.load(seconds=1, minimum=1e12, version=version))
    assert (slow["verdict"], slow["remedy"]) == ("fail", "field_diag") and "wanted 1e+12" in slow["msg"]
    unknown = _real(here, stress.load(seconds=1, method="no-such-method", minimum=None, version=None))
    assert unknown["verdict"] == "inconclusive" and "exit status 1" in str(unknown["findings"])
