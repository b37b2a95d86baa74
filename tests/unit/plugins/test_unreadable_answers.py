# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's answer that breaks what reads it: a verdict all the same, and none that leaves an older pass standing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FLEET, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door


class Odd(GateAction):
    """Of a driver that did not think of every answer; ``problem`` is what reading it ends in."""

    NAME = "odd_gate"
    LOADS = False
    problem: Exception

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return ""

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return Own({}, ())

    def _execute_module(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        return {"changed": False, "verdict": "pass", "checks": [{"id": 5}], "events": []}

    def _answered(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        raise self.problem


def run(folder: Path, problem: Exception) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    base = type("Odd", (Odd,), {"problem": problem})
    options = spec(
        FLEET, profile={"type": "dict"}, fail_on={"type": "str", "default": "inconclusive"}, dmi_path={"type": "path"}
    )
    door = Door(
        folder, lambda params, ctx: Result(), base=base, name="odd_gate", own_spec=options,
        args={"profile": made.profile(), "dmi_path": made.dmi(folder, "GF0001")},
    )  # fmt: skip
    return door.run(), door.events()


@pytest.mark.parametrize("problem", [TypeError("unhashable"), AttributeError("get"), KeyError("x"), RecursionError()])
def test_an_answer_that_breaks_its_reader_is_recorded_as_one_that_proves_nothing(
    tmp_path: Path, problem: Exception
) -> None:
    found, [(kind, name, data)] = run(tmp_path, problem)
    assert found["failed"] and found["verdict"] == "inconclusive" and type(problem).__name__ in found["msg"]
    assert (kind, name) == ("verdict", "odd_gate")
    verdict = json.loads(data)
    assert verdict["verdict"] == "inconclusive" and [one["id"] for one in verdict["findings"]] == ["forged"]


def test_what_the_reader_itself_refuses_is_its_own_error(tmp_path: Path) -> None:
    found, events = run(tmp_path, NotOurs("another run works on it"))
    assert found["failed"] and found["error"]["kind"] == "not_ours" and events == []
