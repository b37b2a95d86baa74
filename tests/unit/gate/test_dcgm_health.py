# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DCGM's health watches beside its diagnostic: set, waited for, read, judged, and left as they were found."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm import claimed, health
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE, Sheet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

NOT_SET = "Error: Health watches not enabled. Please enable watches. \n"
DOWN = "GPU 4's NvLink link 7 is currently down Run a field diagnostic on the GPU."


def document(overall: str = "Healthy", *incidents: tuple[str, str, str, str, str]) -> dict[str, Any]:
    """As dcgmi prints it. incidents: group, number, system, word, text."""
    body: dict[str, Any] = {"Overall Health": {"value": overall}}
    for group, number, system, word, text in incidents:
        entities = body.setdefault(group, {"children": {}})["children"]
        entity = entities.setdefault(number, {"children": {"Errors": {"children": {}}}, "value": word})
        entity["children"]["Errors"]["children"][system] = {"overflow": [text], "value": word}
    return {"body": body, "header": ["Health Monitor Report"]}


def switched(*off: str) -> str:
    """As dcgmi prints which systems are watched; SM and the driver never are by ``-s a``."""
    names = ("PCIe", "NVLINK", "Memory", "SM", "InfoROM", "Thermal", "Power", "Driver")
    body = {name: {"value": "Off" if name in (*off, "SM", "Driver") else "On"} for name in names}
    return "Health monitor systems report\n" + json.dumps({"body": body, "header": []})


FAILING = document("Failure", ("GPU", "4", "NVLINK system", "Failure", DOWN))


def judged(text: str, *, rc: int = 0, ended: str = "exit", watched: Optional[float] = 61.0) -> Sheet:
    sheet = Sheet()
    sheet.require(health.CELL, NODE)
    health.judge(sheet, Run(("dcgmi", "health", "-c", "-j"), rc, text.encode(), b"", ended, 0.1), watched)
    return sheet


def test_healthy_is_a_pass_and_words_before_the_document_are_none() -> None:
    assert judged(json.dumps(document())).verdict == "pass"
    assert judged("WARNING: an engine was started\n" + json.dumps(document(), indent=1) + "\n").verdict == "pass"


@pytest.mark.parametrize(
    ("found", "verdict", "finding", "remedy"),
    [
        (FAILING, "fail", "health:nvlink_system", "reboot"),
        (document("Failure", ("GPU", "0", "Memory system", "Failure", "Row remap failure")), "fail",
         "health:memory_system", "rma"),
        (document("Failure", ("NvSwitch", "1", "Internal error", "Failure", "x")), "fail", "health:internal_error",
         "field_diag"),
        (document("Warning", ("GPU", "0", "PCIe system", "Warning", "replays")), "inconclusive", "health:pcie_system",
         "retest"),
        (document("Healthy", ("GPU", "0", "Memory system", "Failure", "a word against the other")), "fail",
         "health:memory_system", "field_diag"),
        (document("Failure"), "fail", "health", "field_diag"),
        (document("Splendid"), "inconclusive", "health", "retest"),
        ({"body": {"GPU": {}}, "header": []}, "inconclusive", "health", "retest"),
    ],
)  # fmt: skip
def test_what_the_watches_say(found: dict[str, Any], verdict: str, finding: str, remedy: str) -> None:
    sheet = judged(json.dumps(found))
    assert (sheet.verdict, sheet.findings[0].id, sheet.findings[0].remedy) == (verdict, finding, remedy)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"text": NOT_SET, "rc": 253}, "not set"),
        ({"text": NOT_SET}, "not set"),
        ({"watched": None}, "not set"),
        ({"watched": 59.0}, "set for 59 s"),
        ({"rc": 1}, "ended with 1"),
        ({"rc": -9, "ended": "timeout"}, "ended with timeout"),
        ({"text": ""}, "printed no document"),
        ({"text": json.dumps(document())[:-3]}, "cut off"),
        ({"text": json.dumps(document()) * 2}, "no valid JSON"),
        ({"text": '{"body": {"Overall Health": {"value": "Failure", "value": "Healthy"}}}'}, "no valid JSON"),
    ],
)
def test_what_is_no_answer_is_no_pass(how: dict[str, Any], words: str) -> None:
    sheet = judged(how.pop("text", json.dumps(document())), **how)
    assert sheet.verdict == "inconclusive" and words in sheet.findings[0].text


