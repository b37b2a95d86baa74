# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""storage_gate: which drives there are, how they say that they are, and what fio tells of them that is no pass."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage import claimed, health
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.document import (
    command,
    filling,
    measuring,
    read,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.gate import storage_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nvme
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import places as members
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled

PROFILE = nvme.profile(nvme.speed())
[SPEED] = section_of(wanted_of(PROFILE)).speeds


def judged(folder: Path, output: str | None = None, **how: Any) -> dict[str, Any]:
    options = how.pop("options", {})
    return dict(storage_gate({**nvme.params(folder, output, **how), **options}, Context()).data)


def said(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["verdict"], found["remedy"], "; ".join(finding["text"] for finding in found["findings"])


def test_a_machine_that_is_well_passes(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert found["verdict"] == "pass", found["msg"]
    [row] = [row for row in found["checks"] if row["id"] == f"speed.{nvme.READ}"]
    assert (row["entity"], row["unit"]) == ("data 0", "GB/s, read 1024 KiB, depth 8")
    assert [line.split()[0] for line in (tmp_path / "calls").read_text(encoding="utf-8").splitlines()] == [
        "fill",
        nvme.READ,
    ]


# -- the drives --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "verdict", "remedy", "word"),
    [
        ({"drives": {"nvme0": 960}, "on": ""}, "fail", "power_cycle", "0 of 1 drives data of 3840 GB"),
        ({"drives": {**nvme.DRIVES, "nvme2": 3840}}, "inconclusive", "remediate_config", "2 of 1 drives data"),
        ({"drives": {**nvme.DRIVES, "nvme2": 1920}}, "inconclusive", "remediate_config", "1920 GB: the profile knows"),
        ({"drives": {"nvme0": 960, "nvme1": 3200}}, "fail", "power_cycle", "0 of 1 drives data"),
        ({"nvme1": {"transport": "tcp"}}, "fail", "power_cycle", "0 of 1 drives data"),
        ({"nvme1": {"state": "dead"}}, "fail", "power_cycle", "nvme1 (serial S4X1) is dead"),
        ({"nvme1": {"state": "resetting"}}, "inconclusive", "retest", "nvme1 (serial S4X1) is resetting"),
        ({"nvme1": {"state": ""}}, "inconclusive", "retest", "a state that the kernel does not tell"),
        (
            {"nvme1": {"transport": ""}},
            "inconclusive",
            "retest",
            "is live, and how it is connected the kernel does not",
        ),
        ({"nvme1": {"serial": "S4X0"}}, "inconclusive", "retest", "has no serial of its own: S4X0"),
        ({"nvme1": {"serial": ""}}, "inconclusive", "retest", "has no serial of its own: none"),
    ],
)
def test_each_drive_is_there_and_another_one(
    tmp_path: Path, kernel: dict[str, Any], verdict: str, remedy: str, word: str
) -> None:
    found = judged(tmp_path, **kernel)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]


def test_a_kind_may_be_known_by_its_model(tmp_path: Path) -> None:
    drives = [nvme.kind("boot", 1, 960), nvme.kind("data", 1, 3840, model="MAKER 3840")]
    params = nvme.params(tmp_path)
    for model, verdict in (("MAKER  3840 ", "pass"), ("MAKER 3840 B", "fail")):
        (nvme.namespace(tmp_path, nvme.DATA).parent / "model").write_text(f"{model}\n", encoding="utf-8")
        profile = nvme.profile(nvme.speed(), drives=drives)
        assert storage_gate({**params, "profile": profile}, Context()).data["verdict"] == verdict


# -- their health ------------------------------------------------------------------------------------------------------

OLD = {"critical_warning": 0, "available_spare": 100, "available_spare_threshold": 10}
OLD = {**OLD, "percentage_used": 3, "media_errors": 0}


@pytest.mark.parametrize(
    "told",
    [
        OLD,
        {"smart_status": {"passed": True}, "nvme_smart_health_information_log": OLD},
        nvme.smart(critical_warning={"value": 0, "available_spare": 0}, media_errors="0"),
        nvme.smart(media_errors=0.0),
    ],
)
def test_each_spelling_of_a_drive_that_is_well(told: dict[str, Any]) -> None:
    seen = health.read(json.dumps(told))
    assert seen.problems == [] and seen.values == {**OLD}


@pytest.mark.parametrize(
    ("told", "verdict", "remedy", "word"),
    [
        (nvme.smart(critical_warning=4), "fail", "rma", "it is no longer reliable"),
        (nvme.smart(critical_warning=2), "fail", "field_diag", "too hot or too cold"),
        (nvme.smart(critical_warning=128), "fail", "field_diag", "what nobody knows"),
        (nvme.smart(critical_warning={"value": 1}), "fail", "rma", "its spare is below its threshold"),
        (nvme.smart(avail_spare=9), "fail", "rma", "9 % of its spare are left, below its threshold of 10 %"),
        (nvme.smart(avail_spare=0, spare_thresh=0), "inconclusive", "field_diag", "neither a spare nor a threshold"),
        (nvme.smart(percent_used=81), "fail", "rma", "81 % of its endurance are used, and the profile allows 80"),
        (nvme.smart(media_errors="2"), "fail", "rma", "2 media errors, and the profile allows 0"),
        ({"nvme_smart_health_information_log": {**OLD, "available_spare": 0}}, "fail", "rma", "0 % of its spare"),
        (nvme.smart(media_errors=True), "inconclusive", "retest", "it tells no media errors that fits"),
        (nvme.smart(media_errors=-1), "inconclusive", "retest", "it tells no media errors that fits"),
        (nvme.smart(percent_used=256), "inconclusive", "retest", "it tells no percentage used that fits"),
        (nvme.smart(percentage_used=3), "inconclusive", "retest", "it tells no percentage used that fits"),
        ({}, "inconclusive", "retest", "it tells no critical warning"),
        (json.dumps(nvme.smart()) * 2, "inconclusive", "retest", "more than one document"),
        (json.dumps(nvme.smart())[:60], "inconclusive", "retest", "nvme1 (serial S4X1): "),
        ('{"media_errors": 0, "media_errors": 0}', "inconclusive", "retest", "a key stands twice"),
        ("", "inconclusive", "retest", "it printed nothing"),
    ],
)
def test_what_a_drive_tells_that_is_no_pass(tmp_path: Path, told: Any, verdict: str, remedy: str, word: str) -> None:
    found = judged(tmp_path, told={nvme.DATA: told})
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]
    assert (tmp_path / "calls").exists() == (verdict != "fail"), "what is broken is not worn any further"


