# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs against a real Slurm. What a fake could be made to say proves nothing about Slurm."""

from __future__ import annotations

import threading
import time
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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

DEFAULTS = {"scheduler": "slurm", "run_id": "run2", "known_token": "", "known_runs": [], "why": "reimage"}
WAITING = {"until": "drained", "timeout": 15, "interval": 0.2, "completing_timeout": 1}


def node(slurm: Any, name: str, state: str, *, check_mode: bool = False, **options: Any) -> Result:
    params = {**DEFAULTS, "scheduler_conf": str(slurm.conf), "scheduler_node": name, "state": state}
    params.update({"timeout": 20, "interval": 0.2}, **options)
    ctx = Context(check_mode=check_mode, node=name)
    result = scheduler_node(params, ctx)
    result.data["asked"] = ctx.asked
    return result


def wait(slurm: Any, *names: str, said: Any = None, check_mode: bool = False, **options: Any) -> Result:
    nodes = [{"host": name, "known_runs": ["run2"]} for name in names]
    params = {"scheduler": "slurm", "scheduler_conf": str(slurm.conf), **WAITING, "nodes": nodes, **options}
    return scheduler_wait(params, Context(check_mode=check_mode, say=said))


def events(result: Result) -> list[tuple[str, str]]:
    return [(event.kind, event.name) for event in result.events]


# -- hold and drain --------------------------------------------------------------------------------------------


def test_a_hold_lets_the_running_job_end(slurm: Any) -> None:
    job = slurm.job("gpu001")
    held = node(slurm, "gpu001", "held")
    assert held.changed and held.after == {"state": "draining", "reason": "gpufleet:run2:reimage"}
    assert held.data["jobs"] == [job] and held.data["owner"] == "ours"
    assert events(held) == [("hold", "taken"), ("evidence", "not_drained")]
    with pytest.raises(DeadlineExceeded):  # never by itself, while the job runs
        Context().wait(lambda: wait(slurm, "gpu001", timeout=0), lambda r: r.data["verdicts"]["gpu001"]["ok"],
                       timeout=1.5, interval=0.5, wanted="drained")  # fmt: skip
    assert "RUNNING" in slurm.run("squeue", "-h", "-j", job, "-o", "%T")
    ender = threading.Timer(1.0, slurm.end_job, [job])
    ender.start()
    said: list[str] = []
    verdict = wait(slurm, "gpu001", said=said.append).data["verdicts"]["gpu001"]
    ender.join()
    assert verdict["ok"] and verdict["state"] == "drained" and verdict["jobs"] == []
    assert "1 draining; waiting for 1 (gpu001: 1 job(s) run" in said[0] and said[-1] == "1 drained"


def test_a_second_hold_changes_nothing(slurm: Any) -> None:
    first = node(slurm, "gpu001", "held")
    assert first.changed and events(first) == [("hold", "taken"), ("evidence", "drained")]
    again = node(slurm, "gpu001", "held", known_token="gpufleet:run2:reimage")
    assert not again.changed and again.data["asked"] == []
    assert events(again) == [("evidence", "drained")]


def test_a_hold_of_an_earlier_run_of_ours_is_kept(slurm: Any) -> None:
    slurm.update("gpu001", "State=DRAIN", "Reason=gpufleet:run1:reimage")
    kept = node(slurm, "gpu001", "held", known_runs=["run1"])
    assert not kept.changed and kept.data["reason"] == "gpufleet:run1:reimage"
    # The run was killed between the write and the ledger: now the ledger is told.
    assert ("hold", "taken") in events(kept)


def test_another_reason_of_ours_replaces_the_first(slurm: Any) -> None:
    node(slurm, "gpu001", "held")
    quarantined = node(slurm, "gpu001", "held", why='quarantined: xid79 on "GPU 3"')
    assert quarantined.changed
    assert slurm.show("gpu001")["Reason"] == "gpufleet:run2:quarantined: xid79 on 'GPU 3'"
    # slurmctld appends to a reason when the node stays away; it says the same all the same.
    slurm.update("gpu001", "State=DRAIN", "Reason=gpufleet:run2:quarantined: xid79 on 'GPU 3' : Not responding")
    assert not node(slurm, "gpu001", "held", why='quarantined: xid79 on "GPU 3"').changed


