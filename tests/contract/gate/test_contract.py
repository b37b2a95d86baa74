# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One contract for every gate: what each must say, whatever it measures with.

A gate is described by a :class:`Case`: its verb, how to make a healthy node for it in a folder, and how to break that
node in each way that has fooled a gate somewhere.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import refusal
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.gate import case
from contract.gate.case import Case, Params
from contract.gate.cases import DCGM, GATES, HEALTHY, dcgm
from suite.skips import not_applicable

BREAKS = [pytest.param(gate, name, id=f"{gate.name}: {name}") for gate in GATES for name in gate.broken]


def run(gate: Case, params: Params, *, check_mode: bool = False) -> dict[str, Any]:
    ctx = Context(check_mode=check_mode)
    result = gate.verb(params, ctx).as_dict(ctx)
    well_formed(gate, result)
    return result


def well_formed(gate: Case, result: dict[str, Any]) -> None:
    """The one shape, and the same verdict in the event as in the result."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(made.VERDICT_SCHEMA.read_text(encoding="utf-8"))
    [event] = result["events"]
    assert (event["kind"], event["name"]) == ("verdict", gate.name)
    jsonschema.Draft202012Validator(schema).validate(event["data"])
    assert {key: result[key] for key in event["data"]} == event["data"]
    assert result["changed"] is False
    json.dumps(result)
    if result["verdict"] != "pass":
        assert result["findings"] and result["remedy"] != "none"


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_it_is_broken_in_each_way_that_every_gate_meets(gate: Case) -> None:
    assert sorted(case.LEAST - set(gate.broken)) == []


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_some_broken_node_fails(gate: Case) -> None:
    assert "fail" in {verdict for _make, verdict, _word in gate.broken.values()}, (
        "a gate that never fails finds nothing"
    )


@pytest.mark.parametrize("end", case.ENDS.values(), ids=list(case.ENDS))
@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_a_perfect_output_is_no_pass_whatever_ended_the_tool(gate: Case, end: str, tmp_path: Path) -> None:
    assert run(gate, gate.ending(tmp_path, ""))["verdict"] == "pass", "the tool behind a script is the same tool"
    assert run(gate, gate.ending(tmp_path, end))["verdict"] != "pass"


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("gate", [gate for gate in GATES if gate.counted], ids=lambda gate: gate.name)
def test_another_number_of_gpus_is_no_pass(gate: Case, more: int, tmp_path: Path) -> None:
    assert gate.counted is not None
    count = gate.healthy(tmp_path)["profile"]["gpu"]["count"]["value"]
    assert run(gate, gate.counted(tmp_path, count))["verdict"] == "pass"
    assert run(gate, gate.counted(tmp_path, count + more))["verdict"] != "pass"


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_a_healthy_node_passes(gate: Case, tmp_path: Path) -> None:
    result = run(gate, gate.healthy(tmp_path))
    assert (result["verdict"], result["remedy"]) == ("pass", "none"), result["msg"]
    assert all(check["verdict"] == "pass" for check in result["checks"])
    assert refusal(result, "inconclusive", check_mode=False) == ""


@pytest.mark.parametrize(("gate", "name"), BREAKS)
def test_no_broken_node_passes(gate: Case, name: str, tmp_path: Path) -> None:
    make, verdict, word = gate.broken[name]
    result = run(gate, make(tmp_path))
    assert result["verdict"] == verdict, result["msg"]
    assert word in result["msg"] + " ".join(finding["text"] for finding in result["findings"])
    assert refusal(result, "inconclusive", check_mode=False) == result["msg"]
    assert bool(refusal(result, "fail", check_mode=False)) == (verdict == "fail")
    assert refusal(result, "never", check_mode=False) == ""


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_a_gate_that_loads_a_node_runs_nothing_beside_another_one(gate: Case, tmp_path: Path) -> None:
    params = (gate.asked or gate.healthy)(tmp_path)
    if not run(gate, params)["asked"]:
        not_applicable("it loads nothing")
    place = params.get("pci_path") or os.path.join(params["sysfs_path"], "bus", "pci", "devices")
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    other = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        found = run(gate, {**params, gate.limit: 1})
        assert [one["id"] for one in found["findings"]][:1] == ["busy"] and found["verdict"] == "inconclusive"
    finally:
        os.close(other)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_a_profile_without_its_section_is_told_as_that_and_nothing_is_run(gate: Case, tmp_path: Path) -> None:
    params = (gate.asked or gate.healthy)(tmp_path)
    sections = [name for name in names.SECTIONS.get(gate.name, (gate.name.removesuffix("_gate"),)) if name != "gpu"]
    if not set(sections) & set(params["profile"]):
        not_applicable("it reads no section of its own")
    without = {name: part for name, part in params["profile"].items() if name not in sections}
    found = run(gate, {**params, "profile": without})
    assert [one["id"] for one in found["findings"]] == ["profile"] and found["asked"] == []
    assert any(f"no section {name}" in found["msg"] for name in sections)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_the_digest_of_evidence_follows_the_evidence(gate: Case, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    params = gate.healthy(tmp_path / "a")
    first, again = run(gate, params), run(gate, params)
    assert first["evidence_digest"] == again["evidence_digest"]
    other = {
        run(gate, make(tmp_path / "a"))["evidence_digest"]
        for make, _verdict, _word in list(gate.broken.values())[-6:-2]
    }
    assert first["evidence_digest"] not in other


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_the_raw_evidence_is_kept_on_demand_and_not_in_check_mode(gate: Case, tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    params = {**gate.healthy(tmp_path), "evidence_path": str(path)}
    run(gate, {**params, "level": 1}, check_mode=True)
    assert not path.exists()
    run(gate, params)
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text(encoding="utf-8"))["gate"] == gate.name


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
def test_v1_evidence_that_cannot_be_kept_takes_a_pass_away_and_no_failure(gate: Case, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    nowhere = {"evidence_path": "/nonexistent/folder/file"}
    passed = run(gate, {**gate.healthy(tmp_path / "good"), **nowhere})
    assert passed["verdict"] == "inconclusive" and passed["evidence_path"] == ""
    assert "evidence cannot be written" in str(passed["findings"])
    failures = [(word, make) for word, (make, verdict, _told) in gate.broken.items() if verdict == "fail"]
    assert failures
    for number, (word, make) in enumerate(failures):
        (tmp_path / str(number)).mkdir()
        assert run(gate, {**make(tmp_path / str(number)), **nowhere})["verdict"] == "fail", word


# -- what only DCGM can do -------------------------------------------------------------------------------------------


def calls(folder: Path) -> list[str]:
    return (folder / "dcgmi.calls").read_text(encoding="utf-8").splitlines()


def test_check_mode_loads_no_gpu(tmp_path: Path) -> None:
    params = DCGM.healthy(tmp_path)
    result = run(DCGM, params, check_mode=True)
    assert result["verdict"] == "inconclusive"
    assert refusal(result, "inconclusive", check_mode=True) == ""
    assert not (tmp_path / "dcgmi.calls").exists()
    assert run(DCGM, {**params, "level": 1}, check_mode=True)["asked"] == []
    assert "diag -r 1" in "\n".join(calls(tmp_path))


def test_a_stress_test_is_announced_as_destructive_and_a_look_is_not(tmp_path: Path) -> None:
    params = DCGM.healthy(tmp_path)
    assert len(run(DCGM, params)["asked"]) == 1
    assert run(DCGM, {**params, "level": 1})["asked"] == []
    assert run(DCGM, {**params, "level": 1, "tests": ["software"]})["asked"] == []
    assert len(run(DCGM, {**params, "level": 1, "tests": ["memory"]})["asked"]) == 1


def test_a_perfect_document_of_another_level_is_not_enough(tmp_path: Path) -> None:
    params = DCGM.healthy(tmp_path)
    assert run(DCGM, {**params, "level": 3})["verdict"] == "inconclusive"
    assert run(DCGM, {**params, "tests": ["memory", "nvbandwidth"]})["verdict"] == "inconclusive"


@pytest.mark.parametrize(("version", "expected"), [("2.4.7", "diag -r 2 -j"), ("3.3.9", "diag -r 2 -j -n gpu:8")])
def test_options_by_version(tmp_path: Path, version: str, expected: str) -> None:
    output = made.text(made.dcgm3())
    assert run(DCGM, dcgm(output, version=version)(tmp_path))["verdict"] == "pass"
    assert calls(tmp_path) == ["--version", expected, "discovery -l"]


def test_a_version_that_cannot_be_read_gets_no_options_and_must_show_everything(tmp_path: Path) -> None:
    assert run(DCGM, dcgm(made.text(HEALTHY), version="unknown")(tmp_path))["verdict"] == "pass"
    assert calls(tmp_path)[1] == "diag -r 2 -j"


def test_level_1_of_dcgm_2_counts_the_gpus_elsewhere(tmp_path: Path) -> None:
    make = dcgm(made.text(made.dcgm3(level=1)), level=1, version="2.4.7")
    assert run(DCGM, make(tmp_path))["verdict"] == "pass"
    assert calls(tmp_path)[-1] == "discovery -l"


def test_a_busy_dcgm_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.gpufleet.baremetal.plugins.module_utils import _verb, _wait

    def hasty(*args: Any, **kwargs: Any) -> Any:
        return _wait.wait_until(*args, **kwargs, pause=lambda seconds: None)

    monkeypatch.setattr(_verb, "wait_until", hasty)
    body = f"if [ ! -e {tmp_path}/freed ]; then touch {tmp_path}/freed; exit 217; fi"
    params = {**dcgm(made.text(HEALTHY), body=body)(tmp_path), "busy_timeout": 30, "timeout": 30}
    assert run(DCGM, params)["verdict"] == "pass"
    assert len(calls(tmp_path)) == 3


def test_one_bad_gpu_that_fails_all_is_found(tmp_path: Path) -> None:
    """DCGM#145: the group fails as a whole; asked alone, two do, and of one nobody knows."""
    group = HEALTHY
    for gpu in range(8):
        group = made.failing(group, "memory", gpu, made.fault(f"GPU {gpu} Detected faulty memory", 52))
    alone = made.dcgm4(["memory"])
    for gpu in range(8):
        document = made.failing(alone, "memory", gpu, made.fault("faulty", 52)) if gpu in (3, 6) else alone
        document = json.loads(made.text(document))
        [category] = document["DCGM Diagnostic"]["test_categories"]
        category["tests"][0]["results"] = [category["tests"][0]["results"][gpu]]
        (tmp_path / f"alone{gpu}").write_text(made.text(document), encoding="utf-8")
    body = (
        'for word in "$@"; do case $word in gpu:[0-7]) if [ "$last" = -i ]; then'
        f" cat {tmp_path}/alone${{word#gpu:}}; case $word in gpu:3) exit 205;; gpu:5) exit 1;; esac; exit 0; fi;;"
        " esac; last=$word; done"
    )
    params = {**dcgm(made.text(group), rc=205, body=body)(tmp_path), "timeout": 60, "localise_timeout": 60}
    result = run(DCGM, params)
    assert result["verdict"] == "fail"
    texts = [finding["text"] for finding in result["findings"]]
    assert "GPU 3: faulty memory (DCGM 52)" in texts
    assert not any(text.startswith("GPU 4") for text in texts)
    assert any(text.startswith("GPU 5") for text in texts), "it passes, and ends with 1"
    assert any("asked alone, GPU 3, 6 fails" in text for text in texts)
    assert "GPU 6: faulty memory (DCGM 52)" in texts, "it fails, and ends with 0"
    assert run(DCGM, {**params, "localise_timeout": 0})["verdict"] == "fail"


