# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvbandwidth is run again where it saw the load of the test before it, and for nothing else (DCGM#272)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made

ROW = ["software", "pcie", "memory", "diagnostic", "nvbandwidth"]
ALONE = ["software", "nvbandwidth"]
#: The same of other releases: 4.2.3 and 4.4.2, and 4.5.2 to 4.6.0, which run it all the same.
OLD = made.BUSY.replace("utilization", "utilitization")
NEW = (
    "GPU 7 memory copy utilization (34%) did not reach idle threshold (<= 10%) within timeout. "
    "Proceeding with test, but results may be affected by residual memory activity."
)
Document = dict[str, Any]


def row(*faults: dict[str, Any], tests: Optional[list[str]] = None) -> Document:
    """nvbandwidth refuses: all GPUs fail, one has the errors."""
    document = made.dcgm4(tests or ROW)
    for gpu in range(8):
        document = made.failing(document, "nvbandwidth", gpu, *(faults if gpu == 7 else ()))
    return document


def gate(
    folder: Path, first: Document, then: Document, *, rc: int = 205, after: str = "", **how: Any
) -> dict[str, Any]:
    """after: what stands behind the first document."""
    (folder / "alone").write_text(made.text(then), encoding="utf-8")
    body = f'case "$*" in *"-r nvbandwidth"*) cat {folder}/alone; exit 0;; esac'
    params = {
        "dcgmi": made.dcgmi(folder, made.text(first) + after, rc=rc, body=body),
        "profile": made.profile(),
        "level": 3,
    }
    return dcgm_gate({**params, "timeout": 60, "pci_path": made.pci(folder), **how}, Context()).data


def busy(text: str = made.BUSY, error: int = 38, severity: int = 2) -> dict[str, Any]:
    return made.fault(text, error, severity)


@pytest.mark.parametrize("first", [row(busy()), row(busy(OLD))], ids=["4.5.0", "4.4.2"])
def test_the_load_of_the_test_before_it_is_forgiven(tmp_path: Path, first: Document) -> None:
    result = gate(tmp_path, first, made.dcgm4(ALONE))
    assert result["verdict"] == "pass" and "passed alone" in result["msg"], result["msg"]


def test_the_same_error_beside_a_pass_is_forgiven_as_well(tmp_path: Path) -> None:
    first = made.dcgm4(ROW)
    made.result_of(first, "nvbandwidth", 7)["warnings"] = [busy(NEW, severity=1)]
    result = gate(tmp_path, first, made.dcgm4(ALONE))
    assert result["verdict"] == "pass" and "passed alone" in result["msg"], result["msg"]


@pytest.mark.parametrize(
    "faults",
    [
        [made.fault("row remap failure", 80, 6)],
        [made.fault("GPU 7 returned other values", 58)],
        [made.fault("the GPU has fallen off the bus", 120)],
        [made.fault("bandwidth is too low", 110, 4)],
        [busy(), made.fault("copies arrive damaged", 116)],
        [busy(error=80)],
        [busy("a counter rose above its limit")],
        [],
    ],
    ids=["remap", "memory", "bus", "slow", "beside", "another-id", "another-text", "no-error"],
)
def test_no_other_error_is(tmp_path: Path, faults: list[dict[str, Any]]) -> None:
    for rc in (205, 226):
        result = gate(tmp_path, row(*faults), made.dcgm4(ALONE), rc=rc)
        assert result["verdict"] == "fail" and "passed alone" not in result["msg"], result["msg"]


def test_what_failed_beside_it_is_not_measured_again(tmp_path: Path) -> None:
    assert gate(tmp_path, made.failing(row(busy()), "memory", 2), made.dcgm4(ALONE))["verdict"] == "fail"
    assert "-r nvbandwidth" not in (tmp_path / "dcgmi.calls").read_text(encoding="utf-8")


def test_what_began_with_it_has_no_load_to_see(tmp_path: Path) -> None:
    names = ["software", "nvbandwidth"]
    result = gate(tmp_path, row(busy(), tests=names), made.dcgm4(ALONE), tests=names)
    assert result["verdict"] == "fail", result["msg"]


def test_errors_that_were_dropped_are_not_forgiven(tmp_path: Path) -> None:
    result = gate(tmp_path, row(*[busy()] * 32), made.dcgm4(ALONE))
    assert result["verdict"] == "fail", result["msg"]


def test_what_the_first_run_did_not_print_whole_is_not_forgiven(tmp_path: Path) -> None:
    result = gate(tmp_path, row(busy()), made.dcgm4(ALONE), after=made.text(made.dcgm4(ROW))[:400])
    assert result["verdict"] == "fail" and "cut off" in str(result["findings"]), result["msg"]


def _alone(what: str) -> Document:
    document = copy.deepcopy(made.dcgm4(ALONE))
    if what == "software":
        made.result_of(document, "software", 5)["status"] = "Fail"
    elif what == "device":
        document["entity_groups"][0]["entities"][2]["device_id"] = "20b2"
    elif what == "other":
        document["entity_groups"][0]["entities"][2]["serial_num"] = "1659999999999"
    else:
        made.result_of(document, "nvbandwidth", 4)["status"] = "Skip"
    return document


@pytest.mark.parametrize("what", ["software", "device", "other", "skipped"])
def test_the_run_alone_is_judged_as_a_whole(tmp_path: Path, what: str) -> None:
    assert gate(tmp_path, row(busy()), _alone(what))["verdict"] == "fail"
