# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the driver asks Slurm's commands, and what it makes of them together; without a Slurm, so that it is fast."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    Changed,
    Refused,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from unit.scheduler.slurm_commands import World

TOKEN = "gpufleet:run1:reimage"
FREE = {"state": "IDLE", "reason": "", "by": ""}
RESERVED = "ReservationName=m1 StartTime=2026-11-21T23:35:21 Nodes=n1 Flags=MAINT,SPEC_NODES Users=bob State=ACTIVE"


def change(file: Path, **given: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **given}))


def asked(file: Path) -> list[str]:
    return [" ".join(call) for call in json.loads(file.read_text())["calls"]]


def test_t1_what_belongs_to_a_hidden_partition_is_asked_for(world: World) -> None:
    drained = {"state": "IDLE+DRAIN", "reason": TOKEN, "by": "root", "hidden": True}
    world(nodes={"n1": drained}, jobs=[{"id": "7", "node": "n1", "hidden": True}])
    view = Slurm({}).states(["n1"])["n1"]
    assert view.state == "draining" and view.jobs == ["7"]


def test_t1_the_queue_is_asked_after_the_states(world: World) -> None:
    """Else a job could start between the two, on a node that is then called drained."""
    file = world(nodes={"n1": {"state": "IDLE+DRAIN", "reason": TOKEN, "by": "root"}})
    Slurm({}).states(["n1"])
    # Its settings slurmctld may be asked for at any time.
    order = [call.split()[0] for call in asked(file) if call != "scontrol show config"]
    assert order.index("squeue") > max(at for at, word in enumerate(order) if word == "scontrol")


def test_a_name_beside_an_unknown_one_is_told(world: World) -> None:
    world(nodes={"n1": FREE})
    views = Slurm({}).states(["n1", "n2"])
    assert views["n1"].in_service and views["n2"].absent


@pytest.mark.parametrize(("user", "told"), [(0, True), (64030, True), (1000, False)])
def test_where_slurm_hides_nodes_from_us_absence_is_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch, user: int, told: bool
) -> None:
    file = world(config={"SlurmUser": "slurm(64030)", "PrivateData": "jobs,nodes"})
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if told:
        assert Slurm({}).states(["n2"])["n2"].absent
    else:
        with pytest.raises(Refused, match="cannot be told"):
            Slurm({}).states(["n2"])
    change(file, config={"SlurmUser": "slurm(64030)", "PrivateData": "jobs"})
    assert Slurm({}).states(["n2"])["n2"].absent


@pytest.mark.parametrize(
    ("user", "level", "told"),
    [(0, "", True), (64030, "", True), (65534, "", False), (65534, "None", False), (65534, "Operator", True)],
)
def test_t1_where_slurm_hides_jobs_from_us_a_node_is_not_drained(
    world: World, monkeypatch: pytest.MonkeyPatch, user: int, level: str, told: bool
) -> None:
    """A suspended job shows in the queue alone: its node is IDLE, or IDLE+DRAIN."""
    drained = {"state": "IDLE+DRAIN", "reason": TOKEN, "by": "root"}
    config = {"SlurmUser": "slurm(64030)", "PrivateData": "jobs,usage"}
    world(nodes={"n1": drained, "n2": FREE}, config=config, levels={"nobody": level} if level else {})
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if told:
        assert Slurm({}).states(["n1"])["n1"].state == "drained"
    else:
        with pytest.raises(Refused, match="cannot be told"):
            Slurm({}).states(["n1"])
    assert Slurm({}).states(["n2"])["n2"].in_service


def test_h1_slurms_own_text_counts_only_with_slurms_own_user(world: World) -> None:
    def own(by: str) -> list[bool]:
        change(file, nodes={"n1": {"state": "DOWN", "reason": "Not responding", "by": by}})
        return [hold.by_scheduler for hold in Slurm({}).states(["n1"])["n1"].holds]

    file = world()
    assert own("slurm") == own("64030") == [True]
    assert own("root") == own("bob") == [False]
    change(file, config={"ClusterName": "x"})
    with pytest.raises(BadAnswer):
        own("slurm")


def test_r5_the_cluster_is_asked_anew_with_each_look(world: World) -> None:
    file = world(nodes={"n1": FREE})
    driver = Slurm({})
    assert driver.states(["n1"])["n1"].place == Place("slurm alpha", "ctl1")
    change(file, config={"ClusterName": "beta", "SlurmUser": "slurm(64030)", "PrivateData": "none"})
    views = driver.states(["n1", "unknown"])
    assert {name: one.place for name, one in views.items()} == dict.fromkeys(("n1", "unknown"), Place("slurm beta"))


def test_h4_slurm_is_read_again_right_before_each_write(world: World) -> None:
    file = world(nodes={"n1": FREE})
    driver = Slurm({})
    driver.hold(driver.states(["n1"])["n1"], TOKEN, WORK)
    driver.resume(driver.states(["n1"])["n1"])
    writes = [at for at, call in enumerate(asked(file)) if call.startswith("scontrol update")]
    assert len(writes) == 2 and all("show node n1" in " ".join(asked(file)[at - 2 : at]) for at in writes)


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"nodes": {"n1": {"state": "IDLE+DRAIN", "reason": "mine", "by": "root"}}},
        {"nodes": {"n1": {**FREE, "state": "IDLE+FAIL"}}},
        {"nodes": {}},
        {"reservations": RESERVED},
    ],
)
def test_h4_what_somebody_did_meanwhile_stops_the_write(world: World, meanwhile: dict[str, Any]) -> None:
    file = world(nodes={"n1": FREE})
    driver = Slurm({})
    seen = driver.states(["n1"])["n1"]
    change(file, **meanwhile)
    for write in (lambda: driver.hold(seen, TOKEN, WORK), lambda: driver.resume(seen)):
        with pytest.raises(Changed):
            write()
    assert not [call for call in asked(file) if "update" in call]


