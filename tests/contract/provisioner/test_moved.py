# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook migrate_provisioner, between provisioners as they are: one of both may boot the node, and never both."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import kept_alive
from bcm_commands import head as bcm_head
from bcm_commands.site import BcmSite
from contract.scheduler import slurm_cluster
from controller import DEPLOYED, READY, wait
from moving import Move
from pxe_files.site import PxeSite
from service_sites import IronicSite, MaasSite
from site_warewulf import WarewulfSite
from suite import services
from xcat_commands.site import XcatSite

pytestmark = pytest.mark.slow

PAIRS = (
    pytest.param(PxeSite, WarewulfSite, id="pxe-warewulf"),
    pytest.param(WarewulfSite, XcatSite, id="warewulf-xcat"),
    pytest.param(XcatSite, MaasSite, id="xcat-maas"),
    pytest.param(XcatSite, BcmSite, id="xcat-bcm"),
    pytest.param(BcmSite, WarewulfSite, id="bcm-warewulf"),
    pytest.param(MaasSite, IronicSite, id="maas-ironic"),
    pytest.param(IronicSite, PxeSite, id="ironic-pxe"),
)


@pytest.fixture
def two(started: Any) -> Iterator[Any]:
    """Two sites in good health, while the test lasts."""
    with contextlib.ExitStack() as stack:
        yield lambda *kinds: [stack.enter_context(started(kind).in_good_health()) for kind in kinds]


def as_a_person_is_told(move: Move) -> None:
    """Where BCM has a card in a record, its installer takes the machine. It stops there, and says what to type."""
    stopped = move.play(ok=False)
    assert move.look(move.new)[0] is None and move.look(move.old)[0].state == "ready", "released, and told to nobody"
    [typed, *_again] = re.findall(r"\(cmsh -c '(device; set [^']*)'\)", stopped)
    answer = move.old.head.run(["cmsh", "-c", typed])
    assert answer == (0, bcm_head.EVENT, ""), answer


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_node_goes_from_one_to_another(old: Any, new: Any, two: Any, tmp_path: Path) -> None:
    move = Move(*two(old, new), tmp_path, deploy=True)
    foretold = move.play("--check")
    assert move.writes() == [] and move.events() == [], "check mode"
    assert move.look(move.new)[0] is None and f'"gpufleet_provisioner: {new.name}"' in foretold, foretold[-3000:]

    if old is BcmSite:
        as_a_person_is_told(move)
    output = move.play()
    there, armed, _marks = move.look(move.new)
    assert there is not None and there.state in ("enrolled", "ready") and not there.maintenance, there
    here, armed, _marks = move.look(move.old)
    assert armed == "" and "+moved:to " + new.name in here.hold and here.state in ("enrolled", "ready"), here
    assert [name for name, _data in move.events()] == ["left", "moved"]
    told = move.events()[-1][1]
    assert told["from"]["provisioner"] == old.name and told["to"]["provisioner"] == new.name, told
    assert told["agrees"] and told["carried"]["serial"] == move.node["serial"], told
    assert f"gpufleet_provisioner: {new.name}" in told["inventory"] and "change the inventory" in output, output[-3000:]

    move.forget()
    again = move.play()
    assert "changed=0" in again and "changed=1" not in again and move.writes() == [], again[-3000:]
    assert [name for name, _data in move.events()] == ["left", "moved"]


@pytest.fixture(scope="module")
@services.real
def slurm() -> Iterator[Any]:
    with slurm_cluster.running() as cluster:
        yield cluster


def test_a_node_at_work_is_drained_first_and_stays_held_to_the_end(slurm: Any, two: Any, tmp_path: Path) -> None:
    """By a real Slurm: its job ends by itself, and no other one comes before somebody lifts the hold."""
    [name, *_others] = slurm_cluster.NODES
    serves = {"gpufleet_scheduler": "slurm", "gpufleet_scheduler_node": name}
    serves["gpufleet_scheduler_conf"] = str(slurm.conf)
    move = Move(*two(WarewulfSite, BcmSite), tmp_path, deploy=True, scheduler=serves)
    over = tmp_path / "over"
    work = f"until [ -e {over} ]; do sleep 0.2; done"
    job = slurm.run(
        "sbatch", "--parsable", "-w", name, "--mem=1", "-D", "/", "-o", "/dev/null", f"--wrap={work}"
    ).strip()
    slurm.wait_for(lambda: slurm.state(name) == "ALLOCATED", "the job runs", 60)
    foretold = move.play("--check")
    assert slurm.state(name) == "ALLOCATED" and move.writes() == [], foretold[-3000:]

    seen: list[tuple[bool, str]] = []

    def look() -> None:
        seen.append((bool(move.writes()), slurm.state(name)))
        if "DRAIN" in seen[-1][1] and len([one for one in seen if "DRAIN" in one[1]]) > 5:
            over.touch()

    with kept_alive(look, interval=0.2):
        output = move.play()
    ended = slurm.run("scontrol", "show", "job", job)
    assert "JobState=COMPLETED" in ended, ended
    drained = slurm.show(name)
    assert drained["State"] == "IDLE+DRAIN" and drained["Reason"].startswith("gpufleet:"), drained
    held = ["DRAIN" in state for _wrote, state in seen]
    assert held == sorted(held) and held[-1] and "ALLOCATED+DRAIN" in [state for _wrote, state in seen], seen
    assert {state for wrote, state in seen if wrote} == {"IDLE+DRAIN"}, "nothing is written before it is drained"
    assert [one for one, _data in move.events()] == ["left", "moved"], output[-3000:]
    there, _armed, _marks = move.look(move.new)
    assert there is not None and not there.maintenance
    assert "changed=0" in move.play() and slurm.show(name)["Reason"] == drained["Reason"], "a second run lifts nothing"


