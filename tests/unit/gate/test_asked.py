# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each verdict was asked, as the controller writes it down: never the node's word."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import dcgm_gate, kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import asked, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import answer, inconclusive, iso, json_digest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

OPTIONS: dict[str, Any] = {"level": 3, "tests": None, "profile": made.profile()}


class Dcgm(dcgm_gate.ActionModule):
    """The action without a task."""

    def __init__(self) -> None:
        self._unfit = ""


class KernelLog(kernel_log_gate.ActionModule):
    """The same, with a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._unfit = ""
        self._opened = ledger

    def ledger(self) -> Ledger:
        return self._opened


@pytest.mark.parametrize(
    ("level", "tests", "told"),
    [
        (1, [], {"level": 1, "tests": ["software"]}),
        (3, [], {"level": 3, "tests": ["diagnostic", "memory", "nvbandwidth", "pcie", "software"]}),
        (4, ["Memory", "GPU Memory"], {"level": 0, "tests": ["memory", "memory"]}),
    ],
)
def test_v1_a_diagnosis_says_its_level_and_its_tests(level: int, tests: list[str], told: dict[str, Any]) -> None:
    assert asked(question(made.profile(), level, tests)) == told


def test_v1_the_question_is_of_what_was_sent() -> None:
    whole = Dcgm()._question(OPTIONS)
    assert (whole["level"], whole["profile"]) == (3, json_digest(made.profile()))
    nothing = {key: value for key, value in made.profile().items() if key != "dcgm"}
    assert Dcgm()._question({**OPTIONS, "profile": nothing, "tests": ["GPU Memory"]}) == {
        "level": 0, "tests": ["memory"], "profile": json_digest(nothing),
    }  # fmt: skip
    unfit = Dcgm()
    unfit._unfit = "no profile"
    assert "profile" not in unfit._question({**OPTIONS, "profile": None})


@pytest.mark.parametrize(
    ("since", "told"), [("", "imaging"), ("boot", "boot"), ("2026-11-22T08:00:00+01:00", "2026-11-22T07:00:00Z")]
)
def test_v1_a_log_says_its_window(ledger: Ledger, since: str, told: str) -> None:
    assert KernelLog(ledger)._asked_for(since) == told


def test_v1_a_window_of_seconds_begins_on_the_ledgers_clock(ledger: Ledger) -> None:
    begins = {iso(ledger.now() - 10 + late) for late in (-1.0, 0.0, 1.0)}
    assert KernelLog(ledger)._asked_for("10") in begins
    assert KernelLog(ledger)._asked_for("nonsense") == "nonsense"


def test_v1_the_event_carries_it_and_the_result_keeps_its_own() -> None:
    """In a result, asked are the writes that were sent."""
    verdict = inconclusive("dcgm_gate", "nothing", id="x")
    told = answer(verdict, {"level": 3, "tests": ["memory"], "profile": json_digest(1)})
    schema = json.loads(made.VERDICT_SCHEMA.read_text())
    jsonschema.Draft202012Validator(schema).validate(told.events[0].data)
    assert told.events[0].data["asked"]["level"] == 3 and "asked" not in told.data
    assert "asked" not in answer(told.events[0].data).data
