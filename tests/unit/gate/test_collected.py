# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict that comes out of a file on a node is believed only where it fits in all its parts."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collected import dated, problem_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import FROM_START, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    PASS,
    digest,
    inconclusive,
    now_utc,
)
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

#: When the job of a test began; a test that runs minutes after the file was read has a job of its own time.
STARTED = now_utc()
PROFILE = {"sku": "test-sku", "digest": digest(b"profile")}
BOOT = "3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51"


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.STARTED", now_utc())


def passing() -> dict[str, Any]:
    return made.claimed(profile=PROFILE, started=STARTED)


def test_what_a_gate_writes_fits() -> None:
    assert passing()["verdict"] == PASS
    for verdict in (passing(), inconclusive("dcgm_gate", "no dcgmi", id="missing", profile=PROFILE)):
        assert problem_of(json.loads(json.dumps(verdict)), gate="dcgm_gate", profile=PROFILE) == ""


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a key is missing": (lambda verdict: verdict.pop("evidence_digest"), "evidence_digest"),
    "a key too many": (lambda verdict: verdict.update(forged=1), "forged"),
    "another gate": (lambda verdict: verdict.update(gate="kernel_log_gate"), "kernel_log_gate"),
    "another profile": (lambda verdict: verdict.update(profile={"sku": "x", "digest": "sha256:0"}), "profile"),
    "a word": (lambda verdict: verdict.update(verdict="PASS"), "verdict"),
    "no cells": (lambda verdict: verdict.update(checks=[]), "inconclusive"),
    "a cell fails": (lambda verdict: verdict["checks"][0].update(verdict="fail"), "fail"),
    "a cell is open": (lambda verdict: verdict["checks"][0].update(verdict="inconclusive"), "inconclusive"),
    "half a cell": (lambda verdict: verdict["checks"][0].pop("entity"), "checks"),
    "a finding": (
        lambda verdict: verdict["findings"].append({"id": "x", "entity": "node", "text": "x", "remedy": "rma"}),
        "rma",
    ),
    "a remedy": (lambda verdict: verdict.update(remedy="rma"), "rma"),
    "a remedy that nobody knows": (lambda verdict: verdict.update(remedy="pray"), "remedy"),
    "no digest": (lambda verdict: verdict.update(evidence_digest="sha256:short"), "evidence_digest"),
    "backwards": (lambda verdict: verdict.update(ended="2026-11-01T09:00:00Z"), "before"),
    "no time": (lambda verdict: verdict.update(duration=-1.0), "duration"),
    "a time without an end": (lambda verdict: verdict.update(duration=float("inf")), "duration"),
    "a word for its time": (lambda verdict: verdict.update(duration="1 s"), "duration"),
    "too much of it": (
        lambda verdict: verdict.update(argv=["x" * 19_000] * 30),
        "larger than any verdict",
    ),
    "a cell with a mapping": (lambda verdict: verdict["checks"][0].update(measured={"a": {}}), "checks"),
    "a cell with half a character": (lambda verdict: verdict["checks"][0].update(measured="\ud800"), "checks"),
    "too long a list": (lambda verdict: verdict["checks"][0].update(measured=["x"] * 101), "checks"),
    "another schema": (lambda verdict: verdict.update(schema=2), "schema"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_does_not_fit_is_told(name: str) -> None:
    spoil, word = SPOILT[name]
    verdict = copy.deepcopy(passing())
    spoil(verdict)
    assert word in problem_of(verdict, gate="dcgm_gate", profile=PROFILE)


def test_c3_a_large_machine_on_which_everything_fails_is_read() -> None:
    verdict = passing()
    tests, gpus = [f"dcgm.test_{number}" for number in range(17)], [f"GPU {number}" for number in range(16)]
    row = {"measured": "fail: " + "e" * 300, "wanted": "pass", "unit": "", "source": "dcgmi diag", "verdict": "fail"}
    verdict["checks"] = [{**row, "id": test, "entity": gpu} for test in tests for gpu in gpus]
    finding = {"text": "GPU 16: " + "w" * 200, "remedy": "rma"}
    verdict["findings"] = [{**finding, "id": f"dcgm:{at}", "entity": gpu} for at in range(32) for gpu in gpus]
    assert problem_of({**verdict, "verdict": "fail", "remedy": "rma"}, gate="dcgm_gate", profile=PROFILE) == ""


def test_times_that_cannot_be_take_a_pass_away_and_no_failure() -> None:
    broken = {**made.claimed("fail", profile=PROFILE, started=STARTED), "ended": "2026-11-01T09:00:00Z"}
    assert problem_of(broken, gate="dcgm_gate", profile=PROFILE) == ""
    told = dated(broken)
    assert (told["verdict"], told["remedy"]) == ("fail", broken["remedy"])
    assert told["findings"][:-1] == broken["findings"] and "ended before it began" in told["findings"][-1]["text"]


@pytest.mark.parametrize("verdict", [None, [], "pass", 1])
def test_what_is_no_mapping_is_no_verdict(verdict: Any) -> None:
    assert problem_of(verdict, gate="dcgm_gate", profile=PROFILE)


def node(host: str) -> dict[str, Any]:
    places = {"state_dir": "/run/gpufleet", "boot_id_path": "/boot_id", "started": STARTED}
    about = {"gate": "dcgm_gate", "job": f"j-{host}", "boot_id": BOOT, "pid": 7, "pid_start": 99, "limit": 60.0}
    assert set(FROM_START) == {*places, *about, "profile", "question"}
    return {"host": host, **places, **about, "profile": PROFILE, "question": made.asked()}


def shown(host: str, *, boot: str = BOOT, state: str = "S", start: int = 99, **answer: Any) -> str:
    mark = "gpufleet-look\n"
    stat = f"7 (py) {state} " + " ".join(["0"] * 18) + f" {start} 0"
    whole = {"schema": 1, "gate": "dcgm_gate", "job": f"j-{host}", "boot_id": BOOT, "verdict": passing(), **answer}
    text = json.dumps(whole) if answer or start == 0 else ""
    return f"{mark}{boot}\n{now_utc()}\n{mark}{stat}\n{mark}{text}\n{mark}"


def watched(texts: dict[str, tuple[str, str]], **options: Any) -> dict[str, Any]:
    params = {
        "gate": "dcgm_gate",
        "timeout": 0,
        "interval": 0.01,
        "grace": 0,
        "lacking": lacking,
        "own": own,
        "asked_of": asked,
        "look": lambda nodes: texts,
        **options,
    }
    params["nodes"] = [node(host) for host in texts]
    result = gate_wait(params, Context())
    assert {event.node: event.data["verdict"] for event in result.events} == {
        host: verdict["verdict"] for host, verdict in result.data["verdicts"].items()
    }
    found: dict[str, Any] = result.data["verdicts"]
    return found


def test_each_node_is_judged_by_what_it_showed() -> None:
    found = watched(
        {
            "passed": (shown("passed", start=0), ""),
            "runs": (shown("runs"), ""),
            "zombie": (shown("zombie", state="Z"), ""),
            "number reused": (shown("number reused", start=100), ""),
            "rebooted": (shown("rebooted", boot="another", start=0), ""),
            "other job": (shown("other job", job="j-another"), ""),
            "other boot": (shown("other boot", boot_id="another"), ""),
            "silent": ("", "connection refused"),
            "cut": ("gpufleet-look\n", ""),
        }
    )
    ids = {host: [row["id"] for row in verdict["findings"]] for host, verdict in found.items()}
    assert ids == {
        "passed": [],
        "runs": ["late"],
        "zombie": ["died"],
        "number reused": ["died"],
        "rebooted": ["rebooted"],
        "other job": ["unreadable"],
        "other boot": ["unreadable"],
        "silent": ["unreachable"],
        "cut": ["unreachable"],
    }
    assert [host for host, verdict in found.items() if verdict["ok"]] == ["passed"]


def test_a_node_without_a_job_is_not_asked() -> None:
    looks: list[Any] = []
    params = {
        "gate": "dcgm_gate",
        "timeout": None,
        "interval": 1,
        "grace": 5,
        "lacking": lacking,
        "own": own,
        "asked_of": asked,
        "look": lambda nodes: looks.append(1),
    }
    params["nodes"] = [{"host": "a"}, {**node("b"), "gate": "another"}, {**node("c"), "refused": "not ours"}]
    result = gate_wait(params, Context())
    assert looks == []
    verdicts = result.data["verdicts"]
    assert [verdicts[host]["verdict"] for host in "abc"] == ["inconclusive", "inconclusive", ""]
    assert [event.node for event in result.events] == ["a", "b"], "what belongs to another run is not written to"
