# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report tells of waves: those that the verbs and playbooks have planned, begun, paused, halted and reset."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_plan import PLAN, asked, happened, recorded
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_recycle_waves import day2, given
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_rollout import NAME, RESET, rollout

pytestmark = pytest.mark.slow

WRITTEN = {"report_page": "told.html", "report_data": "told.json", "report_metrics": "told.prom"}


def reported(nodes: Nodes, *flags: str) -> dict[str, Any]:
    """What the playbook writes of waves as JSON; the page and the figures lie beside it."""
    nodes.book("report", "-e", json.dumps({**WRITTEN, "report_ask_scheduler": False}), *flags, ok=True)
    told: dict[str, Any] = json.loads((nodes.folder / "told.json").read_text(encoding="utf-8"))["waves"]
    return told


def figures(nodes: Nodes) -> list[str]:
    return (nodes.folder / "told.prom").read_text(encoding="utf-8").splitlines()


def test_a_roll_out_is_told_wave_by_wave_with_what_broke_it_off_until_a_person_says_it_was_mended(
    tmp_path: Path,
) -> None:
    with in_service(tmp_path, 6) as nodes:
        nodes.hosts["gpu003"]["broken"] = True
        page = ("-e", f"rollout_report={tmp_path}/new/rollout.html")
        rollout(nodes, *given(budgets={"fleet": 4}, failures="30%"), *page, ok=False)
        own = (tmp_path / "new" / "rollout.html").read_text(encoding="utf-8")
        assert f"The roll-out of {NAME} is broken off" in own and "1 failed" in own
        rollout(nodes, *given(budgets={"fleet": 4}, failures="30%"), ok=False)
        told = reported(nodes)
        [run] = told["runs"]
        assert run["planned"] == {"waves": 3, "nodes": 6} and run["images"] == [NAME]
        canary, second = run["waves"]
        assert (canary["canary"], canary["outcomes"], canary["folded"]) == (True, {"through": 1}, "gpu001")
        assert (second["nodes"], second["outcomes"]) == (2, {"through": 1, "failed": 1})
        assert second["hosts"]["gpu003"]["state"] == "drained"
        assert "the image" in second["hosts"]["gpu003"]["reason"], second
        assert run["first"] <= canary["begun"] <= canary["ended"] <= second["begun"] <= second["ended"] <= run["last"]
        assert canary["left"] + canary["width"] <= second["left"] + 0.02
        assert run["not_begun"] == ["gpu004", "gpu005", "gpu006"]
        [halt] = run["halted"]
        assert halt["broken_off"] and halt["reason"].startswith("1 of 3 nodes are not in service again (gpu003)")
        [vain] = told["marks"]
        assert (vain["what"], vain["runs"], vain["nodes"]) == ("halted", 1, 6), vain
        assert told["now"]["images"][NAME] == vain["reason"] and told["now"]["outcomes"]["failed"] == 1
        wanted = ["gpufleet_waves 2", 'gpufleet_wave_nodes{outcome="failed"} 1']
        wanted += ['gpufleet_wave_nodes{outcome="through"} 2', f'gpufleet_rollout_broken_off{{image="{NAME}"}} 1']
        assert set(wanted) <= set(figures(nodes))
        nodes.book("waves", *RESET, ok=True)
        told = reported(nodes, "--limit", "gpu001")
        assert told["now"]["images"] == {NAME: ""} and told["marks"][0]["by"] == "alice"
        assert told["marks"][0]["images"] == [NAME] and told["runs"][0]["halted"] == [halt], "who else is in the run"
        assert f'gpufleet_rollout_broken_off{{image="{NAME}"}} 0' in figures(nodes)


def test_a_page_that_has_no_place_is_told_before_anything_is_begun(tmp_path: Path) -> None:
    with in_service(tmp_path, 1) as nodes:
        told = rollout(nodes, "-e", "rollout_report=/proc/nowhere/rollout.html", ok=False)
        assert "cannot be written" in told and recorded(nodes) == [] and nodes.states("gpu001") == []


