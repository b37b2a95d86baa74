# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Series that take no more room, time that counts, limits, and what a claimed pass must have."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.readings import READINGS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import SOAK_GATE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak import claimed, grid, judge, series
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.kept import Store
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.part import round_limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.progress import (
    LASTING,
    Progress,
    Watch,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.soak.section import UNITS, plan_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import digest
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import soaked
from hypothesis import example, given, settings
from hypothesis import strategies as st

PAGE = made.CHECKOUT / "docs" / "how-to" / "soak.md"
PLAN = plan_of(wanted_of(soaked.profile()))


@example([float(at % 97) for at in range(2 * series.MOST + 3)])
@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1e4, allow_nan=False), min_size=1, max_size=1500))
def test_a_series_is_bounded_and_loses_neither_a_sample_nor_a_peak(values: list[float]) -> None:
    progress = Progress()
    for at, value in enumerate(values):
        progress.sample(float(at), [{"power": value}], [{"nvlink": at}])
    rows = progress.rows
    assert len(rows) <= series.MOST and sum(row["samples"] for row in rows) == len(values) == progress.samples
    figures = [row["gpus"][0]["figures"]["power"] for row in rows]
    [[count, least, total, most]] = [progress.totals[0]["power"]]
    assert count == sum(one[0] for one in figures) == len(values)
    assert (least, most) == (min(values), max(values)) == (min(f[1] for f in figures), max(f[3] for f in figures))
    assert total == pytest.approx(sum(values), abs=0.01 * len(values))
    assert rows[-1]["gpus"][0]["counted"] == {"nvlink": len(values) - 1}
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    sizes = {row["samples"] for row in rows[:-1]}
    assert len(sizes) <= 1, "but for the last, each row is of as many samples"


def test_time_counts_between_two_good_looks_that_are_near() -> None:
    progress = Progress()
    watch = Watch(progress, 30.0, 100.0, 1000.0)
    watch.loaded(100.0)
    watch.look(110.0, 1010.0, good=True)
    watch.look(120.0, 1020.0, good=True)
    assert watch.look(135.0, 1035.0, good=False) == 15.0
    watch.look(145.0, 1045.0, good=True)
    watch.look(190.0, 1090.0, good=True)
    assert progress.seconds == 0.0, "the round may yet fail"
    watch.look(200.0, 1040.0, good=True)
    watch.passed(208.0)
    watch.look(210.0, 1050.0, good=True)
    assert progress.seconds == 53.0, "neither what lies before the first look, nor a gap, nor what lies after the round"
    assert (progress.gap, progress.blind) == (45.0, 1)
    assert progress.step == 60.0, "the time of the day was set, and time is not by it"
    assert judge.spoiled(progress, PLAN)


def test_time_counts_while_a_round_runs_that_passes() -> None:
    progress = Progress()
    watch = Watch(progress, 30.0, 100.0, 1000.0)
    for at in (110.0, 120.0):
        watch.look(at, at + 900, good=True)
    watch.loaded(121.0)
    watch.look(130.0, 1030.0, good=True)
    watch.loaded(131.0)  # the one before has not passed
    watch.look(140.0, 1040.0, good=True)
    watch.passed(141.0)
    assert progress.seconds == 0.0
    watch.look(145.0, 1045.0, good=True)
    assert progress.seconds == 10.0
    watch.look(155.0, 1055.0, good=True)
    assert progress.seconds == 10.0, "nothing is loaded"


def test_a_load_that_no_look_can_find_is_no_soak(tmp_path: Path) -> None:
    found = SOAK_GATE(soaked.params(tmp_path, interval_seconds=0.6), Context()).data
    assert found["verdict"] == "inconclusive" and not (tmp_path / "calls").exists()
    assert "under a load that has run for an interval" in str(found["findings"])


def test_a_round_has_the_time_of_its_load_and_not_that_of_the_soak() -> None:
    assert round_limit(300, 170_000.0) == 480.0
    assert (round_limit(300, 50.0), round_limit(300, -1.0)) == (50.0, 1.0)


