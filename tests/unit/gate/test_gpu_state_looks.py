# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_state_gate: two looks around a load, what is read again, a pass that a node claims, and falsified documents."""

from __future__ import annotations

import copy
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collected import problem_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state import claimed, links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look, judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import PASS, Sheet, Tool, as_verdict, digest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import smi
from ansible_collections.gpufleet.baremetal.tests.unit.gate.test_gpu_state import (
    DONE,
    ECC,
    GPUS,
    PAGES,
    POWER,
    PROFILE,
    QUIET,
    WRONG,
    judged,
    look,
    told,
    xml,
)

# -- two looks ---------------------------------------------------------------------------------------------------------


def counted(**more: Any) -> list[dict[str, Any]]:
    """What a first look 100 seconds ago has counted. more: of GPU 3."""
    rows = look(xml()).rows()
    for row in rows:
        row["uptime"] = 900.0
    rows[3].update(more)
    return rows


THERMAL = "clocks_event_reasons_counters__clocks_event_reasons_counters_sw_therm_slowdown"
BRAKE = "clocks_event_reasons_counters__clocks_event_reasons_counters_hw_power_brake"


@pytest.mark.parametrize(
    ("changed", "before", "verdict", "text"),
    [
        ({}, {}, PASS, ""),
        ({f"{ECC}aggregate__dram_uncorrectable": "1"}, {}, "fail", "1 uncorrected errors in DRAM since"),
        ({f"{ECC}aggregate__dram_uncorrectable": "1"}, {"ecc_aggregate_dram": 1}, PASS, ""),
        ({f"{PAGES}unc": "3"}, {"remap_uncorrectable": 1}, "fail", "2 rows remapped"),
        ({BRAKE: "1 us"}, {}, "fail", "1 µs slowed down by the power supply"),
        ({THERMAL: "1000000 us"}, {}, PASS, ""),
        ({THERMAL: "1000001 us"}, {}, "fail", "too hot since"),
        ({}, {"ecc_aggregate_dram": 1}, "inconclusive", "fewer than before"),
        ({BRAKE: "N/A"}, {}, "inconclusive", "not told any more"),
        ({}, {"boot_id": "another"}, "inconclusive", "rebooted since"),
        ({}, {"uuid": smi.uuid(2)}, "inconclusive", "does not tell of it"),
        ({}, {"ecc_aggregate_dram": "0"}, "inconclusive", "uncorrected errors in DRAM were not told before"),
        (
            {BRAKE: "9 us"},
            {"power_brake_us": None},
            "inconclusive",
            "(power brake) were not told before",
        ),
        ({BRAKE: "N/A"}, {"power_brake_us": None}, PASS, ""),
    ],
)
def test_what_was_counted_between_two_looks(changed: Any, before: Any, verdict: str, text: str) -> None:
    sheet = judged(xml(changed), before=counted(**before))
    assert sheet.verdict == verdict, told(sheet)
    assert any(text in finding.text for finding in sheet.findings) or not text


def test_a_second_look_without_a_first_is_none() -> None:
    assert judged(xml(), before=[]).verdict == "inconclusive"


def test_a_first_look_that_told_nothing_is_no_zero(tmp_path: Path) -> None:
    first = gpu_state_gate(params(tmp_path, xml()), Context()).data["counters"]
    bare = [{name: row[name] for name in ("gpu", "uuid", "boot_id", "uptime")} for row in first]
    dark = params(tmp_path, xml({BRAKE: "N/A"}))
    for before in (bare, [], gpu_state_gate(dark, Context()).data["counters"]):
        again = {**params(tmp_path, xml({BRAKE: "900000000 us"})), "before": before}
        assert gpu_state_gate(again, Context()).data["verdict"] == "inconclusive"
    counting = [path for path in smi.HEALTHY if re.search("uncorrectable|remapped_row_unc|_reasons_counters", path)]
    silent = params(tmp_path, xml(dict.fromkeys(counting)))
    mute = {**silent, "profile": smi.profile("memory", count=GPUS), "before": bare}
    told_of = [row["text"] for row in gpu_state_gate(mute, Context()).data["findings"]]
    assert "GPU 3 (0000:13:00): no counter of it is told" in told_of


def test_errors_of_links_between_two_looks() -> None:
    few = QUIET.replace("CRC Errors: 0", "CRC Errors: 1")
    assert judged(xml(), errors=few).verdict == PASS
    assert "18 errors of NVLinks since" in told(judged(xml(), errors=few, before=counted()))[1]


# -- the whole gate ----------------------------------------------------------------------------------------------------


def params(folder: Path, document: str, **how: Any) -> dict[str, Any]:
    return {**smi.params(folder, document, **how), "profile": PROFILE}


def test_what_the_driver_could_not_read_is_read_again(tmp_path: Path) -> None:
    once = xml({f"{POWER}average_power_draw": "[Unknown Error]"})
    (tmp_path / "first").write_text(once, encoding="utf-8")
    body = f'[ "$1" = -q ] && [ -e {tmp_path}/first ] && cat {tmp_path}/first && rm {tmp_path}/first && exit 0'
    given = params(tmp_path, xml(), body=body)
    assert gpu_state_gate(given, Context()).data["verdict"] == "inconclusive", "it looks once where nobody has time"
    (tmp_path / "first").write_text(once, encoding="utf-8")
    again = gpu_state_gate({**given, "again_timeout": 3}, Context()).data
    assert again["verdict"] == PASS, again["msg"]
    for broken in ({f"{PAGES}failure": "Yes"}, {"persistence_mode": "Disabled"}):
        lasting = params(tmp_path, xml(broken), body=f"echo >> {tmp_path}/calls")
        (tmp_path / "calls").unlink(missing_ok=True)
        assert gpu_state_gate({**lasting, "again_timeout": 600}, Context()).data["verdict"] != PASS
        assert (tmp_path / "calls").read_text(encoding="utf-8") == "\n" * 3, "what lasts is looked at once"


