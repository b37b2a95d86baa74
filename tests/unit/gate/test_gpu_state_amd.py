# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What amd-smi tells of AMD's GPUs: several calls, one verdict, and no mutation of a bad answer is a pass."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import claimed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.amd import CALLS, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import amd
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

#: The cells that no shipped profile demands are demanded here.
ALL = ("xgmi",)
ABOUT = {"source": "written for tests", "date": "2026-11-29", "conditions": "none at all"}


def profile(*more: str) -> dict[str, Any]:
    section = amd.PROFILE["gpu_state"]
    rows = [*section["cells"], *({"name": name, **ABOUT} for name in more)]
    return {**amd.PROFILE, "gpu_state": {**section, "cells": rows}}


WANTED = wanted_of(profile(*ALL))


def look(printed: dict[str, str], rc: int = 0) -> Sheet:
    names = {"bad": "bad-pages"}
    told = {name: printed.get(names.get(name, name), "") for name in CALLS}
    runs = [Run(("amd-smi", *CALLS[name]), rc, text.encode(), b"", "exit", 0.1) for name, text in told.items()]
    return judge(Look(read(told), runs, tool="amd-smi"), WANTED)


@pytest.mark.parametrize("wrapped", [False, True])
def test_healthy_gpus_pass_in_both_shapes(wrapped: bool) -> None:
    sheet = look(amd.texts(amd.calls(), wrapped=wrapped))
    assert sheet.verdict == "pass", sheet.findings


def test_a_divided_gpu_fails_by_either_name_of_its_partition() -> None:
    for wrapped in (False, True):
        sheet = look(amd.texts(amd.changed("static", "partition/compute_partition", "CPX"), wrapped=wrapped))
        assert [(one.id, one.remedy) for one in sheet.findings] == [("gpu.partition", "remediate_config")]
        assert sheet.verdict == "fail"


BROKEN: list[tuple[str, str, Any, str, str, str]] = [
    ("metric", "ecc/total_uncorrectable_count", 2, "fail", "gpu.ras", "reboot"),
    ("metric", "ecc/total_deferred_count", 1, "fail", "gpu.ras", "reset_gpu"),
    ("metric", "ecc/total_uncorrectable_count", "N/A", "inconclusive", "gpu.ras", "remediate_config"),
    ("metric", "ecc", "N/A", "inconclusive", "gpu.ras", "remediate_config"),
    ("metric", "ecc_blocks/UMC/uncorrectable_count", 7, "fail", "gpu.ras", "reboot"),
    ("metric", "ecc_blocks/UMC/deferred_count", 7, "fail", "gpu.ras", "reset_gpu"),
    ("metric", "ecc_blocks/UMC/uncorrectable_count", "many", "inconclusive", "gpu.ras", "retest"),
    ("metric", "throttle/prochot_violation_status", "ACTIVE", "fail", "gpu.clocks", "field_diag"),
    ("metric", "throttle/vr_thermal_violation_status", "ACTIVE", "fail", "gpu.clocks", "field_diag"),
    ("metric", "throttle/socket_thermal_violation_status", "ACTIVE", "fail", "gpu.clocks", "field_diag"),
    ("metric", "throttle/hbm_thermal_violation_status", "ACTIVE", "fail", "gpu.clocks", "field_diag"),
    ("static", "limit", {"ppt0": {"socket_power_limit": amd.unit(550, "W")}}, "fail", "gpu.power", "remediate_config"),
    ("static", "limit", {"ppt0": {"socket_power_limit": "N/A"}}, "inconclusive", "gpu.power", "remediate_config"),
    ("static", "ras/ecc_block_state", "N/A", "inconclusive", "gpu.ras_memory", "remediate_config"),
    ("metric", "ecc_blocks/XGMI_WAFL/uncorrectable_count", 1, "fail", "gpu.xgmi", "reset_gpu"),
    ("metric", "pcie/width", 8, "inconclusive", "gpu.pcie", "retest"),
    ("metric", "power/socket_power", "N/A", "inconclusive", "gpu.power", "remediate_config"),
    ("bad-pages", "pending", {"page_address": 1, "page_size": 4096, "status": "PENDING"}, "fail", "gpu.bad_pages",
     "reset_gpu"),
    ("bad-pages", "un_res", [{"page_address": 1}, {"page_address": 2}], "fail", "gpu.bad_pages", "rma"),
    ("bad-pages", "retired", "N/A", "inconclusive", "gpu.bad_pages", "remediate_config"),
    ("static", "limit/socket_power", amd.unit(550, "W"), "fail", "gpu.power", "remediate_config"),
    ("static", "vram/size", amd.unit(98304, "MB"), "fail", "gpu.memory", "field_diag"),
    ("static", "vram/size", amd.unit(192, "GB"), "inconclusive", "gpu.memory", "retest"),
    ("static", "bus/pcie_interface_version", "Gen 4", "fail", "gpu.pcie", "reseat"),
    ("static", "partition/compute_partition", "CPX", "fail", "gpu.partition", "remediate_config"),
    ("static", "partition/memory_partition", "NPS4", "fail", "gpu.partition", "remediate_config"),
    ("static", "partition/compute_partition", "XYZ", "inconclusive", "gpu.partition", "retest"),
    ("static", "ras/ecc_block_state/UMC", "DISABLED", "fail", "gpu.ras_memory", "remediate_config"),
    ("static", "asic/device_id", "0x74a0", "inconclusive", "device_id", "remediate_config"),
    ("static", "asic/vendor_id", "0x10de", "inconclusive", "device_id", "remediate_config"),
    ("list", "uuid", "N/A", "inconclusive", "uuid", "retest"),
    ("list", "uuid", "00000000-0000-1000-80ab-cdef01234567", "inconclusive", "uuid", "retest"),
    ("static", "driver/version", "unknown", "inconclusive", "driver", "remediate_config"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "path", "value", "verdict", "finding", "remedy"), BROKEN)
