# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A topology is checked before it is written, and what is not taken is put back; over commands as measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotProven, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import topology
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.map import topology_file
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.hostlist import expand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most
from unit.scheduler.slurm_commands import World

RACKS = {"r1": [f"gpu{number:03}" for number in range(1, 19)], "r2": [f"gpu{number:03}" for number in range(19, 37)]}
NODES = {name: {"state": "IDLE", "reason": "", "by": ""} for nodes in RACKS.values() for name in nodes}
BOTH = [{"name": "ib", "kind": "tree", "default": True}, {"name": "nvl", "kind": "block", "sizes": [18, 36]}]
TREE = [
    "SwitchName=r1 Level=0 LinkSpeed=0 Nodes=gpu[001-018]",
    "SwitchName=r2 Level=0 LinkSpeed=0 Nodes=gpu[019-036]",
    "SwitchName=fabric Level=1 LinkSpeed=0 Nodes=gpu[001-036] Switches=r[1-2]",
]
BLOCKS = [
    "BlockName=r1 BlockIndex=0 Nodes=gpu[001-018] BlockSize=18",
    "BlockName=r2 BlockIndex=1 Nodes=gpu[019-036] BlockSize=18",
    "AggregatedBlock=r[1-2] Nodes=gpu[001-036] BlockSize=36",
]
PARTITIONS = [
    "PartitionName=gpu AllocNodes=ALL Hidden=NO Nodes=gpu[001-036] TotalNodes=36",
    "PartitionName=nvl72 AllocNodes=ALL Hidden=NO Nodes=gpu[001-036] TotalNodes=36 Topology=nvl",
]
#: As 26.05 says it: the running slurmctld goes on with the old file.
BROKEN = (1, "slurm_reconfigure error: Unspecified error", {})


def config(folder: Path, version: str, **more: str) -> dict[str, str]:
    known = {"ClusterName": "alpha", "SlurmctldHost[0]": "ctl1(10.0.0.1)", "SlurmUser": "root", "PrivateData": "none"}
    return {**known, "SLURM_VERSION": version, "SLURM_CONF": str(folder / "slurm.conf"), **more}


def written(topologies: list[dict[str, Any]], form: str = "yaml", **more: Any) -> Result:
    filled = [{"units": RACKS, **one} for one in topologies]
    params = {"scheduler": "slurm", "format": form, "topologies": filled, "reconfigure": True}
    return topology_file({**params, "timeout": 0.3, "interval": 0.05, **more}, Context(diff=True))


@pytest.fixture
def modern(world: World, tmp_path: Path) -> Path:
    shown = {"ib": TREE, "nvl": BLOCKS}
    return world(nodes=NODES, partitions=PARTITIONS, config=config(tmp_path, "25.05.3"), reconfigured=[(0, "", shown)])


def test_leaves_and_the_blocks_of_two_nvl72(modern: Path, tmp_path: Path) -> None:
    done = written(BOTH)
    assert done.changed and done.data["units"]["nvl"] == {"r1": 18, "r2": 18}
    leaves, blocks = yaml.safe_load((tmp_path / "topology.yaml").read_text(encoding="utf-8"))
    assert leaves["cluster_default"] is True and "cluster_default" not in blocks
    switches = {one["switch"]: one for one in leaves["tree"]["switches"]}
    assert expand(switches["r2"]["nodes"]) == RACKS["r2"] and switches["fabric"]["children"] == "r1,r2"
    assert blocks["block"]["block_sizes"] == [18, 36]
    assert [one["block"] for one in blocks["block"]["blocks"]] == ["r1", "r2"]
    calls = json.loads(modern.read_text(encoding="utf-8"))["calls"]
    assert sum("reconfigure" in call for call in calls) == 1
    assert not written(BOTH).changed


