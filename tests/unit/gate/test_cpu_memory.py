# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu_memory_gate: what the kernel shows and counts, and what stress-ng tells that is no pass."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory import claimed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.gate import cpu_memory_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.cpu_memory.section import section_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import strange, written
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import stress
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import shuffled

FILL = stress.load(stress.MEMORY, "vm")
PROFILE = stress.profile(stress.load(), FILL)
[LOAD, VM_LOAD] = section_of(wanted_of(PROFILE)).loads
SHARE = stress.FREE * 1024 * 80 // 100 // stress.THREADS


def judged(folder: Path, output: str | None = None, **how: Any) -> dict[str, Any]:
    options = how.pop("options", {})
    return dict(cpu_memory_gate({**stress.params(folder, output, **how), **options}, Context()).data)


def again(params: dict[str, Any]) -> dict[str, Any]:
    return dict(cpu_memory_gate(params, Context()).data)


def said(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["verdict"], found["remedy"], "; ".join(finding["text"] for finding in found["findings"])


def ended(text: str, stderr: str = "", rc: int = 0) -> Run:
    return Run(("stress-ng",), rc, text.encode(), stderr.encode(), "exit", 1.0)


def test_a_machine_that_is_well_passes(tmp_path: Path) -> None:
    found = judged(tmp_path, loads=[stress.load(), FILL])
    assert found["verdict"] == "pass", found["msg"]
    [row] = [row for row in found["checks"] if row["id"] == f"load.{stress.CPU}"]
    assert (row["measured"], row["unit"]) == (1000, "bogo ops/s, cpu all, stress-ng 0.15.06")
    calls = [json.loads(line) for line in (tmp_path / "calls").read_text(encoding="utf-8").splitlines()]
    assert [words[:2] for words in calls] == [["--cpu", "4"], ["--vm", "4"]]
    assert all("--verify" in words for words in calls) and calls[1][calls[1].index("--vm-bytes") + 1] == str(SHARE * 4)
    assert calls[0][calls[0].index("--timeout") + 1] == "1s", "of less than a second it makes an endless run"
    assert found["tool"] == {"name": "stress-ng", "version": "0.15.06"}


# -- what there is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "verdict", "remedy", "word"),
    [
        ({"online": "0-2"}, "fail", "reboot", "3 CPUs online, and the profile wants 4"),
        ({"online": "0-2", "present": "0-2"}, "fail", "power_cycle", "3 CPUs online"),
        ({"online": "0-1"}, "fail", "power_cycle", "1 CPU sockets, and the profile wants 2"),
        ({"online": "0-3,8"}, "inconclusive", "remediate_config", "5 CPUs online"),
        ({"online": ""}, "inconclusive", "retest", "does not tell how many CPUs online"),
        ({"online": "3-0"}, "inconclusive", "retest", "does not tell how many CPUs online"),
        ({"online": "0-99999999999"}, "inconclusive", "retest", "does not tell how many CPUs online"),
        ({"nodes": "0"}, "fail", "remediate_config", "1 NUMA nodes, and the profile wants 2"),
        ({"nodes": "0-3"}, "inconclusive", "remediate_config", "4 NUMA nodes"),
        ({"total": 62 << 20}, "fail", "reseat", "62 GiB of memory, and the profile wants 64"),
        ({"total": 66 << 20}, "inconclusive", "remediate_config", "66 GiB of memory"),
        ({"total": "many"}, "inconclusive", "retest", "does not tell how much memory there is"),
    ],
)
def test_cpus_and_memory_are_all_there(
    tmp_path: Path, kernel: dict[str, Any], verdict: str, remedy: str, word: str
) -> None:
    found = judged(tmp_path, **kernel)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]
    assert (tmp_path / "calls").exists() == (verdict != "fail"), "what is broken needs no load to show it"


def test_sockets_that_the_kernel_does_not_tell_are_none(tmp_path: Path) -> None:
    params = stress.params(tmp_path)
    stress.write(tmp_path / "sys/devices/system/cpu/cpu3/topology/physical_package_id", "-1")
    assert "does not tell how many CPU sockets" in said(again(params))[2] and again(params)["verdict"] == "inconclusive"


def test_a_part_that_the_profile_leaves_out_is_not_demanded(tmp_path: Path) -> None:
    params = stress.params(tmp_path, nodes="", wanted={"numa_nodes": None, "machine_checks": None})
    (tmp_path / "proc" / "interrupts").unlink()
    assert again(params)["verdict"] == "pass"


