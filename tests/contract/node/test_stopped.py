# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage that stops for a node leaves it as it is, and the next look at the fleet tells why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service

pytestmark = pytest.mark.slow

THERE = {"provisioner": "maas", "provisioner_url": "http://127.0.0.1:9/MAAS", "provisioner_api_key": "a:b:c"}
ON = {"maintenance": "on", "maintenance_why": "disk swap", "drain_timeout": 0}
#: By playbook, what it is given, how far the node has come before, and what stops it.
STAGES: dict[str, tuple[Mapping[str, Any], str, str]] = {
    "drain": ({"drain_timeout": 0}, "admitted", "4711"),
    "maintenance": (ON, "admitted", "4711"),
    "reimage": ({}, "drained", "password"),
    "migrate_provisioner": ({"migrate_to": THERE}, "drained", "password"),
    "readmit": ({}, "drained", "SSH"),
}


def set_up(nodes: Nodes, state: str) -> None:
    """Its job does not end, nobody is let in to its BMC, and its machine does not answer."""
    world = json.loads(nodes.world.read_text(encoding="utf-8"))
    nodes.world.write_text(json.dumps({**world, "jobs": [{"id": "4711", "node": "gpu001"}]}), encoding="utf-8")
    nodes.scheduler("gpu001", state="ALLOCATED")
    nodes.shared.update(
        gpufleet_bmc_password="not it", gpufleet_provisioner="xcat", gpufleet_provisioner_url="/nowhere"
    )
    if state == "drained":
        with Ledger(nodes.url) as ledger:
            node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
            ledger.append("r1", [(node, Event("state", one)) for one in ("draining", "drained")])


@pytest.mark.parametrize("playbook", [*STAGES])
def test_u4_what_stopped_a_stage_is_told_by_the_next_status(tmp_path: Path, playbook: str) -> None:
    given, state, why = STAGES[playbook]
    with in_service(tmp_path) as nodes:
        set_up(nodes, state)
        nodes.settings["ANSIBLE_SHOW_CUSTOM_STATS"] = "true"
        stopped = nodes.book(playbook, "-e", json.dumps(given), ok=False)
        assert "Stopped: " in stopped, stopped
        # Who is told of the failure by a controller is told of it in these words, though no node came through.
        [left] = nodes.artifacts().values() if playbook != "migrate_provisioner" else [{"stopped": 1, "hosts": {}}]
        assert left["stopped"] == 1 and left["hosts"].get("stopped", ["gpu001"]) == ["gpu001"], left
        [(_name, note)] = [one for one in nodes.events("gpu001", "note") if one[0] == "stopped"]
        assert why in note["reason"] and "quarantined" not in nodes.states("gpu001"), note
        nodes.book("status", "-e", "status_write_to=told.json", "-e", "status_ask_scheduler=false", ok=True)
        told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))["nodes"]["gpu001"]
        assert why in told["stopped"], told
        before = nodes.events("gpu001", "note")
        nodes.book(playbook, "--check", "-e", json.dumps(given), ok=playbook in ("drain", "maintenance"))
        assert nodes.events("gpu001", "note") == before, "check mode writes nothing"


#: By playbook, what it is given, where the only node stands, and of what it is told that it is none for it.
REFUSED: dict[str, tuple[Mapping[str, Any], str, str]] = {
    "reimage": ({}, "admitted", "not drained. Run the playbook gpufleet.baremetal.drain first"),
    "revalidate": ({}, "admitted", "Stopped: The node is admitted; only a node that was imaged"),
    "burn_in": ({}, "enrolled", "Stopped: The node is enrolled; only one that was imaged or adopted"),
    "maintenance": (ON, "retired", "This machine was retired"),
}


@pytest.mark.parametrize("playbook", [*REFUSED])
def test_who_refuses_its_only_node_tells_where_that_stands_all_the_same(tmp_path: Path, playbook: str) -> None:
    given, state, why = REFUSED[playbook]
    with in_service(tmp_path) as nodes:
        if state != "admitted":
            with Ledger(nodes.url) as ledger:
                node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
                ledger.append("r1", [(node, Event("state", state))])
        nodes.settings["ANSIBLE_SHOW_CUSTOM_STATS"] = "true"
        told = nodes.book(playbook, "-e", json.dumps(given), ok=False)
        assert why in told, told
        [left] = nodes.artifacts().values()
        assert left["nodes"] == 1 and sum(left["states"].values()) == 1, left
        assert not {"draining", "drained", "imaging", "quarantined"} & set(nodes.states("gpu001")), told