def test_pauses_are_told_with_who_and_why_and_until_when(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        pause = {"state": "paused", "reason": "training run", "by": "alice"}
        asked(nodes, pause, {}, {"state": "begun"})
        told = reported(nodes)
        halted, paused = sorted(told["marks"], key=lambda one: one["what"])
        assert (paused["by"], paused["reason"], paused["nodes"], paused["whole"]) == ("alice", "training run", 3, True)
        assert paused["until"] == "" and told["now"]["paused"] == ["gpu001", "gpu002", "gpu003"]
        assert halted["reason"].endswith("training run") and told["runs"] == []
        assert [one[:2] for one in recorded(nodes)[3:]] == [("halted", "gpu001")] * 2, "one for all, at one of them"
        assert "gpufleet_nodes_paused 3" in figures(nodes)
        assert "stands" in (nodes.folder / "told.html").read_text(encoding="utf-8")
        asked(nodes, {"state": "resumed", "by": "bob"})
        told = reported(nodes)
        ends = {one["what"]: one["until"] for one in told["marks"]}
        assert ends["paused"] and ends["resumed"] == "" and told["now"]["paused"] == []


def test_how_a_node_came_out_is_said_by_the_first_that_happened_to_it(tmp_path: Path) -> None:
    """Begun by the verb; what follows is what a run that died, one that gave up, and one that goes on have left."""
    with in_service(tmp_path, 5) as nodes:
        play: dict[str, Any] = {"hosts": "all", "gather_facts": False, "tasks": [{PLAN: {}, "run_once": True}]}
        begun = {"state": "begun", "canary": 5, "budgets": {"fleet": 5}}
        play["tasks"].append({PLAN: begun, "run_once": True, "register": "wave"})
        nodes.plays([play], ok=True)
        [run] = _runs(nodes)
        happened(nodes, run, ("gpu001", Event("state", "draining", {})))
        happened(nodes, run, ("gpu001", Event("state", "quarantined", {"reason": "Xid 79"})))
        happened(nodes, "later", ("gpu001", Event("state", "admitted", {})))
        happened(nodes, run, ("gpu002", Event("state", "imaging", {})))
        happened(nodes, run, ("gpu003", Event("note", "stopped", {"reason": "its BMC is away"})))
        happened(nodes, run, ("gpu005", Event("note", "stopped", {"reason": "held by bob", "kind": "not_ours"})))
        happened(nodes, run, ("gpu004", Event("state", "imaging", {})))
        happened(nodes, "later", ("gpu004", Event("note", "stopped", {"reason": "of another run"})))
        happened(nodes, "later", ("gpu004", Event("state", "admitted", {})))
        [told] = reported(nodes)["runs"]
        [wave] = told["waves"]
        assert {host: (one["outcome"], one["state"], one["reason"]) for host, one in wave["hosts"].items()} == {
            "gpu001": ("failed", "quarantined", "Xid 79"),
            "gpu002": ("left", "imaging", ""),
            "gpu003": ("failed", "", "its BMC is away"),
            "gpu004": ("through", "admitted", ""),
            "gpu005": ("untouched", "", "held by bob"),
        }
        assert wave["ended"] == "" and told["last"], "nobody works on it any more"


def test_what_a_recycle_without_an_image_did_is_told_as_well(tmp_path: Path) -> None:
    with in_service(tmp_path, 2) as nodes:
        day2(nodes, *given(budgets={"fleet": 1}), ok=True)
        told = reported(nodes)
        [run] = told["runs"]
        assert [wave["outcomes"] for wave in run["waves"]] == [{"through": 1}] * 2 and run["not_begun"] == []
        assert run["halted"] == [] and told["now"]["images"] == {}


def _runs(nodes: Nodes) -> list[str]:
    with contextlib.closing(sqlite3.connect(nodes.ledger)) as ledger:
        return [str(run) for (run,) in ledger.execute("SELECT DISTINCT run_id FROM events WHERE kind = 'wave'")]