def test_a_second_look_needs_the_boot(tmp_path: Path) -> None:
    given = {**params(tmp_path, xml()), "boot_id_path": str(tmp_path / "boot_id")}
    (tmp_path / "boot_id").write_text("b\n", encoding="ascii")
    first = gpu_state_gate(given, Context()).data
    assert gpu_state_gate({**given, "before": first["counters"]}, Context()).data["verdict"] == PASS
    (tmp_path / "boot_id").unlink()
    blind = gpu_state_gate({**given, "before": first["counters"]}, Context()).data
    assert blind["verdict"] == "inconclusive" and "the boot id cannot be read" in blind["msg"]


# -- the controller ----------------------------------------------------------------------------------------------------


def verdict(sheet: Sheet, driver: str = smi.DRIVER) -> dict[str, Any]:
    tool, profile = Tool("nvidia-smi", driver, ["nvidia-smi", "-q", "-x"]), wanted_of(PROFILE).reference()
    return as_verdict("gpu_state_gate", sheet, tool=tool, started="", evidence=digest(b""), profile=profile)


def test_a_pass_has_every_cell_and_is_kept_by_the_controllers_words() -> None:
    for before in (None, counted()):
        second = before is not None
        told_of = verdict(judged(xml(), before=before))
        told_of["started"] = told_of["ended"]
        assert problem_of(told_of, gate="gpu_state_gate", profile=wanted_of(PROFILE).reference()) == ""
        assert claimed.lacking(PROFILE, told_of, second=second) == ""
        own = claimed.own(PROFILE, told_of, second=second)
        assert strange(told_of, own) == ""
        assert {(row["id"], row["entity"]) for row in written(told_of, own)["checks"]} == {
            (row["id"], row["entity"]) for row in told_of["checks"]
        }
        names = claimed.asked(PROFILE, told_of, second=second)["tests"]
        assert names == sorted([*smi.CELLS, *(["counted_since"] if second else [])])
    assert claimed.lacking(PROFILE, verdict(judged(xml())), second=True), "a first look is no second one"


@pytest.mark.parametrize("spoil", ["cell", "count", "device", "uuid", "more", "driver"])
def test_a_pass_that_lacks_something_is_none(spoil: str) -> None:
    told_of = verdict(judged(xml()))
    rows = {(row["id"], row["entity"]): row for row in told_of["checks"]}
    if spoil == "cell":
        told_of["checks"].remove(rows["row_remap", "GPU 1"])
    elif spoil == "count":
        rows["gpu_count", "node"]["measured"] = 3
    elif spoil == "device":
        rows["device_id", "GPU 1"]["measured"] = "2331"
    elif spoil == "uuid":
        rows["uuid", "GPU 1"]["measured"] = smi.uuid(2)
    elif spoil == "more":
        told_of["checks"].append({**rows["device_id", "GPU 1"], "entity": "GPU 4"})
    else:
        told_of["checks"].remove(rows["driver", "node"])
    assert claimed.lacking(PROFILE, told_of, second=False)


def test_the_question_of_a_failure_is_of_each_cell() -> None:
    failed = verdict(judged(xml({f"{PAGES}failure": "Yes"}), before=counted()))
    assert claimed.asked(PROFILE, failed, second=True)["tests"] == sorted([*smi.CELLS, "counted_since"])
    assert claimed.asked(PROFILE, failed, second=False)["tests"] == sorted(smi.CELLS)


# -- nothing that is taken away or falsified makes a failure a pass ----------------------------------------------------


def _mutated(text: str, dice: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.choice(["drop", "twice", "swap", "cut", "move", "block"])
    if kind == "drop":
        del lines[at]
    elif kind == "twice":
        lines.insert(other, lines[at])
    elif kind == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "cut":
        return text[: dice.randrange(len(text))]
    elif kind == "move":
        lines.insert(other, lines.pop(at))
    else:
        del lines[min(at, other) : max(at, other)]
    return "".join(lines)


def test_no_mutation_of_a_failing_document_is_a_pass() -> None:
    broken = [{path: value} for path, value, word, _text, _remedy in WRONG if word == "fail"]
    wanted = wanted_of(smi.profile(count=2))
    state, errors = links.read(smi.state(2)), links.read(smi.errors(2))
    for seed in range(400):
        dice = random.Random(seed)
        text = xml(dice.choice(broken), gpus=2, at=1)
        for _step in range(dice.randint(1, 3)):
            text = _mutated(text, dice) or " "
        sheet = judge(Look(read(text), [DONE], state, errors), wanted)
        assert sheet.verdict != PASS, f"seed {seed}"


def test_the_rows_of_a_profile_are_left_as_they_are() -> None:
    before = copy.deepcopy(PROFILE)
    section_of(wanted_of(PROFILE))
    assert before == PROFILE
