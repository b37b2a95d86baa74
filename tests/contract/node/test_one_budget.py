# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices and controllers with parts of one fleet in their inventories, and one ledger: one budget."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_plan import asked, happened, recorded

pytestmark = pytest.mark.slow

_ELSEWHERE = {"holder": {"host": "other#1", "pid": 1, "pid_start": 1, "boot_id": "b"}, "canary": False, "size": 1}


def slice_of(nodes: Nodes, *names: str) -> None:
    """From here on the inventory has these alone."""
    for name in set(nodes.hosts) - set(names):
        nodes.hosts.pop(name)


def test_nodes_of_other_inventories_count_in_the_budgets(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        for name, host in nodes.hosts.items():
            host["rack"] = "b" if name == "gpu004" else "a"
        limits: dict[str, Any] = {"fleet": 3, "rack": 1}
        asked(nodes, {"budgets": limits})
        placed = [(host, data["domains"]) for what, host, data in recorded(nodes) if what == "placed"]
        assert placed[::3] == [("gpu001", [["rack", "a"]]), ("gpu004", [["rack", "b"]])]
        slice_of(nodes, "gpu003", "gpu004")
        happened(nodes, "r2", ("gpu001", Event("state", "quarantined", {"reason": "Xid 79", "from": "admitted"})))
        happened(nodes, "r9", ("gpu002", Event("wave", "begun", _ELSEWHERE)))
        begin: dict[str, Any] = {"state": "begun", "report": True}
        racks, full, part, mine = asked(
            nodes,
            {**begin, "budgets": limits},
            {**begin, "budgets": {"fleet": 2}},
            {**begin, "budgets": limits, "elsewhere": False},
            {**begin, "budgets": limits, "fleet": ["gpu003", "gpu004"]},
        )
        rack = "no room in rack a with other inventories: 2 of 3 are out of service, and 1 may be"
        assert racks["left"]["gpu003"] == rack
        assert racks["order"] == ["gpu004"]
        whole = "no room in fleet with other inventories: 2 of 4 are out of service, and 2 may be"
        assert full["order"] == [] and full["left"] == {"gpu003": whole, "gpu004": whole}
        assert full["out_elsewhere"] == [f"gpu00{number} (not in the inventory)" for number in (1, 2)]
        assert "out elsewhere" in nodes.output and full["out"] == []
        assert part["order"] == mine["order"] == ["gpu003"] and part["out_elsewhere"] == []
        # Who told where he stands since is out, or not, by that.
        happened(nodes, "r9", ("gpu002", Event("state", "admitted", {"from": "validating"})))
        [free] = asked(nodes, {**begin, "budgets": {"fleet": 2}})
        assert free["order"] == ["gpu003"]


def before_ours(nodes: Nodes, node_id: str, **told: dict[str, Any]) -> None:
    """Another run tells this of its node right before ours begins a wave."""
    rows = ", ".join(
        f"('{node_id}', 'rival', NEW.at, 'wave', '{name}', '{json.dumps(data)}')" for name, data in told.items()
    )
    with contextlib.closing(sqlite3.connect(nodes.ledger)) as ledger:
        ledger.execute(
            "CREATE TRIGGER rival BEFORE INSERT ON events WHEN NEW.kind = 'wave' AND NEW.name = 'begun'"
            " AND NEW.run_id != 'rival' AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = 'rival') BEGIN"
            f" INSERT INTO events (node_id, run_id, at, kind, name, data) VALUES {rows}; END"
        )


def test_of_two_slices_that_saw_the_same_room_the_later_one_gives_its_part_back(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        there = nodes.node_id("gpu003")
        slice_of(nodes, "gpu001", "gpu002")
        before_ours(nodes, there, begun={})
        [told] = asked(nodes, {"state": "begun", "budgets": {"fleet": 1}})
        assert told["order"] == [] and "no room in fleet with other inventories: 1 of 3" in told["left"]["gpu001"]
        assert [one[:2] for one in recorded(nodes)] == [
            ("begun", "gpu003"),
            ("begun", "gpu001"),
            ("withdrawn", "gpu001"),
        ]


def test_a_slice_that_told_of_its_rack_only_as_it_began_counts_there(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        there = nodes.node_id("gpu003")
        for host in nodes.hosts.values():
            host["rack"] = "a"
        slice_of(nodes, "gpu001", "gpu002")
        before_ours(nodes, there, placed={"domains": [["rack", "a"]]}, begun={})
        [told] = asked(nodes, {"state": "begun", "budgets": {"rack": 1}})
        assert told["order"] == [] and "no room in rack a with other inventories: 1 of 3" in told["left"]["gpu001"]


def test_what_another_inventory_brings_up_or_has_no_more_changes_no_wave(tmp_path: Path) -> None:
    with in_service(tmp_path, 6) as nodes:
        for host in nodes.hosts.values():
            host["rack"] = "a"
        limits: dict[str, Any] = {"fleet": "50%", "rack": "50%"}
        asked(nodes, {"budgets": limits})
        slice_of(nodes, "gpu003", "gpu004")  # four were scrapped, and nobody has retired them
        with Ledger(nodes.url) as ledger:
            for number in range(5):
                node = ledger.identify(f"new{number}", aliases=[("serial", f"NEW{number}")])
                ledger.append("day0", [(node, Event("state", name)) for name in ("enrolled", "imaging")])
        plans = {"state": "planned", "budgets": limits, "canary": 2}
        all_of_them, alone = asked(nodes, plans, {**plans, "elsewhere": False})
        assert all_of_them["sizes"] == alone["sizes"] == [1, 1]