@pytest.mark.parametrize(("what", "value"), [("gap", 30.1), ("step", 5.1)])
def test_what_no_more_time_can_mend_is_spoiled(what: str, value: float) -> None:
    progress = Progress()
    assert not judge.spoiled(progress, PLAN)
    setattr(progress, what, value)
    assert judge.spoiled(progress, PLAN)


def test_a_soak_that_was_ended_was_not_cut_off() -> None:
    progress = Progress()
    for how in ("stopped", "", "", "over", "unsettled", ""):
        progress.begin("boot", 1.0)
        progress.end(how)
    assert progress.interruptions == 3, "the last part still goes on, as far as anybody knows"


@pytest.mark.parametrize(("how", "boot", "count"), [("stopped", "b", 1), ("stopped", "a", 0), ("unsettled", "a", 1)])
def test_what_a_shutdown_ended_was_cut_off(how: str, boot: str, count: int) -> None:
    progress = Progress()
    progress.begin("a", 1.0)
    progress.end(how)
    assert progress.interruptions == 0
    progress.begin(boot, 2.0)
    assert progress.interruptions == count


@pytest.mark.parametrize(("heard", "boot", "seconds"), [(False, "b", 0), (True, "b", 9), (False, "a", 9)])
def test_what_was_soaked_on_a_boot_whose_log_nobody_read_to_its_end_counts_no_more(
    heard: bool, boot: str, seconds: float
) -> None:
    progress = Progress()
    progress.begin("a", 1.0)
    progress.seconds, progress.rounds = 9.0, {"burn": 3}
    progress.heard(heard)
    progress.begin(boot, 2.0)
    assert (progress.seconds, bool(progress.rounds)) == (seconds, bool(seconds))


@pytest.mark.parametrize("name", ["ecc_aggregate_dram", "ecc_aggregate_sram", "remap_uncorrectable"])
def test_what_gpus_count_over_a_reboot_is_seen(name: str) -> None:
    progress = Progress(counted=[{name: 1}, {name: 1}])
    progress.grew([{name: 1}, {name: 3}])
    assert progress.unseen == [[1, f"GPU 1: 2 {LASTING[name]} while it was cut off"]]


def test_of_an_idle_gpu_only_a_peak_counts_and_the_lowest_ends_a_soak() -> None:
    limit = {"name": "clock", "statistic": "min", "least": 1200, **soaked.ABOUT}
    plan = plan_of(wanted_of(soaked.profile(limits=[limit])))
    progress = Progress()
    for clock, loaded in ((345.0, False), (1700.0, True), (300.0, False), (1900.0, False)):
        progress.sample(1.0, [{"clock": clock}], [{}], loaded=loaded)
    assert progress.totals == [{"clock": [1, 1700.0, 1700.0, 1900.0]}] and progress.samples == 4
    assert not judge.beyond(progress, plan)
    progress.sample(1.0, [{"clock": 1199.0}], [{}])
    assert judge.beyond(progress, plan)


@pytest.mark.parametrize(("silent", "verdict"), [(0, "pass"), (1, "pass"), (13, "inconclusive")])
def test_a_sensor_that_falls_silent_under_load_speaks_for_no_more_than_it_told(silent: int, verdict: str) -> None:
    told = {"power": 600.0, "temperature": 61.0, "clock": 1700.0}
    progress = Progress()
    for _look in range(17 - silent):
        progress.sample(1.0, [told], [{}])
    for _look in range(silent):
        progress.sample(1.0, [{}], [{}])
    sheet = judge.begin([])
    judge.judge(sheet, [], progress, PLAN)
    cells = {row.id: row.verdict for row in sheet.rows() if row.id in told}
    assert cells == dict.fromkeys(told, verdict) and bool(sheet.findings) == (verdict != "pass")


@pytest.mark.parametrize(("most", "verdict"), [(95.0, "inconclusive"), (40.0, "fail")])
def test_a_limit_of_a_sensor_that_fell_silent_is_kept_by_nobody(most: float, verdict: str) -> None:
    limit = {"name": "memory_temperature", "statistic": "max", "most": most, **soaked.ABOUT}
    plan = plan_of(wanted_of(soaked.profile(limits=[limit])))
    told = {"power": 600.0, "temperature": 61.0, "clock": 1700.0}
    progress = Progress()
    progress.sample(1.0, [{**told, "memory_temperature": 44.0}], [{}])
    for _look in range(100):
        progress.sample(1.0, [told], [{}])
    sheet = judge.begin([])
    judge.judge(sheet, [], progress, plan)
    assert sheet.verdict == verdict and {row.verdict for row in sheet.rows() if row.id in told} == {"pass"}
    assert [row.verdict for row in sheet.rows() if row.id == "memory_temperature.max"] == [verdict]


