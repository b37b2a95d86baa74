# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger's figures prove of a node: like is held against like, and what is not known passes nobody."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.figures import direction
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.judged import Fleet
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._figures import all_measured
from measured_fleet import CHECK, DIGEST, EVEN, add, even, speeds, state

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "roles" / "gate" / "files" / "schemas" / "verdict.schema.json").read_text()
)
SPEED = f"gpu_bandwidth.{CHECK}"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as opened:
        yield opened


def judged(ledger: Ledger, node: str, peers: int = 8) -> dict[str, Any]:
    return Fleet(all_measured(ledger, 0.0), peers).judged(node).verdict


def why(verdict: dict[str, Any]) -> str:
    return "; ".join(finding["text"] for finding in verdict["findings"])


def test_a_slow_gpu_above_its_floor_is_an_outlier_and_its_peers_are_none(ledger: Ledger) -> None:
    nodes = even(ledger, (*EVEN[:9], 50.0))
    slow = judged(ledger, nodes["gpu010"])
    (finding,) = slow["findings"]
    assert (slow["verdict"], slow["remedy"], finding["id"], finding["entity"]) == ("fail", "retest", SPEED, "GPU 0")
    assert finding["text"].startswith(
        f"GPU 0: 50 GB/s in {SPEED}, -5.6% from the median 52.98 of 10 nodes (h100-sxm-8,"
    )
    (cell,) = slow["checks"]
    assert cell["measured"] == 50.0 and cell["unit"] == "GB/s" and 51 < cell["wanted"] < 52
    assert slow["profile"] == {"sku": "h100-sxm-8", "digest": DIGEST}
    assert {judged(ledger, nodes[name])["verdict"] for name in nodes if name != "gpu010"} == {"pass"}


def test_a_part_that_was_one_in_the_look_before_is_no_accident(ledger: Ledger) -> None:
    nodes = even(ledger, (*EVEN[:9], 50.0))
    add(ledger, "gpu010", speeds(49.9))
    verdict = judged(ledger, nodes["gpu010"])
    assert verdict["remedy"] == "field_diag" and why(verdict).endswith("as in the look before")
    add(ledger, "gpu010", speeds(53.0))
    assert judged(ledger, nodes["gpu010"])["verdict"] == "pass", "the newest look counts"


def test_too_few_peers_pass_nobody_and_it_is_said_how_many_there_are(ledger: Ledger) -> None:
    nodes = even(ledger, EVEN[:8])
    verdict = judged(ledger, nodes["gpu001"])
    assert verdict["verdict"] == "inconclusive" and f"7 peers have {SPEED}" in why(verdict)
    assert "wanted 8" in why(verdict)
    add(ledger, "gpu009", state("GPU-9"), speeds(53.0))
    assert judged(ledger, nodes["gpu001"])["verdict"] == "pass"
    assert judged(ledger, nodes["gpu001"], peers=9)["verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([state("GPU-x", driver="570.1"), speeds(53.0)], "wanted 8; 10 more were measured with another driver"),
        ([state("GPU-x"), speeds(53.0, version="v0.7")], "10 more were measured with another driver, tool or unit"),
        ([state("GPU-x"), speeds(53.0, unit="MB/s")], "10 more were measured with another driver, tool or unit"),
        ([state("GPU-x"), speeds(53.0, sku="b200-sxm-8")], "0 peers have"),
        ([state("GPU-x"), speeds(53.0, sku="")], "of which SKU"),
        ([speeds(53.0)], "with which driver"),
        ([state("GPU-x"), speeds(math.nan)], "no number"),
        ([state("GPU-x"), speeds(math.inf)], "no number"),
        ([state("GPU-x"), speeds(None)], "no number"),
        ([state("GPU-x"), speeds(53.0), speeds("waived")], "no number"),
        ([state("GPU-x"), speeds(53.0), state("GPU-y")], "before the part was swapped"),
        ([state("GPU-x"), speeds(53.0), state("GPU-x", driver="570.1")], "and 570.1 runs now"),
        ([state("GPU-x"), speeds(53.0), Event("state", "imaging")], "before the node was imaged"),
        ([state("GPU-x"), speeds(53.0), Event("identity", "replaced", {"part": "gpu"})], "hardware of it was replaced"),
        ([state("GPU-x")], "no gate has told a speed"),
        ([], "no gate has told a speed"),
    ],
)
def test_what_cannot_be_compared_is_inconclusive_and_says_why(ledger: Ledger, events: list[Event], told: str) -> None:
    even(ledger)
    verdict = judged(ledger, add(ledger, "other", *events))
    assert verdict["verdict"] == "inconclusive" and told in why(verdict), why(verdict)
    assert verdict["remedy"] == "retest"


