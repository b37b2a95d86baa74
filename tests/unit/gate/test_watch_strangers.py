# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one node's word can do to the wait for a batch: close that node, and nothing else."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import asked, lacking, own, question
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import command, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import digest, iso
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

PROFILE = {"sku": "test-sku", "digest": digest(b"profile")}
BOOT = "3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51"
#: The time of a test, for all that it dates; it may run long after its file was read.
NOW = 0.0


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.NOW", time.time())


def ago(seconds: float) -> str:
    return iso(NOW - seconds)


def passing() -> dict[str, Any]:
    return {**made.claimed(profile=PROFILE, started=ago(600)), "ended": ago(60)}


def node(host: str, **more: Any) -> dict[str, Any]:
    return {
        "host": host, "gate": "dcgm_gate", "job": "job-1", "boot_id": BOOT, "pid": 7, "pid_start": 99, "limit": 900.0,
        "started": ago(600), "profile": PROFILE, "question": made.asked(), "state_dir": "/run/gpufleet",
        "boot_id_path": "/boot_id", **more,
    }  # fmt: skip


def shown(text: str, clock: str = "") -> tuple[str, str]:
    mark = "gpufleet-look\n"
    stat = "7 (py) S " + " ".join(["0"] * 18) + " 99 0"
    return f"{mark}{BOOT}\n{clock or ago(0)}\n{mark}{stat}\n{mark}{text}\n{mark}", ""


def file_of(verdict: Any) -> str:
    return json.dumps({"schema": 1, "gate": "dcgm_gate", "job": "job-1", "boot_id": BOOT, "verdict": verdict})


def wait(*nodes: dict[str, Any], answers: dict[str, tuple[str, str]], timeout: Optional[float] = 0) -> dict[str, Any]:
    def look(waiting: Any) -> dict[str, tuple[str, str]]:
        assert all(command(one) for one in waiting)
        return {one["host"]: answers[one["host"]] for one in waiting}

    params = {"gate": "dcgm_gate", "timeout": timeout, "interval": 0.01, "grace": 5, "look": look, "nodes": list(nodes)}
    params["lacking"], params["asked_of"], params["own"] = lacking, asked, own
    found: dict[str, Any] = gate_wait(params, Context()).data["verdicts"]
    return found


def one(verdict: Any, clock: str = "", **more: Any) -> dict[str, Any]:
    """What becomes of a node with this file, beside a healthy one."""
    text = verdict if isinstance(verdict, str) else file_of(verdict)
    found = wait(
        node("bad", **more), node("good"), answers={"bad": shown(text, clock), "good": shown(file_of(passing()))}
    )
    assert found["good"]["ok"], found["good"]
    bad: dict[str, Any] = found["bad"]
    return bad


def test_v3_a_pass_that_fills_the_grid_is_taken() -> None:
    assert one(passing())["ok"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _text: "[" * 100_000,
        lambda _text: '{"verdict": ' + "[" * 5000 + "]" * 5000 + "}",
        lambda text: text.replace('"measured": "2330"', '"measured": ' + "[" * 500 + "]" * 500),
        lambda text: text.replace('"measured": "2330"', '"measured": NaN'),
        lambda text: text.replace('"measured": "2330"', '"measured": 1e400'),
        lambda text: text.replace('"measured": "2330"', '"measured": "\\ud800"'),
        lambda text: text.replace('"measured": "2330"', '"measured": "\\u0000"'),
        lambda text: text.replace('"measured": "2330"', '"measured": ' + "9" * 5000),
        lambda text: text.replace('"measured": "2330"', '"measured": "' + "x" * 30_000 + '"'),
        lambda text: text.replace('"verdict": "pass"', '"verdict": "fail", "verdict": "pass"', 1),
        lambda _text: file_of({**passing(), "argv": ["x" * 19_000] * 30}),
    ],
    ids=[
        "deep",
        "deep list",
        "deep cell",
        "nan",
        "infinite",
        "half a character",
        "nul",
        "long number",
        "long",
        "twice",
        "large",
    ],
)
def test_v3_a_file_of_one_node_closes_that_node_alone(spoil: Callable[[str], str]) -> None:
    bad = one(spoil(file_of(passing())))
    assert (bad["verdict"], bad["findings"][0]["id"]) == ("inconclusive", "unreadable")


