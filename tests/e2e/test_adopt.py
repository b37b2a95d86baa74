# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first use on a site whose servers are in service: nothing is touched until a person adopts them, and no job then.

The tests tell one story on one rack, in order. Its ledger is taken away while its nodes serve.
"""

from __future__ import annotations

from typing import Any

import counts
import lab
import pytest
from counts import world
from first_day import in_service

POWER = [
    *(("redfish_power", {"state": state}) for state in ("off", "force_off", "cycle")),
    *(("pxe_boot", {"power": power}) for power in ("none", "restart")),
]
RECORD = [
    ("provisioner_node", {"state": state}) for state in ("enrolled", "ready", "released", "maintenance", "serviceable")
]


@pytest.fixture(scope="module", autouse=True)
def job() -> str:
    """Four nodes in service, one of them with a job, and a ledger that knows none of them."""
    in_service()
    for part in ("", "-wal", "-shm"):
        (lab.RACK / f"ledger.sqlite{part}").unlink(missing_ok=True)
    wrap = ("--output=/dev/null", "--wrap", "sleep 900")
    return lab.slurm("sbatch", "--parsable", "-w", "gpu002", *wrap).strip()


def touched() -> dict[str, Any]:
    return {**world(), "events": 0}


def test_j7_no_playbook_touches_what_serves_for_others() -> None:
    lab.wait_for(lambda: lab.node_state("gpu002")["state"] in ("MIXED", "ALLOCATED"), 20, "the job runs")
    before = touched()
    for playbook in ("day0_bringup", "drain", "reimage"):
        run = lab.play(playbook)
        assert run.rc == 2 and touched() == before, run.tail()
    assert "adopt" in lab.play("day0_bringup").failure("gpu001")
    maintenance = ("-e", '{"maintenance": "on", "maintenance_why": "a test"}')
    assert lab.play("maintenance", *maintenance).rc == 2 and touched() == before
    told = lab.play("day2_recycle")
    assert told.rc == 2 and "gpufleet.baremetal.adopt" in told.output and touched() == before, told.tail()


@pytest.mark.parametrize("node", ["gpu001", "gpu002"])
def test_j7_no_verb_touches_what_serves_for_others(node: str) -> None:
    before = touched()
    results = lab.verbs(node, [("scheduler_node", {"state": "held"}), *POWER, *RECORD])
    assert touched() == before
    for result in results:
        assert result.get("failed") and result["error"]["kind"] == "not_adopted", result
        assert f"gpufleet.baremetal.adopt -i INVENTORY --limit {node}" in result["msg"], result


def record_of(node: str) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = lab.ironic("GET", "/nodes?fields=name,provision_state,uuid")["nodes"]
    return next((one for one in found if one["name"] == node), None)


def forgotten(node: str) -> None:
    """Its provisioner has no record of it any more, as if the machine had been put up without it."""
    lab.ironic("PUT", f"/nodes/{node}/maintenance", {"reason": "a test"})
    lab.ironic("DELETE", f"/nodes/{node}")
    assert record_of(node) is None


def test_j7_a_fleet_is_adopted_without_a_touch(job: str) -> None:
    forgotten("gpu001")
    before = touched()
    rehearsed = lab.play("adopt", "--check", "--diff")
    assert rehearsed.rc == 0 and touched() == before and not counts.events_of("state")["gpu001"], rehearsed.tail()
    assert rehearsed.output.count("-> admitted as it is") >= 4 and "day0_bringup -i" not in rehearsed.output
    run = lab.play("adopt")
    assert run.rc == 0 and touched() == before, run.tail()
    assert all(states == ["admitted"] for states in counts.events_of("state").values())
    assert job in lab.slurm("squeue", "-h", "-o", "%i", "-t", "RUNNING").split()
    assert "adopted" in run.output and "day2_recycle_all=true" in run.output, run.tail()
    assert "its provisioner has no record of it" in " ".join(run.output.split()) and record_of("gpu001") is None
    again = lab.play("adopt")
    assert again.rc == 0 and all(states == ["admitted"] for states in counts.events_of("state").values()), again.tail()


def test_j7_day_2_works_on_what_was_adopted(job: str) -> None:
    boots = {node: counts.network_boots(node) for node in lab.NODES}
    assert lab.play("day2_recycle").rc == 0
    assert {node: counts.network_boots(node) for node in lab.NODES} == boots, "nothing was found"
    run = lab.play("day2_recycle", "--limit", "gpu001", "-e", '{"day2_recycle_all": true}')
    assert run.rc == 0, run.tail()
    enrolled = record_of("gpu001")
    assert enrolled is not None and enrolled["provision_state"] == "active", "it was enrolled, and then imaged"
    assert counts.network_boots("gpu001") > boots["gpu001"]
    assert counts.events_of("state")["gpu001"][-1] == "admitted"
    assert lab.node_state("gpu001") == {"state": "IDLE", "reason": ""}
    before = touched()
    everybody = ("-e", '{"passports_renew": true, "passports_all": true, "passports_all_hours": 0}')
    left = lab.play("passports", "--limit", "gpu003", *everybody)
    assert left.rc == 0 and touched() == before, left.tail()  # its gates ask for an imaging, which no renewal is
    assert job in lab.slurm("squeue", "-h", "-o", "%i", "-t", "RUNNING").split()
    lab.slurm("scancel", job)
