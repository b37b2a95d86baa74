# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles make of a wait's verdict: a service that is away quarantines nobody, a node that did not come does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from contract.node.test_fleet_status import Fleet, status
from contract.node.test_quarantine import ROLE

pytestmark = pytest.mark.slow

ROLES = Path(__file__).resolve().parents[3] / "roles"
THERE = {"ok": True, "kind": "", "reason": "", "step": "done", "boots": True}
#: A role's file, the first of its tasks that judge the wait, and what they read: X is the verdict.
WAITS = {
    "enroll": ("enroll/tasks/main.yml", "Stop here where", {"enroll_wait": "X"}),
    "deploy": ("deploy/tasks/main.yml", "Judge the deploy", {"deploy_wait": "X", "deploy_booted": THERE}),
    "answer": ("deploy/tasks/main.yml", "Judge the deploy", {"deploy_wait": THERE, "deploy_booted": "X"}),
}
VERDICTS = {
    "unreachable": ("Ironic does not answer", "admitted"),
    "bad_answer": ("Ironic answers with a page of a proxy", "admitted"),
    "lease_held": ("another run works on it", "admitted"),
    "deadline": ("it did not come within 1800 s", "quarantined"),
    "": ("its deploy failed: no bootable disk", "quarantined"),
}


@pytest.mark.parametrize("kind", VERDICTS)
@pytest.mark.parametrize("wait", WAITS)
def test_q1_of_a_wait_that_failed_only_a_verdict_about_the_node_quarantines_it(
    tmp_path: Path, wait: str, kind: str
) -> None:
    name, first, reads = WAITS[wait]
    reason, state = VERDICTS[kind]
    verdict = {**THERE, "ok": False, "kind": kind, "reason": reason}
    fleet = Fleet(tmp_path)
    fleet.shared |= {"gpufleet_scheduler": "none", "enroll_verify_hardware": False}
    tasks: list[dict[str, Any]] = yaml.safe_load((ROLES / name).read_text(encoding="utf-8"))
    at = next(number for number, task in enumerate(tasks) if task["name"].startswith(first))
    judged = [task for task in tasks[at:] if "hardware_verify" not in str(task)]
    told = {key: {"verdicts": {"admitted": verdict if one == "X" else one}} for key, one in reads.items()}
    flags = ("--limit", "admitted")
    fleet.play({"block": [{"ansible.builtin.set_fact": told}, *judged], "rescue": [ROLE]}, flags=flags)
    [result] = fleet.play(status(), flags=flags)
    found = result["nodes"]["admitted"]
    assert found["state"] == state and (reason in found["reason"]) == (state == "quarantined"), found