@pytest.mark.parametrize(
    "reason", ["NHC: check_hw_gpu failed", "gpufleet:elsewhere:reimage", "gpufleet:", "by hand gpufleet:run2:x"]
)
@pytest.mark.parametrize("state", ["held", "resumed"])
def test_a_foreign_hold_is_left_alone(slurm: Any, state: str, reason: str) -> None:
    slurm.update("gpu001", "State=DRAIN", f"Reason={reason}")
    before = slurm.show("gpu001")
    with pytest.raises(NotOurs) as refused:
        node(slurm, "gpu001", state, known_token="gpufleet:run1:reimage")
    assert reason in refused.value.seen and "root" in refused.value.seen
    seen = node(slurm, "gpu001", "present")
    assert seen.data["foreign"] and events(seen) == [("evidence", "foreign_hold")]
    verdict = wait(slurm, "gpu001").data["verdicts"]["gpu001"]
    assert not verdict["ok"] and "somebody else" in verdict["reason"] and verdict["seconds"] < 3
    assert slurm.show("gpu001")["State"] == before["State"] and slurm.show("gpu001")["Reason"] == before["Reason"]


def test_a_node_that_a_person_took_down_is_left_alone(slurm: Any) -> None:
    slurm.update("gpu001", "State=DOWN", "Reason=smells burnt")
    for state in ("held", "resumed"):
        with pytest.raises(NotOurs):
            node(slurm, "gpu001", state)
    assert slurm.show("gpu001")["Reason"] == "smells burnt"


def test_an_epilog_that_hangs_is_told(slurm: Any) -> None:
    slurm.set_epilog("sleep 4")
    job = slurm.job("gpu001")
    node(slurm, "gpu001", "held")
    slurm.run("scancel", job)
    slurm.wait_for(lambda: "COMPLETING" in slurm.state("gpu001"), "epilog runs")
    said: list[str] = []
    verdict = wait(slurm, "gpu001", timeout=0).data["verdicts"]["gpu001"]
    assert not verdict["ok"] and verdict["state"] == "draining"
    assert wait(slurm, "gpu001", said=said.append, completing_timeout=0).data["verdicts"]["gpu001"]["ok"]
    # squeue still lists the job as COMPLETING while the epilog runs: it is told as work that is left.
    assert any(job in line or "COMPLETING" in line for line in said)


def test_a_pending_job_for_the_node_does_not_count(slurm: Any) -> None:
    node(slurm, "gpu001", "held")
    slurm.run("sbatch", "-w", "gpu001", "--mem=1", "-D", "/", "-o", "/dev/null", "--wrap=sleep 1")
    try:
        assert wait(slurm, "gpu001").data["verdicts"]["gpu001"]["ok"]
    finally:
        slurm.run("scancel", "-u", "root")


def test_a_job_over_two_nodes_keeps_both(slurm: Any) -> None:
    slurm.run("sbatch", "-N2", "-w", "gpu001,gpu002", "--mem=1", "-D", "/", "-o", "/dev/null", "--wrap=exec sleep 60")
    slurm.wait_for(lambda: slurm.state("gpu002") != "IDLE", "the job runs")
    for name in ("gpu001", "gpu002"):
        assert node(slurm, name, "held").data["jobs"], name


