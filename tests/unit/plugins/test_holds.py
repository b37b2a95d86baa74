# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which holds and runs are ours, read from a real ledger: of this very node, and as long as they last."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds, writers

TOKEN = {"hold_token": "gpufleet:r1:work"}


@pytest.fixture
def ids(ledger: Ledger) -> dict[str, str]:
    return {name: ledger.identify(name, aliases=[("serial", name)]) for name in ("n1", "n2")}


def test_t1_a_hold_is_known_until_it_is_released(ledger: Ledger, ids: dict[str, str]) -> None:
    ledger.append("r1", [(ids["n1"], Event("hold", "taken", TOKEN))])
    assert holds(ledger, ids)["n1"]["known_token"] == "gpufleet:r1:work"
    assert holds(ledger, ids)["n2"]["known_token"] == ""
    ledger.append("r1", [(ids["n1"], Event("hold", "released", TOKEN))])
    assert holds(ledger, ids)["n1"]["known_token"] == ""


def test_t1_a_run_is_ours_on_the_node_for_which_it_announced_a_hold(ledger: Ledger, ids: dict[str, str]) -> None:
    ledger.append("r1", [(ids["n1"], Event("intent", "scheduler_node"))])
    ledger.append(
        "r2", [(ids["n1"], Event("intent", "redfish_power")), (ids["n2"], Event("outcome", "scheduler_node"))]
    )
    assert {host: found["known_runs"] for host, found in holds(ledger, ids).items()} == {"n1": ["r1"], "n2": []}


def test_t1_writers_are_those_who_announced_a_write_to_the_provisioner(ledger: Ledger, ids: dict[str, str]) -> None:
    for run, verb in (("r1", "provisioner_node"), ("r2", "provisioner_wait"), ("r3", "scheduler_node")):
        ledger.append(run, [(ids["n1"], Event("intent", verb))])
    assert writers(ledger, {**ids, "stranger": ""}) == {"n1": ["r1", "r2"], "n2": [], "stranger": []}
