# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that Slurm's topology lacks stands idle for good: it is not resumed, and that costs a run one question."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    ConfigError,
    FleetError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.node import scheduler_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm import shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.driver import Slurm
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import demanded
from suite.properties import at_most
from unit.scheduler.slurm_commands import World

TOKEN = "gpufleet:run2:reimage"
#: As 22.05.8 prints them; both measured.
TREE = [
    "SwitchName=top Level=1 LinkSpeed=1 Nodes=gpu[001-002] Switches=l[1-2]",
    "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=gpu001",
    "SwitchName=l2 Level=0 LinkSpeed=1 Nodes=gpu002",
]
AWAY = "slurm_load_topo error: Unable to contact slurm controller (connect failure)"
#: As 26.05 has them for an NVL72 whose two blocks are joined.
BLOCKS = [
    "BlockName=r1 BlockIndex=0 Nodes=gpu[001-018] BlockSize=18",
    "BlockName=r2 BlockIndex=1 Nodes=gpu[019-036] BlockSize=18",
    "AggregatedBlock=r[1-2] Nodes=gpu[001-036] BlockSize=36",
]
ALL = "PartitionName=gpu AllocNodes=ALL Hidden=NO MaxNodes=UNLIMITED Nodes=gpu[001-003] TotalNodes=3"
CONFIG = {"ClusterName": "alpha", "SlurmctldHost[0]": "ctl1(10.0.0.1)", "SlurmUser": "root", "PrivateData": "none"}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_SECONDS", 0.2)
    monkeypatch.setattr(away, "AWAY_INTERVAL", 0.05)


def drained(*names: str) -> dict[str, Any]:
    return {name: {"state": "IDLE+DRAIN", "reason": TOKEN, "by": "root"} for name in names}


def resumed(name: str, run: str = "", ctx: Context | None = None, **more: Any) -> Result:
    own = {"run_id": "run2", "known_runs": ["run2"], "known_token": TOKEN, "timeout": 1, "interval": 0.05}
    params = {"scheduler": "slurm", "scheduler_node": name, "state": "resumed", "run_cache": run, **own, **more}
    return scheduler_node(params, ctx or Context(node=name))


def calls(world: Path, what: str) -> int:
    told = json.loads(world.read_text(encoding="utf-8"))["calls"]
    return sum(what in call for call in told)


def state(world: Path, name: str) -> str:
    return str(json.loads(world.read_text(encoding="utf-8"))["nodes"][name]["state"])


def test_what_the_topology_lacks_is_not_resumed(world: World) -> None:
    file = world(nodes=drained("gpu001", "gpu003"), topologies={"": TREE}, partitions=[ALL])
    with pytest.raises(ConfigError, match="no job for ever") as caught:
        resumed("gpu003")
    assert "its partition gpu goes by" in caught.value.seen and state(file, "gpu003") == "IDLE+DRAIN"
    assert resumed("gpu001").changed and state(file, "gpu001") == "IDLE"
    assert resumed("gpu003", force_reason="its switch comes tomorrow").changed


def test_a_look_before_the_write_foretells_it(world: World) -> None:
    world(nodes=drained("gpu003"), topologies={"": TREE}, partitions=[ALL])
    params = {"scheduler": "slurm", "scheduler_node": "gpu003", "state": "resumed", "run_id": "run2"}
    with pytest.raises(ConfigError, match="no job for ever"):
        scheduler_node(
            {**params, "known_runs": ["run2"], "known_token": TOKEN, "timeout": 1, "interval": 0.1},
            Context(node="gpu003", check_mode=True),
        )


def test_what_somebody_else_has_resumed_is_not_called_in_service_either(world: World) -> None:
    world(nodes={"gpu003": {"state": "IDLE", "reason": "", "by": ""}}, topologies={"": TREE}, partitions=[ALL])
    with pytest.raises(ConfigError, match="no job for ever"):
        resumed("gpu003")


def test_a_site_without_a_topology_is_asked_once_a_run_and_leaves_nobody_out(world: World) -> None:
    names = [f"gpu{number:03}" for number in range(1, 5)]
    file = world(nodes=drained(*names))
    for name in names:
        assert resumed(name, run="4711").changed
    assert calls(file, "topology") == 1 and calls(file, "partition") == 0


def test_all_hosts_of_a_run_go_by_one_look_and_the_next_run_looks_itself(world: World) -> None:
    file = world(nodes=drained("gpu001", "gpu002"), topologies={"": TREE}, partitions=[ALL])
    assert resumed("gpu001", run="1").changed and resumed("gpu002", run="1").changed
    assert calls(file, "topology") == 1 and calls(file, "partition") == 1
    told = json.loads(file.read_text(encoding="utf-8"))
    told["nodes"].update(drained("gpu003"))
    file.write_text(json.dumps(told), encoding="utf-8")
    for run in ("1", "2"):
        with pytest.raises(ConfigError):
            resumed("gpu003", run=run)
    assert calls(file, "topology") == 2


def test_each_partition_goes_by_its_own_topology(world: World) -> None:
    """From 25.05 on; a flat one prints nothing, and leaves nobody out."""
    nvl = f"{ALL} Topology=nvl".replace("gpu[001-003]", "gpu[001-002],gpu[037-038]").replace("=gpu ", "=nvl ")
    config = {**CONFIG, "SLURM_VERSION": "25.05.3"}
    world(nodes={}, topologies={"nvl": BLOCKS}, partitions=[ALL, nvl], config=config)
    found = Slurm({}).unplaced().nodes
    assert sorted(found) == ["gpu037", "gpu038"] and "the topology nvl of Slurm" in found["gpu037"]


