# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks that are compared over a slow line, and machines that are known by what they say."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import clock, identity
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.judgement import Judgement
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.node import seconds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import utc
from hypothesis import given
from hypothesis import strategies as st

SECONDS = st.floats(0, 30)
UUID = "5ac00000-0000-4000-8000-000000000001"
#: What boards are delivered with, and as it stands in the table.
AMI, AMI_SWAPPED = "03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009"


@given(st.floats(-100, 100), st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=4), st.floats(0.1, 20))
def test_the_true_offset_is_never_outside(offset: float, delays: list[tuple[float, float]], limit: float) -> None:
    """However slow the line is there and back: no window excludes the truth, so no verdict contradicts it."""
    windows = []
    for there, back in delays:
        asked = 1000.0
        windows.append(clock.window(asked, asked + there + offset, asked + there + back))
    found = clock.common(windows)
    if found is None:
        return  # rounding at the edges of two touching windows
    assert found[0] - 1e-6 <= offset <= found[1] + 1e-6
    verdict = clock.judge_offset(found, limit)
    if verdict == "pass":
        assert abs(offset) <= limit + 1e-6
    if verdict == "fail":
        assert abs(offset) >= limit - 1e-6


@pytest.mark.parametrize(
    "found,verdict",
    [
        ((-0.1, 0.3), "pass"),
        ((2.5, 2.9), "fail"),
        ((-9.0, -3.0), "fail"),
        ((1.0, 3.0), "inconclusive"),
        (None, "inconclusive"),
    ],
)
def test_a_window_that_leaves_it_open_is_no_pass(found: Any, verdict: str) -> None:
    judgement = Judgement("x")
    clock.check_clock(judgement, found, 2.0)
    assert judgement.verdict == verdict and judgement.sheet.rows()[0].id == "clock"


def test_windows_that_contradict_each_other() -> None:
    assert clock.common([(0.0, 1.0), (2.0, 3.0)]) is None
    assert clock.common([]) is None
    assert clock.common([(-1.0, 5.0), (-3.0, 0.5)]) == (-1.0, 0.5)


def test_whole_seconds_widen_the_window() -> None:
    assert clock.window(10.2, 10.0, 10.4, grain=1.0) == pytest.approx((-0.4, 0.8))


def test_nothing_looked_at_is_no_pass() -> None:
    assert Judgement("x").verdict == "inconclusive"


@given(st.floats(0, 4e9))
def test_times_survive_their_spelling(at: float) -> None:
    assert seconds(utc(at)) == pytest.approx(at, abs=0.002)


# -- identity ----------------------------------------------------------------------------------------------------------


def machine(**given_values: Any) -> dict[str, Any]:
    return identity.normal_identity({"serial": "GF0001", "system_uuid": UUID, "gpu_uuids": ["GPU-1"], **given_values})


@pytest.mark.parametrize(
    "serial", ["", "None", "To Be Filled By O.E.M.", "Default string", "0", "00000000", "N/A", "Unknown", "XXXXXX"]
)
def test_what_vendors_write_for_nothing_is_no_serial(serial: str) -> None:
    assert machine(serial=serial)["serial"] == ""


@pytest.mark.parametrize("serial", ["S000000123", "1", "11111", "ABC", "CZ23400TY7", "None5"])
def test_serials_that_look_odd(serial: str) -> None:
    assert machine(serial=f" {serial} ")["serial"] == ("" if serial == "11111" else serial)


@pytest.mark.parametrize("text", ["", "noise", f"{0:032x}", "f" * 32, AMI, AMI.upper(), AMI_SWAPPED])
def test_no_uuid(text: str) -> None:
    assert machine(system_uuid=text)["system_uuid"] == ""


def test_shapes_that_are_understood() -> None:
    from_bmc = identity.normal_identity({"serial": "GF0001", "uuid": UUID.upper()})
    assert from_bmc["system_uuid"] == UUID and from_bmc["gpu_uuids"] == []
    from_node = identity.normal_identity({"gpu_uuids": ["GPU-2", "GPU-1"], "gpu_problem": "x"})
    assert from_node["gpu_uuids"] == ["GPU-1", "GPU-2"] and from_node["gpu_problem"] == "x"
    assert identity.normal_identity(None)["serial"] == ""


def test_bmc_and_node_are_one_machine() -> None:
    node = machine()
    assert identity.disagreements(machine(gpu_uuids=[]), node) == []
    assert identity.disagreements(machine(serial="", gpu_uuids=[]), node) == []
    assert identity.disagreements(machine(serial="CN7016", gpu_uuids=[]), node) == [], "the board's serial"
    swapped = "0000c05a-0000-0040-8000-000000000001"
    assert identity.disagreements(machine(system_uuid=swapped, gpu_uuids=[]), node) == [], "the table's own byte order"
    for sent in ("01000000-0000-0080-4000-00005ac00000", "01000000-0000-0080-0040-00000000c05a"):
        assert identity.disagreements(machine(system_uuid=sent, gpu_uuids=[]), node) == [], "as IPMI sends it"
    assert identity.disagreements(machine(system_uuid="01000000-0000-0080-4000-00005ac00001", gpu_uuids=[]), node)


@pytest.mark.parametrize(
    "bmc,told",
    [
        ({"serial": "GF0002", "system_uuid": ""}, "serial"),
        ({"serial": "GF0002", "system_uuid": AMI}, "serial"),
        ({"system_uuid": UUID[:-1] + "2"}, "system_uuid"),
        ({"serial": "", "system_uuid": ""}, "identity"),
        ({"gpu_uuids": ["GPU-9"]}, "GPUs"),
    ],
)
def test_bmc_and_node_are_two(bmc: dict[str, Any], told: str) -> None:
    assert any(line.startswith(told) for line in identity.disagreements(machine(**bmc), machine()))


@pytest.mark.parametrize(
    "now,told",
    [
        ({"serial": "GF0002"}, "serial GF0001, this machine has GF0002"),
        ({"serial": ""}, "this machine has none"),
        ({"system_uuid": ""}, "system_uuid"),
        ({"gpu_uuids": ["GPU-2"]}, "only the passport has GPU-1"),
        ({"gpu_uuids": ["GPU-1", "GPU-2"]}, "only this machine has GPU-2"),
        ({"gpu_uuids": []}, "only the passport has GPU-1"),
        ({"gpu_uuids": [], "gpu_problem": "nvidia-smi hangs"}, "unknown: nvidia-smi hangs"),
        ({"serial": "", "system_uuid": ""}, "neither serial nor system UUID"),
    ],
)
def test_a_swap_makes_another_machine(now: dict[str, Any], told: str) -> None:
    assert told in "; ".join(identity.differences(machine(), machine(**now)))


@pytest.mark.parametrize("text", ["noise", "GPU-short", "GPU-5ac00000-0000-4000-8000-000000000001\nError: x"])
def test_gpu_lists_that_cannot_be_believed(text: str) -> None:
    assert identity.gpu_uuids(text) == []


def test_a_gpu_that_comes_twice() -> None:
    line = "GPU-5ac00000-0000-4000-8000-000000000001"
    assert identity.gpu_uuids(f"{line}\n") == [line]
    assert identity.gpu_uuids(f"{line}\n{line}\n") == []
