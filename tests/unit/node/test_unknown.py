# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of which inventory and ledger contradict each other is no new one: it may be a node in service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.template import trust_as_template
from ansible_collections.gpufleet.baremetal.plugins.action.fleet_status import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event, Result
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

MAC = "52:54:00:00:00:02"
CONTRADICTED = {"another-serial", "another-node", "another-chassis", "unreadable"}


def told(folder: Path) -> dict[str, dict[str, Any]]:
    """What is said of each host; both nodes of the ledger are in service."""
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        one = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
        two = ledger.identify("gpu002", aliases=[("serial", "GF0002"), ("mac", MAC)])
        ledger.append("r1", [(node, Event("state", "admitted", {})) for node in (one, two)])
    hosts: dict[str, dict[str, Any]] = {
        "gpu001": {"gpufleet_serial": "GF0001"},
        "another-serial": {"gpufleet_serial": "GF000l", "gpufleet_node_id": one},
        "another-node": {"gpufleet_serial": "GF0001", "gpufleet_node_id": two},
        "another-chassis": {"gpufleet_serial": "GF0003", "gpufleet_boot_mac": MAC},
        "unreadable": {"gpufleet_serial": trust_as_template("{{ nothing_such }}")},
        "nameless": {},
        "new": {"gpufleet_serial": "GF0009"},
    }
    door = Door(
        folder, lambda params, ctx: Result(), base=ActionModule, name="fleet_status", own_spec=SPEC,
        of_play={"gpufleet_scheduler": "none"}, hostvars=hosts, ansible_play_hosts_all=list(hosts),
    )  # fmt: skip
    result = door.run()
    assert not result.get("failed"), result
    nodes: dict[str, dict[str, Any]] = result["nodes"]
    return nodes


def test_n2_a_host_that_contradicts_the_ledger_is_unknown_and_not_new(tmp_path: Path) -> None:
    nodes = told(tmp_path)
    assert {host for host, node in nodes.items() if node["state"] == "unknown"} == CONTRADICTED
    assert {host for host, node in nodes.items() if node["state"] == "discovered"} == {"nameless", "new"}
    assert {nodes[host]["next"] for host in CONTRADICTED} == {""}
    assert "by another serial" in nodes["another-serial"]["stopped"]
    assert "different nodes" in nodes["another-node"]["stopped"]
    assert "identity=replaced" in nodes["another-chassis"]["stopped"]
    assert "gpufleet_serial cannot be read" in nodes["unreadable"]["stopped"]
    assert nodes["gpu001"]["state"] == "admitted" and nodes["gpu001"]["stopped"] == ""


def test_n2_a_host_that_nothing_identifies_may_be_a_new_one(tmp_path: Path) -> None:
    nodes = told(tmp_path)
    assert "which machine this is" in nodes["nameless"]["stopped"] and nodes["new"]["stopped"] == ""
    assert ".day0_bringup " in nodes["nameless"]["next"] and ".day0_bringup " in nodes["new"]["next"]


def test_c2_a_node_in_service_that_names_no_scheduler_may_be_anything(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        one = ledger.identify("gpu001", aliases=[("serial", "GF0001")])
        ledger.append("r1", [(one, Event("state", "admitted", {}))])
    door = Door(
        tmp_path, lambda params, ctx: Result(), base=ActionModule, name="fleet_status", own_spec=SPEC,
        hostvars={"gpu001": {"gpufleet_serial": "GF0001"}}, ansible_play_hosts_all=["gpu001"],
    )  # fmt: skip
    node = door.run()["nodes"]["gpu001"]
    assert node["state"] == "unknown" and "scheduler" in node["stopped"] and node["recorded"] == "admitted"