def test_a_drive_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    params = nvme.params(tmp_path)
    refused = nvme.nvme(tmp_path, {}, after="echo /dev/nvme1: Permission denied >&2\nexit 1")
    assert "nvme says: /dev/nvme1: Permission denied" in said(dict(storage_gate(params, Context()).data))[2]
    gone = storage_gate({**params, "nvme": "/nonexistent/nvme"}, Context()).data
    assert refused and said(dict(gone))[:2] == ("inconclusive", "remediate_config") and "not installed" in gone["msg"]


def test_a_drive_that_loses_data_while_it_is_measured_fails(tmp_path: Path) -> None:
    drives = [nvme.kind("boot", 1, 960), nvme.kind("data", 1, 3840, media_errors=9)]
    body = f'sed -i \'s/"media_errors": 0/"media_errors": 1/\' {tmp_path}/smart.nvme1'
    found = judged(tmp_path, body=body, options={"profile": nvme.profile(nvme.speed(), drives=drives)})
    assert said(found)[:2] == ("fail", "rma") and "media errors went from 0 to 1" in said(found)[2]


# -- their speed -------------------------------------------------------------------------------------------------------


def told(change: Any = None, **how: Any) -> str:
    found = nvme.document(**how)
    [job] = found["jobs"][:1]
    if change:
        change(found, job)
    return json.dumps(found, indent=1)


def inside(side: str, **values: Any) -> Any:
    return lambda _document, job: job.update({side: {**job[side], **values}})


