# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook topology: what was seen is remembered, held against the plan, written for Slurm, counted in waves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_plan import asked

pytestmark = pytest.mark.slow

UUID = "9c6f5af3-53bf-49b5-a436-b66766c413c3"
BRIDGE = [{"type": "Bridge", "enabled": True}]


def seen_at(nodes: Nodes, **leaves: str) -> None:
    """What lldpd of each node has printed, and nvidia-smi of both trays of one NVLink domain."""
    for host, leaf in leaves.items():
        chassis = {"id": [{"type": "mac", "value": f"id-{leaf}"}], "name": [{"value": leaf}], "capability": BRIDGE}
        told = {"lldp": [{"interface": [{"name": "eth0", "chassis": [chassis], "port": [{"id": []}]}]}]}
        (nodes.folder / f"{host}.lldp").write_text(json.dumps(told), encoding="utf-8")
        (nodes.folder / f"{host}.nvlink").write_text(f"{UUID}, 7, Completed, Success\n" * 4, encoding="utf-8")
    files = {f"{source}_file": f"{nodes.folder}/{{{{ inventory_hostname }}}}.{source}" for source in ("lldp", "nvlink")}
    nodes.options["topology_info"] = files


def slurm(nodes: Nodes, *after: list[str]) -> None:
    """A Slurm with topology/tree, and what it goes by after each reconfigure."""
    world = json.loads(nodes.world.read_text(encoding="utf-8"))
    world["config"].update(SLURM_VERSION="22.05.8", SLURM_CONF=f"{nodes.folder}/slurm.conf")
    world["config"]["TopologyPlugin"] = "topology/tree"
    world["partitions"] = ["PartitionName=gpu AllocNodes=ALL Nodes=gpu[001-003] TotalNodes=3"]
    world["reconfigured"] = [(0, "", {"": lines}) for lines in after]
    nodes.world.write_text(json.dumps(world), encoding="utf-8")


def test_what_was_seen_becomes_slurms_topology_and_the_domains_of_waves(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        shown = ["SwitchName=leaf-a1 Level=0 LinkSpeed=1 Nodes=gpu[001-002]"]
        shown += ["SwitchName=leaf-b1 Level=0 LinkSpeed=1 Nodes=gpu003"]
        shown += ["SwitchName=fabric Level=1 LinkSpeed=1 Nodes=gpu[001-003] Switches=leaf-a1,leaf-b1"]
        slurm(nodes, shown)
        seen_at(nodes, gpu001="leaf-a1", gpu002="leaf-b1", gpu003="leaf-b1")
        nodes.hosts["gpu002"]["topology_leaf"] = ["leaf-a1"]  # as a pair is written
        file = tmp_path / "topology.conf"

        told = nodes.book("topology", ok=False)  # the cable of one node is in the wrong switch
        assert "eth0 leads to leaf-b1, and the plan has the node at leaf-a1" in told
        [(gate, verdict)] = nodes.events("gpu002", "verdict")
        assert (gate, verdict["verdict"], verdict["remedy"]) == ("topology_info", "fail", "fabric")
        assert nodes.events("gpu001", "verdict") == [] and nodes.events("gpu001", "topology")
        told = nodes.book("topology", "-e", "topology=write", ok=False)
        assert "gpu002 is planned at leaf-a1, and was seen at leaf-b1" in told and not file.exists()

        seen_at(nodes, gpu002="leaf-a1")
        nodes.book("topology", "--limit", "gpu002", ok=True)
        assert nodes.events("gpu002", "verdict")[-1][1]["verdict"] == "pass"
        nodes.book("topology", "-e", "topology=write", "--limit", "gpu003", "--check", "--diff", ok=True)
        assert "+SwitchName=leaf-a1 Nodes=gpu[001-002]" in nodes.output and not file.exists()
        nodes.book("topology", "-e", "topology=write", ok=True)
        assert file.read_text(encoding="utf-8").splitlines()[1:] == [
            "SwitchName=leaf-a1 Nodes=gpu[001-002]",
            "SwitchName=leaf-b1 Nodes=gpu003",
            "SwitchName=fabric Switches=leaf-a1,leaf-b1",
        ]

        leaf, block = asked(nodes, {"budgets": {"topology_leaf": 1}}, {"budgets": {"topology_block": 1}})
        rooms = [(one["budget"], one["value"], one["nodes"]) for one in [*leaf["budgets"], *block["budgets"]]]
        assert rooms == [
            ("topology_leaf", "leaf-a1", 2), ("topology_leaf", "leaf-b1", 1), ("topology_block", f"{UUID}.7", 3)
        ]  # fmt: skip
