# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-playbook is killed with SIGKILL at twelve stages; the next run completes, and does again what it must.

Each round kills four runs at four stages, each over a node of its own; one run over all four then completes what each
left behind. What reached the BMCs, the provisioner and Slurm, what was issued and what was tried is held against a run
that nobody disturbed. Stages are named by their task, never by the clock: before a write, after it and before it is
recorded, in each wait, at a gate, and at either end of the way back into service. ``start`` leaves the worker behind
as an orphan: what it still does is awaited before anything is counted.
"""

from __future__ import annotations

from typing import Any

import counts
import lab
import pytest
from first_day import FirstDay

# Four runs at once. gpu004 has an IPMI BMC, the others have Redfish.
DAY0 = (
    (
        "start:Wait until the batch is ready",
        "end:Hold the node at its scheduler",
        "start:Make the node known to its provisioner and start it towards ready",
        "start:Start the deploy",
    ),
    (
        "end:Run the DCGM diagnostics",
        "end:Issue the passport",
        "end:Lift our hold",
        "start:Wait until the batch is deployed",
    ),
)
DAY2 = (
    "start:Wait until the batch is drained",
    "end:Remember what is tried",
    "start:Record that the node is admitted",
    "end:Start the deploy",
)
# What there is more of in the end, because the next run must: a verdict of before the death is asked for anew, and a
# passport names the verdicts that it rests on; a node that came back into service unrecorded is held until that is
# done; day 2 says in the hold that an earlier run left the node; an attempt counts from when it is remembered.
HELD_ANEW = ["DRAINED", "DRAINED", "IDLE"]
BACK_TWICE = ["DRAINED", "IDLE", "DRAINED", "IDLE"]
ANEW: dict[str, dict[str, Any]] = {
    "end:Issue the passport": {"passports": 2},
    "end:Lift our hold": {"passports": 2, "slurm": BACK_TWICE},
    "start:Wait until the batch is drained": {"slurm": HELD_ANEW},
    "end:Remember what is tried": {"slurm": HELD_ANEW, "attempts": ["reimage", "reimage"]},
    "start:Record that the node is admitted": {"passports": 2, "slurm": BACK_TWICE},
    "end:Start the deploy": {"slurm": HELD_ANEW},
}
EVERY = ("-e", '{"day2_recycle_all": true}')


def names(stages: tuple[str, ...]) -> str:
    return " + ".join(stage.replace(" ", "-") for stage in stages)


def kill_all(playbook: str, stages: tuple[str, ...], *more: str) -> None:
    """Runs at once, each over its own node, are killed at their stages and leave nothing alive."""
    runs = [
        lab.started(playbook, "--limit", node, *more, kill=stage, label=f"killed-{node}")
        for node, stage in zip(lab.NODES, stages)
    ]
    for stage, run in zip(stages, [run.end() for run in runs]):
        assert run.rc == -9, f"not killed at {stage!r}: rc {run.rc}\n{run.tail()}"
    lab.wait_for(lambda: not lab.orphans(), 60, "the orphans have noticed")


def complete(playbook: str, *more: str) -> None:
    run = lab.play(playbook, *more)
    assert run.rc == 0, run.tail()
    for node in lab.NODES:
        assert lab.node_state(node) == {"state": "IDLE", "reason": ""}


def apart(done: dict[str, Any], undisturbed: dict[str, Any], stages: tuple[str, ...]) -> dict[str, Any]:
    """Where it is neither what an undisturbed run does nor what has to be done again after the node's stage."""
    found = {} if done["provisioner"] == undisturbed["provisioner"] else {"provisioner": done["provisioner"]}
    for name in counts.NOTHING.keys() - {"provisioner"}:
        for node, stage in zip(lab.NODES, stages):
            wanted = ANEW.get(stage, {}).get(name, undisturbed[name][node])
            if done[name][node] != wanted:
                found[f"{name} of {node}"] = (stage, done[name][node], wanted)
    return found


@pytest.fixture(scope="module")
def day0(undisturbed: FirstDay) -> dict[str, Any]:
    """What a day 0 does that nobody disturbs."""
    assert undisturbed.run.rc == 0, undisturbed.run.tail()
    return undisturbed.done


def test_t2_what_is_counted_is_there_to_be_counted(day0: dict[str, Any]) -> None:
    """Writes that nobody sees would be equal to any others."""
    for name in ("bmc", "slurm", "states"):
        assert all(day0[name].values()), (name, day0[name])
    assert day0["slurm"] == dict.fromkeys(lab.NODES, ["DRAINED", "IDLE"])
    assert day0["boots"] == day0["passports"] == dict.fromkeys(lab.NODES, 1)
    created = [line for line in day0["provisioner"].elements() if line in ("POST /v1/nodes", "POST /v1/nodes/")]
    assert len(created) == len(lab.NODES)


@pytest.mark.parametrize("stages", DAY0, ids=names)
def test_t2_day0_completes_after_each_death_and_repeats_no_more_than_it_must(
    day0: dict[str, Any], stages: tuple[str, ...]
) -> None:
    lab.new_rack()
    kill_all("day0_bringup", stages)
    complete("day0_bringup")
    assert not apart(counts.done_since(counts.NOTHING), day0, stages)


@pytest.fixture(scope="module")
def day2(day0: dict[str, Any]) -> dict[str, Any]:
    """What a day 2 over all nodes does that nobody disturbs."""
    before = counts.counters()
    complete("day2_recycle", *EVERY)
    return counts.done_since(before)


def test_t2_day2_completes_after_each_death_and_repeats_no_more_than_it_must(day2: dict[str, Any]) -> None:
    before = counts.counters()
    kill_all("day2_recycle", DAY2, *EVERY)
    complete("day2_recycle", *EVERY)
    assert not apart(counts.done_since(before), day2, DAY2)


def test_no_lease_is_stuck(day0: dict[str, Any]) -> None:
    """Whoever is named there is dead, so that any run takes the node at once, and gives it back."""
    for playbook in ("drain", "readmit"):
        before = counts.ledger_rows("SELECT max(fencing) FROM leases")
        run = lab.play(playbook, "--limit", "gpu001,gpu004")
        assert run.rc == 0, run.tail()
        assert counts.ledger_rows("SELECT max(fencing) FROM leases") > before