def test_one_value_of_one_gpu(call: str, path: str, value: Any, verdict: str, finding: str, remedy: str) -> None:
    sheet = look(amd.texts(amd.changed(call, path, value)))
    assert sheet.verdict == verdict
    assert {"id": finding, "remedy": remedy}.items() <= sheet.findings[0].as_dict().items(), sheet.findings


FINE: list[tuple[str, str, Any]] = [
    ("static", "limit", {"ppt0": {"max_power_limit": amd.unit(750, "W"), "socket_power_limit": amd.unit(750, "W")},
                         "ppt1": {"max_power_limit": "N/A", "socket_power_limit": "N/A"}}),
    ("metric", "throttle/ppt_violation_status", "ACTIVE"),
    ("metric", "throttle", "N/A"),
    ("metric", "throttle", None),
    ("metric", "ecc_blocks", "N/A"),
    ("metric", "ecc_blocks/UMC/uncorrectable_count", "N/A"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "path", "value"), FINE)
def test_what_no_healthy_gpu_is_rejected_for(tmp_path: Path, call: str, path: str, value: Any) -> None:
    gpu = gate(tmp_path, amd.texts(amd.changed(call, path, value), wrapped=True))
    assert gpu["verdict"] == "pass", gpu["msg"]


@pytest.mark.parametrize(
    "row", [row for row in BROKEN if row[1].startswith(("throttle", "limit", "ras", "ecc_blocks/U"))]
)
def test_the_gate_rejects_it_by_the_shipped_profile(tmp_path: Path, row: tuple[str, str, Any, str, str, str]) -> None:
    assert gate(tmp_path, amd.texts(amd.changed(*row[:3])))["verdict"] == row[3]


def test_retired_pages_are_told_and_no_failure() -> None:
    rows = [{"page_address": at, "status": "RESERVED"} for at in range(3)]
    sheet = look(amd.texts(amd.changed("bad-pages", "retired", rows)))
    assert sheet.verdict == "pass" and sheet.checks["bad_pages", "GPU 3"].measured == "0, 0, 3"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("metric", "WARNING: No JSON data to report", "printed no JSON data"),
        ("static", "", "printed no JSON"),
        ("bad-pages", '[{"gpu": 0, "gpu": 1}]', "printed no JSON"),
        ("list", '[{"uuid": "x"}]', "without a number"),
        ("metric", "{}", "without a number"),
    ],
)
def test_a_call_that_is_no_answer_is_no_pass(name: str, text: str, words: str) -> None:
    sheet = look({**amd.texts(amd.calls()), name: text})
    assert sheet.verdict == "inconclusive" and any(words in one.text for one in sheet.findings), sheet.findings


