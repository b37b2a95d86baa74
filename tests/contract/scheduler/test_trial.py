# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job of ours tries a node before its resume gives it to others: on a real Slurm, whose jobs really run."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    DeadlineExceeded,
    LeaseLost,
    NotOurs,
    NotProven,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from contract.scheduler import test_doors as doors
from contract.scheduler.verbs import OPTIONS, RUN, TOKEN, Line, events, evidence, node

NODE = "gpu001"
NAME = f"gpufleet:{RUN}:trial-{NODE}"


@pytest.fixture
def site(slurm_site: Any) -> Iterator[Any]:
    node(slurm_site, NODE, "held")
    yield slurm_site
    slurm = slurm_site.slurm
    for name in reservations(slurm):
        slurm.run("scancel", f"--reservation={name}", check=False)
        slurm.wait_for(lambda name=name: gone(slurm, name), f"{name} is gone", 60)


class Registers(Line):
    """A slurmd that starts registers at once; a running one waits to be asked, for seconds."""

    slurm: Any = None
    resumed = False
    name = NODE

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> Optional[str]:
        self.resumed = what.endswith("State=RESUME")
        return super().before_write(what, destructive=destructive, nodes=nodes)

    def beat(self) -> None:
        super().beat()
        if self.resumed and self.slurm.alive(f"slurmd.{self.name}"):
            self.resumed = False
            self.slurm.power_off(self.name)
            self.slurm.boot(self.name)


def reservations(slurm: Any) -> list[str]:
    return re.findall(r"ReservationName=(\S+)", slurm.scontrol("--all", "-o", "show", "reservation"))


def gone(slurm: Any, name: str) -> bool:
    slurm.scontrol("delete", f"ReservationName={name}", check=False)
    return name not in reservations(slurm)


def reserve(slurm: Any, name: str, *flags: str) -> None:
    said = ["create", "reservation", f"ReservationName={name}", f"Nodes={NODE}", "StartTime=now", "Duration=60"]
    slurm.scontrol(*said, "Users=root", *flags)


def there(path: str) -> str:
    """What the node's own connection brings: all nodes of this cluster are this machine."""
    file = Path(path)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    file.unlink(missing_ok=True)
    return text


def resume(
    site: Any,
    trial: str = "always",
    *,
    line: Optional[Registers] = None,
    node_file: Optional[Callable[[str], str]] = there,
    check_mode: bool = False,
    **options: Any,
) -> Result:
    line = line or Registers()
    line.slurm = site.slurm
    known = {"known_token": TOKEN, "known_runs": [RUN]}
    params = {**OPTIONS, **site.connection, **known, "scheduler_node": NODE, "state": "resumed", "trial": trial}
    ctx = Context(node=NODE, lifeline=line, node_file=node_file, check_mode=check_mode)
    result = scheduler_node({**params, "timeout": 60, **options}, ctx)
    result.data["asked"] = ctx.asked
    return result


def held(slurm: Any, why: str) -> None:
    """By us, with that as its reason, and nothing of ours is left around it."""
    shown = slurm.show(NODE)
    assert "DRAIN" in shown["State"] and shown["Reason"] == f"gpufleet:{RUN}:{why}", shown
    assert reservations(slurm) == []


def test_nobodys_job_lands_there_before_one_of_ours_has_ended(site: Any, slurm: Any) -> None:
    waits = slurm.run(
        "sbatch", "--parsable", "-w", NODE, "-n1", "--mem=1", "-D", "/", "-o", "/dev/null", "--wrap=:"
    ).strip()
    result = resume(site, run_id="run3")
    number = result.data["trial"]["job"]
    assert result.data["trial"] == {"made": True, "why": "", "job": number}
    assert ("note", "tried_by_a_job") in events(result) and ("hold", "released") in events(result)
    assert reservations(slurm) == [] and result.data["state"] in ("idle", "allocated")
    listed = ("squeue", "-h", "-t", "all", "-j", waits, "-o", "%T")
    slurm.wait_for(lambda: "COMPLETED" in slurm.run(*listed), "the other job has run", 60)
    began = {
        one: dict(re.findall(r"(\w+Time)=(\S+)", slurm.scontrol("-o", "show", "job", one))) for one in (number, waits)
    }
    assert began[number]["EndTime"] <= began[waits]["StartTime"]
    told = slurm.scontrol("-o", "show", "job", number)
    assert f"BatchHost={NODE}" in told and "JobState=COMPLETED" in told
    assert "StdOut=/var/tmp/gpufleet-" in told


# -- what speaks against the node ------------------------------------------------------------------------------