# -- what was counted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "verdict", "remedy", "word"),
    [
        ({"uncorrected": 2}, "fail", "rma", "mc1: 2 uncorrected memory errors in CPU0_DIMM_B1"),
        ({"unlaid": 1}, "fail", "rma", "mc1: 1 uncorrected memory errors"),
        ({"uncorrected": "N/A"}, "inconclusive", "remediate_config", "mc1 does not tell its uncorrected errors"),
        ({"uncorrected": ""}, "inconclusive", "remediate_config", "mc1 does not tell its uncorrected errors"),
        ({"uncorrected": "-1"}, "inconclusive", "remediate_config", "mc1 does not tell its uncorrected errors"),
        ({"corrected": "N/A"}, "inconclusive", "remediate_config", "mc1 does not tell its errors"),
        ({"corrected": 7}, "pass", "none", ""),
    ],
)
def test_what_a_memory_controller_counts(
    tmp_path: Path, counts: dict[str, Any], verdict: str, remedy: str, word: str
) -> None:
    params = stress.params(tmp_path)
    stress.errors(tmp_path, 1, **counts)
    found = again(params)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]


def test_a_controller_of_which_no_driver_tells_is_missed(tmp_path: Path) -> None:
    params = stress.params(tmp_path)
    shutil.rmtree(stress.controller(tmp_path, 1))
    assert said(again(params))[:2] == ("inconclusive", "remediate_config")
    assert "1 memory controllers in EDAC, and the profile wants 2" in said(again(params))[2]
    shutil.rmtree(tmp_path / "sys" / "devices" / "system" / "edac")
    assert "0 memory controllers in EDAC" in said(again(params))[2]


@pytest.mark.parametrize(
    ("old", "verdict", "word"),
    [
        ("MCE:          0          0", "pass", ""),
        ("MCE:          0          1", "fail", "1 machine check exceptions, and the profile allows 0"),
        ("THR:          0          0", "inconclusive", "does not tell how many machine checks"),
        ("MCE:", "inconclusive", "does not tell how many machine checks"),
    ],
)
def test_machine_checks_are_counted(tmp_path: Path, old: str, verdict: str, word: str) -> None:
    params = stress.params(tmp_path)
    path = tmp_path / "proc" / "interrupts"
    path.write_text(path.read_text(encoding="utf-8").replace("MCE:          0          0", old), encoding="utf-8")
    found = again(params)
    assert found["verdict"] == verdict and word in said(found)[2], found["msg"]


@pytest.mark.parametrize(
    ("before", "after", "most", "verdict", "word"),
    [
        ({"corrected": 7}, {"corrected": 8}, 0, "fail", "mc1: 1 corrected memory errors under load in CPU0_DIMM_B1"),
        ({"corrected": 7}, {"corrected": 8}, 1, "pass", ""),
        ({"corrected": 7}, {"corrected": 0}, 9, "inconclusive", "its counters were set back under load"),
        ({}, {"loose": 1}, 0, "fail", "mc1: 1 corrected memory errors under load"),
        ({}, {"uncorrected": 1}, 9, "fail", "mc1: 1 uncorrected memory errors in CPU0_DIMM_B1"),
    ],
)
def test_what_is_counted_under_load(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], most: int, verdict: str, word: str
) -> None:
    stress.errors(tmp_path / "later", 1, **after)
    body = f"cp -r {tmp_path}/later/sys {tmp_path}/"
    params = stress.params(tmp_path, body=body, wanted={"corrected_errors": most})
    stress.errors(tmp_path, 1, **before)
    found = again(params)
    assert found["verdict"] == verdict and word in said(found)[2], found["msg"]


def test_a_machine_check_under_load_fails_however_many_are_allowed(tmp_path: Path) -> None:
    body = f"sed -i 's/MCE:          0/MCE:          1/' {tmp_path}/proc/interrupts"
    found = judged(tmp_path, body=body, wanted={"machine_checks": 9})
    assert said(found)[:2] == ("fail", "field_diag") and "went from 0 to 1 under load" in said(found)[2]


# -- what stress-ng tells ----------------------------------------------------------------------------------------------


def told(**other: Any) -> dict[str, Any]:
    return {"output": stress.metrics(stress.row(**other))}


def cries(*messages: str, **other: Any) -> dict[str, Any]:
    return {"stderr": stress.said(*messages), **other}


