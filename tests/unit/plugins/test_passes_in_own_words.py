# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a node's pass, and signed in a passport: the cells that were asked for, in the controller's words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import dcgm_gate, kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import own, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import CELLS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Tool, as_verdict
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction, reference
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.test_deep_answers import recorded, run

PROFILE = made.profile()
LIE = "attested by the controller"
ROW = {"id": "attestation.tpm_quote", "entity": "node", "measured": LIE, "wanted": LIE, "unit": LIE, "source": LIE}
NOTE = {"id": "note", "entity": "node", "text": LIE, "remedy": "none"}


def told(gate: str) -> tuple[dict[str, Any], type[GateAction]]:
    """A pass, with everything in it that a node would like to have signed."""
    if gate == "dcgm_gate":
        verdict, base = made.claimed(profile=reference(PROFILE), level=1), dcgm_gate.ActionModule
    else:
        verdict, base = made.logged(PASS, *CELLS, profile=reference(PROFILE)), kernel_log_gate.ActionModule
    for row in verdict["checks"]:
        row.update(wanted=LIE, source=LIE, unit=LIE)
    verdict["checks"] += [{**ROW, "verdict": "pass"}, {**ROW, "id": "overall_result", "verdict": "pass"}]
    return {**verdict, "findings": [NOTE]}, base


def ran(folder: Path, gate: str, verdict: dict[str, Any]) -> dict[str, Any]:
    base = told(gate)[1]
    more = {} if gate == "dcgm_gate" else {"level": None}
    answer = {**verdict, "changed": False}
    found: dict[str, Any] = run(folder, answer, base, **more)
    return found


@pytest.mark.parametrize("gate", ["dcgm_gate", "kernel_log_gate"])
def test_s6_a_pass_keeps_the_cells_that_were_asked_for_and_no_word_of_the_nodes(tmp_path: Path, gate: str) -> None:
    verdict, _base = told(gate)
    found = ran(tmp_path, gate, verdict)
    assert found["verdict"] == PASS and not found.get("failed"), found
    assert found["findings"] == [NOTE], "a note is shown"
    kept = recorded(tmp_path)
    assert LIE not in kept and json.loads(kept)["findings"] == []
    cells = {(row["id"], row["entity"]) for row in verdict["checks"] if row["id"] not in (ROW["id"], "overall_result")}
    assert {(row["id"], row["entity"]) for row in json.loads(kept)["checks"]} == cells
    assert LIE not in json.dumps(found["checks"])


SPOILT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "tool": lambda verdict: verdict["tool"].update(name=LIE),
    "version": lambda verdict: verdict["tool"].update(version="9" * 101),
    "argument": lambda verdict: verdict.update(argv=["x" * 1001]),
    "arguments": lambda verdict: verdict.update(argv=["x"] * 101),
    "measured": lambda verdict: verdict["checks"][-3].update(measured=LIE),
}


@pytest.mark.parametrize("gate", ["dcgm_gate", "kernel_log_gate"])
@pytest.mark.parametrize("name", SPOILT)
def test_s6_a_pass_that_no_gate_would_write_is_forged(tmp_path: Path, gate: str, name: str) -> None:
    verdict, _base = told(gate)
    SPOILT[name](verdict)
    found = ran(tmp_path, gate, verdict)
    assert found["failed"] and [one["id"] for one in found["findings"]] == ["forged"], found


def test_s6_a_failure_keeps_every_word_that_helps_a_person(tmp_path: Path) -> None:
    verdict = made.claimed("fail", profile=reference(PROFILE), level=1)
    verdict["checks"].append({**ROW, "id": "overall_result", "verdict": "fail"})
    ran(tmp_path, "dcgm_gate", verdict)
    kept = json.loads(recorded(tmp_path))
    assert kept["verdict"] == "fail" and kept["checks"] == verdict["checks"] and kept["findings"] == verdict["findings"]


@pytest.mark.parametrize("document", [made.dcgm4(), made.dcgm3()], ids=["4", "3"])
def test_s6_what_dcgm_prints_of_a_healthy_machine_fits(document: dict[str, Any]) -> None:
    wanted, done = wanted_of(PROFILE), made.text(document)
    seen = read(done)
    version = (4, 6, 0) if seen.shape == 4 else (3, 3, 9)
    end = Run(("dcgmi",), 0, done.encode(), b"", "exit", 1.0)
    sheet = judge(seen, end, wanted, wanted_tests(wanted, 2, [], version), found=made.found(8))
    tool = Tool("dcgmi", ".".join(map(str, version)))
    verdict = as_verdict("dcgm_gate", sheet, tool=tool, started="", evidence="", profile=reference(PROFILE))
    assert verdict["verdict"] == PASS, verdict["findings"]
    known = own(verdict, question(PROFILE, 2, []))
    assert strange(verdict, known) == ""
    assert all(row["measured"] is not None for row in written(verdict, known)["checks"])


def test_s6_a_test_that_was_run_beyond_its_version_is_kept() -> None:
    """A failure of it stood by the same cells; a pass without them could never take that back."""
    newer = made.profile()
    newer["dcgm"]["tests"][2]["since"] = "4.7"
    verdict = made.claimed(profile=reference(PROFILE))
    kept = written(verdict, own(verdict, question(newer, 2, [])))
    assert [row["id"] for row in kept["checks"]].count("dcgm.pcie") == 8