@pytest.mark.parametrize(
    ("told", "error"),
    [(AWAY, Unreachable), (TREE, BadAnswer)],
)
def test_an_answer_that_is_none_resumes_nobody(world: World, told: Any, error: type[FleetError]) -> None:
    """Of a slurmctld that is away, too, scontrol ends with 0 and prints nothing."""
    file = world(nodes=drained("gpu001"), topologies={"": told}, partitions=["PartitionName=gpu"])
    with pytest.raises(error):
        resumed("gpu001")
    assert state(file, "gpu001") == "IDLE+DRAIN"


TORUS = ["TorusName=t Dims=2x2x2 Nodes=gpu[001-008]"]


@pytest.mark.parametrize("told", [TORUS, [TREE[1], TREE[1]]])
def test_a_form_that_nobody_here_reads_leaves_nobody_out_and_is_told_to_each(world: World, told: list[str]) -> None:
    world(nodes=drained("gpu001", "gpu003"), topologies={"": told}, partitions=[ALL])
    for name in ("gpu001", "gpu003"):
        ctx = Context(node=name)
        assert resumed(name, run="1", ctx=ctx).changed
        [line] = ctx.warnings
        assert told[0] in line
    with pytest.raises(BadAnswer):
        shown.parse_topology("\n".join(told))


def test_one_that_is_not_read_hides_not_what_another_lacks(world: World) -> None:
    nvl = f"{ALL} Topology=nvl".replace("=gpu ", "=nvl ").replace("gpu[001-003]", "gpu[037-038]")
    config = {**CONFIG, "SLURM_VERSION": "25.05.3"}
    world(nodes={}, topologies={"": TORUS, "nvl": BLOCKS}, partitions=[ALL, nvl], config=config)
    nodes, unread = Slurm({}).unplaced()
    assert sorted(nodes) == ["gpu037", "gpu038"] and TORUS[0] in unread


#: By partition the nodes and the topology; and who stands idle where the default has l1 and l2, and nvl both blocks.
PARTITIONS: list[tuple[list[tuple[str, str]], set[str]]] = [
    ([("gpu001,gpu037", ""), ("gpu037", "flat")], set()),
    ([("gpu001,gpu037", ""), ("gpu001,gpu037", "nvl")], {"gpu037"}),
    ([("gpu003", ""), ("gpu003", "nvl")], set()),
    ([("gpu003", "nvl"), ("gpu003", "")], set()),
    ([("gpu003", ""), ("gpu004", "nvl")], {"gpu003"}),
]


@pytest.mark.parametrize(("partitions", "idle"), PARTITIONS)
def test_one_partition_that_can_use_a_node_is_enough(partitions: list[tuple[str, str]], idle: set[str]) -> None:
    lines = [
        f"PartitionName=p{at} Nodes={nodes} Topology={topology}" for at, (nodes, topology) in enumerate(partitions)
    ]
    maps = {"": shown.parse_topology("\n".join(TREE)), "nvl": shown.parse_topology("\n".join(BLOCKS)), "flat": {}}
    assert set(shown.lacking(shown.parse_partitions("\n".join(lines)), maps)) == idle


def test_blocks_and_what_they_are_joined_to() -> None:
    found = shown.parse_topology("\n".join(BLOCKS))
    assert {name: len(place.nodes) for name, place in found.items()} == {"r1": 18, "r2": 18}


def test_a_partition_without_nodes_lacks_none() -> None:
    [one] = shown.parse_partitions("PartitionName=empty Nodes=(null) Topology=(null)\n")
    assert not one.nodes and not one.topology and not shown.lacking([one], {"": shown.parse_topology(TREE[1])})


def test_what_26_05_has_printed_is_read() -> None:
    text = (demanded("schedulers") / "show_topology_26.05.3.txt").read_text(encoding="utf-8")
    assert shown.parse_topology(text)["s1"].nodes == {"n1", "n2", "n3", "n4"}


NAMES = st.sets(st.integers(1, 40).map(lambda number: f"gpu{number:03}"), max_size=12)


@settings(max_examples=at_most(60))
@given(st.dictionaries(st.sampled_from(("l1", "rack-2.leaf", "b10")), NAMES, max_size=3))
def test_what_is_printed_is_what_is_read(units: dict[str, set[str]]) -> None:
    lines = [
        f"SwitchName={name} Level=0 LinkSpeed=1 Nodes={folded(nodes) or '(null)'}" for name, nodes in units.items()
    ]
    found = shown.parse_topology("\n".join(lines))
    assert {name: place.nodes for name, place in found.items()} == units


def test_the_answer_of_another_boot_of_this_machine_counts_for_nothing(tmp_path: Path) -> None:
    notes = away.Away("r")
    assert notes.once("x", lambda: 1, 60) == 1 and notes.once("x", lambda: 2, 60) == 1
    assert notes.once("x", lambda: 3, 0) == 3
    [note] = away.own_folder("r").glob("*.told")
    note.write_text(json.dumps({"at": 1e12, "told": 4}), encoding="utf-8")
    assert notes.once("x", lambda: 5, 60) == 5
    assert away.Away("").once("x", lambda: os.getpid(), 60) == os.getpid(), "who shares nothing asks"