@pytest.mark.parametrize("check", ["soaked", "gap", "clock_set"])
def test_the_hours_of_a_soak_are_no_speed(ledger: Ledger, check: str) -> None:
    """Who was soaked for longer, or looked at later, was told as slower than its peers."""
    nodes = even(ledger)
    cell = {"gate": "soak_gate", "check": check, "unit": "s"}
    for number, name in enumerate(nodes):
        add(ledger, name, speeds(172_800.0 if name == "gpu001" else 86_400.0 + number, **cell))
    assert judged(ledger, nodes["gpu001"])["verdict"] == "pass"


def test_what_nobody_runs_any_more_is_not_missed(ledger: Ledger) -> None:
    """A burn-in of before the imaging says nothing of now, and nobody has to repeat it."""
    burn = {"gate": "gpu_burn_gate", "check": "soak.speed", "unit": "Gflop/s, gpu-burn tensor, 90 % of memory"}
    imaged = Event("state", "imaging")
    names = [f"n{number}" for number in range(10)]
    nodes = [
        add(ledger, name, state("GPU-" + name), speeds(900.0, **burn), imaged, state("GPU-" + name), speeds(53.0))
        for name in names
    ]
    assert {judged(ledger, node)["verdict"] for node in nodes} == {"pass"}
    assert {len(judged(ledger, node)["checks"]) for node in nodes} == {1}
    for name in names[1:]:
        add(ledger, name, speeds(900.0, **burn))
    verdict = judged(ledger, nodes[0])
    assert verdict["verdict"] == "inconclusive" and "before the node was imaged" in why(verdict), "now peers have it"


def test_message_sizes_stand_in_the_unit_and_are_not_mixed(ledger: Ledger) -> None:
    names = [f"n{number}" for number in range(10)]
    told = {"gate": "collective_gate", "check": "all_reduce.busbw", "entity": "node"}
    for name in names:
        add(ledger, name, state("GPU-" + name), speeds(470.0, unit="GB/s busbw, 8 to 16 GiB, NVLS", **told))
    small = add(ledger, "small", state("GPU-s"), speeds(300.0, unit="GB/s busbw, 1 to 2 GiB, NVLS", **told))
    verdict = judged(ledger, small)
    assert verdict["verdict"] == "inconclusive" and "10 more were measured with another" in why(verdict)


def test_what_eight_peers_have_and_the_node_has_not_is_no_pass(ledger: Ledger) -> None:
    for number in range(9):
        add(ledger, f"n{number}", state("GPU-a", "GPU-b"), speeds(53.0, 53.0))
    half = add(ledger, "half", state("GPU-a", "GPU-b"), speeds(53.0))
    verdict = judged(ledger, half)
    assert verdict["verdict"] == "inconclusive"
    assert why(verdict) == f"{SPEED} of GPU 1 was not measured here, and of 9 peers it was"


def test_places_are_compared_with_the_same_place(ledger: Ledger) -> None:
    """A GPU further from the CPU is no outlier beside one that is nearer."""
    nodes = [add(ledger, f"n{number}", state("GPU-a", "GPU-b"), speeds(53.0, 40.0)) for number in range(9)]
    assert {judged(ledger, node)["verdict"] for node in nodes} == {"pass"}
    swapped = add(ledger, "n9", state("GPU-a", "GPU-b"), speeds(40.0, 53.0))
    verdict = judged(ledger, swapped)
    assert [finding["entity"] for finding in verdict["findings"]] == ["GPU 0"]


def test_a_time_is_bad_where_it_is_high(ledger: Ledger) -> None:
    told = {"gate": "collective_gate", "check": "step.time", "unit": "ms a step", "entity": "node"}
    for number in range(9):
        add(ledger, f"n{number}", state("GPU-a"), speeds(800.0 + number, **told))
    slow, fast = (add(ledger, name, state("GPU-a"), speeds(at, **told)) for name, at in (("s", 900.0), ("f", 700.0)))
    assert judged(ledger, slow)["verdict"] == "fail" and judged(ledger, fast)["verdict"] == "pass"
    assert "wanted at most" in why(judged(ledger, slow))