def test_a_job_that_fails_holds_it_again(site: Any, slurm: Any) -> None:
    ended = Registers(at_write={3: lambda: slurm.run("scancel", "--name=gpufleet-trial")})
    with pytest.raises(NotProven) as caught:
        resume(site, line=ended)
    assert "its trial job failed" in str(caught.value) and "CANCELLED" in caught.value.seen
    held(slurm, "its trial job failed")


def test_a_job_that_does_not_end_holds_it_again(site: Any, slurm: Any) -> None:
    with pytest.raises(DeadlineExceeded) as caught:
        resume(site, line=Registers(at_write={3: lambda: slurm.power_off(NODE)}), timeout=3)
    assert "PENDING" in caught.value.seen
    held(slurm, "its trial job did not end in time")


def test_a_slurmctld_that_is_away_for_a_moment_is_waited_for(site: Any, slurm: Any) -> None:
    away = Registers(at_poll={1: lambda: site.faults.outage(1)})
    assert resume(site, line=away).data["trial"]["made"] and reservations(slurm) == []


def test_a_job_that_runs_elsewhere_holds_it_again(site: Any, slurm: Any) -> None:
    def move() -> None:
        number = slurm.run("squeue", "-h", "-n", "gpufleet-trial", "-o", "%i").strip()
        slurm.scontrol("update", f"JobId={number}", "ReqNodeList=gpu002")
        slurm.scontrol("update", f"ReservationName={NAME}", f"Nodes={NODE},gpu002")

    with pytest.raises(NotProven) as caught:
        resume(site, line=Registers(at_poll={1: move}))
    assert "on gpu002" in caught.value.seen
    held(slurm, "its trial job ran elsewhere")


@pytest.mark.parametrize("told", ["", "somebody else's words"])
def test_an_output_that_is_not_there_holds_it_again(site: Any, slurm: Any, told: str) -> None:
    with pytest.raises(NotProven):
        resume(site, node_file=lambda path: there(path) and told)
    held(slurm, "its trial job's output was not seen")


def test_where_there_is_no_way_to_the_node_the_job_itself_says_where_it_ran(site: Any, slurm: Any) -> None:
    number = resume(site, node_file=None).data["trial"]["job"]
    told = slurm.scontrol("-o", "show", "job", number)
    assert "JobState=COMPLETED" in told and "StdOut=/dev/null" in told, "and nothing is left behind"
    assert Path("/dev/null").stat().st_mode & 0o222 == 0o222


# -- where it cannot be had ------------------------------------------------------------------------------------


def test_a_node_in_somebody_elses_reservation_is_told_and_left_there(site: Any, slurm: Any) -> None:
    reserve(slurm, "alice")
    with pytest.raises(Refused) as caught:
        resume(site)
    assert "alice" in caught.value.seen and slurm.show(NODE)["Reason"] == TOKEN
    result = resume(site, "auto")
    assert "alice" in result.data["trial"]["why"] and not result.data["trial"]["made"]
    assert reservations(slurm) == ["alice"] and "DRAIN" not in slurm.state(NODE)


def test_one_that_somebody_takes_for_maintenance_meanwhile_stays_held(site: Any, slurm: Any) -> None:
    def take() -> None:
        reserve(slurm, "alice", "Flags=MAINT,IGNORE_JOBS")

    with pytest.raises(NotOurs) as caught:
        resume(site, "auto", line=Registers(at_write={2: take}))
    assert "alice" in caught.value.seen
    assert reservations(slurm) == ["alice"] and slurm.show(NODE)["Reason"] == TOKEN


def test_where_no_job_of_ours_is_ever_started_it_is_resumed_as_before(site: Any, slurm: Any) -> None:
    slurm.scontrol("update", "PartitionName=gpu", "MaxTime=1")
    slurm.scontrol("update", "PartitionName=quiet", "MaxTime=1")
    try:
        with pytest.raises(Refused) as caught:
            resume(site)
        assert "Partition" in caught.value.seen
        assert slurm.show(NODE)["Reason"] == TOKEN and reservations(slurm) == []
        result = resume(site, "auto")
        assert "never starts" in result.data["trial"]["why"]
        assert result.data["state"] == "idle" and reservations(slurm) == []
    finally:
        slurm.scontrol("update", "PartitionName=gpu", "MaxTime=UNLIMITED")
        slurm.scontrol("update", "PartitionName=quiet", "MaxTime=UNLIMITED")


def test_where_sbatch_refuses_it_is_resumed_as_before(site: Any, slurm: Any) -> None:
    for partition in ("gpu", "quiet"):
        slurm.scontrol("update", f"PartitionName={partition}", "State=DRAIN")
    try:
        result = resume(site, "auto")
        assert "no partition" in result.data["trial"]["why"] and result.data["state"] == "idle"
    finally:
        for partition in ("gpu", "quiet"):
            slurm.scontrol("update", f"PartitionName={partition}", "State=UP")