@pytest.fixture
def move(two: Any, tmp_path: Path) -> Move:
    """From the boot server to Warewulf."""
    return Move(*two(PxeSite, WarewulfSite), tmp_path, deploy=True)


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_run_that_is_killed_anywhere_is_run_again_and_never_are_both_armed(move: Move, write: int) -> None:
    move.kill_after(write)
    there, _armed, _marks = move.look(move.new)
    here, armed, _marks = move.look(move.old)
    assert there is None or (armed == "" and "+moved:" in here.hold), "known there before it let go here"
    assert len(move.writes()) >= write, "it was killed where it was to be"
    move.play()
    there, _armed, _marks = move.look(move.new)
    here, armed, _marks = move.look(move.old)
    assert there is not None and armed == "" and "+moved:" in here.hold
    names = [name for name, _data in move.events()]
    assert names.count("moved") == 1 and names[-1] == "moved", names
    move.forget()
    assert "changed=1" not in move.play() and move.writes() == []


def test_who_still_names_the_old_one_is_refused_and_told_the_new_one(move: Move) -> None:
    move.play()
    move.forget()
    line = "gpufleet_provisioner: warewulf"
    for book in ("day2_recycle", "reimage"):
        told = move.play(book=f"gpufleet.baremetal.{book}", ok=False)
        assert "was moved to warewulf" in told and line in told, told[-3000:]
    for task in (READY, DEPLOYED, wait("released")):
        results = move.controller.play(task, forced=False, ok="run_once" in task)
        assert "was moved to warewulf" in str(results) and line in str(results), results
    assert move.writes() == []
    move.says(**{f"gpufleet_{key}": value for key, value in move.new.connection().items()})
    again = move.play()
    assert "changed=1" not in again and "was moved to" not in again and move.writes() == [], again[-2000:]
    assert move.controller.play(READY, forced=False)[0]["result"]["provision_state"] == "no image"


def test_a_node_that_goes_back_is_taken_up_where_it_was(move: Move) -> None:
    move.play()
    move.says(**{f"gpufleet_{key}": value for key, value in move.new.connection().items()})
    (move.folder / "to.yml").write_text(yaml.safe_dump({"migrate_to": move.old.connection()}), encoding="utf-8")
    move.play()
    here, _armed, _marks = move.look(move.old)
    there, _armed, _marks = move.look(move.new)
    assert not here.maintenance and "+moved:to pxe" in there.hold
    ends = [(data["from"]["provisioner"], data["to"]["provisioner"]) for name, data in move.events() if name == "moved"]
    assert ends == [("pxe", "warewulf"), ("warewulf", "pxe")]


def test_what_was_armed_again_at_the_old_one_is_told(move: Move) -> None:
    move.play()
    record = move.old.store.record(move.name)
    move.old.store.boot(
        move.name, record["version"], {"entry": "#!ipxe\nkernel http://127.0.0.1:9/k\nboot\n", "note": {}}
    )
    move.forget()
    told = move.play(ok=False)
    assert '"kind": "not_adopted"' in told and "entry set" in told, told[-2000:]
    assert move.new.faults.writes == []


def test_what_one_forgets_with_the_release_is_carried_over_all_the_same(two: Any, tmp_path: Path) -> None:
    move = Move(*two(MaasSite, PxeSite), tmp_path, deploy=True)
    move.old.machine(move.name).annotations["rack"] = "r12"
    move.kill_after(1)
    move.old.until(move.name, "Ready")
    assert move.look(move.old)[2] == {}, "MAAS has forgotten it"
    output = move.play()
    assert move.look(move.new)[2] == {"rack": "r12"}, output[-2000:]
    assert move.events()[-1][1]["carried"]["annotations"] == {"rack": "r12"}


def test_a_profile_that_would_boot_it_keeps_a_node_where_it_is(two: Any, tmp_path: Path) -> None:
    move = Move(*two(WarewulfSite, PxeSite), tmp_path)
    conf = move.old.server.conf
    conf.change("default", lambda one: one.update({"image name": "gold-2"}), "nodeprofiles")
    try:
        told = move.play(ok=False)
        assert "its profiles give it the image gold-2" in told and "Nothing was told to the other" in told, told[-2000:]
        assert move.new.faults.writes == [] and move.look(move.new)[0] is None
    finally:
        conf.change("default", lambda one: one.pop("image name"), "nodeprofiles")
    move.play()
    assert move.look(move.new)[0] is not None
