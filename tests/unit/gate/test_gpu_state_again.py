# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_state_gate looks again at what may pass away: it takes nothing back of what it saw fail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import smi

ERR = {"gpu_power_readings__average_power_draw": "ERR!"}
CLOCKS = "clocks_event_reasons__clocks_event_reason_"
BRAKE, DRIVER = f"{CLOCKS}hw_power_brake_slowdown", f"{CLOCKS}sw_thermal_slowdown"
#: What the first calls print, by the name of their file; later ones print healthy GPUs.
Told = Mapping[str, str]


def looked(folder: Path, first: Told, *cells: str, then: Optional[Mapping[str, str]] = None) -> dict[str, Any]:
    """A gate that has time for a second look. then: what is changed from the second one on."""
    for name, text in first.items():
        (folder / f"first.{name}").write_text(text, encoding="utf-8")
    body = (
        'case "$*" in "-q -x") k=q;; "nvlink -s") k=s;; *) k=e;; esac\n'
        f"echo $k >> {folder}/calls\nf={folder}/first.$k; [ -e $f ] && cat $f && rm $f && exit 0"
    )
    given = smi.params(folder, smi.xml(then or {}), body=body)
    return gpu_state_gate({**given, "profile": smi.profile(*cells), "again_timeout": 3}, Context()).data


def calls(folder: Path) -> str:
    return (folder / "calls").read_text(encoding="utf-8").replace("\n", "")


@pytest.mark.parametrize(
    ("first", "text"),
    [
        ({"q": smi.xml(ERR), "s": smi.state(down=5)}, "17 of 18 NVLinks are up"),
        ({"q": smi.xml({**ERR, "remapped_rows__remapped_row_failure": "Yes"})}, "a row remap failed"),
        ({"q": smi.xml(ERR, gpus=7), "s": smi.state(7), "e": smi.errors(7)}, "7 of 8 GPUs"),
        ({"q": smi.xml({BRAKE: "Active", "ecc_mode__current_ecc": "Disabled"})}, "ECC is off"),
    ],
    ids=["link", "remap", "lost", "beside-a-slowdown"],
)
def test_what_fails_beside_a_value_that_cannot_be_read_is_not_looked_at_until_it_passes(
    tmp_path: Path, first: Told, text: str
) -> None:
    found = looked(tmp_path, first)
    assert found["verdict"] == "fail" and text in found["msg"], found["msg"]
    assert calls(tmp_path) == "qse", "one look"


@pytest.mark.parametrize("cells", [(), ("memory",)], ids=["demanded", "not-demanded"])
def test_a_slowdown_by_the_hardware_that_went_away_is_a_doubt(tmp_path: Path, cells: tuple[str, ...]) -> None:
    found = looked(tmp_path, {"q": smi.xml({BRAKE: "Active"})}, *cells)
    assert (found["verdict"], found["remedy"]) == ("inconclusive", "retest")
    assert "GPU 3: for a moment: the power supply slows it down" in found["msg"]
    doubted = [row["entity"] for row in found["checks"] if (row["id"], row["verdict"]) == ("clocks", "inconclusive")]
    assert doubted == ["GPU 3"]


def test_a_moment_at_the_limit_of_temperature_is_told_and_no_doubt(tmp_path: Path) -> None:
    found = looked(tmp_path, {"q": smi.xml({DRIVER: "Active"})})
    assert found["verdict"] == "pass", found["msg"]
    assert [row["text"] for row in found["findings"]] == ["GPU 3: for a moment: too hot: the driver slows it down"]


@pytest.mark.parametrize("word", ["Active", "ERR!"])
def test_a_slowdown_that_nobody_saw_end_fails(tmp_path: Path, word: str) -> None:
    found = looked(tmp_path, {"q": smi.xml({BRAKE: "Active"})}, then={BRAKE: word})
    assert (found["verdict"], found["remedy"]) == ("fail", "field_diag"), found["msg"]
    assert len(calls(tmp_path)) > 3
