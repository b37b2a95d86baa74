# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a report and a plan of waves leave for the jobs that follow: small, however big the fleet is."""

from __future__ import annotations

import json

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import artifact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves import shown


def fleet(**states: int) -> dict[str, dict[str, str]]:
    """So many nodes of each state, the last one first; each of them that is no longer in service was stopped."""
    names = [(f"{state}{number:05}", state) for state, many in states.items() for number in reversed(range(many))]
    return {name: {"state": state, "stopped": "" if state == "admitted" else "x" * 500} for name, state in names}


def test_it_names_the_first_few_of_each_state_in_which_something_is_to_be_done() -> None:
    told = artifact("Day 2", fleet(admitted=3, quarantined=12, discovered=2))["data"]["gpufleet_day_2"]
    assert told["states"] == {"admitted": 3, "quarantined": 12, "discovered": 2}
    assert told["nodes"] == 17 and told["stopped"] == 14
    assert list(told["hosts"]) == ["quarantined", "stopped"]
    assert told["hosts"]["quarantined"] == [f"quarantined{number:05}" for number in range(10)]
    assert told["hosts"]["stopped"][:2] == ["discovered00000", "discovered00001"]


def test_of_a_fleet_in_which_all_is_well_it_names_nobody() -> None:
    assert artifact("Status", fleet(admitted=3))["data"]["gpufleet_status"]["hosts"] == {}


def test_ten_thousand_nodes_are_no_more_to_tell_than_a_hundred() -> None:
    told = artifact("Status", fleet(quarantined=5000, draining=3000, unserved=2000))
    assert len(json.dumps(told)) < 1500


def test_why_no_wave_begins_is_told_in_short() -> None:
    told = shown.artifact("the canary gpu001 is not in service again. " + "x" * 5000, broken_off=True)
    left = told["data"]["gpufleet_waves"]
    assert left["halted"].startswith("the canary gpu001") and len(left["halted"]) <= 300 and left["broken_off"] is True
