# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mere look, at drives or at CPUs and memory, needs no evidence that a node is drained, and answers no failure of a
measurement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import covers
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nvme, stress
from contract.gate.test_doors import PLAYBOOK, Site

pytestmark = pytest.mark.skipif(not PLAYBOOK.exists(), reason="ansible-playbook is not installed beside this Python")


LOOKS = {
    "storage_gate": (nvme.params, [nvme.READ, "health"]),
    "cpu_memory_gate": (stress.params, [stress.CPU, "health"]),
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_mere_look_is_made_of_a_node_in_service_and_a_measurement_is_not(tmp_path: Path, name: str) -> None:
    made: Callable[[Path], dict[str, Any]]
    made, everything = LOOKS[name]
    site = Site(tmp_path)
    home = site.host("gpu001")
    site.hosts["gpu001"]["healthy"] = options = made(home)
    asked = {key: f"{{{{ healthy.{key} }}}}" for key in options}
    look = {f"gpufleet.baremetal.{name}": {**asked, "tests": ["health"]}}
    assert site.play(look)["gpu001"]["verdict"] == "pass"
    refused = site.play({f"gpufleet.baremetal.{name}": asked})["gpu001"]
    assert refused["error"]["kind"] == "evidence_missing" and not (home / "calls").exists()
    [(_host, _name, told)] = site.events()
    assert told["asked"]["tests"] == ["health"] and site.events("intent") == []
    whole = {**told["asked"], "tests": everything}
    assert covers(whole, told["asked"]) and not covers(told["asked"], whole)