def test_a_users_settings_for_squeue_hide_nothing(slurm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = slurm.job("gpu001")
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    assert node(slurm, "gpu001", "held").data["jobs"] == [job]


# -- absent nodes, wrong names, no answer ----------------------------------------------------------------------


def test_a_node_that_slurm_does_not_know(slurm: Any) -> None:
    for state in ("present", "held"):
        result = node(slurm, "gpu999", state)
        assert result.data["state"] == "absent" and not result.changed
        assert events(result) == [("evidence", "not_in_scheduler")]
    with pytest.raises(Refused, match="does not know"):
        node(slurm, "gpu999", "resumed")
    result = wait(slurm, "gpu999", "gpu001", until="idle")
    assert not result.data["verdicts"]["gpu999"]["ok"] and result.data["verdicts"]["gpu001"]["ok"]


@pytest.mark.parametrize(
    "name", ["gpu[001-003]", "gpu001,gpu002", "ALL", "all", "-a", "gpu001;reboot", "gpu 1", "$(id)"]
)
def test_a_name_that_means_more_than_one_node_is_refused(slurm: Any, name: str) -> None:
    with pytest.raises(ConfigError, match="not the name of one node"):
        node(slurm, name, "held")
    verdicts = wait(slurm, name, "gpu999").data["verdicts"]
    assert not verdicts[name]["ok"] and verdicts["gpu999"]["ok"]
    assert all(slurm.state(other) == "IDLE" for other in ("gpu001", "gpu002", "gpu003"))


@pytest.mark.slow
def test_no_controller_is_an_error_and_never_absence(slurm: Any, tmp_path: Any) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(slurm.conf.read_text().replace("SlurmctldPort=", "SlurmctldPort=1\n#"))
    broken = type("Broken", (), {"conf": conf})
    with pytest.raises(Unreachable, match="slurmctld does not answer"):
        node(broken, "gpu001", "present")
    with pytest.raises(Unreachable):
        wait(broken, "gpu001", timeout=0.5)
    with pytest.raises(ConfigError, match="no such slurm.conf"):
        node(type("Gone", (), {"conf": tmp_path / "none.conf"}), "gpu001", "present")


# -- resume ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_resume_waits_for_the_node_before_it_lifts_the_hold(slurm: Any) -> None:
    node(slurm, "gpu001", "held")
    slurm.power_off("gpu001")
    slurm.wait_for(lambda: "NOT_RESPONDING" in slurm.state("gpu001"), "silence is noticed", 40)
    with pytest.raises(DeadlineExceeded, match="still held"):
        node(slurm, "gpu001", "resumed", timeout=1)
    assert "DRAIN" in slurm.state("gpu001") and slurm.show("gpu001")["Reason"].startswith("gpufleet:run2:")
    boot = threading.Timer(1.0, slurm.boot, ["gpu001"], {"again": True})
    begun = time.monotonic()
    boot.start()
    resumed = node(slurm, "gpu001", "resumed", timeout=30)
    boot.join()
    assert time.monotonic() - begun > 1.0
    assert resumed.changed and resumed.data["answers"] and resumed.data["booted"]
    assert resumed.after == {"state": "idle", "reason": ""}
    assert events(resumed) == [("hold", "released"), ("evidence", "in_service")]
    again = node(slurm, "gpu001", "resumed")
    assert not again.changed and again.data["asked"] == []


@pytest.mark.slow
def test_resume_of_a_node_that_was_reimaged_and_fell_down(slurm: Any) -> None:
    """slurmctld takes a silent node down and appends to our reason: it is ours all the same."""
    node(slurm, "gpu002", "held")
    slurm.power_off("gpu002")
    slurm.wait_for(lambda: slurm.state("gpu002").startswith("DOWN+DRAIN"), "SlurmdTimeout has passed", 60)
    assert slurm.show("gpu002")["Reason"].startswith("gpufleet:run2:reimage")
    assert wait(slurm, "gpu002").data["verdicts"]["gpu002"]["ok"]
    slurm.boot("gpu002", again=True)
    assert node(slurm, "gpu002", "resumed", timeout=30).data["state"] == "idle"


def test_a_node_that_never_registered_can_be_held_for_its_first_image(slurm: Any) -> None:
    """Measured: slurmctld leaves such a node UNKNOWN for good. Nothing can run on it, so it is drained when held."""
    seen = node(slurm, "gpu004", "present")
    assert seen.data["state"] in ("unknown", "drained", "draining") and not seen.data["answers"]
    assert ("evidence", "in_service") not in events(seen)
    held = node(slurm, "gpu004", "held")
    assert held.data["state"] == "drained" and held.data["owner"] == "ours"
    assert wait(slurm, "gpu004").data["verdicts"]["gpu004"]["ok"]
    with pytest.raises(DeadlineExceeded, match="still held"):
        node(slurm, "gpu004", "resumed", timeout=1)


@pytest.mark.slow
def test_refused_registration_keeps_our_claim_and_is_a_finding(slurm: Any) -> None:
    """slurmctld overwrites the reason, so that our token is gone: the ledger speaks for us."""
    node(slurm, "gpu003", "held")
    slurm.power_off("gpu003")
    slurm.set_memory("gpu003", 99_999_999)
    try:
        slurm.boot("gpu003", again=True)
        slurm.wait_for(lambda: "INVALID_REG" in slurm.state("gpu003"), "registration is refused", 30)
        # 22.05 keeps the reason of a node that was drained; 26.05 overwrites it, as is done by hand here.
        slurm.update("gpu003", "Reason=Low RealMemory (reported:24105 < 100.00% of configured:99999999)")
        ours = {"known_token": "gpufleet:run2:reimage", "known_runs": []}
        seen = node(slurm, "gpu003", "present", run_id="run3", **ours)
        assert seen.data["owner"] == "ours" and "Low RealMemory" in seen.data["finding"]
        assert events(seen) == [("evidence", "drained")], "reimaging it is the remedy"
        assert not node(slurm, "gpu003", "held", run_id="run3", **ours).changed
        with pytest.raises(Refused, match="registration") as refused:
            node(slurm, "gpu003", "resumed", run_id="run3", **ours)
        assert "Low RealMemory" in refused.value.seen
        # Without the ledger's word it is nobody's hold of ours.
        assert node(slurm, "gpu003", "present", run_id="run3").data["owner"] == "scheduler"
    finally:
        slurm.set_memory("gpu003", 100)
        slurm.power_off("gpu003")
        slurm.boot("gpu003", again=True)
    slurm.wait_for(lambda: "INVALID_REG" not in slurm.state("gpu003"), "registration is accepted", 30)
    assert "Low RealMemory" in slurm.show("gpu003")["Reason"], "the reason stays"
    assert node(slurm, "gpu003", "resumed", run_id="run3", **ours).changed


def test_a_hold_that_comes_back_is_told(slurm: Any) -> None:
    """Somebody drains the node in the moment in which we resume it."""
    node(slurm, "gpu001", "held")
    slurm.power_off("gpu001")
    slurm.boot("gpu001")
    real = slurm.conf

    class Meddled(Context):
        def may_write(self, what: str, **more: Any) -> bool:
            return super().may_write(what, **more)

        def wait(self, read: Any, done: Any, **more: Any) -> Any:
            if "in service" in more["wanted"]:
                slurm.update("gpu001", "State=DRAIN", "Reason=NHC: gpu lost")
            return super().wait(read, done, **more)

    params = {**DEFAULTS, "scheduler_conf": str(real), "scheduler_node": "gpu001", "state": "resumed"}
    with pytest.raises(NotProven, match="taken out of service again") as failed:
        scheduler_node({**params, "timeout": 20, "interval": 0.2}, Meddled(node="gpu001"))
    assert "NHC: gpu lost" in failed.value.seen


def test_wait_until_idle(slurm: Any) -> None:
    node(slurm, "gpu001", "held")
    verdicts = wait(slurm, "gpu001", "gpu002", until="idle").data["verdicts"]
    assert not verdicts["gpu001"]["ok"] and "held by us" in verdicts["gpu001"]["reason"]
    assert verdicts["gpu002"]["ok"]
    slurm.job("gpu002")
    assert wait(slurm, "gpu002", until="idle").data["verdicts"]["gpu002"]["ok"], "a node that works is in service"


# -- the batch and check mode ----------------------------------------------------------------------------------


def test_one_dead_node_does_not_stop_its_batch(slurm: Any) -> None:
    job = slurm.job("gpu003")
    for name in ("gpu001", "gpu003"):
        node(slurm, name, "held")
    nodes = [{"host": name, "known_runs": ["run2"]} for name in ("gpu001", "gpu002", "gpu003", "gpu999")]
    nodes += [
        {"host": "bare", "scheduler": "none"},
        {"host": "taken", "scheduler_node": "gpu001", "refused": "another run works on this node"},
        {"host": "wrong", "scheduler_conf": "/nonexistent/slurm.conf"},
    ]
    result = wait(slurm, nodes=nodes, timeout=2)
    verdicts = result.data["verdicts"]
    assert {host for host, verdict in verdicts.items() if verdict["ok"]} == {"gpu001", "gpu999", "bare"}
    assert job in verdicts["gpu003"]["reason"] and verdicts["gpu003"]["reason"].startswith("not within 2 s")
    assert "hold it first" in verdicts["gpu002"]["reason"]
    assert verdicts["taken"]["reason"] == "another run works on this node"
    assert "no such slurm.conf" in verdicts["wrong"]["reason"]
    assert result.data["not_ok"] == ["gpu002", "gpu003", "taken", "wrong"]
    told = {event.node: event.name for event in result.events}
    assert told == {
        "gpu001": "drained", "gpu002": "in_service", "gpu003": "not_drained", "gpu999": "not_in_scheduler",
        "bare": "not_in_scheduler",
    }  # fmt: skip


def test_check_mode_sends_nothing_and_predicts(slurm: Any) -> None:
    job = slurm.job("gpu002")
    node(slurm, "gpu003", "held")
    before = {name: (slurm.state(name), slurm.show(name)["Reason"]) for name in ("gpu001", "gpu002", "gpu003")}
    idle = node(slurm, "gpu001", "held", check_mode=True)
    assert idle.changed and idle.after["state"] == "drained" and idle.data["asked"] == []
    busy = node(slurm, "gpu002", "held", check_mode=True)
    assert busy.changed and busy.after["state"] == "draining" and busy.data["jobs"] == [job]
    back = node(slurm, "gpu003", "resumed", check_mode=True)
    assert back.changed and back.after == {"state": "idle", "reason": ""} and back.data["asked"] == []
    verdicts = wait(slurm, "gpu001", "gpu002", "gpu003", check_mode=True).data["verdicts"]
    assert all(verdict["ok"] for verdict in verdicts.values())
    after = {name: (slurm.state(name), slurm.show(name)["Reason"]) for name in before}
    assert after == before


def test_the_driver_for_no_scheduler() -> None:
    params = {**DEFAULTS, "scheduler": "none", "scheduler_node": "bare"}
    for state in ("present", "held", "resumed"):
        result = scheduler_node({**params, "state": state}, Context(node="bare"))
        assert result.data["state"] == "absent" and not result.changed
        assert events(result) == [("evidence", "not_in_scheduler")]
    for until in ("drained", "idle"):
        waiting = {"scheduler": "none", **WAITING, "until": until, "nodes": [{"host": "bare"}]}
        assert scheduler_wait(waiting, Context()).data["verdicts"]["bare"]["ok"], until
