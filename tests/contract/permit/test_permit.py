# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lets a destructive write pass, task by task, over a real ledger."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract.permit.rig import Controller

Make = Callable[..., Controller]


# -- what takes a proof back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held_again", [False, True])
def test_j4_a_resume_that_was_killed_after_its_intent_takes_the_proof_back(controller: Make, held_again: bool) -> None:
    """Slurm has taken the node into service, and no event but the intent says so."""
    site = controller()
    site.hold()
    site.kill_after("State=RESUME")
    assert site.run("scheduler_node", state="resumed") == {} and site.node()["state"] == "IDLE"
    assert site.events("evidence")[-1] == "drained" and site.events("intent")[-1] == "scheduler_node"
    if held_again:  # by a run that died as well
        site.kill_after("State=DRAIN")
        assert site.run("scheduler_node", state="held") == {} and site.events("intent") == ["scheduler_node"] * 3
    refused = site.power()
    assert refused.get("failed") and refused["error"]["kind"] == "evidence_missing", refused
    assert "resume" in refused["error"]["seen"] and not site.switched()


def test_j4_who_holds_the_node_after_a_resume_has_a_proof_again(controller: Make) -> None:
    site = controller()
    site.hold()
    assert site.run("scheduler_node", state="resumed")["state"] == "idle"
    assert site.power()["error"]["kind"] == "evidence_missing"
    site.hold()
    done = site.power()
    assert done["changed"] and done["evidence"].startswith("event:") and site.switched(), done
