# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs that were recorded from real tools: none that should not pass may pass."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import trained
from recorded import ABSENT, recorded_dir

FOLDER = recorded_dir("gates", "SOURCES.csv")


def samples(tool: str) -> list[dict[str, str]]:
    if FOLDER is None:
        return []
    with open(FOLDER / "SOURCES.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tool"] == tool or row["file"].startswith(f"{tool}/")]
    assert rows, f"SOURCES.csv lists nothing of {tool}"
    return rows


def ids(row: dict[str, str]) -> str:
    return row["file"]


def judged_by_dcgm(row: dict[str, str], folder: Path, rc: int) -> dict[str, Any]:
    assert FOLDER is not None
    output = (FOLDER / row["file"]).read_text(encoding="utf-8")
    level = 1 if "_r1_" in row["file"] else 2
    version = re.search(r"\d+\.\d+\.\d+", row["version"])
    tool = made.dcgmi(folder, output, rc=rc, version=version.group(0) if version else "2.4.7")
    params = {"dcgmi": tool, "level": level, "timeout": 20, "localise_timeout": 0, "profile": made.profile()}
    params["pci_path"] = made.pci(folder)
    return dict(dcgm_gate(params, Context()).data)


@pytest.mark.skipif(FOLDER is None, reason=ABSENT)
@pytest.mark.parametrize("rc", [0, 205])
@pytest.mark.parametrize("row", samples("dcgm-diag"), ids=ids)
def test_dcgm_diag(row: dict[str, str], rc: int, tmp_path: Path) -> None:
    result = judged_by_dcgm(row, tmp_path, rc)
    if row["verdict"] == "PASS" and rc == 0:
        assert result["verdict"] == "pass", result["msg"]
    else:
        assert result["verdict"] != "pass", result["msg"]
    if row["verdict"] in ("FAIL", "CONFIG") and row["file"].endswith(".json"):
        assert result["verdict"] == "fail"
    if row["verdict"] == "CONFIG":
        assert result["remedy"] == "remediate_config"


@pytest.mark.skipif(FOLDER is None, reason=ABSENT)
@pytest.mark.parametrize("row", samples("kmsg"), ids=ids)
def test_kernel_log(row: dict[str, str], tmp_path: Path) -> None:
    assert FOLDER is not None
    log = (FOLDER / row["file"]).read_text(encoding="utf-8")
    params = {**made.machine(tmp_path, log, uptime=100_000.0), "source": "kmsg" if "raw" in row["file"] else "file"}
    whole = dict(kernel_log_gate(params, Context()).data)
    assert whole["verdict"] != "pass", "none of these logs begins with its boot"
    if row["verdict"] == "FAIL":
        assert whole["verdict"] == "fail"
        assert whole["remedy"] not in ("none", "retest")
    if row["verdict"] == "PASS":
        since = {**params, "since": str(100_000 - 300)}
        assert kernel_log_gate(since, Context()).data["verdict"] == "pass"
        assert whole["verdict"] == "inconclusive"
        assert {finding["id"] for finding in whole["findings"]} == {"log.kmsg"}


@pytest.mark.skipif(FOLDER is None, reason=ABSENT)
def test_the_five_messages_of_one_gsp_timeout_are_one_fault(tmp_path: Path) -> None:
    assert FOLDER is not None
    log = (FOLDER / "kmsg" / "dmesg_xid119_gsp_timeout.log").read_text(encoding="utf-8")
    result = kernel_log_gate({**made.machine(tmp_path, log), "source": "file"}, Context()).data
    blamed = [finding for finding in result["findings"] if finding["id"].startswith("xid:")]
    assert [(one["id"], one["entity"], one["remedy"]) for one in blamed] == [("xid:119", "GPU 0000:9b:00", "reset_gpu")]


@pytest.mark.skipif(FOLDER is None, reason=ABSENT)
def test_a_training_of_two_nodes() -> None:
    """Five steps of a minute each, behind the names of their nodes; none of them is missed unseen."""
    assert FOLDER is not None
    text = (FOLDER / "training" / "megatron_deepspeed_2node.log").read_text(encoding="utf-8")
    asked = {"steps": 5, "warm_up": 1, "nodes": 2, "step_ms": 76000}
    whole = trained.judged(text, trained.row(**asked), seconds=400.0)
    assert whole["verdict"] == "pass", whole["findings"]
    assert trained.cell(whole, "step_time")["measured"] == 75216.0
    assert trained.judged(text, trained.row(**asked), ran=False)["verdict"] == "pass", "it tells its end"
    lines = text.splitlines(keepends=True)
    steps = [at for at, line in enumerate(lines) if "elapsed time per iteration" in line]
    for at in steps:
        less = "".join([*lines[:at], *lines[at + 1 :]])
        assert trained.judged(less, trained.row(**asked), seconds=400.0)["verdict"] == "inconclusive"
    slow = trained.judged(text, trained.row(**{**asked, "step_ms": 70000}), seconds=400.0)
    assert (slow["verdict"], slow["remedy"]) == ("inconclusive", "retest"), "which of the two it was nobody knows"


# -- documents of our own in which published gates have passed a broken node ------------------------------------------


@pytest.mark.parametrize(
    ("what", "output", "rc"),
    [
        ("a 4.x document read with the key of 3.x", made.failing(made.dcgm4(), "memory", 3, made.fault("x", 52)), 205),
        ("only the first result of a test is looked at", made.failing(made.dcgm4(), "memory", 3), 0),
        ("exit 205 and no document", None, 205),
        ("exit 226 is only a warning", None, 226),
        (
            "a RESET fault is not in the list of severities",
            made.failing(made.dcgm4(), "memory", 0, made.fault("x", 80, 6)),
            226,
        ),
        ("the count is not compared", made.dcgm4(gpus=7), 0),
    ],
)
def test_where_others_admit_a_broken_node(what: str, output: Any, rc: int, tmp_path: Path) -> None:
    tool = made.dcgmi(tmp_path, made.text(output) if output else "", rc=rc)
    params = {"dcgmi": tool, "level": 2, "timeout": 20, "localise_timeout": 0, "profile": made.profile()}
    result = dcgm_gate(params, Context()).data
    assert result["verdict"] != "pass", what
    if output or rc == 205:
        assert result["verdict"] == "fail", what
