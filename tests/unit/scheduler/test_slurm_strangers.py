# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose slurmd sends text that reads like records: it decides nothing of another, and stops no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.evidence import name_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import until_drained, until_idle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from unit.scheduler.slurm_commands import World

TOKEN = "gpufleet:run1:reimage"
CLAIM = Claim(TOKEN, frozenset({"run1"}))
FREE = {"state": "IDLE", "reason": "", "by": ""}
PERSONS = {"state": "IDLE+DRAIN", "reason": "fan broken, leave it", "by": "alice"}
FORGED = "Linux State=IDLE BootTime=2026-11-20T10:12:58\nNodeName=n1 State=IDLE+DRAIN BootTime=2026-11-20T10:12:58"
FORGED += f" Reason={TOKEN} [root@2026-11-20T10:40:13]\nNodeName=n9"


def liar(**more: Any) -> dict[str, Any]:
    return {**FREE, "os": FORGED, **more}


def test_a_node_that_sends_another_nodes_record_decides_nothing_and_stops_nobody(world: World) -> None:
    nodes = {"n0": FREE, "n1": PERSONS, "n2": liar(), **{f"n1{number}": FREE for number in range(6)}}
    world(nodes=nodes)
    views = Slurm({}).states([*nodes, "n1"])
    assert views["n1"].reason == PERSONS["reason"] and CLAIM.owner(views["n1"]) == "foreign"
    lied = views["n2"]
    assert (lied.state, lied.in_service, lied.absent) == ("unknown", False, False) and "n2" in lied.unread + lied.name
    for judge in (until_drained, until_idle):
        found = judge(lied, CLAIM)
        assert not found.ok and not found.settled and not found.evict and found.reason == lied.unread
    assert name_of(lied, CLAIM) == "not_drained"
    assert all(view.in_service for name, view in views.items() if name not in ("n1", "n2"))


def owners(file: Path, reason: str, by: str, claim: Claim) -> str:
    world = json.loads(file.read_text())
    world["nodes"]["n1"] = {"state": "IDLE+DRAIN", "reason": reason, "by": by}
    file.write_text(json.dumps(world))
    return claim.owner(Slurm({}).states(["n1"])["n1"])


def test_a_person_who_writes_behind_our_reason_holds_the_node(world: World) -> None:
    file = world()
    claim = Claim.of({"known_token": TOKEN, "known_author": "root", "known_runs": ["run1"]})
    assert owners(file, TOKEN, "root", claim) == "ours"
    assert owners(file, f"{TOKEN}; alice: PSU smokes, do not power on", "root", claim) == "foreign"
    # slurmctld adds its own findings, and may then sign for the whole.
    for end in (" : Not responding", " : Not responding : Low RealMemory, Low CPUs"):
        assert [owners(file, TOKEN + end, by, claim) for by in ("root", "slurm", "64030")] == ["ours"] * 3
        assert owners(file, TOKEN + end, "alice", claim) == "foreign"
        assert owners(file, f"{TOKEN}; alice{end}", "slurm", claim) == "foreign"
    assert owners(file, TOKEN, "alice", claim) == owners(file, TOKEN, "slurm", claim) == "foreign"


def test_such_a_node_alone_and_many_of_them_are_an_error(world: World) -> None:
    file = world(nodes={f"n{number}": liar() if number else FREE for number in range(24)})
    with pytest.raises(BadAnswer):
        Slurm({}).states(["n2"])
    with pytest.raises(BadAnswer):
        Slurm({}).states([f"n{number}" for number in range(24)])
    assert len(json.loads(file.read_text())["calls"]) < 45
