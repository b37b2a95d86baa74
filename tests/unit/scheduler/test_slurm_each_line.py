# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the Slurm driver that fail closed: what a command says or does not say is never taken for "nothing"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK, NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import check_name
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import parse_nodes
from unit.scheduler.slurm_commands import World

TOKEN = "gpufleet:run1:reimage"
DRAINED = {"state": "IDLE+DRAIN", "reason": TOKEN, "by": "root"}
FREE = {"state": "IDLE", "reason": "", "by": ""}


def broken(tmp_path: Path, command: str, condition: str, then: str) -> None:
    """The command, but where its arguments fit the condition it does this."""
    script = tmp_path / "bin" / command
    whole = script.read_text().replace("#!/bin/sh\n", "")
    script.write_text(f'#!/bin/sh\ncase "$*" in {condition}) {then};; esac\n{whole}')


@pytest.mark.parametrize(
    ("command", "condition"),
    [("scontrol", '*"show node"*'), ("scontrol", '*"show reservation"*'), ("squeue", "*")],
)
def test_t1_a_look_that_failed_has_seen_nothing(world: World, tmp_path: Path, command: str, condition: str) -> None:
    world(nodes={"n1": DRAINED})
    broken(tmp_path, command, condition, 'echo "slurm_load: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(FleetError):
        Slurm({}).states(["n1"])


@pytest.mark.parametrize("said", ["", "echo", "echo 'NodeName=n2 State=IDLE BootTime=None'"])
def test_t1_a_node_of_which_nothing_is_said_is_not_absent(world: World, tmp_path: Path, said: str) -> None:
    world(nodes={"n1": FREE})
    broken(tmp_path, "scontrol", '*"show node"*', f"{said or ':'}; exit 0")
    with pytest.raises(BadAnswer, match="said nothing|was not asked for"):
        Slurm({}).states(["n1"])


@pytest.mark.parametrize("status", [1, 255])
def test_t1_an_update_that_failed_was_not_made(world: World, tmp_path: Path, status: int) -> None:
    world(nodes={"n1": FREE})
    driver = Slurm({})
    view = driver.states(["n1"])["n1"]
    broken(tmp_path, "scontrol", "update*", f"echo 'slurm_update error: Invalid user id' >&2; exit {status}")
    for write in (lambda: driver.hold(view, TOKEN, WORK), lambda: driver.resume(view)):
        with pytest.raises(FleetError):
            write()


def test_t1_a_hold_is_one_that_no_registration_lifts(world: World) -> None:
    """ReturnToService readmits a node that is DOWN, and never one that is drained."""
    file = world(nodes={"n1": FREE})
    driver = Slurm({})
    view = driver.states(["n1"])["n1"]
    driver.hold(view, TOKEN, WORK)
    [update] = [call for call in json.loads(file.read_text())["calls"] if "update" in call]
    assert update == ["scontrol", "update", "NodeName=n1", "State=DRAIN", f"Reason={TOKEN}"]
    assert driver.hold_request(view, TOKEN, WORK) == " ".join(update)


@pytest.mark.parametrize(
    "name", ["SQUEUE_STATES", "SQUEUE_PARTITION", "SCONTROL_ALL", "SINFO_FORMAT", "SLURM_CLUSTERS"]
)
def test_t1_a_users_own_settings_decide_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world(nodes={"n1": DRAINED}, jobs=[{"id": "7", "node": "n1"}])
    broken(tmp_path, "squeue", "*", f'[ -z "${name}" ] || exit 0')
    broken(tmp_path, "scontrol", "*", f'[ -z "${name}" ] || exit 0')
    monkeypatch.setenv(name, "nothing")
    assert Slurm({}).states(["n1"])["n1"].jobs == ["7"]


@pytest.mark.parametrize("name", ["ALL", "all", "localhost", "", "-n1", "n[1-2]", "n1,n2", "n1 n2", "n1\n"])
def test_t1_a_name_means_one_node(name: str) -> None:
    with pytest.raises(ConfigError):
        check_name(name)


def view(state: str, booted: str = "2026-11-20T10:12:58", rest: str = "", work: Any = ()) -> NodeView:
    text = f"NodeName=n1 Arch=x86_64 State={state} BootTime={booted}{rest}\n"
    return parse_nodes(text)["n1"].view(work)


@pytest.mark.parametrize("state", ["IDLE*", "IDLE+NOT_RESPONDING", "UNKNOWN"])
def test_t1_a_node_that_does_not_answer_is_not_in_service(state: str) -> None:
    assert not view(state).answers and not view(state).in_service
    assert view("IDLE").in_service and not view("IDLE", booted="None").in_service


def test_t1_a_reason_without_a_user_is_a_reason() -> None:
    seen = view("IDLE+DRAIN", rest=" Reason=bad DIMM")
    assert seen.reason == "bad DIMM" and [hold.text for hold in seen.holds] == ["bad DIMM"]


@pytest.mark.parametrize("state", ["DOWN+DRAIN", "MIXED", "ALLOCATED+DRAIN", "IDLE+DRAIN", "IDLE+COMPLETING"])
def test_t1_a_node_that_may_have_work_is_looked_up_in_the_queue(world: World, state: str) -> None:
    world(nodes={"n1": {"state": state, "reason": "", "by": ""}}, jobs=[{"id": "7", "node": "n1"}])
    assert Slurm({}).states(["n1"])["n1"].jobs == ["7"]