@pytest.mark.parametrize(
    ("how", "verdict", "remedy", "word"),
    [
        (
            told(**{"bogo-ops-per-second-real-time": "800.0"}),
            "fail",
            "field_diag",
            "800 bogo ops/s, cpu all, stress-ng",
        ),
        (told(**{"bogo-ops": 80}), "fail", "field_diag", "wanted 900"),
        (
            cries("fail: cpu: sqrt error detected on sqrt(2)", rc=2),
            "fail",
            "field_diag",
            "wrong results in cpu_all: cpu",
        ),
        (cries("fail: cpu: sqrt error detected on sqrt(2)"), "fail", "field_diag", "wrong results in cpu_all"),
        (cries("fail: cpu: fork failed, errno=12 (Cannot allocate)", rc=2), "inconclusive", "retest", "fork failed"),
        (cries("fail: vm: what nobody asked for"), "inconclusive", "retest", "what nobody asked for"),
        (cries("error: No stress workers invoked"), "inconclusive", "retest", "No stress workers"),
        (cries("info: cpu stressor will be skipped, no CPU"), "inconclusive", "retest", "will be skipped"),
        (cries("info: skipped: 1: cpu (1)"), "inconclusive", "retest", "skipped: 1"),
        (cries("info: metrics untrustworthy: 1: cpu (1)"), "inconclusive", "retest", "metrics untrustworthy"),
        (cries("info: skipped: 0", "info: passed: 4: cpu (4)", "info: failed: 0"), "pass", "none", ""),
        ({"rc": 2}, "inconclusive", "retest", "exit status 2"),
        ({"rc": 3}, "inconclusive", "retest", "exit status 3"),
        (told(**{"bogo-ops": 0}), "inconclusive", "retest", "cpu did nothing"),
        (told(**{"bogo-ops": None}), "inconclusive", "retest", "cpu did nothing"),
        (told(**{"bogo-ops-per-second-real-time": "nan"}), "inconclusive", "retest", "cpu did nothing"),
        (told(**{"bogo-ops-per-second-real-time": "inf"}), "inconclusive", "retest", "cpu did nothing"),
        (told(**{"wall-clock-time": "0.01"}), "inconclusive", "retest", "it ran for 0.01 s, and 0.1 s"),
        (told(stressor="vm"), "inconclusive", "retest", "it tells of vm, and cpu was asked for"),
        ({"output": stress.metrics(stress.row(), stress.row())}, "inconclusive", "retest", "it tells of cpu, cpu"),
        ({"output": stress.metrics().replace("metrics:", "perfstats:")}, "inconclusive", "retest", "tells of nothing"),
        ({"output": stress.metrics(version="0.17.06")}, "inconclusive", "remediate_config", "the floor is of 0.15.06"),
        ({"output": stress.metrics(version="?")}, "inconclusive", "retest", "does not tell its version"),
        ({"output": stress.metrics() * 2}, "inconclusive", "retest", "cut, or told twice"),
        ({"output": stress.metrics()[:200]}, "inconclusive", "retest", "cut, or told twice"),
        ({"output": ""}, "inconclusive", "retest", "printed no metrics"),
        ({"output": "lorem ipsum\n"}, "inconclusive", "retest", "cut, or told twice"),
        ({"output": stress.said("fail: cpu: sieve error detected") + stress.metrics()}, "fail", "field_diag", "sieve"),
        ({"output": stress.said() + stress.metrics(), "stderr": ""}, "pass", "none", ""),
        ({"worked": (1, 999)}, "inconclusive", "retest", "a CPU worked for "),
        ({"worked": (1, 0, 999)}, "inconclusive", "retest", "a CPU worked for "),
        ({"worked": (0, 0)}, "inconclusive", "retest", "does not tell how much each CPU worked"),
    ],
)
def test_what_stress_ng_tells(tmp_path: Path, how: dict[str, Any], verdict: str, remedy: str, word: str) -> None:
    found = judged(tmp_path, **how)
    assert said(found)[:2] == (verdict, remedy) and word in said(found)[2], found["msg"]


@pytest.mark.parametrize(
    ("rss", "word"),
    [(2720, "of the memory it filled 2785280 bytes"), (None, "of the memory it filled does not tell how much")],
)
def test_memory_that_was_not_filled_was_not_tested(tmp_path: Path, rss: Any, word: str) -> None:
    params = stress.params(tmp_path, loads=[FILL])
    answers = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    answers["vm"]["stdout"] = stress.metrics(stress.row("vm", **{"max-rss": rss}))
    (tmp_path / "told.json").write_text(json.dumps(answers), encoding="utf-8")
    found = again(params)
    assert found["verdict"] == "inconclusive" and word in said(found)[2], found["msg"]