def test_never_and_check_mode_write_nothing_of_it(site: Any, slurm: Any) -> None:
    foretold = resume(site, check_mode=True)
    assert foretold.changed and foretold.data["asked"] == [] and reservations(slurm) == []
    plain = resume(site, "never")
    assert len(plain.data["asked"]) == 1 and plain.data["trial"] == {}


# -- what a run has left ---------------------------------------------------------------------------------------


def test_what_a_run_leaves_that_dies_before_its_last_write_the_next_one_takes_up(site: Any, slurm: Any) -> None:
    def dies() -> None:
        raise LeaseLost("another run works on this node")

    with pytest.raises(LeaseLost):
        resume(site, line=Registers(at_write={4: dies}))
    assert reservations(slurm) == [NAME] and "DRAIN" not in slurm.state(NODE)
    seen = node(site, NODE, "present", known_runs=[RUN])
    assert seen.data["owner"] == "ours" and evidence(seen) == "not_drained", "nobody gets it, and it is not in service"
    others = node(site, NODE, "present", known_runs=[])
    assert others.data["owner"] == "foreign"
    with pytest.raises(NotOurs):
        resume(site, run_id="run3", known_runs=[], known_token="")
    result = resume(site, run_id="run3", known_runs=[RUN])
    assert result.data["trial"]["made"] and reservations(slurm) == [] and result.data["state"] == "idle"


def test_what_a_run_has_left_goes_without_a_trial_as_well(site: Any, slurm: Any) -> None:
    reserve(slurm, NAME)
    slurm.update(NODE, "State=RESUME")
    result = resume(site, "never")
    assert reservations(slurm) == [] and result.data["state"] == "idle"
    assert [one.split()[1] for one in result.data["asked"]] == ["update", "delete", "update"], "held before it goes"


# -- many at once ----------------------------------------------------------------------------------------------


def test_two_that_are_at_work_at_once_are_each_tried_by_a_job_of_their_own(site: Any, slurm: Any) -> None:
    names, peers, told = (NODE, "gpu002"), Peers(), {}
    node(site, "gpu002", "held")

    def work(name: str) -> None:
        line = Registers()
        line.slurm, line.name = slurm, name
        ctx = Context(node=name, lifeline=line, peers=peers)
        known = {"known_token": TOKEN, "known_runs": [RUN], "scheduler_node": name}
        with peers.rounds.one():
            params = {**OPTIONS, **site.connection, **known, "state": "resumed", "trial": "always", "timeout": 60}
            told[name] = scheduler_node(params, ctx).data

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for _one in threads:
        peers.rounds.enter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert all(told[name]["trial"]["made"] and told[name]["state"] == "idle" for name in names)
    jobs = {told[name]["trial"]["job"]: name for name in names}
    assert len(jobs) == 2 and reservations(slurm) == []
    for number, name in jobs.items():
        assert f"BatchHost={name}" in slurm.scontrol("-o", "show", "job", number)


# -- through the controller's door -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_play_reads_what_the_job_wrote_and_the_next_one_takes_up_what_it_left(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose the reservation is, the ledger knows: the first run could not delete it any more."""
    site = doors.Site(slurm, tmp_path / "site")
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec /bin/sh -c "$last"\n', encoding="ascii")
    ssh.chmod(0o755)
    file = site.folder / "hosts.yml"
    inventory = yaml.safe_load(file.read_text(encoding="utf-8"))
    inventory["all"]["vars"]["ansible_ssh_executable"] = str(ssh)
    file.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    module = "gpufleet.baremetal.scheduler_node"
    tried = {module: {**doors.RESUME[module], "trial": "always", "timeout": 90}}
    site.play(doors.HOLD)
    broken = tmp_path / "broken"
    broken.mkdir()
    real = shutil.which("scontrol")
    (broken / "scontrol").write_text(
        f'#!/bin/sh\n[ "$1" = delete ] && echo "Access/permission denied" >&2 && exit 1\nexec {real} "$@"\n',
        encoding="ascii",
    )
    (broken / "scontrol").chmod(0o755)
    with monkeypatch.context() as path:
        path.setenv("PATH", str(broken), prepend=":")
        assert "may not change nodes" in site.play(tried, ok=False)[0]["result"]["msg"]
    assert len(reservations(slurm)) == 1 and "DRAIN" not in slurm.state(NODE)
    result = site.play(tried)[0]["result"]
    assert result["trial"]["made"] and result["state"] == "idle" and reservations(slurm) == []
    [note] = site.events("note")[-1:]
    assert note[1] == "tried_by_a_job" and note[2]["job"] == result["trial"]["job"]
    assert [name for _node, name, _data in site.events("hold")][-1] == "released"
