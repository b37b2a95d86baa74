# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make outages counts what was really taken away, and its page says no more than was seen; no rack is asked here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(CHECKOUT / "tests" / "e2e"))

import gone
import lab
import outage_matrix
import outages
from gone import HOWS, REFUSED, SILENT, NothingThere
from outage_page import ENDS, ON, WRONG, outcomes, remembered, written
from outages import Outage

DAY0 = outage_matrix.STAGES["day0_bringup"]
LOOK, PREFLIGHT, POWER, HOLD, DRAINED = DAY0[:5]


class Service:
    """A process of its own session, as each service of the rack is one."""

    def __init__(self, name: str, runs: bool) -> None:
        self._process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        self.pid = self._process.pid
        if not runs:
            self.end()
        for known in (lab.RACK / "run" / f"{name}.json", lab.RACK / "nodes" / name / "bmc.json"):
            known.parent.mkdir(parents=True, exist_ok=True)
            known.write_text(json.dumps({"pid": self.pid}), encoding="utf-8")

    def stopped(self) -> bool:
        os.waitpid(self.pid, os.WUNTRACED)
        return Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lab, "RACK", tmp_path)
    return tmp_path


@pytest.fixture
def runs(rack: Path) -> Iterator[Service]:
    service = Service("runs", runs=True)
    yield service
    service.end()


@pytest.fixture
def ended(rack: Path) -> Service:
    return Service("ended", runs=False)


def test_what_is_silent_was_stopped(runs: Service) -> None:
    back = gone.take("runs", SILENT)
    assert runs.stopped()
    back()
    os.waitpid(runs.pid, os.WCONTINUED)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("service", ["ended", "bmc:ended"])
def test_a_service_that_does_not_run_is_not_taken_away(ended: Service, service: str, how: str) -> None:
    with pytest.raises(NothingThere):
        gone.take(service, how)


@pytest.mark.needs_root
@pytest.mark.parametrize("how", HOWS)
def test_a_node_without_an_sshd_has_none_taken_away(how: str) -> None:
    node = f"without{os.getpid()}"
    subprocess.run(["ip", "netns", "add", f"gfrack-{node}"], check=True)
    try:
        with pytest.raises(NothingThere):
            gone.take(f"sshd:{node}", how)
    finally:
        subprocess.run(["ip", "netns", "delete", f"gfrack-{node}"], check=True)