def beside(**values: Any) -> Any:
    return lambda _document, job: job.update(values)


@pytest.mark.parametrize(
    ("output", "verdict", "remedy", "word"),
    [
        (told(rate=2e9), "fail", "field_diag", "data 0 (nvme1): 2.003 GB/s, read 1024 KiB, depth 8, wanted 2.5"),
        (told(beside(error=5)), "fail", "field_diag", "input/output error"),
        (told(beside(total_err=3, first_error=61)), "fail", "rma", "medium error"),
        (told(beside(error=22)), "inconclusive", "remediate_config", "failed with error 22"),
        (told(lambda found, job: job.pop("error")), "inconclusive", "retest", "does not tell whether it failed"),
        (told(beside(error=False)), "inconclusive", "retest", "does not tell whether it failed"),
        (told(jobs=2), "inconclusive", "retest", "it tells of 2 jobs, and 1 were asked for"),
        (told(lambda found, job: found["jobs"].clear()), "inconclusive", "retest", "it tells of 0 jobs"),
        (told(lambda found, job: found.update(jobs=None)), "inconclusive", "retest", "it tells of 0 jobs"),
        (told(name="other"), "inconclusive", "retest", "something else than was asked"),
        (told(block=4096), "inconclusive", "retest", "something else than was asked"),
        (told(lambda found, job: job["job options"].pop("direct")), "inconclusive", "retest", "something else"),
        (told(inside("write", io_bytes=4096)), "inconclusive", "retest", "it did not read alone"),
        (told(lambda found, job: job.pop("write")), "inconclusive", "retest", "it did not read alone"),
        (told(inside("read", io_bytes=0)), "inconclusive", "retest", "a job moved nothing"),
        (told(inside("read", bw_bytes="fast")), "inconclusive", "retest", "a job moved nothing"),
        (told(inside("read", bw_bytes=float("inf"))), "inconclusive", "retest", "a job moved nothing"),
        (told(inside("read", short_ios=1)), "inconclusive", "retest", "came short"),
        (told(inside("read", total_ios=2)), "inconclusive", "retest", "do not fit each other"),
        (told(seconds=0.05), "inconclusive", "retest", "a job ran for 0.05 s, and 0.1 s"),
        (told(inside("read", bw_bytes=1e9)), "fail", "field_diag", ": 1 GB/s"),
        (told()[:700], "inconclusive", "retest", "fio: "),
        (told() * 2, "inconclusive", "retest", "more than one document"),
        (told().replace('"groupid"', '"error"'), "inconclusive", "retest", "a key stands twice"),
        ("lorem ipsum", "inconclusive", "retest", "it printed no JSON"),
    ],
)
def test_what_fio_tells_that_is_no_pass(tmp_path: Path, output: str, verdict: str, remedy: str, word: str) -> None:
    found = judged(tmp_path, output)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]


def test_fio_is_asked_to_make_no_file_and_to_write_to_none_that_it_reads() -> None:
    asked = {ask.pattern: command("fio", ask, "/place") for ask in (measuring(SPEED), filling(1 << 30))}
    assert all({"--allow_file_create=0", "--direct=1", "--thread"} <= set(words) for words in asked.values())
    assert {pattern: "--readonly" in words for pattern, words in asked.items()} == {"read": True, "write": False}
    # What lies in a cache yet is measured as if it came from the drive.
    assert {pattern: "--end_fsync=1" in words for pattern, words in asked.items()} == {"read": False, "write": True}


@pytest.mark.parametrize(
    ("change", "verdict", "word"),
    [
        (beside(error=5), "fail", "input/output error"),
        (beside(error=28), "inconclusive", "failed with error 28"),
        (inside("write", io_bytes=1 << 20, total_ios=1), "inconclusive", "it wrote 1048576 of 16777216 bytes"),
    ],
)
def test_what_the_first_writing_says_counts(tmp_path: Path, change: Any, verdict: str, word: str) -> None:
    params = nvme.params(tmp_path)
    answers = json.loads((tmp_path / "fio.json").read_text(encoding="utf-8"))
    answers["fill"] = told(change, name="fill", pattern="write", seconds=0)
    (tmp_path / "fio.json").write_text(json.dumps(answers), encoding="utf-8")
    found = dict(storage_gate(params, Context()).data)
    assert found["verdict"] == verdict and word in said(found)[2], found["msg"]
    assert (tmp_path / "calls").read_text(encoding="utf-8").split()[::2] == ["fill"], "nothing is read from it"


