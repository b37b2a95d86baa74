# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No playbook passes over a node in service of which inventory and ledger contradict each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["day0_bringup", "day2_recycle", "passports"])
def test_n2_nothing_is_done_with_a_node_that_contradicts_the_ledger(tmp_path: Path, name: str) -> None:
    """And it is told as failed: its chassis was replaced, or its serial mistyped."""
    fleet = Fleet(tmp_path)
    fleet.hosts["admitted"] = {"gpufleet_serial": "S-another", "gpufleet_node_id": fleet.ids["admitted"]}
    before = fleet.count()
    flags = ("-e", "passports_renew=true", "-e", "passports_all=true", "--limit", "admitted,retired")
    output = fleet.book(f"gpufleet.baremetal.{name}", *flags, ok=False)
    told = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]
    done = [one["result"]["msg"] for one in told if one["host"] == "admitted" and "nodes" not in one["result"]]
    assert len(done) == 1 and done[0].startswith("unknown: the ledger knows this node by another serial"), output
    assert fleet.count() == before