@pytest.mark.parametrize(
    ("other", "free", "verdict", "word"),
    [
        ({}, stress.FREE, "pass", ""),
        ({}, 44 << 20, "inconclusive", "35.20 GiB of memory could be filled, and the profile wants 38.4: who has it?"),
        ({"filled_percent": 50}, 44 << 20, "pass", ""),
        ({"filled_percent": 60}, 44 << 20, "inconclusive", "wants 38.4"),
        ({"filled_percent": 0}, 3, "inconclusive", "0.00 GiB of memory could be filled"),
    ],
)
def test_memory_that_somebody_else_has_was_not_tested(
    tmp_path: Path, other: dict[str, Any], free: int, verdict: str, word: str
) -> None:
    params = stress.params(tmp_path, loads=[stress.load(stress.MEMORY, "vm", **other)])
    meminfo = tmp_path / "proc" / "meminfo"
    told = meminfo.read_text(encoding="utf-8").replace(f"MemAvailable:   {stress.FREE} kB", f"MemAvailable: {free} kB")
    meminfo.write_text(told, encoding="utf-8")
    found = again(params)
    assert found["verdict"] == verdict and word in said(found)[2], found["msg"]


def test_stress_ng_may_take_its_own_time_to_come_and_go_and_no_more(tmp_path: Path) -> None:
    """Where it takes twice the time, a CPU that worked for half of it has worked for all that was asked."""
    slow = judged(tmp_path, worked=(500, 500), body="sleep 0.1")
    assert slow["verdict"] == "pass", slow["msg"]
    late = judged(tmp_path, worked=(50, 950), body="sleep 5.5")
    assert late["verdict"] == "inconclusive" and "took 6 s, and was asked to run for 0.1 s" in said(late)[2]


def test_what_the_kernel_saw_of_the_load_counts(tmp_path: Path) -> None:
    killed = judged(tmp_path, body=f"echo oom_kill 1 > {tmp_path}/proc/vmstat")
    assert killed["verdict"] == "inconclusive" and "killed a process for want of memory" in said(killed)[2]
    silent = judged(tmp_path, body=f"echo > {tmp_path}/proc/vmstat")
    assert silent["verdict"] == "inconclusive" and "does not tell whether it killed" in said(silent)[2]
    unknown = stress.params(tmp_path, loads=[FILL])
    stress.write(tmp_path / "proc" / "meminfo", f"MemTotal: {stress.TOTAL} kB")
    assert said(again(unknown))[:2] == ("inconclusive", "remediate_config")
    hasty = made.program(tmp_path / "hasty", f"cat {tmp_path}/hasty.out")
    (tmp_path / "hasty.out").write_text(stress.metrics(stress.row(**{"wall-clock-time": "5.0"})), encoding="utf-8")
    early = judged(tmp_path, loads=[stress.load(seconds=5)], options={"stress_ng": hasty})
    assert early["verdict"] == "inconclusive" and "stress-ng ended after" in said(early)[2]


def test_check_mode_loads_nothing_and_a_mere_look_needs_no_tool(tmp_path: Path) -> None:
    params = stress.params(tmp_path)
    dry = cpu_memory_gate(params, Context(check_mode=True)).data
    assert dry["findings"][0]["id"] == "check_mode"
    for ctx in (Context(), Context(check_mode=True)):
        look = cpu_memory_gate({**params, "tests": ["health"], "stress_ng": "/nonexistent"}, ctx).data
        assert look["verdict"] == "pass" and ctx.asked == [] and look["tool"]["name"] == "kernel"
    assert not (tmp_path / "calls").exists()


class Refusing(Lifeline):
    """Whoever has jobs on this node keeps it."""

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        if destructive:
            raise NotOurs(f"refused: {what}")
        return None


def test_a_load_is_asked_for_as_what_may_hit_running_work(tmp_path: Path) -> None:
    params = stress.params(tmp_path)
    with pytest.raises(NotOurs, match="load CPUs and memory: cpu_all"):
        cpu_memory_gate(params, Context(lifeline=Refusing()))
    assert not (tmp_path / "calls").exists()
    assert cpu_memory_gate({**params, "tests": ["health"]}, Context(lifeline=Refusing())).data["verdict"] == "pass"