@pytest.mark.parametrize(("boot", "verdict"), [("b", "fail"), ("a", "pass")])
def test_a_mean_is_of_the_hours_that_count(boot: str, verdict: str) -> None:
    limit = {"name": "power", "statistic": "mean", "least": 500, **soaked.ABOUT}
    plan = plan_of(wanted_of(soaked.profile(limits=[limit])))
    progress = Progress()
    for at, power in (("a", 620.0), (boot, 390.0)):
        progress.begin(at, 1.0)
        for _look in range(100):
            progress.sample(1.0, [{"power": power, "temperature": 61.0, "clock": 1700.0}], [{}])
    sheet = judge.begin([])
    judge.judge(sheet, [], progress, plan)
    assert [row.verdict for row in sheet.rows() if row.id == "power.mean"] == [verdict]


def test_what_lies_where_it_was_called_is_no_progress_of_a_soak_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Store(str(tmp_path), "").save(Progress(seconds=86400.0)) == ""
    monkeypatch.chdir(tmp_path)
    assert Store(str(tmp_path), "").load() is not None and Store("", "").load() is None


def test_progress_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "a")
    progress = Progress(seconds=7.0, uuids=["GPU-1"])
    assert store.load() is None and store.save(progress) == "" and store.load() == progress
    for text in ("", "[]", '{"schema": 1}', "no JSON"):
        (tmp_path / "a.soak").write_text(text, encoding="utf-8")
        assert store.load() is None
    assert Store(str(tmp_path / "none"), "a").save(progress) == "No such file or directory"


def test_a_soak_goes_on_that_a_release_before_began_and_its_window_is_its_whole_boot(tmp_path: Path) -> None:
    """Which of these lines are of the soak nobody knows: it did not write down when it began by the boot's clock."""
    store, progress = Store(str(tmp_path), "a"), Progress(seconds=7.0)
    progress.begin("boot", 1000.0)
    store.save(progress)
    told = json.loads((tmp_path / "a.soak").read_text(encoding="utf-8"))
    told = {key: value for key, value in told.items() if key not in ("wall", "offset", "forgotten")}
    told["parts"] = [{key: value for key, value in part.items() if key != "up"} for part in told["parts"]]
    (tmp_path / "a.soak").write_text(json.dumps({**told, "schema": 2}), encoding="utf-8")
    known = store.load()
    assert known is not None and known.seconds == 7.0 and known.window("boot", 900.0) == "boot"
    known.begin("boot", 1500.0, 400.0)
    assert known.step == 0.0 and known.interruptions == 1


@pytest.mark.parametrize(
    ("boot", "wall", "up", "step"),
    [("a", 2000.0, 1100.0, 0.0), ("a", 900.0, 1100.0, 1100.0), ("b", 5000.0, 10.0, 0.0), ("b", 900.0, 10.0, 100.0)],
    ids=["later", "set back", "another boot", "set back over a boot"],
)
def test_a_clock_that_was_set_while_nobody_looked_is_noticed(boot: str, wall: float, up: float, step: float) -> None:
    progress = Progress()
    progress.begin("a", 1000.0, 100.0)
    progress.begin(boot, wall, up)
    assert progress.step == step


# -- what a claimed pass must have -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A pass as a node tells it."""
    place = tmp_path_factory.mktemp("node")
    found = SOAK_GATE({**soaked.params(place), "evidence_path": str(place / "evidence")}, Context()).data
    assert found["verdict"] == "pass", found["msg"]
    return found


def test_the_digest_of_the_evidence_is_of_each_round_and_of_the_log(passed: dict[str, Any]) -> None:
    kept = json.loads(Path(passed["evidence_path"]).read_text(encoding="utf-8"))
    told = [*kept["soak"]["digests"], kept["log"]["evidence_digest"]]
    assert len(told) > 1 and passed["evidence_digest"] == digest(*(one.encode() for one in told))


