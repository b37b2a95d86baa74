# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slices and controllers with parts of one fleet in their inventories, and one ledger: one budget."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
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
        assert "no room in rack a: 2 of 3 are out of service, and 1 may be" in racks["left"]["gpu003"]
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


def test_of_two_slices_that_saw_the_same_room_the_later_one_gives_its_part_back(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        there = nodes.node_id("gpu003")
        slice_of(nodes, "gpu001", "gpu002")
        with contextlib.closing(sqlite3.connect(nodes.ledger)) as ledger:
            ledger.execute(
                "CREATE TRIGGER rival BEFORE INSERT ON events WHEN NEW.kind = 'wave' AND NEW.name = 'begun'"
                " AND NEW.run_id != 'rival' AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = 'rival') BEGIN"
                " INSERT INTO events (node_id, run_id, at, kind, name, data)"
                f" VALUES ('{there}', 'rival', NEW.at, 'wave', 'begun', '{{}}'); END"
            )
        [told] = asked(nodes, {"state": "begun", "budgets": {"fleet": 1}})
        assert told["order"] == [] and "no room in fleet with other inventories: 1 of 3" in told["left"]["gpu001"]
        assert [one[:2] for one in recorded(nodes)] == [
            ("begun", "gpu003"),
            ("begun", "gpu001"),
            ("withdrawn", "gpu001"),
        ]
