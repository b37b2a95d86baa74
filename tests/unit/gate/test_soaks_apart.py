# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two soaks of one machine, and none at all; real processes."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import SOAK_GATE as soak_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import process_start
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import LONG, Node, until
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_soak import node as node


def test_one_that_never_soaked_has_no_folder_and_nothing_to_end(node: Node) -> None:
    told = soak_gate(node.params(stop=True), Context()).data
    assert told["findings"][0]["id"] == "no_soak" and not node.jobs.exists()


@pytest.mark.parametrize("stop", [True, False], ids=["to end it", "to go on with it"])
def test_the_word_of_one_soak_is_not_told_while_another_one_goes_on(node: Node, stop: bool) -> None:
    """Its node would be given work beside that one."""
    first = node.start()
    assert node.verdict()["verdict"] == "pass"
    until(lambda: not process_start(first["pid"]))  # it writes its verdict, then ends
    other = {**node.params(hours=LONG, body="sleep 600"), "job": "soak-2"}
    node.started.append(soak_gate(other, Context()).data["pid"])
    told = soak_gate(node.params(stop=stop), Context()).data
    assert "job" not in told and told["verdict"] == "inconclusive"
    assert told["findings"][0]["id"] == "another_soak" and "soak-2" in told["findings"][0]["text"]
    assert soak_gate({**other, "stop": True}, Context()).data["joined"]
    assert node.start(stop=stop)["joined"]


def test_a_soak_that_has_told_its_verdict_is_in_the_way_of_none_though_its_process_has_not_gone(node: Node) -> None:
    node.start(hours=LONG, body="sleep 600")
    other = {**node.params(hours=LONG, body="sleep 600"), "job": "soak-2"}
    assert soak_gate(other, Context()).data["findings"][0]["id"] == "another_soak"
    (node.jobs / "soak-1.json").write_text(json.dumps({"verdict": {"verdict": "pass"}}), encoding="utf-8")
    node.started.append(soak_gate(other, Context()).data["pid"])