def test_a_failure_stands_however_the_tool_ended_and_however_short_it_watched() -> None:
    for how in ({"rc": 1}, {"watched": 1.0}, {"watched": None}, {"rc": -9, "ended": "timeout"}):
        assert judged(json.dumps(FAILING), **how).verdict == "fail"  # type: ignore[arg-type]


def _mutated(value: Any, dice: random.Random) -> Any:
    """Something of a document dropped, doubled, or put in another order."""
    if isinstance(value, dict) and value:
        keys = list(value)
        what = dice.choice(["drop", "into", "into", "into", "order"])
        if what == "drop":
            keys.remove(dice.choice(keys))
        elif what == "order":
            dice.shuffle(keys)
        else:
            key = dice.choice(keys)
            return {**value, key: _mutated(value[key], dice)}
        return {key: value[key] for key in keys}
    if isinstance(value, list):
        return dice.choice([[], value * 2])
    return value


@given(seed=st.integers(0, 10**6), times=st.integers(1, 4), cut=st.integers(0, 200))
@settings(max_examples=at_most(100))
def test_no_mutation_of_a_failing_document_is_a_pass(seed: int, times: int, cut: int) -> None:
    dice, found = random.Random(seed), copy.deepcopy(FAILING)
    for _time in range(times):
        found = _mutated(found, dice)
    text = json.dumps(found)
    assert judged(text).verdict != "pass"
    assert judged(text[: len(text) - cut]).verdict != "pass"


class Engine:
    """A host engine with watches, and the dcgmi that asks it."""

    def __init__(
        self, folder: Path, says: Any, *, is_set: bool = False, refuses: bool = False, fetch: str = ""
    ) -> None:
        self.folder = folder
        (folder / "says").write_text(says if isinstance(says, str) else json.dumps(says), encoding="utf-8")
        (folder / "not_set").write_text(NOT_SET, encoding="utf-8")
        (folder / "fetched").write_text(fetch or switched(), encoding="utf-8")
        if is_set:
            (folder / "set").touch()
        setting = "exit 239" if refuses else f"touch {folder}/set; exit 0"
        body = (
            f'if [ "$1" = health ]; then case "$2" in\n'
            f"-s) {setting};;\n--clear) rm -f {folder}/set; exit 0;;\n"
            f"-f) cat {folder}/fetched; exit 0;;\n"
            f"*) if [ -e {folder}/set ]; then cat {folder}/says; exit 0; fi; cat {folder}/not_set; exit 253;; esac; fi"
        )
        self.dcgmi = made.dcgmi(folder, made.text(made.dcgm4()), body=body)

    def gate(self, **options: Any) -> dict[str, Any]:
        params = {"profile": made.profile(), "level": 2, "health": True, "dcgmi": self.dcgmi}
        return dcgm_gate({**params, "pci_path": made.pci(self.folder), **options}, Context()).data

    def calls(self) -> list[str]:
        lines = (self.folder / "dcgmi.calls").read_text(encoding="utf-8").splitlines()
        return [line.removeprefix("health ") for line in lines if line.startswith("health")]


@pytest.fixture
def a_short_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SECONDS", 0.2)


@pytest.mark.usefixtures("a_short_minute")
def test_watches_that_nobody_set_are_set_before_the_diagnostic_and_cleared_after_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path, document())
    found = engine.gate()
    assert found["verdict"] == "pass", found["findings"]
    assert engine.calls() == ["-c -j", "-s a", "-f -j", "-f -j", "-c -j", "--clear"] and not (tmp_path / "set").exists()
    assert found["duration"] >= 0.2, "they say nothing before"


@pytest.mark.usefixtures("a_short_minute")
def test_a_dcgmi_of_another_release_is_no_doubt_where_the_watches_are_asked_as_well(tmp_path: Path) -> None:
    engine = Engine(tmp_path, document())
    script = Path(engine.dcgmi).read_text(encoding="utf-8").replace("version: 4.6.0", "version: 4.4.2")
    engine.dcgmi = made.program(tmp_path / "dcgmi", script)
    found = engine.gate()
    assert found["verdict"] == "pass" and "dcgmi is of 4.4.2" in found["msg"], found["msg"]