@pytest.mark.parametrize(
    ("unit", "bad"),
    [
        ("GB/s", "low"), ("GB/s, randread 4 KiB, depth 32", "low"), ("IOPS, randread 4 KiB", "low"),
        ("Gflop/s, gpu-burn tensor, 90 % of memory", "low"), ("bogo ops/s, cpu all, stress-ng 0.15.06", "low"),
        ("ms", "high"), ("s", "high"), ("", ""), ("since boot", ""), ("bytes", ""), ("W", ""), ("of the best size", ""),
    ],
)  # fmt: skip
def test_what_a_figure_is_stands_in_its_unit(unit: str, bad: str) -> None:
    assert direction(unit) == bad


def past(ledger: Ledger, host: str, values: list[float], uuid: str = "GPU-x") -> str:
    return add(ledger, host, *(event for value in values for event in (state(uuid), speeds(value))))


def test_a_gpu_that_gets_slower_drifts_while_it_is_still_like_its_peers(ledger: Ledger) -> None:
    wide = (45.0, 61.0, 47.0, 59.0, 50.0, 56.0, 53.0, 52.0, 54.0)
    even(ledger, wide)
    slower = past(ledger, "slower", [53.0, 53.1, 52.9, 53.0, 53.1, 52.0, 51.5, 51.0])
    steady = past(ledger, "steady", [53.0, 53.1, 52.9, 53.0, 53.1, 53.0, 52.9, 53.0])
    verdict = judged(ledger, slower)
    (finding,) = verdict["findings"]
    assert (
        verdict["verdict"] == "fail" and finding["id"] == f"{SPEED}.drift" and "-2.8% from its own 53" in why(verdict)
    )
    assert judged(ledger, steady)["verdict"] == "pass" and len(judged(ledger, steady)["checks"]) == 2
    assert len(judged(ledger, past(ledger, "young", [53.0] * 7))["checks"]) == 1, "too short a past is no cell"


def test_a_swapped_gpu_has_no_past_of_another(ledger: Ledger) -> None:
    even(ledger)
    node = past(ledger, "n", [54.0] * 5, "GPU-old")
    past(ledger, "n", [52.7] * 3, "GPU-new")
    verdict = judged(ledger, node)
    assert verdict["verdict"] == "pass" and len(verdict["checks"]) == 1


def test_where_all_have_drifted_no_gpu_is_called_bad(ledger: Ledger) -> None:
    nodes = [past(ledger, f"n{number}", [53.0] * 5 + [50.0] * 3) for number in range(9)]
    verdict = judged(ledger, nodes[0])
    assert verdict["verdict"] == "inconclusive" and "so it has at 8 of 8 peers" in why(verdict)
    assert verdict["remedy"] == "remediate_config"


def test_a_swapped_drive_has_no_past_of_another(ledger: Ledger) -> None:
    def drives(serial: str, value: float) -> Event:
        told = speeds(value, gate="storage_gate", check="speed.read", unit="GB/s, read 1024 KiB", entity="data 0")
        told.data["checks"].append({"id": "drive", "entity": "data 0", "measured": serial, "verdict": "pass"})
        return told

    for number in range(9):
        add(ledger, f"n{number}", state("GPU-a"), *(drives("S1", 7.0) for _ in range(5)), drives("S2", 7.0))
    node = add(ledger, "n", state("GPU-a"), *(drives("S1", 7.1) for _ in range(5)), *(drives("S2", 6.9) for _ in "123"))
    assert len(judged(ledger, node)["checks"]) == 1
    kept = add(ledger, "k", state("GPU-a"), *(drives("S1", 7.1) for _ in range(8)))
    assert len(judged(ledger, kept)["checks"]) == 2


def test_every_verdict_has_the_shape_of_all_gates(ledger: Ledger) -> None:
    nodes = even(ledger, (*EVEN[:9], 50.0))
    for node in (*nodes.values(), "nobody"):
        jsonschema.validate(judged(ledger, node), SCHEMA)
