# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-playbook is killed with SIGKILL at twelve stages; the next run goes on, and nothing is done twice.

Each run is killed at one stage and the next one at a later stage, so that one day 0 and one day 2 are got through with
six deaths each. Stages are named by their task, never by the clock. ``start`` leaves the worker behind as an orphan:
what it still does is awaited before the counters are read.
"""

from __future__ import annotations

import lab
import pytest

NODES = ("gpu001", "gpu004")  # one Redfish BMC, one IPMI BMC
LIMIT = ("--limit", ",".join(NODES))
DAY0 = (
    "end:Hold the node at its scheduler",
    "start:Make the node known to its provisioner and start it towards ready",
    "start:Wait until the batch is ready",
    "start:Start the deploy",
    "start:Wait until the batch is deployed",
    "end:Run the DCGM diagnostics",
    "end:Lift our hold",
)
DAY2 = (
    "end:Record that the node is draining",
    "start:Wait until the batch is drained",
    "end:Start the deploy",
    "start:Issue the passport",
    "start:Record that the node is admitted",
)


@pytest.fixture(scope="module", autouse=True)
def earlier_writes() -> int:
    """A new rack; how many writes of earlier ones the provisioner's log tells of."""
    lab.renew_rack()
    return len(lab.provisioner_writes())


def killed(playbook: str, stage: str, *more: str) -> None:
    run = lab.play(playbook, *LIMIT, *more, kill=stage)
    assert run.rc == -9, f"not killed at {stage!r}: rc {run.rc}\n{run.tail()}"
    lab.wait_for(lambda: not lab.orphans(), 60, "the orphans have noticed")


def boots() -> dict[str, int]:
    return {node: lab.network_boots(node) for node in NODES}


def test_day0_survives_seven_deaths() -> None:
    for stage in DAY0:
        killed("day0_bringup", stage)
    run = lab.play("day0_bringup", *LIMIT)
    assert run.rc == 0, run.tail()
    assert boots() == dict.fromkeys(NODES, 1), "a deploy was started twice"
    for node in NODES:
        assert lab.node_state(node) == {"state": "IDLE", "reason": ""}


def test_day0_left_one_node_at_the_provisioner_for_each_machine(earlier_writes: int) -> None:
    writes = lab.provisioner_writes()[earlier_writes:]
    created = [line for line in writes if line in ("POST /v1/nodes", "POST /v1/nodes/")]
    assert len(created) == len(NODES)


def test_day2_survives_five_deaths() -> None:
    every = ("-e", '{"day2_recycle_all": true}')
    for stage in DAY2:
        killed("day2_recycle", stage, *every)
    run = lab.play("day2_recycle", *LIMIT)
    assert run.rc == 0, run.tail()
    assert boots() == dict.fromkeys(NODES, 2), "a node was reimaged twice, or not at all"
    for node in NODES:
        assert lab.node_state(node) == {"state": "IDLE", "reason": ""}


def test_no_lease_is_stuck() -> None:
    """Whoever is named there is dead, so that any run takes the node at once."""
    before = lab.ledger_rows("SELECT max(fencing) FROM leases")
    run = lab.play("drain", *LIMIT)
    assert run.rc == 0, run.tail()
    assert run.seconds < 30
    assert lab.ledger_rows("SELECT max(fencing) FROM leases") > before


def test_intents_have_outcomes_or_a_death() -> None:
    """Every deploy that was begun is in the ledger once for each imaging, however many runs it took."""
    rows = lab.ledger_rows(
        "SELECT node_id, count(*) FROM events WHERE kind = 'state' AND name = 'imaging' GROUP BY node_id"
    )
    assert sorted(count for _node, count in rows) == [2, 2]
