# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module on another machine may not answer with, and what a gate's action makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._told import believed

FAILED = {
    "gate": "dcgm_gate",
    "verdict": "fail",
    "remedy": "rma",
    "findings": [{"id": "check_mode", "entity": "node", "text": "not run in check mode", "remedy": "rma"}],
}


def test_a_node_does_not_lift_its_own_verdict_by_the_word_check_mode() -> None:
    assert "rma" in refusal(FAILED, "inconclusive", check_mode=False) and refusal(FAILED, "fail", check_mode=False)
    assert refusal(FAILED, "inconclusive", check_mode=True) == ""


@pytest.mark.parametrize("odd", [{"asked": 5}, {"asked": "x"}, {"error": "x"}, {"error": [1]}])
def test_what_the_controller_reads_of_an_answer_is_of_its_type(odd: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer, match=next(iter(odd))):
        believed(odd, tells={}, hosts=[], node="gpu001")
    for fine in ({"asked": ["x"], "error": {"kind": "x"}}, {"asked": None, "error": None}, {}):
        assert believed(fine, tells={}, hosts=[], node="gpu001") == {**fine, "events": []}


def test_v2_a_verb_that_failed_tells_of_nothing() -> None:
    """Only a verdict fails its task and is recorded all the same."""
    event = {"kind": "maintenance", "name": "held", "node": "", "data": {"token": "x"}}
    answer = {"changed": True, "events": [event]}
    assert believed(answer, tells={"maintenance": ["held"]}, hosts=[], node="gpu001")["events"] == [event]
    failed = {**answer, "failed": True}
    assert believed(failed, tells={"maintenance": ["held"]}, hosts=[], node="gpu001")["events"] == []
    verdict = {**event, "kind": "verdict", "name": "dcgm_gate"}
    told = {"failed": True, "events": [verdict]}
    assert believed(told, tells={"verdict": ["dcgm_gate"]}, hosts=[], node="gpu001")["events"] == [verdict]