@pytest.mark.parametrize(
    "before", [None, "# Written by gpufleet.baremetal.topology_file, which replaces it as a whole.\n"]
)
def test_what_is_refused_or_does_not_show_leaves_the_file_as_it_was(
    world: World, tmp_path: Path, before: str | None
) -> None:
    """A broken file that stays would end slurmctld at its next start."""
    file = tmp_path / "topology.yaml"
    if before:
        file.write_text(before, encoding="utf-8")
    half = {"ib": TREE, "nvl": BLOCKS[:1]}
    own = world(
        nodes=NODES,
        partitions=PARTITIONS,
        config=config(tmp_path, "26.05.3"),
        reconfigured=[BROKEN, (0, "", {}), (0, "", half)],
    )
    with pytest.raises(NotProven, match="Unspecified error"):
        written(BOTH)
    assert (file.read_text(encoding="utf-8") if file.exists() else None) == before
    with pytest.raises(NotProven, match="r2 is not there; what stood there before stands there again"):
        written(BOTH)
    assert (file.read_text(encoding="utf-8") if file.exists() else None) == before
    assert sum("reconfigure" in call for call in json.loads(own.read_text(encoding="utf-8"))["calls"]) == 4


@pytest.mark.parametrize(
    ("topologies", "form", "version", "words"),
    [
        (BOTH[:1], "yaml", "24.11.1", "reads no topology.yaml"),
        (BOTH[:1], "yaml", "25.05.0", "goes by the topology nvl, which is none of these"),
        (BOTH, "conf", "25.05.0", "one topology alone"),
        ([{"kind": "block"}], "conf", "23.11.4", "has no BlockSizes"),
        ([{"kind": "tree"}], "conf", "24.11.1", "goes by TopologyPlugin=topology/block"),
        ([{"kind": "block", "sizes": [32]}], "conf", "24.11.1", r"r\[1-2\] are smaller than 32"),
        ([BOTH[0], {**BOTH[1], "default": True}], "yaml", "25.05.0", "one is the cluster's default"),
        ([BOTH[0], {**BOTH[1], "name": ""}], "yaml", "25.05.0", "each topology has a name"),
        ([BOTH[0], {**BOTH[1], "name": "ib"}], "yaml", "25.05.0", "a name of its own"),
        ([], "yaml", "25.05.0", "there is none"),
    ],
)
def test_what_this_slurm_would_not_go_by(
    world: World, tmp_path: Path, topologies: list[dict[str, Any]], form: str, version: str, words: str
) -> None:
    told = config(tmp_path, version, TopologyPlugin="topology/block")
    world(nodes=NODES, partitions=PARTITIONS, config=told)
    with pytest.raises(ConfigError, match=words):
        written(topologies, form)
    assert not list(tmp_path.glob("topology.*"))


def test_a_topology_conf_beside_a_topology_yaml_would_not_be_read(world: World, tmp_path: Path) -> None:
    told = config(tmp_path, "25.05.3", TopologyPlugin="topology/block")
    world(nodes=NODES, partitions=PARTITIONS[:1], config=told)
    (tmp_path / "topology.yaml").touch()
    with pytest.raises(ConfigError, match="so that Slurm reads no topology.conf"):
        written([{"kind": "block"}], "conf")


def test_a_new_plugin_has_its_file_written_before_slurmctld_is_started_anew(world: World, tmp_path: Path) -> None:
    """With none slurmctld would not start; and before that nobody can read back what it goes by."""
    told = config(tmp_path, "24.11.1", TopologyPlugin="topology/default")
    own = world(nodes=NODES, partitions=PARTITIONS[:1], config=told)
    done = written([{"kind": "block"}], "conf", reconfigure=False)
    assert done.changed and done.data["in_force"] is False
    text = (tmp_path / "topology.conf").read_text(encoding="utf-8")
    assert text.endswith("BlockName=r1 Nodes=gpu[001-018]\nBlockName=r2 Nodes=gpu[019-036]\nBlockSizes=18\n")
    assert not any("reconfigure" in call for call in json.loads(own.read_text(encoding="utf-8"))["calls"])