def test_h1_a_maintenance_of_somebody_is_a_hold_before_the_node_shows_it(world: World) -> None:
    world(nodes={"n1": FREE, "n2": FREE}, reservations=RESERVED)
    views = Slurm({}).states(["n1", "n2"])
    assert views["n1"].held and not views["n1"].in_service and views["n2"].in_service


def test_a_command_that_was_ended_before_it_answered_is_no_answer(world: World, tmp_path: Path) -> None:
    world()
    (tmp_path / "bin" / "scontrol").write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(Unreachable, match="signal 9"):
        Slurm({}).states(["n1"])


def test_of_several_one_that_changed_meanwhile_is_spared(world: World) -> None:
    """One write for all the others."""
    names = ["n1", "n2", "n3"]
    file = world(nodes=dict.fromkeys(names, FREE))
    driver = Slurm({})
    views = driver.states(names)
    change(file, nodes={"n1": FREE, "n2": {"state": "IDLE+DRAIN", "reason": "mine", "by": "jane"}, "n3": FREE})
    failed = driver.hold_each([(views[name], TOKEN, WORK) for name in names])
    assert {name: type(exc) for name, exc in failed.items()} == {"n2": Changed} and failed["n2"].node == "n2"
    told = json.loads(file.read_text())["nodes"]
    assert {name: node["reason"] for name, node in told.items()} == {"n1": TOKEN, "n2": "mine", "n3": TOKEN}
    assert [call for call in asked(file) if "update" in call] == [
        f"scontrol update NodeName=n1,n3 State=DRAIN Reason={TOKEN}"
    ]


def test_of_several_one_that_is_gone_spoils_no_other(world: World, tmp_path: Path) -> None:
    """It is taken out of Slurm right before the write, which Slurm then does for the others alone, and fails."""
    names = ["n1", "n2", "n3"]
    file = world(nodes=dict.fromkeys(names, FREE))
    driver = Slurm({})
    views = driver.states(names)
    script = tmp_path / "bin" / "scontrol"
    gone = f'import json, pathlib; p = pathlib.Path({str(file)!r}); w = json.loads(p.read_text()); w["nodes"].pop("n2")'
    (tmp_path / "gone.py").write_text(f"{gone}; p.write_text(json.dumps(w))\n")
    once = f"mv {tmp_path}/gone.py {tmp_path}/done.py && {sys.executable} {tmp_path}/done.py"
    script.write_text(script.read_text().replace("exec", f'case "$*" in *"update"*) {once};; esac\nexec'))
    failed = driver.hold_each([(views[name], TOKEN, WORK) for name in names])
    assert {name: type(exc) for name, exc in failed.items()} == {"n2": Changed}
    assert {view.reason for view in Slurm({}).states(["n1", "n3"]).values()} == {TOKEN}
    assert len([call for call in asked(file) if "update" in call]) == 1, "what it has reached is not sent again"


def test_a_thousand_are_held_and_resumed_by_three_commands(world: World) -> None:
    names = [f"gpu{number:04d}" for number in range(1000)]
    file = world(nodes=dict.fromkeys(names, FREE))
    driver = Slurm({})
    for state in ("held", "resumed"):
        views, before = driver.states(names), len(asked(file))
        due = [(views[name], TOKEN, WORK) for name in names]
        assert (driver.hold_each(due) if state == "held" else driver.resume_each(list(views.values()))) == {}
        calls = [" ".join(call.split()[:6])[:50] for call in asked(file)[before:]]
        assert len(calls) == 3 and "update" in calls[-1], calls
    assert not any(view.held for view in driver.states(names).values())


def test_holds_for_several_reasons_are_a_write_for_each(world: World) -> None:
    file = world(nodes=dict.fromkeys(("n1", "n2", "n3"), FREE))
    driver = Slurm({})
    views = driver.states(["n1", "n2", "n3"])
    tokens = {"n1": TOKEN, "n2": "gpufleet:run1:other", "n3": TOKEN}
    assert driver.hold_each([(view, tokens[name], WORK) for name, view in views.items()]) == {}
    assert [call.split()[2] for call in asked(file) if "update" in call] == ["NodeName=n1,n3", "NodeName=n2"]
    assert driver.resume_each(list(driver.states(["n1", "n2", "n3"]).values())) == {}
    assert {node["state"] for node in json.loads(file.read_text())["nodes"].values()} == {"IDLE"}


def test_a_slurm_that_is_away_is_so_for_all_and_told_once(world: World, tmp_path: Path) -> None:
    file = world(nodes=dict.fromkeys(("n1", "n2"), FREE))
    driver = Slurm({})
    views = driver.states(["n1", "n2"])
    script = tmp_path / "bin" / "scontrol"
    told = "echo 'slurm_update error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    script.write_text(script.read_text().replace("exec", f'case "$*" in *"update"*) {told};; esac\nexec'))
    failed = driver.hold_each([(view, TOKEN, WORK) for view in views.values()])
    assert {name: type(exc) for name, exc in failed.items()} == {"n1": Unreachable, "n2": Unreachable}
    assert not [call for call in asked(file) if "update" in call]
