# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only Slurm does, on a real one: what a fake could be made to say proves nothing about Slurm."""

from __future__ import annotations

import calendar
import os
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    DeadlineExceeded,
    NotOurs,
    NotProven,
    Refused,
    Unreachable,
)
from contract.scheduler import slurm_cluster
from contract.scheduler.verbs import RUN, TOKEN, Line, events, evidence, node, verdict, wait

NOBODY = 65534
QUARANTINE = "quarantined: xid79 on 'GPU 3'"


@pytest.fixture
def site(slurm_site: Any) -> Any:
    return slurm_site


def as_nobody(work: Callable[[], Any]) -> Any:
    """What a user without any rights is told, who asks from a process of his own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            answer = work()
        except BaseException as exc:
            answer = exc
        os.write(writing, pickle.dumps(answer))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    if isinstance(answer, BaseException):
        raise answer
    return answer


# -- jobs ------------------------------------------------------------------------------------------------------


def test_an_epilog_that_hangs_is_told(site: Any, slurm: Any) -> None:
    slurm.set_epilog("sleep 4")
    job = slurm.job("gpu001")
    node(site, "gpu001", "held")
    slurm.run("scancel", job)
    slurm.wait_for(lambda: "COMPLETING" in slurm.state("gpu001"), "epilog runs")
    said: list[str] = []
    found = verdict(wait(site, "gpu001", timeout=0), "gpu001")
    assert not found["ok"] and found["state"] == "draining"
    assert verdict(wait(site, "gpu001", said=said.append, completing_timeout=0), "gpu001")["ok"]
    # squeue still lists the job as COMPLETING while the epilog runs: it is told as work that is left.
    assert any(job in line or "COMPLETING" in line for line in said)


def test_a_pending_job_for_the_node_does_not_count(site: Any, slurm: Any) -> None:
    node(site, "gpu001", "held")
    slurm.run("sbatch", "-w", "gpu001", "--mem=1", "-D", "/", "-o", "/dev/null", "--wrap=sleep 1")
    try:
        assert verdict(wait(site, "gpu001"), "gpu001")["ok"]
    finally:
        slurm.run("scancel", "-u", "root")


def test_a_job_over_two_nodes_keeps_both(site: Any, slurm: Any) -> None:
    slurm.run("sbatch", "-N2", "-w", "gpu001,gpu002", "--mem=1", "-D", "/", "-o", "/dev/null", "--wrap=exec sleep 60")
    slurm.wait_for(lambda: slurm.state("gpu002") != "IDLE", "the job runs")
    for name in ("gpu001", "gpu002"):
        assert node(site, name, "held").data["jobs"], name


def test_how_long_each_job_has_run_is_told(site: Any, slurm: Any) -> None:
    number = slurm.job("gpu001")
    began = time.monotonic()
    slurm.wait_for(lambda: slurm.run("squeue", "-h", "-j", number, "-o", "%M").strip() > "0:02", "it has run for 3 s")
    [work] = site.open().states(["gpu001"])["gpu001"].work
    assert work.id == number and 3 <= work.runs <= time.monotonic() - began + 30


def test_a_users_settings_for_squeue_hide_nothing(site: Any, slurm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = slurm.job("gpu001")
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    assert node(site, "gpu001", "held").data["jobs"] == [job]


@pytest.mark.needs_root
def test_t1_a_job_in_a_hidden_partition_is_seen_by_a_user_without_rights(slurm: Any) -> None:
    conf = {"scheduler": "slurm", "scheduler_conf": str(slurm.conf)}
    job = slurm.job("gpu001", partition=slurm_cluster.HIDDEN)
    slurm.update("gpu001", "State=DRAIN", f"Reason={TOKEN}")
    plain = as_nobody(lambda: slurm.run("squeue", "-h", "-w", "gpu001", "-o", "%i"))
    assert job not in plain.split(), "Slurm hides it from who does not ask for all"

    class Site:
        connection = conf

    seen = as_nobody(lambda: node(Site, "gpu001", "present").data)
    assert seen["jobs"] == [job] and seen["state"] == "draining"


@pytest.mark.needs_root
def test_t1_a_node_of_a_hidden_partition_is_not_absent_for_a_user_without_rights(slurm: Any) -> None:
    plain = as_nobody(lambda: slurm.scontrol("-o", "show", "node", slurm_cluster.SECLUDED, check=False))
    assert "not found" in plain or not plain.strip(), "Slurm hides it from who does not ask for all"

    class Site:
        connection = {"scheduler": "slurm", "scheduler_conf": str(slurm.conf)}

    assert as_nobody(lambda: node(Site, slurm_cluster.SECLUDED, "present").data["state"]) != "absent"


# -- whose hold it is ------------------------------------------------------------------------------------------


def left_alone(site: Any, slurm: Any, name: str) -> None:
    """Neither held nor lifted nor evidence, though our ledger says that we held the node once; and untouched."""

    def shown() -> tuple[set[str], str]:
        # What Slurm shows of a reservation comes some seconds after it.
        found = slurm.show(name)
        return set(found["State"].split("+")) - {"MAINTENANCE", "RESERVED"}, found["Reason"]

    before = shown()
    for state in ("held", "resumed"):
        with pytest.raises(NotOurs, match="held by somebody else"):
            node(site, name, state, known_token=TOKEN)
    assert evidence(node(site, name, "present", known_token=TOKEN)) == "foreign_hold"
    assert site.faults.writes == []
    assert shown() == before


@pytest.mark.parametrize("state", ["DOWN", "FAIL", "DRAIN"])
def test_h1_a_node_that_a_person_took_away_in_any_way_is_left_alone(site: Any, slurm: Any, state: str) -> None:
    slurm.update("gpu001", f"State={state}", "Reason=smells burnt")
    left_alone(site, slurm, "gpu001")


def test_h1_a_persons_drain_of_a_node_whose_registration_is_refused_is_theirs(site: Any, slurm: Any) -> None:
    """A missing GPU makes a person drain the node, and Slurm refuse it: the flag does not say whose drain it is."""
    slurm.update("gpu003", "State=DRAIN", "Reason=bob: GPU 5 gone, vendor comes on Monday")
    site.damage("gpu003")
    try:
        assert "INVALID_REG" in slurm.state("gpu003") and slurm.show("gpu003")["Reason"].startswith("bob:")
        left_alone(site, slurm, "gpu003")
    finally:
        site.repair("gpu003")


def test_m5_the_clock_is_told_as_a_boot_is_in_the_zone_of_the_command(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[float, float]:
        driver = site.open()
        words = driver.clock(), driver.states(["gpu001"])["gpu001"].booted
        clock, booted = (calendar.timegm(time.strptime(one, "%Y-%m-%dT%H:%M:%S")) for one in words)
        return clock - time.time(), booted - time.time()

    here, zone = told(), calendar.timegm(time.localtime()) - time.time()
    monkeypatch.setenv("TZ", "ODD+5:17")
    there = told()
    shifts = {round((a - b) / 60) for a, b in zip(here, there)}
    assert abs(here[0] - zone) < 5 and len(shifts) == 1 and shifts != {0}, (here, there)


@pytest.fixture
def maintenance(slurm: Any) -> Iterator[None]:
    asked = ("ReservationName=window", "StartTime=now", "Duration=60", "Users=root", "Flags=MAINT,IGNORE_JOBS")
    slurm.scontrol("create", "reservation", *asked, "Nodes=gpu001,gpu002")
    yield
    slurm.scontrol("delete", "ReservationName=window", check=False)


@pytest.mark.usefixtures("maintenance")
def test_h1_an_administrators_maintenance_is_left_alone_also_before_slurm_shows_it(site: Any, slurm: Any) -> None:
    """slurmctld shows the flag up to ten seconds after the reservation has begun."""
    left_alone(site, slurm, "gpu001")
    (hold,) = node(site, "gpu002", "present").data["holds"]
    assert (hold["text"], hold["author"], hold["form"]) == ("window", "root", "maintenance reservation")
    slurm.wait_for(lambda: "MAINTENANCE" in slurm.state("gpu001"), "the flag is shown", 30)
    left_alone(site, slurm, "gpu001")
    found = wait(site, "gpu001", "gpu003", until="idle").data["verdicts"]
    assert not found["gpu001"]["ok"] and "window" in found["gpu001"]["reason"] and found["gpu003"]["ok"]


@pytest.mark.usefixtures("maintenance")
def test_h4_a_maintenance_that_begins_between_look_and_write_keeps_the_node(site: Any, slurm: Any) -> None:
    slurm.scontrol("delete", "ReservationName=window")
    asked = ("ReservationName=window", "StartTime=now", "Duration=60", "Users=root", "Flags=MAINT", "Nodes=gpu003")
    line = Line(at_write={1: lambda: slurm.scontrol("create", "reservation", *asked)})
    with pytest.raises(NotOurs, match="window"):
        node(site, "gpu003", "held", line=line)
    assert site.texts("gpu003") == []


def test_a_reason_that_slurm_adds_to_says_the_same(site: Any, slurm: Any) -> None:
    """slurmctld appends to a reason when the node stays away."""
    slurm.update("gpu001", "State=DRAIN", f"Reason=gpufleet:run2:{QUARANTINE} : Not responding")
    assert not node(site, "gpu001", "held", why=QUARANTINE, known_runs=[RUN]).changed


# -- nodes that come and go ------------------------------------------------------------------------------------


def test_no_controller_is_an_error_and_never_absence(slurm: Any, tmp_path: Any) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(slurm.conf.read_text().replace("SlurmctldPort=", "SlurmctldPort=1\n#"))

    class Broken:
        connection = {"scheduler": "slurm", "scheduler_conf": str(conf)}

    with pytest.raises(Unreachable, match="slurmctld does not answer"):
        node(Broken, "gpu001", "present")
    with pytest.raises(Unreachable):
        wait(Broken, "gpu001", timeout=0.5)
    with pytest.raises(ConfigError, match="no such slurm.conf"):
        node(Broken, "gpu001", "present", scheduler_conf=str(tmp_path / "none.conf"))


def test_resume_of_a_node_that_was_reimaged_and_fell_down(site: Any, slurm: Any) -> None:
    """slurmctld takes a silent node down and appends to our reason: it is ours all the same."""
    node(site, "gpu002", "held")
    slurm.power_off("gpu002")
    slurm.wait_for(lambda: slurm.state("gpu002").startswith("DOWN+DRAIN"), "SlurmdTimeout has passed", 180)
    assert slurm.show("gpu002")["Reason"].startswith(TOKEN)
    assert verdict(wait(site, "gpu002"), "gpu002")["ok"]
    slurm.boot("gpu002", again=True)
    assert node(site, "gpu002", "resumed", timeout=120).data["state"] == "idle"


def test_a_node_that_never_registered_can_be_held_for_its_first_image(site: Any) -> None:
    """Measured: slurmctld leaves it UNKNOWN until it reads its configuration anew, and takes it down some time after.

    Nothing can run on it, so it is drained when held.
    """
    name = slurm_cluster.DEAD
    seen = node(site, name, "present")
    assert seen.data["state"] in ("unknown", "down", "drained", "draining") and not seen.data["answers"]
    assert evidence(seen) != "in_service"
    held = node(site, name, "held")
    assert held.data["state"] == "drained" and held.data["owner"] == "ours"
    assert verdict(wait(site, name), name)["ok"]
    with pytest.raises(DeadlineExceeded, match="still held"):
        node(site, name, "resumed", timeout=1)


def test_refused_registration_keeps_our_claim_and_is_a_finding(site: Any, slurm: Any) -> None:
    """26.05 overwrites the reason, so that our token is gone, as is done by hand here: the ledger speaks for us."""
    node(site, "gpu003", "held")
    site.damage("gpu003")
    try:
        slurm.update("gpu003", "Reason=Low RealMemory (reported:24105 < 100.00% of configured:99999999)")
        ours = {"known_token": TOKEN, "known_runs": [], "run_id": "run3"}
        seen = node(site, "gpu003", "present", **ours)
        assert seen.data["owner"] == "ours" and "Low RealMemory" in seen.data["finding"]
        assert events(seen) == [("evidence", "drained")], "reimaging it is the remedy"
        assert not node(site, "gpu003", "held", **ours).changed
        with pytest.raises(Refused, match="registration") as refused:
            node(site, "gpu003", "resumed", **ours)
        assert "Low RealMemory" in refused.value.seen
        # Without the ledger's word it is nobody's hold of ours.
        assert node(site, "gpu003", "present", run_id="run3").data["owner"] == "scheduler"
    finally:
        site.repair("gpu003")
    assert "Low RealMemory" in slurm.show("gpu003")["Reason"], "the reason stays"
    assert node(site, "gpu003", "resumed", timeout=40, **ours).changed


def test_a_hold_that_comes_back_is_told(site: Any, slurm: Any) -> None:
    """Somebody drains the node in the moment after we have resumed it."""
    node(site, "gpu001", "held")
    # Its slurmd starts anew, so that Slurm hears of it before long.
    slurm.power_off("gpu001")
    slurm.boot("gpu001")
    line = Line(at_poll={1: lambda: slurm.update("gpu001", "State=DRAIN", "Reason=NHC: gpu lost")})
    with pytest.raises(NotProven, match="taken out of service again") as failed:
        node(site, "gpu001", "resumed", line=line)
    assert "NHC: gpu lost" in failed.value.seen