def test_slurmrestd_and_who_is_no_slurm_write_none(tmp_path: Path) -> None:
    params = {
        "scheduler": "slurm",
        "scheduler_url": "http://127.0.0.1:6820",
        "scheduler_token": "a.b.c",
        "scheduler_user": "svc",
    }
    for given_options in (params, {"scheduler": "none"}):
        with pytest.raises(Unsupported):
            topology_file({**given_options, "format": "conf", "topologies": [], "reconfigure": True}, Context())


def found(kind: str = topology.TREE, **more: Any) -> list[str]:
    [one] = topology.topologies([{"kind": kind, "units": RACKS, **more}])
    return list(topology.problems(one, set(NODES), set(NODES)))


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("tree", {"units": {**RACKS, "r3": ["gpu001"]}}, "gpu001 is in r1 and r3"),
        ("tree", {"units": {**RACKS, "r3": []}}, "r3 has no node"),
        ("tree", {"units": {**RACKS, "r3": ["gpu999"]}}, "the scheduler does not know gpu999"),
        ("tree", {"units": {"r1": RACKS["r1"]}}, "gpu[019-036] would stand idle for good"),
        ("tree", {"units": {"r[1-2]": RACKS["r1"] + RACKS["r2"]}}, "is no name of a switch"),
        ("tree", {"switches": {"top": ["r1", "r2", "r3"]}}, "r3, below top, is no switch"),
        ("tree", {"switches": {"top": ["r1", "r2"], "other": ["r1"]}}, "r1 is below top and other"),
        ("tree", {"switches": {"r1": ["r2"]}}, "r1 is a leaf and a switch"),
        ("tree", {"switches": {"top": ["r1", "r2"], "idle": []}}, "nothing is below idle"),
        ("tree", {"switches": {"a": ["b"], "b": ["c"], "c": ["a"]}}, "b is below itself"),
        ("block", {"sizes": [18, 54]}, "are no blocks of a size"),
        ("block", {"sizes": [36, 18]}, "are no blocks of a size"),
        ("block", {"sizes": [0]}, "are no blocks of a size"),
        ("block", {"units": {"r1": RACKS["r1"] + RACKS["r2"]}}, "r1 has 36 nodes, and one NVLink domain"),
        ("block", {"switches": {"top": ["r1"]}}, "no switches above"),
    ],
)
def test_each_of_what_slurm_takes_without_a_word_is_told(kind: str, change: dict[str, Any], words: str) -> None:
    assert not found(kind)
    assert any(words in told for told in found(kind, **change)), found(kind, **change)


@settings(max_examples=at_most(60))
@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.lists(st.integers(1, 6).map(lambda number: f"n{number}"), max_size=4), max_size=4
    )
)
def test_no_problem_means_each_node_once(units: dict[str, list[str]]) -> None:
    [one] = topology.topologies([{"kind": "block", "units": units, "sizes": [4]}])
    known = {f"n{number}" for number in range(1, 6)}
    clean = not list(topology.problems(one, known, known))
    placed = [node for nodes in units.values() for node in nodes]
    assert clean == (sorted(placed) == sorted(known) and all(units.values()))


@settings(max_examples=at_most(60))
@given(
    st.dictionaries(st.sampled_from("stuv"), st.lists(st.sampled_from("stuvab"), min_size=1, max_size=3), max_size=4)
)
def test_no_problem_means_no_circle(switches: dict[str, list[str]]) -> None:
    given_units = {"a": ["n1"], "b": ["n2"]}
    [one] = topology.topologies([{"kind": "tree", "units": given_units, "switches": switches}])
    if list(topology.problems(one, {"n1", "n2"}, {"n1", "n2"})):
        return

    def depth(name: str) -> int:
        return 1 + max((depth(child) for child in one.switches.get(name, ())), default=0)

    assert all(depth(name) <= len(one.switches) + 2 for name in one.switches)
