# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Slurm and the ledger say of a node, read without a word of the collection's own code."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

RACK = Path(os.environ.get("GPUFLEET_RACK_DIR", "/var/lib/gpufleet-rack"))


@pytest.fixture
def node(host):
    """The host's variables."""
    return host.ansible.get_variables()


@pytest.fixture
def slurm(node):
    """State and reason at the scheduler."""
    environment = {**os.environ, "SLURM_CONF": str(RACK / "slurm" / "slurm.conf")}
    command = ["sinfo", "-h", "-n", node["gpufleet_scheduler_node"], "-o", "%T|%E"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    state, _bar, reason = answer.partition("|")
    return state.rstrip("*"), reason


@pytest.fixture
def states(node):
    """The lifecycle states that the ledger was told, oldest first: pairs of name and data."""
    path = node["gpufleet_ledger_url"].removeprefix("sqlite:///")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as ledger:
        rows = ledger.execute(
            "SELECT name, data FROM events WHERE kind = 'state' AND node_id ="
            " (SELECT node_id FROM aliases WHERE kind = 'serial' AND value = ?) ORDER BY id",
            (node["gpufleet_serial"],),
        )
        return [(name, json.loads(data)) for name, data in rows]
