# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom no wave takes, whatever the budgets have left."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._wave_members import refused

#: Of a node that any wave may take.
SERVES = {
    "node_id": "n1",
    "state": "admitted",
    "stopped": "",
    "stranger": False,
    "kept": "",
    "tenant": "",
    "busy": False,
    "lease": "r9",
    "held_by": "",
    "reason": "a fan",
}


@pytest.mark.parametrize(
    ("stands", "why"),
    [
        ({}, ""),
        ({"state": "unknown"}, "nobody can tell where it stands"),
        ({"state": "unknown", "stopped": "no answer"}, "no answer"),
        ({"stranger": True}, "it works for somebody else"),
        ({"state": "enrolled"}, "it is enrolled: it was never in service"),
        ({"kept": "disk"}, "kept by a person: disk"),
        ({"tenant": "acme"}, "of the tenant acme, whom this run does not name"),
        ({"busy": True}, "the run r9 works on it"),
        ({"state": "unserved", "held_by": "foreign"}, "a fan"),
        ({"state": "unserved", "held_by": "ours"}, ""),
    ],
)
def test_why_no_wave_takes_a_node(stands: dict[str, Any], why: str) -> None:
    assert refused({"gpu001": {**SERVES, **stands}}, ["gpu001"], {}, {}) == ({"gpu001": why} if why else {})


def test_what_is_paused_or_about_to_be_taken_is_refused() -> None:
    nodes = {"gpu001": SERVES}
    assert refused(nodes, nodes, {"gpu001": "paused by alice"}, {}) == {"gpu001": "paused by alice"}
    assert refused(nodes, nodes, {}, {"n1": "r8"}) == {"gpu001": "the run r8 has begun a wave with it"}
