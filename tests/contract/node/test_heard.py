# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slip in what a run is given with -e is told by each playbook before it writes anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service

pytestmark = pytest.mark.slow

#: What each playbook is given, and the slip in it.
BOARD = {"identity": "replaced", "identity_part": "board", "identity_why": "RMA 7"}
SLIPS = {
    "identity": ({**BOARD, "identity_wass": "OLD0001"}, "identity_wass"),
    "ledger": ({"ledger": "backup", "ledger_path": "HERE/copy.db", "ledger_older_tan": 9}, "ledger_older_tan"),
    "import_servers": ({"import_servers_path": "HERE/list.csv", "import_servers_prge": True}, "import_servers_prge"),
    "gate_profile": ({"gate_profile_sku": "x", "gate_profile_title": "X", "gate_profile_replce": 1}, "profile_replce"),
    "maintenance": ({"maintenance": "on", "maintenance_why": "x", "gpufleet_for_tenants": "b"}, "for_tenants"),
    "readmit": ({"join_polcy_file": "HERE/strict.yml"}, "join_polcy_file"),
}


def seen(nodes: Nodes) -> list[object]:
    """All that a run may have written."""
    with Ledger(nodes.url) as ledger:
        rows = [ledger._rows(f"SELECT * FROM {table}") for table in ("aliases", "events", "nodes", "passports")]
    calls = json.loads(nodes.world.read_text(encoding="utf-8"))["calls"]
    files = sorted(path.name for path in nodes.folder.glob("*.db"))
    return [*rows, [call for call in calls if call[1] == "update"], [bmc.writes for bmc in nodes.bmcs.values()], files]


@pytest.mark.parametrize("playbook", [*SLIPS])
def test_h2_a_slip_is_told_before_anything_is_written(tmp_path: Path, playbook: str) -> None:
    extra, slip = SLIPS[playbook]
    (tmp_path / "list.csv").write_text("name,serial\ngpu009,SN0009\n", encoding="utf-8")
    with in_service(tmp_path) as nodes:
        nodes.hosts["gpu001"]["gpufleet_boot_mac"] = "52:54:00:00:00:99"
        before = seen(nodes)
        said = json.dumps(extra).replace("HERE", str(tmp_path))
        limit = () if playbook == "import_servers" else ("--limit", "gpu001")
        told = nodes.book(playbook, *limit, "-e", said, ok=False)
        assert "nobody reads the extra variable" in told and slip in told and seen(nodes) == before, told


def test_h2_a_reason_that_the_shell_has_taken_apart_takes_no_node(tmp_path: Path) -> None:
    with in_service(tmp_path) as nodes:
        before = seen(nodes)
        told = nodes.book("maintenance", "-e", "maintenance=on", "-e", "maintenance_why=disk swap, ticket 7", ok=False)
        assert (
            "belong to no variable" in told
            and "3 words behind that, among the values of maintenance, maintenance_why" in told
            and seen(nodes) == before
        ), told