def test_calls_that_tell_of_other_gpus_and_a_gpu_that_is_missing() -> None:
    told = amd.calls()
    del told["metric"][5]
    assert any("does not tell of GPU 5" in one.text for one in look(amd.texts(told)).findings)
    assert look(amd.texts(told)).verdict == "inconclusive"
    assert look(amd.texts(amd.calls(7))).verdict == "fail"
    assert look(amd.texts(amd.calls(9))).verdict == "inconclusive"
    assert look(amd.texts(amd.calls()), rc=1).verdict == "inconclusive"


def test_cpus_beside_gpus_are_none() -> None:
    told = amd.calls()
    told["static"].insert(0, {"cpu": 0, "smu": {"fw_version": "85.90.0"}})
    assert look(amd.texts(told)).verdict == "pass"


@given(seed=st.integers(0, 10**6), at=st.sampled_from([row for row in BROKEN if row[3] == "fail"]))
@settings(max_examples=at_most(60))
def test_no_mutation_of_a_failing_answer_is_a_pass(seed: int, at: tuple[str, str, Any, str, str, str]) -> None:
    dice, told = random.Random(seed), amd.changed(*at[:3])
    name = dice.choice(list(told))
    rows = told[name]
    what = dice.choice(["drop", "double", "order", "cut", "key", "call"])
    if what == "drop":
        rows.pop(dice.randrange(len(rows)))
    elif what == "double":
        rows.append(dice.choice(rows))
    elif what == "order":
        dice.shuffle(rows)
    elif what == "key":
        row = rows[dice.randrange(len(rows))]
        row.pop(dice.choice(list(row)))
    printed = amd.texts(told, wrapped=dice.random() < 0.5)
    if what == "cut":
        printed[name] = printed[name][: dice.randrange(len(printed[name]))]
    elif what == "call":
        printed.pop(name)
    assert look(printed).verdict != "pass"


def gate(folder: Path, printed: dict[str, str], before: Optional[list[dict[str, Any]]] = None) -> dict[str, Any]:
    params = {"profile": amd.PROFILE, "amd_smi": amd.tool(folder, printed), "boot_id_path": str(folder / "boot")}
    (folder / "boot").write_text("boot-1\n", encoding="ascii")
    return gpu_state_gate({**params, "before": before}, Context()).data


def test_the_gate_makes_the_calls_and_a_second_look_tells_what_was_counted(tmp_path: Path) -> None:
    found = gate(tmp_path, amd.texts(amd.calls()))
    assert found["verdict"] == "pass", found["findings"]
    assert found["tool"] == {"name": "amd-smi", "version": "6.10.5"} and found["argv"][1:] == ["metric", "--json"]
    assert found["gpus"][0]["device"] == "74a1" and found["readings"][0]["power"] == 140.0
    assert claimed.lacking(amd.PROFILE, found, second=False) == ""
    assert set(claimed.own(amd.PROFILE, found, second=False).tools) == {"amd-smi"}
    again = gate(tmp_path, amd.texts(amd.changed("metric", "ecc/total_deferred_count", 1)), found["counters"])
    assert "1 deferred errors since the earlier look" in json.dumps(again["findings"])
    assert gate(tmp_path, amd.texts(amd.calls()), found["counters"])["verdict"] == "pass"


def test_without_the_tool_nothing_passes() -> None:
    params = {"profile": amd.PROFILE, "amd_smi": "/nonexistent", "boot_id_path": "/dev/null"}
    found = gpu_state_gate(params, Context()).data
    assert (found["verdict"], found["remedy"]) == ("inconclusive", "remediate_config")


def test_the_shipped_profile_is_valid_and_of_amd_alone() -> None:
    profiles.check(amd.PROFILE, made.PROFILE_SCHEMA)
    cells = {one["name"] for one in amd.PROFILE["gpu_state"]["cells"]}
    assert "dcgm" not in amd.PROFILE and not {"nvlink", "fabric"} & cells


PAGE = made.CHECKOUT / "docs" / "how-to" / "judge-amd-nodes.md"


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_section_on_the_page_is_one_of_a_profile_of_amd() -> None:
    [section] = re.findall(r"```yaml\n( *collective:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    own = {**amd.PROFILE, **yaml.safe_load(section)}
    profiles.check(own, made.PROFILE_SCHEMA)
    assert own["collective"]["tests"][0]["library"] == "rccl"