@pytest.mark.usefixtures("a_short_minute")
def test_watches_of_others_stay_as_they_are(tmp_path: Path) -> None:
    engine = Engine(tmp_path, document(), is_set=True)
    assert engine.gate()["verdict"] == "pass"
    assert engine.calls() == ["-c -j", "-f -j", "-f -j", "-c -j"] and (tmp_path / "set").exists()


@pytest.mark.usefixtures("a_short_minute")
@pytest.mark.parametrize(
    ("fetch", "told"),
    [
        (switched("NVLINK", "Memory", "InfoROM", "Thermal", "Power"), "InfoROM, Memory, NVLINK, Power, Thermal"),
        (switched("Memory"), "Memory"),
        (switched().replace('"PCIe"', '"PCI"'), "PCIe"),
        (switched()[:-9], "it does not say"),
        ("Error: Unable to get health watches. Return: Timeout", "it does not say"),
        ('{"body": {}, "header": []}', "PCIe, Power"),
    ],
    ids=["of PCIe alone", "but one", "another name", "cut", "no document", "nothing"],
)
def test_of_what_a_monitor_set_in_part_nothing_passes(tmp_path: Path, fetch: str, told: str) -> None:
    found = Engine(tmp_path, document(), is_set=True, fetch=fetch).gate()
    assert (found["verdict"], found["remedy"]) == ("inconclusive", "remediate_config")
    assert told in found["findings"][0]["text"] and (tmp_path / "set").exists(), "it stays the monitor's"


def test_a_failure_is_one_whatever_is_not_watched() -> None:
    sheet = Sheet()
    sheet.require(health.CELL, NODE)
    health.judge(sheet, Run((), 0, json.dumps(FAILING).encode(), b"", "exit", 0.1), 61.0, ["Memory"])
    assert sheet.verdict == "fail"


@pytest.mark.usefixtures("a_short_minute")
def test_what_they_find_fails_a_node_whose_tests_pass(tmp_path: Path) -> None:
    found = Engine(tmp_path, FAILING).gate()
    assert (found["verdict"], found["remedy"]) == ("fail", "reboot")
    assert found["findings"][0]["entity"] == "GPU 4" and not (tmp_path / "set").exists()


@pytest.mark.usefixtures("a_short_minute")
def test_where_they_cannot_be_set_nothing_passes(tmp_path: Path) -> None:
    found = Engine(tmp_path, document(), refuses=True).gate()
    assert (found["verdict"], found["remedy"]) == ("inconclusive", "remediate_config")


def test_in_check_mode_nothing_is_set_and_a_gate_that_is_not_asked_asks_nothing(tmp_path: Path) -> None:
    engine = Engine(tmp_path, document())
    assert engine.gate(health=False)["verdict"] == "pass" and engine.calls() == []
    params = {"profile": made.profile(), "level": 1, "health": True, "dcgmi": engine.dcgmi}
    assert dcgm_gate(params, Context(check_mode=True)).data["findings"][0]["id"] == "check_mode"
    assert engine.calls() == []


@pytest.mark.usefixtures("a_short_minute")
def test_a_claimed_pass_must_have_them_and_without_them_answers_no_such_question(tmp_path: Path) -> None:
    asked = claimed.question(made.profile(), 2, [], watched=True)
    found = Engine(tmp_path, document()).gate()
    assert claimed.lacking(found, asked) == "" and claimed.asked(asked, found)["tests"] == [
        "health",
        "memory",
        "pcie",
        "software",
    ]
    assert (health.CELL, NODE) in claimed.own(found, asked).cells
    without = {**found, "checks": [row for row in found["checks"] if row["id"] != health.CELL]}
    assert "health watches" in claimed.lacking(without, asked)
    assert "health" not in claimed.asked(asked, without)["tests"]
    assert claimed.lacking(without, claimed.question(made.profile(), 2, [])) == ""
    other = {**found, "checks": [{**row, "measured": "x"} if row["id"] == "health" else row for row in found["checks"]]}
    assert claimed.lacking(other, asked)