def _after_diagnostic(folder: Path, alone: dict[str, Any], rc_alone: int = 0) -> Params:
    """As DCGM 4.5.0 prints it: the first GPU whose copy engine is busy has the error, and all fail."""
    names = ["software", "pcie", "memory", "diagnostic", "nvbandwidth"]
    row = made.dcgm4(names)
    for gpu in range(8):
        row = made.failing(row, "nvbandwidth", gpu, *([made.fault(made.BUSY, 38)] if gpu == 7 else []))
    (folder / "alone").write_text(made.text(alone), encoding="utf-8")
    body = f'case "$*" in *"-r nvbandwidth"*) cat {folder}/alone; exit {rc_alone};; esac'
    return {**dcgm(made.text(row), level=3, rc=205, body=body)(folder), "timeout": 60, "localise_timeout": 60}


def test_nvbandwidth_that_fails_after_the_diagnostic_is_run_again_alone(tmp_path: Path) -> None:
    result = run(DCGM, _after_diagnostic(tmp_path, made.dcgm4(["nvbandwidth"])))
    assert result["verdict"] == "pass", result["msg"]
    assert "passed alone" in result["msg"]
    assert sum("nvbandwidth" in call for call in calls(tmp_path)) == 1, "nobody asks each GPU for what passed"
    seven = made.dcgm4(["nvbandwidth"], gpus=7)
    assert run(DCGM, _after_diagnostic(tmp_path, seven))["verdict"] == "fail"
    again = made.failing(made.dcgm4(["nvbandwidth"]), "nvbandwidth", 0)
    assert run(DCGM, _after_diagnostic(tmp_path, again, 226))["verdict"] == "fail"
    assert run(DCGM, _after_diagnostic(tmp_path, {}, 0))["verdict"] == "fail"


def test_t1_only_nvbandwidth_is_tried_again_alone(tmp_path: Path) -> None:
    params = {**dcgm(made.text(made.failing(HEALTHY, "memory", 2)), rc=226)(tmp_path), "localise_timeout": 0}
    assert run(DCGM, params)["verdict"] == "fail"
    assert [call for call in calls(tmp_path) if "-r" in call] == ["diag -r 2 -j -n gpu:8"]
