# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifications of idle nodes that give way, on a real Slurm that displaces jobs by partition."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.registry import ASKED, LACKING, OWN
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import command, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import jobs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.idle import gate_idle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.jobs import Ask
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import open_scheduler
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import jobs as slurm_jobs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _in_jobs, _payload
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import reference
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.scheduler import slurm_cluster
from contract.scheduler.slurm_cluster import VERIFY
from contract.scheduler.verbs import TOKEN, Line, wait
from contract.scheduler.verbs import verdict as told
from suite import programs, services

RUN = "run7"
HEALTHY, BROKEN = made.text(made.dcgm4()), made.text(made.failing(made.dcgm4(), "memory", 3, made.fault("bad", 12)))


@pytest.fixture(scope="module")
@services.real
def slurm_that_yields() -> Iterator[Any]:
    with slurm_cluster.running(yields=True) as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_that_yields: Any) -> Any:
    slurm_that_yields.in_service(*slurm_cluster.NODES)
    return slurm_that_yields


class Site:
    """The nodes' dcgmi, each of which says what its node is told, and the controller's side of their jobs."""

    def __init__(self, slurm: Any, folder: Path) -> None:
        self.slurm = slurm
        self.connection = {"scheduler": "slurm", "scheduler_conf": str(slurm.conf)}
        self.folder = folder
        (folder / "boot_id").write_text("boot-1\n", encoding="ascii")
        self.others: dict[str, str] = {}
        self.over: dict[str, str] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        self.free: list[str] = []
        for node in slurm_cluster.NODES:
            self.says(node, HEALTHY)
        choose = f". {folder}/$SLURMD_NODENAME.says"
        self.dcgmi = made.dcgmi(folder, HEALTHY, body=f'if [ "$1" = diag ]; then {choose}; fi')

    def says(self, node: str, output: str, first: str = ":") -> None:
        (self.folder / f"{node}.out").write_text(output, encoding="utf-8")
        text = f"{first}\ncat {self.folder}/{node}.out\nexit 0\n"
        (self.folder / f"{node}.says").write_text(text, encoding="utf-8")

    def works(self, node: str) -> Path:
        """Its diagnostic goes on until somebody ends it, and has begun where this file is."""
        begun = self.folder / f"{node}.begun"
        self.says(node, HEALTHY, first=f"touch {begun}; exec sleep 600")
        return begun

    # -- as the controller does it ---------------------------------------------------------------------------------

    def working(self, hosts: Sequence[str]) -> Mapping[str, str]:
        return {host: run for host, run in self.others.items() if host in hosts}

    def dead(self, hosts: Sequence[str]) -> Mapping[str, str]:
        return {host: run for host, run in self.over.items() if host in hosts}

    def let_go(self, host: str) -> None:
        self.free.append(host)

    def script(self, host: str) -> tuple[str, float]:
        options = {"state_dir": str(self.folder / "jobs"), "boot_id_path": str(self.folder / "boot_id")}
        # Each node's own: gates of one machine wait for each other.
        place = self.folder / f"{host}.pci"
        place.mkdir(exist_ok=True)
        options.update(dcgmi=self.dcgmi, pci_path=made.pci(place))
        params = _in_jobs._checked({"level": 2, "timeout": 300, "busy_timeout": 0, "localise_timeout": 1, **options})
        params = {**params, "profile": made.profile(), "job": f"idle-{host}-{os.urandom(4).hex()}"}
        places = {key: params[key] for key in ("job", "state_dir", "boot_id_path")}
        about = {"limit": 300.0, "profile": reference(made.profile()), "question": made.asked()}
        self.asked[host] = {"host": host, "gate": "dcgm_gate", **places, **about}
        return _payload.script("dcgm_gate", params, python="/usr/bin/python3"), 300.0

    def judged(self, host: str) -> dict[str, Any]:
        asked = self.asked[host]
        text = self._shell(f"cat {asked['state_dir']}/{asked['job']}.job")
        node = {**asked, **_in_jobs._of_the_job(text)}

        def look(nodes: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
            return {str(one["host"]): (self._shell(command(one)), "") for one in nodes}

        engine = {"lacking": LACKING["dcgm_gate"], "asked_of": ASKED["dcgm_gate"], "own": OWN["dcgm_gate"]}
        options = {"gate": "dcgm_gate", "nodes": [node], "look": look, "interval": 1.0, "timeout": 0, "grace": 0}
        found = dict(gate_wait({**options, **engine}, Context()).data["verdicts"][host])
        return {**found, "came_to": "judged" if found["verdict"] in ("pass", "fail") else "cut"}

    def tidy(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            for path in (self.folder / "jobs").glob(f"{self.asked[host]['job']}*"):
                path.unlink()

    def _shell(self, line: str) -> str:
        return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False).stdout

    # -- the verb --------------------------------------------------------------------------------------------------

    def run(
        self, *names: str, line: Optional[Lifeline] = None, check_mode: bool = False, run: str = RUN, **options: Any
    ) -> Result:
        ctx = Context(check_mode=check_mode, lifeline=line)
        limits = {"at_once": 3, "timeout": 60, "start_timeout": 30, "interval": 0.2}
        params = {**self.connection, "gate": "dcgm_gate", "queue": VERIFY, "run_id": run, "aide": self, **limits}
        self.last = gate_idle({**params, "nodes": [{"host": name} for name in names], **options}, ctx)
        self.last.data["asked"] = ctx.asked
        return self.last

    def going(self, *which: str) -> list[str]:
        return self.slurm.run("squeue", "--all", "-h", "-n", jobs.NAME, *which, "-o", "%i").split()

    def left(self) -> list[str]:
        """What goes on in the queue, and what lies about."""
        return [*self.going(), *(path.name for path in (self.folder / "jobs").glob("idle-*"))]


@pytest.fixture
def site(slurm: Any, tmp_path: Path) -> Site:
    return Site(slurm, tmp_path)


def at_poll(step: Callable[[], object]) -> Line:
    """Done once, at the third turn of the wait."""
    return Line(at_poll={3: step})


def since(site: Site, begun: Path) -> None:
    site.slurm.wait_for(begun.exists, f"{begun.name} is there", 60)


def test_idle_nodes_are_judged_by_what_their_jobs_found(site: Site, slurm: Any) -> None:
    """One at a time, in the order that was asked for; and after a failure nothing new."""
    site.says("gpu002", BROKEN)
    seen: set[int] = set()

    class Counts(Lifeline):
        def beat(self) -> None:
            seen.add(len(site.going()))

    result = site.run("gpu003", "gpu002", "gpu001", at_once=1, line=Counts())
    sound, broken, last = (told(result, name) for name in ("gpu003", "gpu002", "gpu001"))
    assert (sound["came_to"], sound["verdict"], sound["ok"]) == ("judged", "pass", True), sound
    assert (broken["came_to"], broken["verdict"]) == ("judged", "fail") and broken["findings"], broken
    assert last["came_to"] == "skipped" and "a node has failed" in last["reason"]
    assert max(seen) == 1 and int(sound["job"]) < int(broken["job"])
    assert site.left() == [] and site.free == ["gpu003", "gpu002"], "each is anybody's as soon as its job is sent"
    shown = slurm.scontrol("show", "job", sound["job"])
    assert "Requeue=0" in shown and f"Comment=gpufleet:{RUN}+verify:gpu003" in shown and VERIFY in shown


def test_who_wants_the_node_has_it_and_the_node_is_not_blamed(site: Site, slurm: Any) -> None:
    """A user's job, a person's hold, another run of ours."""
    begun, user = [site.works(name) for name in slurm_cluster.NODES], []

    def come() -> None:
        for one in begun:
            since(site, one)
        user.append(slurm.job("gpu001"))  # returns as soon as it runs
        slurm.update("gpu002", "State=DRAIN", "Reason=a person")
        site.others["gpu003"] = "run9"

    result = site.run(*slurm_cluster.NODES, line=at_poll(come))
    found = [told(result, name) for name in slurm_cluster.NODES]
    assert [one["came_to"] for one in found] == ["displaced", "yielded", "yielded"], found
    assert {(one["verdict"], one["kind"]) for one in found} == {("", "")}
    assert "a person" in found[1]["reason"] and "run9" in found[2]["reason"]
    assert "PREEMPTED" in slurm.scontrol("show", "job", found[0]["job"])
    assert "RUNNING" in slurm.run("squeue", "-h", "-j", user[0], "-o", "%T") and site.left() == []
    assert {(event.kind, event.data["came_to"]) for event in result.events} == {
        ("note", "displaced"),
        ("note", "yielded"),
    }
    slurm.wait_for(lambda: slurm.state("gpu002") == "IDLE+DRAIN", "the hold is as it was")


def test_a_job_that_did_not_end_by_itself_is_not_believed(site: Site, slurm: Any) -> None:
    """Whatever it wrote down: the second one took for a failure what was the end of its own tool."""
    begun = [site.works("gpu001"), site.works("gpu002")]
    site.says("gpu002", BROKEN, first=f"touch {begun[1]}; sleep 600 & wait; true")

    def ends() -> None:
        for one in begun:
            since(site, one)
        slurm.run("scancel", "-n", jobs.NAME)

    result = site.run("gpu001", "gpu002", line=at_poll(ends))
    found = [told(result, name) for name in ("gpu001", "gpu002")]
    assert {(one["came_to"], one["verdict"]) for one in found} == {("cut", "")}, found
    assert all("CANCELLED" in one["reason"] for one in found)


def test_a_drain_ends_the_job_of_a_run_that_is_gone_and_no_other(site: Site, slurm: Any) -> None:
    """Nobody watches it any more: what it held up would be our own drain. What is merely called so is somebody's."""
    begun = site.works("gpu001")
    number, user = _sent(site, "gpu001"), slurm.job("gpu002")
    slurm.scontrol("update", f"JobId={user}", f"JobName={jobs.NAME}", "Comment=mine")
    since(site, begun)
    for name in ("gpu001", "gpu002"):
        slurm.update(name, "State=DRAIN", f"Reason={TOKEN}")
    assert told(wait(site, "gpu001", timeout=30), "gpu001")["ok"]
    assert "CANCELLED" in slurm.scontrol("show", "job", number)
    other = wait(site, "gpu002", timeout=0)
    assert told(other, "gpu002")["jobs"] == [user] and not other.changed, "nothing was asked of it"
    assert user not in [job.id for job in open_scheduler(site.connection).own_jobs()]


def test_a_node_that_is_not_idle_and_free_is_left_alone(site: Site, slurm: Any) -> None:
    slurm.update("gpu001", "State=DRAIN", "Reason=a person")
    slurm.job("gpu002")
    site.others["gpu003"] = "run9"
    result = site.run(*slurm_cluster.NODES)
    found = [told(result, name) for name in slurm_cluster.NODES]
    assert {(one["came_to"], one["kind"]) for one in found} == {("skipped", "not_ours")}, found
    assert result.data["asked"] == [] and site.left() == []


@pytest.mark.parametrize(
    ("native", "free"),
    [("IDLE", True), ("IDLE+CLOUD", True), ("IDLE+RESERVED", False), ("IDLE+PLANNED", False), ("IDLE+NEW", False)]
    + [("IDLE+CLOUD+POWERED_DOWN", False), ("MIXED", False), ("IDLE+DRAIN", False)],
)
def test_only_a_node_without_any_mark_is_free(native: str, free: bool) -> None:
    driver = open_scheduler({"scheduler": "slurm"})
    view = NodeView("gpu001", state="idle", native=native, answers=True)
    assert (driver.spare(view) == "") is free
    assert driver.spare(replace(view, answers=False)) and driver.spare(replace(view, work=(Work("1"),)))


def test_the_end_of_its_time_ends_its_jobs(site: Site) -> None:
    site.works("gpu001")
    result = site.run("gpu001", "gpu002", at_once=1, timeout=3)
    assert (told(result, "gpu001")["came_to"], told(result, "gpu002")["came_to"]) == ("yielded", "skipped")
    assert site.left() == []


def test_ctrl_c_leaves_no_job(site: Site) -> None:
    begun = site.works("gpu001")
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            site.run("gpu001")
        finally:
            os._exit(0)
    since(site, begun)
    os.kill(child, signal.SIGTERM)
    _pid, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM and site.left() == []


def test_a_job_of_which_nobody_told_the_number_is_found(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken, and the answer was lost: it is this call's to judge, and to end."""
    (tmp_path / "bin").mkdir()
    programs.put(tmp_path / "bin" / "sbatch", f'#!/bin/sh\n{shutil.which("sbatch")} "$@" > /dev/null\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = told(site.run("gpu001"), "gpu001")
    assert found["verdict"] == "pass" and found["job"] and site.left() == [], found


def test_what_a_killed_run_left_is_ended_by_the_next_one(site: Site, slurm: Any) -> None:
    begun = [site.works("gpu001"), site.works("gpu002")]
    left, alive = _sent(site, "gpu001"), _sent(site, "gpu002", run="run5")
    for one in begun:
        since(site, one)
    site.over = {"gpu001": RUN, "gpu002": "run4"}
    result = site.run("gpu001", "gpu002", run="run8")
    slurm.wait_for(lambda: "CANCELLED" in slurm.scontrol("show", "job", left), "what was left is ended")
    assert "RUNNING" in slurm.scontrol("show", "job", alive), "of a run that may go on still"
    assert told(result, "gpu002")["came_to"] == "skipped"


def test_in_check_mode_nothing_is_submitted(site: Site, slurm: Any) -> None:
    before = site.going("-t", "all")
    result = site.run("gpu001", "gpu002", at_once=1, check_mode=True)
    assert [told(result, name)["came_to"] for name in ("gpu001", "gpu002")] == ["foretold", "foretold"]
    assert site.going("-t", "all") == before and result.data["asked"] == [] and not result.events


def test_a_partition_whose_jobs_do_not_give_way_is_refused(site: Site, slurm: Any) -> None:
    hidden = slurm_cluster.HIDDEN
    refused = {"gpu": "does not give its node up", "nowhere": "no partition nowhere"}
    for queue, words in refused.items():
        found = told(site.run("gpu001", queue=queue), "gpu001")
        assert (found["came_to"], found["kind"]) == ("skipped", "config") and words in found["reason"], found
    slurm.scontrol("update", f"PartitionName={hidden}", "PriorityTier=1")
    try:
        found = told(site.run("gpu001"), "gpu001")
    finally:
        slurm.scontrol("update", f"PartitionName={hidden}", "PriorityTier=100")
    assert found["came_to"] == "skipped" and f"jobs of {hidden} would wait" in found["reason"], found


def test_a_slurm_that_leaves_each_job_alone_for_a_while_is_refused(site: Site, slurm: Any) -> None:
    """Its users would wait for the verification as long."""
    with slurm.configured("PreemptExemptTime=00:05:00"):
        found = told(site.run("gpu001"), "gpu001")
    assert (found["came_to"], found["kind"]) == ("skipped", "config"), found
    assert "PreemptExemptTime=00:05:00" in found["reason"] and site.left() == []


def test_a_slurm_that_displaces_nobody_is_refused(slurm_running: Any) -> None:
    driver = open_scheduler({"scheduler": "slurm", "scheduler_conf": str(slurm_running.conf)})
    with pytest.raises(ConfigError, match="does not displace jobs"):
        driver.unyielding("gpu", ["gpu001"])


def test_a_script_gets_nothing_of_the_controllers_environment(
    site: Site, slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SITE_PASSWORD", "s3cret")
    shown = tmp_path / "shown"
    number = _sent(site, "gpu001", script=f"#!/bin/sh\numask 022\nenv > {shown}.new; mv {shown}.new {shown}\n")
    slurm.wait_for(shown.exists, "the job has run", 60)
    assert "s3cret" not in shown.read_text() and f"SLURM_JOB_ID={number}" in shown.read_text()


@pytest.mark.parametrize(
    ("gres", "count"), [("gpu:8", 8), ("gpu:h100:4(S:0-1),gpu:a100:2,nic:2", 6), ("(null)", 0), ("nic:2", 0)]
)
def test_all_gpus_of_a_node_are_asked_for(gres: str, count: int) -> None:
    assert slurm_jobs.gpus_in(f"NodeName=n1 CPUTot=8 Gres={gres} NodeAddr=n1 State=IDLE") == count


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (slurm_jobs.parse_own, "4711|RUNNING"),
        (slurm_jobs.parse_own, "gpu001|RUNNING|gpufleet:run7+verify:gpu001"),
        (slurm_jobs.parse_queues, "PartitionName=a Nodes=n1 PriorityTier=1 PreemptMode=CANCEL State=UP"),
        (slurm_jobs.parse_queues, "PartitionName=a Nodes=n1 PriorityTier=no PreemptMode=CANCEL GraceTime=0 State=UP"),
    ],
)
def test_what_cannot_be_read_is_no_answer(read: Callable[[str], object], line: str) -> None:
    with pytest.raises(BadAnswer):
        read(line)


def test_a_state_that_nobody_knows_is_no_end() -> None:
    [job] = slurm_jobs.parse_own(f"7|LAUNCH_FAILED|{jobs.token(RUN, 'gpu001')}\n8|COMPLETED|mine|and more\n")
    assert (job.id, job.node, job.run, job.state, job.over) == ("7", "gpu001", RUN, jobs.UNKNOWN, False)


def test_other_schedulers_say_that_they_cannot() -> None:
    rest = {
        "scheduler": "slurm",
        "scheduler_url": "http://127.0.0.1:9",
        "scheduler_token": "t",
        "scheduler_user": "root",
    }
    for connection in ({"scheduler": "none"}, rest):
        driver = open_scheduler(connection)
        with pytest.raises(Unsupported):
            driver.unyielding(VERIFY, ["gpu001"])


def _sent(site: Site, node: str, run: str = RUN, script: str = "") -> str:
    """A job as a run sends it that then is gone."""
    text = script or site.script(node)[0]
    number = open_scheduler(site.connection).run_job(Ask(node, jobs.token(run, node), VERIFY, 300.0, text))
    return number