def test_the_loads_are_those_that_the_profile_knows(tmp_path: Path) -> None:
    unknown = judged(tmp_path, options={"tests": ["no_such_load"]})
    assert unknown["verdict"] == "inconclusive" and "no floor for no_such_load" in unknown["msg"]
    bad: list[dict[str, Any]] = [{"minimum": 0}, {"stressor": "fork"}, {"seconds": 0}, {"version": None}]
    bad += [{"name": "health"}, {"method": "all --cpu 0"}, {"memory_percent": 50}]
    bad += [{"stressor": "vm", "memory_percent": None}]
    bad += [{"stressor": "vm", "memory_percent": 96}, {"minimum": None}]
    wrong = [stress.profile(stress.load(**row)) for row in bad] + [stress.profile(stress.load(), stress.load())]
    counts = ("cpu_threads", "cpu_sockets", "numa_nodes", "memory_gib", "memory_controllers")
    wrong += [stress.profile(stress.load(), **{name: 0}) for name in counts]
    wrong += [stress.profile(stress.load(), corrected_errors=-1), stress.profile(stress.load(), cpu_threads=None)]
    for one in wrong:
        with pytest.raises(ConfigError):
            section_of(wanted_of(one))
    with pytest.raises(ConfigError, match="no section cpu_memory"):
        section_of(wanted_of(made.profile()))


# -- a pass that is claimed --------------------------------------------------------------------------------------------


def test_a_pass_has_every_cell_within_its_limits(tmp_path: Path) -> None:
    good = judged(tmp_path, loads=[stress.load(), FILL])
    assert claimed.lacking(PROFILE, [], good) == "" and strange(good, claimed.own(PROFILE, [])) == ""
    kept = written(good, claimed.own(PROFILE, []))["checks"]
    assert {(row["id"], row["entity"]) for row in kept} == {(row["id"], row["entity"]) for row in good["checks"]}
    assert claimed.asked(PROFILE, []) == {"tests": [stress.CPU, "health", stress.MEMORY]}
    assert claimed.asked(PROFILE, ["health"]) == {"tests": ["health"]}
    for cell, value in (
        (f"load.{stress.CPU}", 899),
        (f"load.{stress.CPU}", float("nan")),
        (f"load.{stress.MEMORY}", 0),
        (f"load.{stress.MEMORY}.filled", 38),
        ("memory", 62),
        ("machine_checks", 1),
        ("corrected_errors", 1),
        ("corrected_errors", False),
    ):
        lied = json.loads(json.dumps(good))
        next(row for row in lied["checks"] if row["id"] == cell)["measured"] = value
        assert f"it passes {cell} of" in claimed.lacking(PROFILE, [], lied)
    for cell in ("cpu_threads", "uncorrected_errors", "memory_controllers", "ended"):
        lied = json.loads(json.dumps(good))
        next(row for row in lied["checks"] if row["id"] == cell)["measured"] = 3
        assert f"it passes {cell} of" in strange(lied, claimed.own(PROFILE, []))
    for at in range(len(good["checks"])):
        assert "required cells" in claimed.lacking(PROFILE, [], {**good, "checks": good["checks"][:at]})


# -- what is falsified -------------------------------------------------------------------------------------------------

BAD = [
    (stress.metrics(stress.row(**{"bogo-ops-per-second-real-time": "800.0"})), stress.said()),
    (stress.metrics(stress.row(**{"wall-clock-time": "0.01"})), stress.said()),
    (stress.said("fail: cpu: one", "fail: cpu: two") + stress.metrics(), ""),
]


def test_no_mutation_of_a_failing_load_is_a_pass() -> None:
    for seed in range(600):
        dice = random.Random(seed)
        text, heard = dice.choice(BAD)
        seen = read(ended(shuffled(text, dice), heard), LOAD)
        lost = "fail:" in text and "cpu: one" not in "".join(seen.wrong) and "cpu: two" not in "".join(seen.wrong)
        assert lost or seen.wrong or seen.problems or seen.rate is None or seen.rate < 900, f"seed {seed}"


def test_no_line_that_is_taken_away_fills_memory() -> None:
    bad = stress.metrics(stress.row("vm", **{"max-rss": 2720})).splitlines(keepends=True)
    for at in range(len(bad)):
        seen = read(ended("".join(bad[:at] + bad[at + 1 :])), VM_LOAD, SHARE)
        assert seen.problems and seen.rate is None, bad[at]
    whole = read(ended(stress.metrics(stress.row("vm"))), VM_LOAD, SHARE)
    assert whole.problems == [] and whole.rate == 1000
