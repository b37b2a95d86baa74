# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler that is away for a moment, or frozen, as scheduler_node meets it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import commands
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.specs import NODE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from unit.plugins.doors import Door
from unit.scheduler.slurm_commands import World

FREE = {"state": "IDLE", "reason": "", "by": ""}
HELD = {"scheduler": "slurm", "state": "held", "why": "reimage", "run_id": "r1", "name": "gpu001"}
TOKEN = "gpufleet:r1:reimage"
RESUMED = {**HELD, "state": "resumed", "interval": 0.05, "known_scheduler_node": "gpu001", "known_token": TOKEN}


def broken(folder: Path, command: str, script: str) -> Path:
    """Before the command stands this; returns the file in which it counts."""
    program, count = folder / "bin" / command, folder / f"{command}.calls"
    count.touch()
    program.rename(program.with_name(f"real-{command}"))
    program.write_text(f'#!/bin/sh\necho >> {count}\n{script}\nexec {program.with_name(f"real-{command}")} "$@"\n')
    program.chmod(0o755)
    return count


def test_q4_a_slurmctld_that_is_away_for_a_moment_is_waited_for_before_a_hold_and_as_it_is_read_back(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is down for three calls at first, and for three more once the hold was taken: it is held once."""
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)
    file = world(nodes={"gpu001": FREE})
    down = "echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    real = tmp_path / "bin" / "real-scontrol"
    updated = f'if [ "$1" = update ]; then {real} "$@"; echo 3 > {tmp_path}/left; exit; fi'
    left = f"left=$(cat {tmp_path}/left); if [ $left -gt 0 ]; then echo $((left - 1)) > {tmp_path}/left; {down}; fi"
    (tmp_path / "left").write_text("3\n")
    broken(tmp_path, "scontrol", f"{left}\n{updated}")
    params = {
        **{option: about.get("default") for option, about in NODE.items()},
        **HELD,
        "known_scheduler_node": "gpu001",
    }
    ctx = Context(node="gpu001")
    assert verb(params, ctx).as_dict(ctx)["changed"] and (tmp_path / "left").read_text() == "0\n"
    assert len([call for call in json.loads(file.read_text())["calls"] if "update" in call]) == 1


def test_c8_a_frozen_slurmctld_costs_a_run_the_time_of_its_command_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.5)
    monkeypatch.setattr(away, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(commands, "_COMMAND_SECONDS", 1.0)
    world(nodes={"gpu001": FREE, "gpu002": FREE})
    count = broken(tmp_path, "scontrol", "exec sleep 60")
    met = []
    for host in ("gpu001", "gpu002"):
        door = Door(
            tmp_path,
            scheduler_node.ActionModule.verb,
            base=scheduler_node.ActionModule,
            name="scheduler_node",
            own_spec=NODE,
            args={"scheduler": "slurm", "state": "present"},
            inventory_hostname=host,
            gpufleet_serial=host,
        )
        told = door.run()
        assert told["failed"] and told["error"]["kind"] == "unreachable" and "did not end" in told["msg"], told
        met.append(len(count.read_text().splitlines()))
    assert met == [1, 1] and "by another host of this run" in told["msg"], (met, told)


def called(
    told: dict[str, Any], host: str = "gpu001", lifeline: Lifeline | None = None, **known: Any
) -> dict[str, Any]:
    params = {**{option: about.get("default") for option, about in NODE.items()}, **told, "name": host, **known}
    ctx = Context(node=host, lifeline=lifeline)
    return verb(params, ctx).as_dict(ctx)


@pytest.fixture
def frozen_once(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A slurmctld that has let another host of the run wait in vain, and is back; returns the world's file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.2)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)
    file = world(nodes={"gpu001": FREE, "gpu002": FREE})
    meets_a_frozen_one()
    return file


def meets_a_frozen_one(run: str = "run-1") -> None:
    def ask() -> None:
        raise Unreachable("scontrol did not end within 60 s", details={"slow": 60.0})

    with pytest.raises(Unreachable, match="did not end"):
        away.Away(run, "gpu009").heard("slurm ", ask, remembered=False)


def test_c8_a_hold_asks_a_scheduler_that_another_host_of_the_run_has_met_frozen(frozen_once: Path) -> None:
    """A node that is in service and not admitted is not left there for what another host remembers."""
    assert called(HELD, known_scheduler_node="gpu001", run_cache="run-1")["changed"]
    assert called({**HELD, "state": "present"}, "gpu002", run_cache="run-1")["state"] == "idle", "its answer ends it"


class Meanwhile(Lifeline):
    """Right before a write another host of the run meets a scheduler that is frozen."""

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        meets_a_frozen_one()
        return None


def held_by_us(file: Path, after: dict[str, Any] | None = None) -> None:
    world = json.loads(file.read_text(encoding="utf-8"))
    world["nodes"]["gpu001"] = {"state": "IDLE+DRAIN", "reason": TOKEN, "by": "root"}
    world["after"] = {"scontrol update NodeName=gpu001": {"gpu001": after or {}}}
    file.write_text(json.dumps(world), encoding="utf-8")


def test_c8_a_resume_is_read_back_and_undone_whatever_another_host_of_the_run_has_met(frozen_once: Path) -> None:
    """The read-back alone sees that the node runs another boot now, which no gate has seen: it is held again."""
    held_by_us(frozen_once, after={"booted": time.strftime("%Y-%m-%dT%H:%M:%S")})
    with pytest.raises(Unreachable, match="by another host of this run"):
        called(RESUMED, run_cache="run-1")
    with pytest.raises(EvidenceMissing, match="booted after the last look"):
        called(RESUMED, lifeline=Meanwhile(), looked_ago=300.0, run_cache="run-1")
    node = json.loads(frozen_once.read_text(encoding="utf-8"))["nodes"]["gpu001"]
    assert node["state"] == "IDLE+DRAIN" and "booted since" in node["reason"], node


class Renewed(Lifeline):
    """While a host waits for the node's agent, another one meets a frozen scheduler."""

    def beat(self) -> None:
        meets_a_frozen_one()


def test_c8_a_host_that_waits_for_an_agent_is_not_thrown_out_by_what_another_has_met(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.2)
    file = world(nodes={"gpu001": FREE})
    held_by_us(file)
    known = json.loads(file.read_text(encoding="utf-8"))
    known["nodes"]["gpu001"]["booted"] = "None"
    file.write_text(json.dumps(known), encoding="utf-8")
    registers = f"sed -i s/None/2026-11-20T10:12:58/ {file}"
    broken(tmp_path, "scontrol", f"[ $(wc -l < {tmp_path}/scontrol.calls) -lt 6 ] || {registers}")
    assert called(RESUMED, lifeline=Renewed(), run_cache="run-1")["state"] == "idle"


def down_once(folder: Path, asked: str) -> Path:
    """The first time that it is asked for this, slurmctld is away."""
    down = "echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    left = folder / "left"
    left.touch()
    broken(folder, "scontrol", f'if [ "$*" = "{asked}" ] && [ -e {left} ]; then rm {left}; {down}; fi')
    return left


def test_c8_the_clock_of_a_scheduler_that_is_away_is_waited_for_before_a_resume(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)
    held_by_us(world(nodes={"gpu001": FREE}))
    left = down_once(tmp_path, "show config")
    assert called(RESUMED, looked_ago=300.0)["state"] == "idle" and not left.exists()


def test_c8_all_that_a_scheduler_has_is_waited_for_before_a_hold(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.02)
    world(nodes={"gpu001": FREE})
    left = down_once(tmp_path, "--all -o show node")
    with pytest.raises(WrongMachine, match="under no name or address"):
        called(HELD, known_as=["rack7"], known_here=True, known_admitted=True)
    assert not left.exists()
