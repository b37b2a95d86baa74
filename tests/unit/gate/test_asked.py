# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each verdict was asked, as the controller writes it down: never the node's word."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import dcgm_gate, kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import asked, lacking, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.grid import required
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import WantedTest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.question import covers, weaker
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    PASS,
    Check,
    answer,
    inconclusive,
    iso,
    json_digest,
)
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

OPTIONS: dict[str, Any] = {"level": 3, "tests": None, "profile": made.profile()}
#: A verdict that measured nothing.
NOTHING = inconclusive("dcgm_gate", "nothing", id="x")


class Dcgm(dcgm_gate.ActionModule):
    """The action without a task."""

    def __init__(self) -> None:
        self._unfit = ""


class KernelLog(kernel_log_gate.ActionModule):
    """The same, with a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._unfit = ""
        self._opened = ledger
        self._task = SimpleNamespace(delegate_to=None)
        self.node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])

    def node_id(self, host: str = "", *, create: bool = True) -> str:
        return self.node

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
    assert asked(question(made.profile(), level, tests), NOTHING) == told


#: The profile of this suite, with a test that DCGM has since 4.5 only.
NEWER = made.profile()
NEWER["dcgm"]["tests"][-1]["since"] = "4.5"
OF_44 = ["diagnostic", "memory", "pcie", "software"]
OF_46 = sorted([*OF_44, "nvbandwidth"])
SHAPES = {"0.0.1": 3}


def diagnosis(word: str, version: str, tests: Sequence[str]) -> dict[str, Any]:
    """A verdict of level 3 with the cells of these tests; of a failure, those of nvbandwidth or of memory failed."""
    whole = made.claimed(profile={"sku": "h100", "digest": "sha256:p"})
    wanted = [WantedTest(name, "gpu", "x") for name in tests]
    rows = required(wanted_of(NEWER), wanted, range(8), SHAPES.get(version, 4))
    measured = {"device_id": "2330", "gpu_count": 8, "exit_status": 0}
    checks = [Check(row.id, row.entity, PASS, measured.get(row.id, PASS)).as_dict() for row in rows]
    bad = "nvbandwidth" if "nvbandwidth" in tests else "memory"
    for check in checks if word == "fail" else []:
        check["verdict"] = "fail" if check["id"].startswith(f"dcgm.{bad}") else PASS
    return {**whole, "verdict": word, "checks": checks, "tool": {"name": "dcgmi", "version": version}}


def told(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What the controller writes down of it."""
    return asked(question(NEWER, 3, []), verdict)


@pytest.mark.parametrize("version", ["4.4.2", "0.0.1"])
def test_v1_a_pass_of_an_older_dcgm_answers_no_failure_of_a_test_that_it_has_not_run(version: str) -> None:
    failure = told(diagnosis("fail", "4.6.0", OF_46))
    older = diagnosis("pass", version, OF_44)
    assert failure == {"level": 3, "tests": OF_46} and told(older) == {"level": 3, "tests": OF_44}
    assert not lacking(older, question(NEWER, 3, [])), "it is a pass, of what its version has"
    assert not covers(told(older), failure) and "nvbandwidth" in weaker(told(older), {"tests": ["nvbandwidth"]})
    newer = diagnosis("pass", "4.6.0", OF_46)
    assert not lacking(newer, question(NEWER, 3, []))
    assert covers(told(newer), failure) and not weaker(told(newer), {"level": 3, "tests": ["nvbandwidth"]})


def test_v1_a_pass_of_an_older_dcgm_answers_what_that_dcgm_failed() -> None:
    failure, newer = told(diagnosis("fail", "4.4.2", OF_44)), told(diagnosis("pass", "4.6.0", OF_46))
    assert failure["tests"] == OF_44 and covers(told(diagnosis("pass", "4.4.2", OF_44)), failure)
    assert covers(newer, failure)


def test_v1_a_failure_is_of_each_test_that_it_has_a_cell_of_whatever_version_it_names() -> None:
    assert told(diagnosis("fail", "0.0.1", [*OF_44, "nvbandwidth"]))["tests"] == OF_46
    assert told(diagnosis("fail", "", OF_44))["tests"] == told(NOTHING)["tests"] == OF_46, "of which nobody knows"


@pytest.mark.parametrize("gone", [("dcgm.nvbandwidth.summary", "node"), ("dcgm.nvbandwidth", "GPU 7")])
def test_v1_a_pass_claims_a_test_by_all_its_cells(gone: tuple[str, str]) -> None:
    whole = diagnosis("pass", "4.6.0", OF_46)
    whole["checks"] = [row for row in whole["checks"] if (row["id"], row["entity"]) != gone]
    whole["tool"]["version"] = "4.4.2"
    assert told(whole)["tests"] == OF_44


def test_v1_the_task_itself_writes_down_what_the_pass_has_answered() -> None:
    task = {**OPTIONS, "profile": NEWER}
    assert Dcgm()._question(task, diagnosis("pass", "4.4.2", OF_44))["tests"] == OF_44
    assert Dcgm()._question(task, diagnosis("pass", "4.6.0", OF_46))["tests"] == OF_46


def test_v1_the_question_is_of_what_was_sent() -> None:
    whole = Dcgm()._question(OPTIONS, NOTHING)
    assert (whole["level"], whole["profile"]) == (3, json_digest(made.profile()))
    nothing = {key: value for key, value in made.profile().items() if key != "dcgm"}
    assert Dcgm()._question({**OPTIONS, "profile": nothing, "tests": ["GPU Memory"]}, NOTHING) == {
        "level": 0, "tests": ["memory"], "profile": json_digest(nothing),
    }  # fmt: skip
    unfit = Dcgm()
    unfit._unfit = "no profile"
    assert "profile" not in unfit._question({**OPTIONS, "profile": None}, NOTHING)


@pytest.mark.parametrize(("since", "told"), [("boot", "boot"), ("2026-11-22T08:00:00+01:00", "2026-11-22T07:00:00Z")])
def test_v1_a_log_says_its_window(ledger: Ledger, since: str, told: str) -> None:
    assert KernelLog(ledger)._asked_for(since) == told


@pytest.mark.parametrize(("name", "window"), [("imaging", "imaging"), ("validating", "boot")])
def test_v2_a_log_claims_the_time_since_an_imaging_where_one_is_known(ledger: Ledger, name: str, window: str) -> None:
    action = KernelLog(ledger)
    ledger.append("run", [(action.node, Event("state", name, {}))])
    sent = action.prepare({"profile": made.profile()})
    assert action.asked(sent, NOTHING) == {"window": window}
    assert (sent["since"] == "boot") is (window == "boot")


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
