# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stops waves over runs: one finding, many failures lately, a dead BMC; and what a ledger remembers of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import rollout_digest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.rollout import image_of
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_plan import asked, happened
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_recycle_waves import day2, given, taken

pytestmark = pytest.mark.slow

IMAGE = {"name": "gpu-golden", "version": "2026.11.2", "url": "https://images.example.com/x"}
RESET = {"state": "reset", "reason": "the fans mended", "by": "alice"}


def came_out(nodes: Nodes, run: str, *hosts: str, findings: tuple[str, ...] | None = None) -> None:
    """A wave of that run: through, or failed by these."""
    wave = Event("wave", "begun", {"canary": False, "size": 1, "image": image_of(IMAGE), "out": False})
    data = {"image": IMAGE["name"], "version": IMAGE["version"], "rollout_digest": rollout_digest(IMAGE)}
    imaging = Event("state", "imaging", data)
    last = Event("state", "admitted") if findings is None else Event("state", "quarantined", {"findings": [*findings]})
    for host in hosts:
        happened(nodes, run, *((host, event) for event in (wave, imaging, last)))


def test_one_finding_on_several_nodes_stops_a_roll_out_of_any_size_until_a_person_resets_it(tmp_path: Path) -> None:
    with in_service(tmp_path, 9) as nodes:
        nodes.shared["gpufleet_image"] = IMAGE
        came_out(nodes, "r2", *(f"gpu00{number}" for number in range(1, 6)))
        came_out(nodes, "r3", "gpu006", findings=("dcgm:80", "link"))
        came_out(nodes, "r4", "gpu007", "gpu008", findings=("dcgm:80",))
        asks: dict[str, Any] = {"rollout": True, "failures": "50%", "budgets": {"fleet": 9}}
        told, more, _reset, anew = asked(nodes, asks, {**asks, "same_finding": 4}, RESET, {**asks, "state": "begun"})
        failed = f"3 of 8 nodes failed dcgm:80 since image {image_of(IMAGE)} (gpu[006-008])"
        assert told["halted"].startswith(failed)
        assert told["broken_off"] and told["order"] == [] and "waves=reset" in told["halted"]
        assert more["halted"] == "" and anew["halted"] == "" and len(anew["order"]) == 1


def test_many_failures_lately_stop_waves_that_remember_nothing_else(tmp_path: Path) -> None:
    with in_service(tmp_path, 6) as nodes:
        for number, run in enumerate(("r2", "r3", "r4"), 1):
            came_out(nodes, run, f"gpu00{number}", findings=(f"xid:{number}",))
        came_out(nodes, "r4", "gpu004")
        asks: dict[str, Any] = {"budgets": {"fleet": 6}}
        told, few, _reset, anew = asked(nodes, asks, {**asks, "recent_failures": 4}, RESET, asks)
        assert told["halted"].startswith("3 of 4 nodes failed within 24 hours (gpu[001-003])") and told["broken_off"]
        assert "and waves go on: ansible-playbook gpufleet.baremetal.waves" in told["halted"]
        assert few["halted"] == "" and anew["halted"] == ""


def test_waves_that_remember_are_broken_off_until_what_failed_is_back_or_a_person_resets_them(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        nodes.hosts["gpu001"]["broken"] = True
        budgets = {"budgets": {"fleet": 4}}
        remembers = given(**budgets, remember=True)
        told = day2(nodes, *remembers, ok=False)
        assert taken(nodes) == ["gpu001"] and "waves=reset" in told, told
        told = day2(nodes, *remembers, "--limit", "!gpu001", ok=False)
        assert "No wave was begun: the canary gpu001 is not in service again" in told and len(taken(nodes)) == 1, told
        nodes.hosts["gpu001"].pop("broken")
        said = json.dumps({"waves": "reset", "waves_why": "the image mended", "waves_by": "alice"})
        nodes.book("waves", "-e", said, ok=True)
        day2(nodes, *remembers, ok=True)
        assert taken(nodes) == list(nodes.hosts)
        canaries = [nodes.events(name, "wave")[-1][1]["canary"] for name in nodes.hosts]
        assert canaries.count(True) == 1, "each run begins with one"


def test_a_node_that_is_stopped_at_its_bmc_has_failed_though_it_serves_on(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        nodes.hosts["gpu001"]["gpufleet_bmc_address"] = "https://127.0.0.1:9"
        told = day2(nodes, *given(budgets={"fleet": 3}), ok=False)
        assert "the canary gpu001 was stopped while it served still" in told and taken(nodes) == [], told
        [(_what, note)] = [one for one in nodes.events("gpu001", "note") if one[0] == "stopped"]
        assert note["kind"] == "unreachable" and note["findings"] == ["unreachable"], note
        assert all(nodes.scheduler(name) == "IDLE" for name in nodes.hosts)
