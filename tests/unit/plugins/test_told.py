# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a module that ran on another machine: what of it is believed, and that nothing of it steers the run."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._told import believed

TELLS = {"verdict": ("dcgm",), "measure": ("image", "clock")}
EVENT = {"kind": "verdict", "name": "dcgm", "node": "", "data": {"verdict": "pass"}}
ANSWER = {"changed": False, "verdict": "pass", "events": [EVENT, {**EVENT, "node": "gpu002"}]}


def told(answer: dict[str, Any]) -> dict[str, Any]:
    return believed(answer, tells=TELLS, hosts=["gpu002"], node="gpu001")


def test_t1_an_answer_of_its_own_verb_about_its_own_hosts_is_believed() -> None:
    assert told(ANSWER) == ANSWER
    assert told({"changed": True}) == {"changed": True, "events": []}
    assert told({"_ansible_parsed": True})["_ansible_parsed"] is True


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ansible_facts", {"gpufleet_bmc_address": "10.9.9.9", "ansible_host": "10.9.9.9"}),
        ("add_host", {"host_name": "gpu666", "groups": ["fleet"]}),
        ("add_group", "fleet"),
        ("ansible_stats", {"data": {"admitted": 1}}),
        ("evidence", "event:1"),
        ("_ansible_delegated_vars", {"ansible_host": "10.9.9.9"}),
        ("_ansible_no_log", False),
    ],
)
def test_t1_what_steers_a_run_is_not_taken_from_a_machine(key: str, value: Any) -> None:
    assert told({**ANSWER, key: value}) == ANSWER


@pytest.mark.parametrize(
    "event",
    [
        {**EVENT, "node": "gpu003"},
        {**EVENT, "name": "kernel_log"},
        {**EVENT, "kind": "evidence"},
        {**EVENT, "kind": "measure"},
        {**EVENT, "id": 7},
        {**EVENT, "data": "pass"},
        {**EVENT, "node": None},
        {key: value for key, value in EVENT.items() if key != "data"},
        "verdict dcgm",
    ],
)
def test_t1_an_event_that_is_not_its_own_makes_nothing_of_the_answer_believed(event: Any) -> None:
    with pytest.raises(BadAnswer, match="none of it is recorded"):
        told({**ANSWER, "events": [EVENT, event]})
    with pytest.raises(BadAnswer):
        told({**ANSWER, "events": event})


@pytest.mark.parametrize("key", ["kind", "name", "node"])
def test_s7_a_refused_answer_is_named_in_a_few_words(key: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        told({**ANSWER, "events": [{**EVENT, key: "A" * 3_000_000}]})
    assert "AAA" in str(caught.value) and len(str(caught.value)) < 600
