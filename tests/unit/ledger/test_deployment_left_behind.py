# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which deployment a later run goes on with, and of which it orders another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event


@pytest.mark.parametrize("then", ["left", "moved"])
def test_c1_no_run_goes_on_with_a_deployment_that_the_old_provisioner_was_told_of(tmp_path: Path, then: str) -> None:
    """What its unerased disk still says of that one would be its proof."""
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])

        def resume() -> str:
            return str(status(ledger, {"gpu001": node})["gpu001"]["deploy_resume"])

        ledger.append("r1", [(node, Event("state", "imaging", {"deploy_id": "d1"}))])
        assert resume() == "d1"
        ledger.append("r2", [(node, Event("provisioner", then, {"from": {}, "to": {}}))])
        assert resume() == ""
        ledger.append("r3", [(node, Event("state", "imaging", {"deploy_id": "d3"}))])
        assert resume() == "d3"


@pytest.mark.parametrize(
    ("finding", "cell", "resumes"),
    [
        ("unreachable", {"verdict": "inconclusive"}, True),
        ("aborted", {"verdict": "inconclusive"}, False),
        ("deployment", {"verdict": "inconclusive"}, False),
        ("unreachable", {"verdict": "inconclusive", "measured": "user data: d0"}, False),
        ("unreachable", {"verdict": "fail"}, False),
    ],
)
def test_a_look_that_reached_nobody_says_nothing_of_the_deployment(
    tmp_path: Path, finding: str, cell: dict[str, str], resumes: bool
) -> None:
    """What is imaged and booted would be imaged once more, since its sshd was away for a moment."""
    checks = [{"id": "deployment", "entity": "node", **cell}]
    look = {"verdict": "inconclusive", "checks": checks, "findings": [{"id": finding, "entity": "node"}]}
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
        ledger.append("r1", [(node, Event("state", "imaging", {"deploy_id": "d1"}))])
        ledger.append("r1", [(node, Event("verdict", "image_verify", look))])
        assert (status(ledger, {"gpu001": node})["gpu001"]["deploy_resume"] == "d1") is resumes