def test_words_around_the_document_are_none_of_it() -> None:
    seen = read("fio: a warning\n" + told() + "Run status group 0 (all jobs):\n", measuring(SPEED))
    assert (seen.problems, seen.version, round(seen.value or 0, 2)) == ([], "3.33", 5.0)


def test_random_reads_are_counted_and_added_up() -> None:
    row = nvme.speed(nvme.RANDOM, "randread", 1000, block_kib=4, jobs=3)
    [speed] = section_of(wanted_of(nvme.profile(row))).speeds
    how: dict[str, Any] = {"name": nvme.RANDOM, "pattern": "randread", "block": 4096, "jobs": 3, "rate": 4096 * 1000}
    seen = read(told(**how), measuring(speed))
    assert seen.problems == [] and seen.value == 3000 and speed.unit == "IOPS, randread 4 KiB, depth 8 x 3"
    # Of two figures of the same thing the lower one.
    assert [read(told(inside("read", iops=one), **how), measuring(speed)).value for one in (2000, 500)] == [3000, 1500]


def test_a_figure_that_nobody_can_have_measured_is_none(tmp_path: Path) -> None:
    assert "the kernel saw 0 go over the drive" in said(judged(tmp_path, seen=0))[2]
    told_of = nvme.document()["jobs"][0]["read"]["io_bytes"]
    assert "go over the drive" in said(judged(tmp_path, seen=told_of * 8 // 10))[2]
    assert judged(tmp_path, seen=told_of * 95 // 100)["verdict"] == "pass"
    hasty = made.program(tmp_path / "hasty", f'{tmp_path}/fio "$@" --runtime=0ms')
    found = judged(tmp_path, options={"fio": hasty}, speeds=[nvme.speed(seconds=3)])
    assert found["verdict"] == "inconclusive"
    params = nvme.params(tmp_path, told(seconds=3), speeds=[nvme.speed(seconds=3)])
    assert "fio ended after" in said(dict(storage_gate({**params, "fio": hasty}, Context()).data))[2]
    (nvme.namespace(tmp_path, nvme.DATA) / "stat").write_text("no numbers", encoding="utf-8")
    quiet = made.program(tmp_path / "quiet", f'sed -i s/^count.*// {tmp_path}/fio.py; exec {tmp_path}/fio "$@"')
    assert "the kernel does not count" in said(dict(storage_gate({**params, "fio": quiet}, Context()).data))[2]


def test_check_mode_measures_nothing_and_a_mere_look_loads_nothing(tmp_path: Path) -> None:
    params = nvme.params(tmp_path)
    dry = storage_gate(params, Context(check_mode=True)).data
    assert dry["findings"][0]["id"] == "check_mode"
    for ctx in (Context(), Context(check_mode=True)):
        look = storage_gate({**params, "tests": ["health"], "places": []}, ctx).data
        assert look["verdict"] == "pass" and ctx.asked == [] and look["tool"]["name"] == "nvme"
    assert not (tmp_path / "calls").exists()


class Refusing(Lifeline):
    """Whoever has jobs on this node keeps it."""

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        if destructive:
            raise NotOurs(f"refused: {what}")
        return None


def test_a_measurement_is_asked_for_as_what_may_hit_running_work(tmp_path: Path) -> None:
    params = nvme.params(tmp_path)
    with pytest.raises(NotOurs, match="with fio"):
        storage_gate(params, Context(lifeline=Refusing()))
    assert not (tmp_path / "calls").exists()
    look = storage_gate({**params, "tests": ["health"], "places": []}, Context(lifeline=Refusing())).data
    assert look["verdict"] == "pass"


def test_the_speeds_are_those_that_the_profile_knows(tmp_path: Path) -> None:
    unknown = judged(tmp_path, options={"tests": ["no_such_speed"]})
    assert unknown["verdict"] == "inconclusive" and "no floor for no_such_speed" in unknown["msg"]
    bad = [{"minimum": 0}, {"over": "some"}, {"pattern": "trim"}, {"drives": "none"}, {"name": "health"}, {"jobs": 2}]
    bad += [{"at": "home"}, {"at": "device", "pattern": "write"}]
    for wrong in [nvme.profile(nvme.speed(**row)) for row in bad] + [nvme.profile(nvme.speed(), nvme.speed())]:
        with pytest.raises(ConfigError):
            section_of(wanted_of(wrong))
    with pytest.raises(ConfigError, match="no section storage"):
        section_of(wanted_of(made.profile()))


# -- a pass that is claimed --------------------------------------------------------------------------------------------


def test_a_pass_has_every_cell_within_its_limits(tmp_path: Path) -> None:
    good = judged(tmp_path)
    assert claimed.lacking(PROFILE, [], good) == "" and strange(good, claimed.own(PROFILE, [])) == ""
    kept = written(good, claimed.own(PROFILE, []))["checks"]
    assert {(row["id"], row["entity"]) for row in kept} == {(row["id"], row["entity"]) for row in good["checks"]}
    assert claimed.asked(PROFILE, []) == {"tests": [nvme.READ, "health"]}
    assert claimed.asked(PROFILE, ["health"]) == {"tests": ["health"]}
    for cell, value in (
        (f"speed.{nvme.READ}", 2.4),
        ("media_errors", 1),
        ("percentage_used", 81),
        ("available_spare", 0),
        ("available_spare", True),
        (f"speed.{nvme.READ}", float("nan")),
    ):
        lied = json.loads(json.dumps(good))
        next(row for row in lied["checks"] if row["id"] == cell and row["entity"] == "data 0")["measured"] = value
        assert f"it passes {cell} of data 0 outside" in claimed.lacking(PROFILE, [], lied)
    twice = json.loads(json.dumps(good).replace("nvme1 S4X1", "nvme0 S4X0"))
    assert claimed.lacking(PROFILE, [], twice) == "it passes one drive twice"
    for at in range(len(good["checks"])):
        assert "required cells" in claimed.lacking(PROFILE, [], {**good, "checks": good["checks"][:at]})


# -- what is falsified -------------------------------------------------------------------------------------------------


FAILING = [told(rate=2e9), told(beside(error=5)), told(inside("read", short_ios=1)), told(inside("read", io_bytes=0))]


def test_no_mutation_of_a_failing_measurement_is_a_pass() -> None:
    for seed in range(400):
        dice = random.Random(seed)
        seen = read(shuffled(dice.choice(FAILING), dice), measuring(SPEED))
        assert seen.errors or seen.problems or seen.value is None or seen.value < SPEED.minimum, f"seed {seed}"


@pytest.mark.parametrize("text", FAILING)
def test_no_member_that_is_taken_away_makes_a_pass(text: str) -> None:
    for place in members(json.loads(text)):
        found = json.loads(text)
        inner = found
        for step in place[:-1]:
            inner = inner[step]
        del inner[place[-1]]
        seen = read(json.dumps(found), measuring(SPEED))
        assert seen.errors or seen.problems or seen.value is None or seen.value < SPEED.minimum, place


def test_no_mutation_of_a_drive_that_is_ill_is_well() -> None:
    ill = [{"critical_warning": 4}, {"avail_spare": 9}, {"percent_used": 99}, {"media_errors": 7}]
    well = health.read(json.dumps(nvme.smart())).values
    for seed in range(400):
        dice = random.Random(seed)
        seen = health.read(shuffled(json.dumps(nvme.smart(**dice.choice(ill)), indent=1), dice))
        assert seen.problems or seen.values != well, f"seed {seed}"
