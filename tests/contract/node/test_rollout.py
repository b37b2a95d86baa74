# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll-out over many runs: what one of them has found out counts in the next, until a person says it was mended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_recycle_waves import given, taken, without_images

pytestmark = pytest.mark.slow

IMAGE = {"name": "gpu-golden", "version": "2026.11.2", "format": "whole-disk", "url": "https://images.example.com/x"}
NAME = "gpu-golden 2026.11.2"
RESET = ("-e", json.dumps({"waves": "reset", "waves_why": "the image's driver mended", "waves_by": "alice"}))


def rollout(nodes: Nodes, *flags: str, ok: bool) -> str:
    """The shipped playbook; what it imports lies beside it, and images nothing."""
    [imported] = yaml.safe_load((PLAYBOOKS / "rollout.yml").read_text(encoding="utf-8"))
    assert imported["ansible.builtin.import_playbook"] == "day2_recycle.yml"
    plays = without_images()
    for play in plays:
        play.setdefault("vars", {}).update(imported["vars"])
    nodes.shared.setdefault("gpufleet_image", IMAGE)
    return nodes.plays(plays, "-e", "day2_recycle_all=true", *flags, ok=ok)


def begun(nodes: Nodes, name: str) -> list[dict[str, Any]]:
    return [data for what, data in nodes.events(name, "wave") if what == "begun"]


def recovered(nodes: Nodes, name: str) -> None:
    """It was mended and admitted again, by whatever run."""
    nodes.hosts[name].pop("broken")
    told = nodes.plays(without_images(), "-e", "day2_recycle_all=true", "--limit", name, ok=True)
    assert nodes.states(name)[-1] == "admitted", told


def test_an_image_that_fails_on_its_canary_comes_to_no_other_node_whoever_starts_the_next_run(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        nodes.hosts["gpu001"]["broken"] = True
        budgets = given(budgets={"fleet": 3})
        told = rollout(nodes, *budgets, ok=False)
        assert taken(nodes) == ["gpu001"] and begun(nodes, "gpu001")[0]["rollout"] == NAME, told
        assert "1 of 1 are drained: the image" in told and f"the roll-out {NAME} goes on" in told, told
        told = rollout(nodes, *budgets, "--limit", "gpu002,gpu003", ok=False)
        assert "No wave was begun: the canary gpu001" in told, told
        assert "the canary gpu001 is not in service again" in told and taken(nodes) == ["gpu001"], told
        shown = nodes.book("waves", *budgets, "-e", json.dumps({"fleet_plan_rollout": NAME}), ok=True)
        assert "no wave begins: the canary gpu001" in shown and "waves=reset" in shown, shown
        # Another image is another roll-out, and a run that names none stands alone.
        nodes.shared["gpufleet_image"] = {**IMAGE, "version": "2026.11.3"}
        rollout(nodes, *budgets, "--limit", "gpu002", ok=True)
        assert taken(nodes) == ["gpu001", "gpu002"]


def test_a_roll_out_that_was_mended_goes_on_by_the_word_of_a_person_with_a_canary(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        nodes.hosts["gpu001"]["broken"] = True
        budgets = given(budgets={"fleet": 4})
        rollout(nodes, *budgets, ok=False)
        assert "waves_why not set" in nodes.book("waves", "-e", "waves=reset", "-e", "waves_by=alice", ok=False)
        told = nodes.book("waves", *RESET, ok=True)
        assert "4 of 4 nodes reset by alice: the image's driver mended" in told, told
        rollout(nodes, *budgets, "--limit", "!gpu001", ok=True)
        assert taken(nodes) == list(nodes.hosts)
        canaries = [begun(nodes, name)[0]["canary"] for name in ("gpu002", "gpu003", "gpu004")]
        assert canaries == [True, False, False]


def test_a_roll_out_is_taken_up_at_its_size_and_a_node_that_was_brought_back_has_not_failed(tmp_path: Path) -> None:
    with in_service(tmp_path, 6) as nodes:
        budgets = given(budgets={"fleet": 6}, growth=2)
        rollout(nodes, *budgets, "--limit", "gpu001,gpu002", ok=True)
        nodes.hosts["gpu003"]["broken"] = True
        told = rollout(nodes, *budgets, "--limit", "gpu003", ok=False)
        assert not begun(nodes, "gpu003")[0]["canary"], "two came through in an earlier run"
        told = rollout(nodes, *budgets, "--limit", "gpu004,gpu005,gpu006", ok=False)
        assert "1 of 3 nodes are not in service again (gpu003)" in told and len(taken(nodes)) == 3, told
        recovered(nodes, "gpu003")
        told = rollout(nodes, *budgets, "--limit", "gpu004,gpu005,gpu006", ok=True)
        assert "3 nodes in 1 waves" in told and taken(nodes) == list(nodes.hosts), told


def test_a_roll_out_is_called_as_a_person_calls_it_or_by_all_the_images(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        nodes.hosts["gpu002"]["gpufleet_image"] = {**IMAGE, "version": "2026.11.3"}
        rollout(nodes, "--limit", "gpu001", ok=True)
        rollout(nodes, "-e", "rollout=winter", "--limit", "gpu002", ok=True)
        assert begun(nodes, "gpu001")[0]["rollout"] == f"{NAME}, gpu-golden 2026.11.3"
        assert begun(nodes, "gpu002")[0]["rollout"] == "winter"
