# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_state_gate: values beside a good one that contradict it, and the errors of NVLink 5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import smi

FABRIC, RESET = "fabric__health__", "gpu_reset_status__"
GENERATION, USED = "pci__pci_gpu_link_info__pcie_gen__current_link_gen", "utilization__gpu_util"
#: What a driver tells of a good fabric.
GOOD = {
    f"{FABRIC}summary": "Healthy",
    f"{FABRIC}bandwidth": "Full",
    f"{FABRIC}route_recovery_in_progress": "False",
    f"{FABRIC}route_unhealthy": "False",
    f"{FABRIC}access_timeout_recovery": "False",
    f"{FABRIC}incorrect_configuration": "None",
}


def gate(folder: Path, changed: dict[str, str], **how: Any) -> dict[str, Any]:
    return gpu_state_gate(smi.params(folder, smi.xml(changed), **how), Context()).data


@pytest.mark.parametrize(
    ("changed", "verdict", "text", "remedy"),
    [
        ({f"{FABRIC}bandwidth": "Degraded"}, "fail", "its bandwidth in the fabric is degraded", "fabric"),
        ({**GOOD, f"{FABRIC}bandwidth": "Degraded"}, "fail", "its bandwidth in the fabric is degraded", "fabric"),
        ({f"{FABRIC}route_unhealthy": "True"}, "fail", "a route of the fabric is unhealthy", "fabric"),
        ({f"{FABRIC}incorrect_configuration": "True"}, "fail", "configured wrongly", "fabric"),
        ({f"{FABRIC}incorrect_configuration": "No Partition"}, "inconclusive", "reads No Partition", "retest"),
        ({f"{FABRIC}route_recovery_in_progress": "True"}, "inconclusive", "a route of the fabric recovers", "retest"),
        ({f"{FABRIC}access_timeout_recovery": "True"}, "inconclusive", "recovers from a timeout", "retest"),
        ({f"{RESET}reset_required": "Yes"}, "fail", "the driver asks to reset it", "reset_gpu"),
        ({f"{RESET}drain_and_reset_recommended": "Yes"}, "fail", "asks to drain and reset it", "reset_gpu"),
        ({f"{RESET}reset_required": "Yes", "gpu_recovery_action": "N/A"}, "fail", "asks to reset it", "reset_gpu"),
        ({f"{RESET}reset_required": "No", "gpu_recovery_action": "Reboot"}, "fail", "asks to reboot", "reboot"),
        ({GENERATION: "1", USED: "N/A"}, "inconclusive", "nobody knows whether it is idle", "retest"),
    ],
)
def test_a_value_that_contradicts_a_good_one_counts(
    tmp_path: Path, changed: dict[str, str], verdict: str, text: str, remedy: str
) -> None:
    found = gate(tmp_path, changed)
    assert (found["verdict"], found["remedy"]) == (verdict, remedy), found["msg"]
    assert text in found["msg"]


@pytest.mark.parametrize(
    "changed",
    [
        GOOD,
        dict.fromkeys(GOOD, "N/A"),
        {f"{RESET}reset_required": "No", f"{RESET}drain_and_reset_recommended": "N/A"},
        {f"{RESET}reset_required": "Requested functionality has been deprecated"},
        {f"{RESET}reset_required": "No", "gpu_recovery_action": "N/A"},
        {USED: "N/A"},
    ],
)
def test_what_no_healthy_gpu_is_rejected_for(tmp_path: Path, changed: dict[str, str]) -> None:
    found = gate(tmp_path, changed)
    assert found["verdict"] == "pass", found["msg"]


# -- NVLink 5 ----------------------------------------------------------------------------------------------------------

COUNTERS = (
    *("Malformed packet Errors", "Buffer overrun Errors", "Rx Errors", "Rx remote Errors", "Rx General Errors"),
    *("Local link integrity Errors", "Tx discards", "Link recovery successful events", "Link recovery failed events"),
    *("Total link recovery events", "Effective Errors", "Symbol Errors"),
)
#: What a healthy link counts: traffic, and errors that its codes repair.
TRAFFIC = (
    *("Tx packets: 12345", "Rx bytes: 99", "FEC Errors - 0: 36140749276", "FEC Errors - 1: 3"),
    *("Effective BER: 15e-255", "Raw BER Lane 0: 2061", "Raw Errors Lane 0: 82"),
)


def nvlink5(*, without: str = "", **bad: int) -> str:
    lines = []
    for gpu in range(8):
        lines.append(f"GPU {gpu}: NVIDIA B200 (UUID: {smi.uuid(gpu)})")
        for link in range(smi.LINKS):
            here = (gpu, link) == (3, 7)
            told = [f"{name}: {bad.get(name, 0) if here else 0}" for name in COUNTERS if name != without]
            lines += [f"\t Link {link}: {line}" for line in (*TRAFFIC, *told)]
    return "\n".join(lines) + "\n"


def test_nvlink_5_passes_where_it_has_no_error_that_its_codes_do_not_repair(tmp_path: Path) -> None:
    found = gate(tmp_path, {}, counted=nvlink5())
    assert found["verdict"] == "pass", found["msg"]


#: One stands in the total of recoveries, the other one is no error of this end.
ASIDE = frozenset({"Link recovery successful events", "Tx discards"})


@pytest.mark.parametrize("name", sorted(set(COUNTERS) - ASIDE))
def test_each_error_of_nvlink_5_counts_and_has_to_be_told(tmp_path: Path, name: str) -> None:
    found = gate(tmp_path, {}, counted=nvlink5(**{name: 1}))
    assert (found["verdict"], found["remedy"]) == ("fail", "reset_gpu") and f"1 {name.lower()}" in found["msg"]
    assert gate(tmp_path, {}, counted=nvlink5(without=name))["verdict"] == "inconclusive"


@pytest.mark.parametrize("sku", ["b200-8", "b300-8", "gb200-4", "gb300-4"])
def test_the_profiles_of_gpus_with_nvlink_5_demand_it_of_drivers_that_tell_it(sku: str) -> None:
    profile = yaml.safe_load((made.PROFILES / f"{sku}.yaml").read_text(encoding="utf-8"))
    assert {"nvlink_errors": "595"} in [{row["name"]: row.get("since")} for row in profile["gpu_state"]["cells"]]
