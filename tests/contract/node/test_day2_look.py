# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Day 2 of a node in service that cannot be looked at: it is no node that something was found on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import Fleet

pytestmark = pytest.mark.slow


def test_n3_a_node_that_cannot_be_looked_at_stays_as_it_is_and_is_told_with_the_next_command(tmp_path: Path) -> None:
    """The machine that answers is this one here, and nothing of it is the node's."""
    fleet = Fleet(tmp_path)
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "gpufleet_sku": "h100-sxm-8"}
    fleet.hosts["admitted"].update(here)
    before = fleet.count()["events"]
    fleet.book("gpufleet.baremetal.day2_recycle", "--limit", "admitted", ok=False)
    text = " ".join(fleet.output.replace("\\n", " ").replace("\\", " ").split())
    assert "1 admitted; stopped at 1" in text and "oob_ready" not in text, fleet.output
    told = text.rpartition('"msg": "admitted:')[2]
    assert "no gate runs on it" in told and "Next: ansible-playbook gpufleet.baremetal.day2_recycle" in told, told
    assert fleet.count()["events"] == before + 1, "what stopped it, and nothing else"