@pytest.mark.slow
def test_a_run_has_met_what_was_taken_away_alone(
    rack: Path, runs: Service, ended: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rack / "build").mkdir()
    (rack / "build" / "collections").symlink_to(CHECKOUT / "build" / "collections")
    monkeypatch.setattr(lab, "CHECKOUT", rack)
    (rack / "inventory").write_text("node ansible_connection=local\n", encoding="utf-8")
    tasks = [{"name": stage, "ansible.builtin.debug": {"msg": stage}} for stage in (LOOK, PREFLIGHT)]
    (rack / "run.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]), "utf-8")
    there, not_there = Outage(LOOK, "runs", 0.1, SILENT), Outage(PREFLIGHT, "ended", 0.1, SILENT)
    disturbed = outages.Disturbed(str(rack / "run.yml"), (), [there, not_there])
    run = disturbed.end()
    assert run.rc == 0, run.tail()
    assert (disturbed.met, disturbed.absent) == ([there], [not_there])
    assert run.seconds < 30  # the run is let go on, too, where nothing was taken away
    assert outages.passed(run) == [LOOK, PREFLIGHT]


def result(host: str, stage: str, failed: bool = False) -> dict[str, Any]:
    return {"host": host, "task": stage, "result": {"failed": failed}}


def test_a_stage_was_passed_where_it_failed_on_nobody_before_anything_failed() -> None:
    first = [result(host, stage) for stage in (LOOK, PREFLIGHT) for host in ("gpu001", "gpu002")]
    then = [result("gpu001", POWER), result("gpu002", POWER, failed=True), result("gpu001", HOLD)]
    assert outages.passed(lab.Run(2, "", 1.0, {}, [*first, *then])) == [LOOK, PREFLIGHT]
    assert outages.passed(lab.Run(0, "", 1.0, {}, first)) == [LOOK, PREFLIGHT]


def line(met: Sequence[Outage], rc: int, ended: Sequence[Outage] = (), **more: Any) -> dict[str, Any]:
    told = {"met": [vars(one) for one in met], "ended": [vars(one) for one in ended]}
    return {"playbook": "day0_bringup", "rc": rc, "passed": [LOOK, PREFLIGHT, POWER], "wrong": [], **told, **more}


def seen(*lines: dict[str, Any]) -> dict[Outage, str]:
    return {outage: word for (_playbook, outage), word in outcomes(lines, outage_matrix.STAGES).items()}


BEFORE, LAST, ENDING = (
    Outage(stage, service, 5.0, SILENT)
    for stage, service in ((PREFLIGHT, "munged"), (POWER, "bmc:gpu004"), (HOLD, "slurmctld"))
)


def test_a_run_that_ended_says_on_only_of_what_it_got_beyond() -> None:
    met = [BEFORE, LAST, ENDING]
    assert seen(line(met, 2, [ENDING])) == {BEFORE: ON, ENDING: ENDS}
    assert seen(line(met, 2, passed=[])) == {}
    assert seen(line(met, 0)) == dict.fromkeys(met, ON)
    assert seen(line(met, 2, [ENDING], wrong=["gpu001 was quarantined"])) == dict.fromkeys(met, WRONG)


def test_what_a_run_could_not_tell_takes_nothing_back() -> None:
    assert seen(line([LAST], 0), line([LAST], 2)) == {LAST: ON}


def test_no_run_takes_a_service_twice() -> None:
    for seconds in outage_matrix.SECONDS:
        left = [Outage(stage, service, seconds, SILENT) for stage in DAY0 for service in ("munged", "ironic", "ledger")]
        services = [one.service for one in outage_matrix.chosen(left, DAY0)]
        assert sorted(services) == ["ironic", "ledger", "munged"]


def test_what_no_run_can_tell_is_asked_once() -> None:
    left = [BEFORE, LAST, ENDING]
    assert outage_matrix.still_left(left, [BEFORE, LAST], line([], 2)) == [ENDING]
    assert outage_matrix.still_left(left, [BEFORE, ENDING], line([BEFORE], 0)) == [LAST, ENDING]


def test_the_page_tells_untried_from_what_does_not_apply() -> None:
    applying = {playbook: list(outage_matrix.cells(playbook)) for playbook in outage_matrix.STAGES}
    away = Outage(PREFLIGHT, "ledger", 60.0, SILENT)
    services = outage_matrix.SERVICES
    page = written([line([BEFORE, away], 0)], outage_matrix.STAGES, services, applying)
    assert f"Seen in 1 runs: 2 of {len(applying['day0_bringup'])} outages of day0_bringup tried; 0 of " in page
    asks = {PREFLIGHT: [away.service, "munged"]}
    told = written([line([away], 0)], outage_matrix.STAGES, services, applying, asks=asks)
    assert "outages of day0_bringup tried, 1 of the 6 where the stage asks the service; 0 of " in told
    [row] = [text for text in page.partition("## day2")[0].splitlines() if text.startswith(f"| {PREFLIGHT} |")]
    cells = dict(zip(services, [text.strip() for text in row.split("|")[2:-1]]))
    assert (cells["munged"], cells["ledger"]) == ("on ? ? ?", "? - on -")
    assert (cells["ironic"], cells["sshd:gpu002"]) == ("?", "-")
    assert Outage(PREFLIGHT, "ledger", 5.0, REFUSED) not in applying["day0_bringup"]
    assert (outage_matrix.PAGE.parent / "../tutorial/first-run.md").exists() and "(../tutorial/first-run.md)" in page


def test_a_page_that_was_written_elsewhere_is_read_again_and_goes_on() -> None:
    """The page that is shipped says the same when it is written anew without a run."""
    shipped = outage_matrix.PAGE.read_text(encoding="utf-8")
    applying = {playbook: list(outage_matrix.cells(playbook)) for playbook in outage_matrix.STAGES}
    stages, services = outage_matrix.STAGES, outage_matrix.SERVICES
    before = remembered(shipped, services)
    assert before[1] > 0 and len(before[0]) > 100
    assert written([], stages, services, applying, before, outage_matrix.ASKS) == shipped
    wrong = {**line([BEFORE], 0), "wrong": ["something"]}
    page = written([wrong], stages, services, applying, before)
    again = remembered(page, services)
    assert again[0] == {**before[0], ("day0_bringup", BEFORE): WRONG} and again[1] == before[1] + 1
    assert remembered("", services) == ({}, 0)


def test_what_was_seen_elsewhere_is_not_tried_again_unless_all_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_matrix, "RESULTS", tmp_path / "e2e" / "outages.jsonl")
    shipped = remembered(outage_matrix.PAGE.read_text(encoding="utf-8"), outage_matrix.SERVICES)
    assert outage_matrix.seen_before(anew=False) == shipped
    outage_matrix.RESULTS.write_text(json.dumps(line([BEFORE], 0)) + "\n", encoding="utf-8")
    monkeypatch.setattr(outage_matrix, "PAGE", tmp_path / "written since.md")
    assert outage_matrix.seen_before(anew=False) == shipped, "as it was before the first run here"
    assert outage_matrix.seen_before(anew=True) == ({}, 0) and not outage_matrix.RESULTS.exists()
    assert outage_matrix.seen_before(anew=True) == ({}, 0)


def test_the_commands_of_the_report_are_run_as_they_stand_there() -> None:
    """A run over all nodes, in place of the one that is left, would image them anew."""
    day2 = "ansible-playbook gpufleet.baremetal.day2_recycle -i INVENTORY --limit"
    nodes = {
        "gpu001": {"next": ""},
        "gpu002": {"next": f"{day2} gpu002"},
        "gpu003": {"next": f"{day2} gpu003"},
        "gpu004": {"next": f"{day2} gpu004 -e day2_recycle_all=true; then wait"},
    }
    report = [{"host": "gpu001", "task": "Show where each node stands", "result": {"nodes": nodes}}]
    same = ("day2_recycle", "-e", "all")
    assert outages.to_do(lab.Run(2, "", 1.0, {}, report), same) == [
        ("day2_recycle", "--limit", "gpu002,gpu003"),
        ("day2_recycle", "-e", "day2_recycle_all=true", "--limit", "gpu004"),
    ]
    assert outages.to_do(lab.Run(2, "", 1.0, {}, []), same) == [same]
    assert outages.to_do(lab.Run(0, "", 1.0, {}, report), same) == []
