# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_state_gate: where each limit lies, by a value just within it and one just beyond."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Sheet
from ansible_collections.gpufleet.baremetal.tests.unit.gate import smi

DONE = Run(("nvidia-smi",), 0, b"", b"", "exit", 0.1)
GPUS = 2
ECC, PAGES = "ecc_errors__", "retired_pages__"
SRAM = f"{ECC}aggregate__sram_uncorrectable_parity"
OLD = {f"{PAGES}double_bit_retirement__retired_count": "3", f"{PAGES}pending_retirement": "No"}
RETIRED = f"{PAGES}multiple_single_bit_retirement__retired_count"


def judged(
    changed: dict[str, Optional[str]], *, state: str = "", errors: str = "", limit: Optional[int] = None
) -> Sheet:
    profile: dict[str, Any] = smi.profile(count=GPUS)
    for row in profile["gpu_state"]["cells"]:
        row.update({"limit": limit} if "limit" in row and limit is not None else {})
    tables = (links.read(state or smi.state(GPUS)), links.read(errors or smi.errors(GPUS)))
    return judge(Look(read(smi.xml(changed, gpus=GPUS, at=1)), [DONE], *tables), wanted_of(profile))


def told(sheet: Sheet) -> tuple[str, str]:
    return sheet.verdict, "; ".join(finding.text for finding in sheet.findings)


@pytest.mark.parametrize(
    ("name", "within", "beyond", "word"),
    [
        ("gpu_power_readings__current_power_limit", "699.00 W", "698.90 W", "power limit is 699 W, wanted 700"),
        ("fb_memory_usage__total", "79928 MiB", "79927 MiB", "79927 MiB of memory, wanted 81559"),
        (SRAM, "4", "5", "5 uncorrected errors in SRAM in its life"),
        (f"{ECC}tpc_repair_pending", "No", "Yes", "the repair of a TPC waits for a reset"),
        (RETIRED, "60", "61", "64 retired pages, allowed are 63"),
    ],
)
def test_a_value_within_its_limit_and_beyond(name: str, within: str, beyond: str, word: str) -> None:
    beside: dict[str, Optional[str]] = dict(OLD) if name == RETIRED else {}
    good, bad = judged({**beside, name: within}), judged({**beside, name: beyond})
    assert good.verdict == PASS, told(good)
    assert bad.verdict == "fail" and word in told(bad)[1], told(bad)


def test_a_limit_of_none_that_a_site_sets_is_one() -> None:
    good, bad = judged({SRAM: "0"}, limit=0), judged({SRAM: "1"}, limit=0)
    assert [good.verdict, bad.verdict] == [PASS, "fail"], told(bad)
    assert {row.wanted for sheet in (good, bad) for row in sheet.rows() if row.id == "ecc_aggregate"} == {0}


def test_a_link_a_thousandth_below_its_speed_is_slow() -> None:
    good, bad = (judged({}, state=smi.state(GPUS, speed=speed)) for speed in ("26.536 GB/s", "26.535 GB/s"))
    assert good.verdict == PASS, told(good)
    assert bad.verdict == "fail" and "18 NVLinks run at 26.535 GB/s" in told(bad)[1], told(bad)


def test_a_hundred_errors_of_crc_are_too_many() -> None:
    quiet = smi.errors(GPUS)
    good, bad = (
        judged({}, errors=quiet.replace("CRC Errors: 0", f"CRC Errors: {count}", 1)) for count in ("99", "100")
    )
    assert good.verdict == PASS, told(good)
    assert bad.verdict == "fail" and "100 crc errors" in told(bad)[1], told(bad)