QUESTION = claimed.question(soaked.profile(), soaked.HOURS, ["burn"])


def test_a_pass_lacks_nothing_and_each_of_its_cells_is_demanded(passed: dict[str, Any]) -> None:
    assert claimed.lacking(passed, QUESTION) == ""
    assert set(claimed.own(passed, QUESTION).cells) == {(row["id"], row["entity"]) for row in passed["checks"]}
    for at, row in enumerate(passed["checks"]):
        rest = [*passed["checks"][:at], *passed["checks"][at + 1 :]]
        assert row["id"] in claimed.lacking({**passed, "checks": rest}, QUESTION)


@pytest.mark.parametrize(
    ("id", "value"),
    [(grid.SOAKED, 0.1), (grid.SAMPLES, 1), (grid.GAP, 31.0), (grid.CLOCK, 6), (grid.INTERRUPTIONS, 2)]
    + [("rounds.burn", 0), (grid.LOG, 1), (grid.STATE, 1), ("temperature.max", 88.1), ("power.mean", 499)]
    + [(grid.GAP, None), ("power.mean", "650"), ("power.mean", True)],
)
def test_a_figure_beyond_its_limit_is_no_pass_whatever_its_cell_says(
    passed: dict[str, Any], id: str, value: Any
) -> None:
    forged = copy.deepcopy(passed)
    next(row for row in forged["checks"] if row["id"] == id)["measured"] = value
    assert f"does not keep its limit: {id}" in claimed.lacking(forged, QUESTION)


def test_a_shorter_soak_or_another_load_is_no_answer(passed: dict[str, Any]) -> None:
    assert "soaked" in claimed.lacking(passed, claimed.question(soaked.profile(), 24, ["burn"]))
    assert "rounds.other" in claimed.lacking(passed, claimed.question(soaked.profile(), soaked.HOURS, ["other"]))
    assert claimed.asked(claimed.question(soaked.profile(), 24, ["b", "a"]), passed) == {
        "level": 24,
        "tests": ["a", "b"],
    }
    twins = copy.deepcopy(passed)
    for row in twins["checks"]:
        row["measured"] = "GPU-1" if row["id"] == grid.UUID else row["measured"]
    assert "UUID" in claimed.lacking(twins, QUESTION)


# -- the section of the profile ----------------------------------------------------------------------------------------


def test_what_is_read_is_what_there_are_units_for() -> None:
    assert {name: unit for name, (_field, unit) in READINGS.items()} == dict(UNITS)


@pytest.mark.skipif(not PAGE.is_file(), reason="this copy has no docs")
def test_the_section_on_the_page_is_read_as_it_stands() -> None:
    [section] = re.findall(r"```yaml\n(soak:\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    profile = {**made.profile(), **yaml.safe_load(section)}
    profiles.check(profile, made.PROFILE_SCHEMA)
    plan = plan_of(wanted_of(profile))
    assert (plan.interval, plan.gap, plan.interruptions) == (30.0, 300.0, 1)
    assert [(one.cell, one.wanted, one.unit) for one in plan.limits] == [
        ("temperature.max", 88.0, "C"),
        ("power.mean", 500.0, "W"),
    ]


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no interval": lambda soak: soak.update(interval_seconds=0),
    "a gap that is shorter": lambda soak: soak.update(gap_seconds=0.1),
    "a limit of both kinds": lambda soak: soak["limits"][0].update(least=1),
    "a limit of none": lambda soak: soak["limits"][0].pop("most"),
    "another figure": lambda soak: soak["limits"][0].update(name="speed"),
    "another statistic": lambda soak: soak["limits"][0].update(statistic="median"),
    "too many interruptions": lambda soak: soak.update(interruptions=21),
    "no source": lambda soak: soak.pop("source"),
    "a limit twice": lambda soak: soak["limits"].append(soak["limits"][0]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_section_that_says_nothing_is_refused(name: str) -> None:
    profile = copy.deepcopy(soaked.profile())
    BROKEN[name](profile["soak"])
    with pytest.raises(ConfigError):
        plan_of(wanted_of(profile))
