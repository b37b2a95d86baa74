# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row that names nothing of its machine but a BMC: whoever answers there would be it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import in_service

pytestmark = pytest.mark.slow

#: As day 0 goes to a new machine, as far as its power.
WAY = [
    {
        "hosts": "gpu001",
        "gather_facts": False,
        "strategy": "linear",
        "tasks": [
            {
                "ansible.builtin.import_role": {"name": "gpufleet.baremetal.oob_ready"},
                "vars": {"oob_ready_provisioner": False, "oob_ready_new": True},
            },
            {"gpufleet.baremetal.scheduler_node": {"state": "held", "why": "day0"}},
            {"gpufleet.baremetal.scheduler_wait": {"until": "drained", "timeout": 5}},
            {"gpufleet.baremetal.redfish_power": {"state": "force_off"}},
        ],
    }
]


@pytest.mark.parametrize("free", [False, True], ids=["nobody says", "a person says that it is free"])
def test_r3_a_machine_that_runs_and_has_nothing_in_common_with_its_row_is_left_as_it_is(
    tmp_path: Path, free: bool
) -> None:
    """gpu001 is new and silent, and its row has the BMC of gpu002, which works in the same cluster for others."""
    with in_service(tmp_path, 2) as nodes:
        for bmc in nodes.bmcs.values():
            bmc.machine._power = "On"
        os.unlink(nodes.ledger)
        nodes.scheduler("gpu002", state="ALLOCATED", booted="2026-11-01T00:00:00")
        nodes.scheduler("gpu001", state="UNKNOWN", booted="None")
        del nodes.hosts["gpu001"]["gpufleet_serial"]
        nodes.hosts["gpu001"]["gpufleet_bmc_address"] = nodes.bmcs["gpu002"].url
        del nodes.hosts["gpu002"]
        said = ("-e", "oob_ready_take_running=true") if free else ()
        told = nodes.plays(WAY, *said, ok=free)
        assert nodes.bmcs["gpu002"].machine.power == ("Off" if free else "On")
        assert free or "the inventory names neither serial, system UUID nor boot MAC" in " ".join(told.split()), told
        assert free or "DRAIN" not in nodes.scheduler("gpu001")
