# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands beside a node's verdict, however deep or long it is, takes neither the verdict nor the remedy away."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction, reference
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import redact_known
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

PROFILE = made.profile()
DEEP: Any = json.loads("[" * 700 + "]" * 700)
FAILED = {
    **made.claimed("fail", profile=reference(PROFILE)),
    "findings": [{"id": "dcgm:80", "entity": "GPU 3", "text": "row remap failure", "remedy": "rma"}],
    "remedy": "rma",
    "failed": True,
}


def run(folder: Path, answer: dict[str, Any], base: type[GateAction] = dcgm_gate.ActionModule, **args: Any) -> Any:
    with_answer = {"_execute_module": lambda _self, **_options: dict(answer)}
    given = {"profile": PROFILE, "level": 1, "dmi_path": made.dmi(folder, "GF0001"), **args}
    door = Door(
        folder, lambda params, ctx: Result(), base=type("Node", (base,), with_answer), name=base.NAME,
        own_spec=base.SPEC, args={key: value for key, value in given.items() if value is not None},
    )  # fmt: skip
    return door.run()


@pytest.mark.parametrize("beside", [{"gpus": DEEP}, {"evidence_path": DEEP}, {"gpus": [{"gpu": DEEP}]}])
def test_s5_a_failure_is_told_whatever_stands_beside_it(tmp_path: Path, beside: dict[str, Any]) -> None:
    found = run(tmp_path, {**FAILED, **beside})
    assert found["failed"] and (found["verdict"], found["remedy"]) == ("fail", "rma"), found
    assert not set(beside) & set(found)
    assert json.loads(recorded(tmp_path))["remedy"] == "rma"


def recorded(folder: Path) -> str:
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        [(data,)] = ledger.execute("SELECT data FROM events WHERE kind = 'verdict'")
    return str(data)


def test_s5_what_a_gate_says_beside_its_verdict_is_kept(tmp_path: Path) -> None:
    gpus = [{"gpu": number, "device_id": "2330", "serial": ""} for number in range(16)]
    found = run(tmp_path, {**FAILED, "gpus": gpus, "evidence_path": "/var/log/x", "asked": ["run dcgmi", DEEP]})
    assert (found["gpus"], found["evidence_path"], found["asked"]) == (gpus, "/var/log/x", ["run dcgmi"])


@pytest.mark.parametrize("key", ["rc", "msg", "exception", "module_stdout", "module_stderr", "error"])
def test_s5_a_crash_is_a_verdict_whatever_is_told_of_it(tmp_path: Path, key: str) -> None:
    told = {"msg": "killed", "rc": 137, "module_stderr": "x" * 100_000, "failed": True}
    deep = {"what": "an option", "seen": DEEP} if key == "error" else DEEP
    found = run(tmp_path, {**told, key: deep})
    assert found["failed"] and found["verdict"] == "inconclusive", found
    assert [one["id"] for one in found["findings"]] == ["crashed"]
    assert key not in ("rc", "exception", "module_stdout", "module_stderr") or key not in found
    assert key == "rc" or found["rc"] == 137
    assert len(json.dumps(found)) < 30_000
    assert (found.get("error") == {"what": "an option", "node": "gpu001"}) is (key == "error"), found.get("error")


def test_s7_an_answer_that_is_refused_is_not_shown_whole(tmp_path: Path) -> None:
    event = {"kind": "A" * 3_000_000, "name": "x", "node": "", "data": {}}
    found = run(tmp_path, {"changed": False, "events": [event]})
    assert [one["id"] for one in found["findings"]] == ["forged"] and "AAA" in found["msg"]
    assert len(found["findings"][0]["text"]) <= 300
    assert len(json.dumps(found)) < 5_000 and len(recorded(tmp_path)) < 5_000


def test_s5_of_a_started_job_nothing_is_kept_that_nobody_reads(tmp_path: Path) -> None:
    answer = {"job": "j1", "joined": False, "pid": 7, "pid_start": DEEP, "boot_id": "b", "more": DEEP, "changed": False}
    found = run(tmp_path, answer, detached=True, job="j1", force_reason="a test")
    assert not found.get("failed") and (found["pid"], found["boot_id"], found["joined"]) == (7, "b", False), found
    assert not {"pid_start", "more"} & set(found)


def test_s5_a_result_that_nests_too_deep_leaves_without_its_depths() -> None:
    """Whoever answered it: a recursion without an end in the last step would take the whole result away."""
    found = redact_known({"verdict": "fail", "image": {"name": DEEP}, "rows": [{"id": "x", "seen": [1]}]}, frozenset())
    assert (found["verdict"], found["rows"]) == ("fail", [{"id": "x", "seen": [1]}])
    assert json.dumps(found["image"]).count("[") == 58 and "nested too deep" in json.dumps(found)