@pytest.mark.parametrize(
    ("key", "value"),
    [("pid", "x"), ("pid", -1), ("pid", True), ("pid", 1.5), ("pid", [7]), ("pid_start", "x"), ("pid_start", {"a": 1})]
    + [("limit", "x"), ("limit", float("inf")), ("limit", -1), ("limit", 1e9), ("started", "today"), ("job", ["a"])]
    + [("job", "a\nb"), ("state_dir", {"a": 1}), ("boot_id", 5), ("profile", "x"), ("question", "x")],
)
def test_v3_what_one_node_told_of_its_job_closes_that_node_alone(key: str, value: Any) -> None:
    bad = one(passing(), **{key: value})
    assert (bad["verdict"], bad["findings"][0]["id"]) == ("inconclusive", "unreadable")


def _renamed(verdict: dict[str, Any], old: str, new: str) -> None:
    for row in verdict["checks"]:
        row["entity"] = new if row["entity"] == old else row["entity"]


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "one cell": (lambda verdict: verdict.update(checks=verdict["checks"][:1]), "0 GPUs"),
    "a cell is gone": (lambda verdict: verdict["checks"].pop(), "required cells"),
    "a test is gone": (
        lambda verdict: verdict.update(checks=[row for row in verdict["checks"] if "memory" not in row["id"]]),
        "dcgm.memory",
    ),
    "a GPU is gone": (
        lambda verdict: verdict.update(checks=[row for row in verdict["checks"] if row["entity"] != "GPU 7"]),
        "7 GPUs",
    ),
    "another GPU": (
        lambda verdict: [row.update(measured="20b2") for row in verdict["checks"] if row["id"] == "device_id"],
        "20b2",
    ),
    "another count": (
        lambda verdict: [row.update(measured=9) for row in verdict["checks"] if row["id"] == "gpu_count"],
        "number of GPUs",
    ),
    "another end": (
        lambda verdict: [row.update(measured=226) for row in verdict["checks"] if row["id"] == "exit_status"],
        "end of the tool",
    ),
    "dated 2001": (
        lambda verdict: verdict.update(started="2001-01-01T00:00:00Z", ended="2001-01-01T00:10:00Z"),
        "2001-01-01",
    ),
    "of tomorrow": (lambda verdict: verdict.update(ended=ago(-3600)), "its job"),
    "a GPU of no number": (lambda verdict: _renamed(verdict, "GPU 7", "GPU \u00b2"), "7 GPUs"),
    "a GPU of another script": (lambda verdict: _renamed(verdict, "GPU 7", "GPU \u0667"), "7 GPUs"),
    "a GPU of 5000 digits": (lambda verdict: _renamed(verdict, "GPU 7", "GPU " + "7" * 5000), "7 GPUs"),
    "one GPU by eight names": (
        lambda verdict: verdict.update(
            checks=[row for row in verdict["checks"] if row["entity"] in ("node", "GPU 0")]
            + [
                {**row, "entity": "GPU 0" + "0" * at}
                for row in verdict["checks"]
                for at in range(1, 8)
                if (row["id"], row["entity"]) == ("device_id", "GPU 0")
            ]
        ),
        "1 GPUs",
    ),
    "a key of 3 MB": (lambda verdict: verdict.update({"k" * 3_000_000: 1}), "keys missing or unknown"),
    "no such day": (lambda verdict: verdict.update(ended="2026-13-41T00:00:00Z"), "ended"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_v3_a_pass_is_held_against_the_grid_and_the_times_of_its_job(name: str) -> None:
    spoil, words = SPOILT[name]
    verdict = copy.deepcopy(passing())
    spoil(verdict)
    bad = one(verdict)
    assert (bad["verdict"], bad["findings"][0]["id"]) == ("inconclusive", "unreadable")
    assert words in bad["reason"] and len(bad["reason"]) < 1000


@pytest.mark.parametrize("broken", ["lacking", "asked_of"])
def test_v3_whatever_breaks_over_one_node_leaves_the_others_their_verdicts(broken: str) -> None:
    """What a node told is read by the gate's own rules; one that nobody thought of stops no batch."""

    def breaks(*given: Any) -> Any:
        if any("bad" in one for one in given):
            raise RecursionError("deep " * 1000)
        return lacking(*given) if broken == "lacking" else asked(*given)

    answers = dict.fromkeys(("bad", "good"), shown(file_of(passing())))
    nodes = [node("bad", question={**made.asked(), "bad": 1}), node("good")]
    given = {"gate": "dcgm_gate", "timeout": 0, "interval": 0.01, "grace": 5, "look": lambda _nodes: answers}
    result = gate_wait(
        {**given, "lacking": lacking, "asked_of": asked, "own": own, broken: breaks, "nodes": nodes}, Context()
    )
    events = {event.node: event.data for event in result.events}
    assert events["good"]["verdict"] == "pass" and events["good"]["asked"]["level"] == 2
    assert len(result.data["verdicts"]["bad"]["reason"]) < 1000
    if broken == "lacking":
        assert events["bad"]["findings"][0]["id"] == "unreadable" and "RecursionError" in str(events["bad"])
    else:
        assert events["bad"]["asked"] == {}, "which answers no failure"


def test_v3_a_pass_of_a_weaker_question_is_none() -> None:
    assert one(passing(), question=made.asked(level=3))["findings"][0]["id"] == "unreadable"
    assert one(passing(), question=question(made.profile(), 1, ["diagnostic"]))["findings"][0]["id"] == "unreadable"
    assert one(passing(), question={"level": 2})["findings"][0]["id"] == "unreadable"


def test_v3_a_job_that_ended_long_ago_says_little_of_now() -> None:
    old = {**passing(), "started": ago(83_400), "ended": ago(82_800)}
    bad = one(old, started=ago(83_400))
    assert bad["verdict"] == "inconclusive" and "minutes ago" in bad["reason"]
    long = {**passing(), "started": ago(7200), "ended": ago(60)}
    assert one(long, started=ago(7200))["verdict"] == "inconclusive", "longer than its limit"
    assert one(passing(), clock="yesterday")["verdict"] == "inconclusive"
    assert one(passing(), clock=ago(300))["verdict"] == "inconclusive", "by the node's own clock it is to come"


@pytest.mark.parametrize("times", [{"ended": -10_800}, {"started": 10_800, "ended": 10_500}])
def test_v3_a_failure_stands_whatever_its_nodes_clock_says(times: dict[str, float]) -> None:
    """It was told as unreadable, a node to be tried again."""
    broken = {**made.claimed("fail", profile=PROFILE, started=ago(600)), "ended": ago(60)}
    wrong = {key: ago(seconds) for key, seconds in times.items()}
    bad = one({**broken, **wrong})
    assert (bad["verdict"], bad["remedy"]) == ("fail", broken["remedy"])
    assert bad["findings"][-1]["id"] == "clock" and "its job of" in bad["findings"][-1]["text"]
    assert one({**passing(), **wrong})["verdict"] == "inconclusive"


def test_v3_a_failure_needs_no_full_grid() -> None:
    failing = {**made.claimed("fail", profile=PROFILE, started=ago(600)), "ended": ago(60)}
    failing["checks"] = [row for row in failing["checks"] if row["verdict"] == "fail"]
    assert one(failing)["verdict"] == "fail"


@pytest.mark.parametrize("version", ["", "unknown", "3.3.9"])
def test_v3_a_version_that_nobody_can_read_is_held_to_every_test(version: str) -> None:
    verdict = passing()
    verdict["tool"]["version"] = version
    assert bool(lacking(verdict, made.asked())) == (version == "3.3.9"), "3.x has no test called software"


def test_v1_a_pass_that_was_waited_for_claims_what_it_answered() -> None:
    """The node's DCGM is too old for one of the tests of the level."""
    newer = made.profile()
    newer["dcgm"]["tests"][2]["since"] = "4.7"
    verdict = passing()
    verdict["checks"] = [row for row in verdict["checks"] if "pcie" not in row["id"]]
    answers = {"old": shown(file_of(verdict))}
    params = {"gate": "dcgm_gate", "timeout": 0, "interval": 0.01, "grace": 5, "look": lambda _nodes: answers}
    given = {**params, "nodes": [node("old", question=question(newer, 2, []))], "lacking": lacking, "asked_of": asked}
    given["own"] = own
    [event] = gate_wait(given, Context()).events
    assert event.data["verdict"] == "pass" and event.data["asked"]["tests"] == ["memory", "software"]


def test_s6_of_a_pass_that_was_waited_for_the_cells_that_were_asked_for_are_kept() -> None:
    verdict = passing()
    more = {"id": "attestation", "entity": "node", "measured": "mine", "wanted": "mine", "unit": "", "source": "mine"}
    verdict["checks"].append({**more, "verdict": "pass"})
    verdict["findings"].append({"id": "mine", "entity": "node", "text": "mine", "remedy": "none"})
    given = {"gate": "dcgm_gate", "timeout": 0, "interval": 0.01, "grace": 5, "nodes": [node("one")]}
    given.update(lacking=lacking, asked_of=asked, own=own, look=lambda _nodes: {"one": shown(file_of(verdict))})
    [event] = gate_wait(given, Context()).events
    assert event.data["verdict"] == "pass" and "mine" not in json.dumps(event.data)
    assert len(event.data["checks"]) == len(passing()["checks"])
    verdict["tool"]["name"] = "mine"
    bad = one(verdict)
    assert (bad["verdict"], bad["findings"][0]["id"]) == ("inconclusive", "unreadable")
