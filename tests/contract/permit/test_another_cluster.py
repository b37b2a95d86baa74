# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row, or a file that it names, leads to another cluster, whose node of this name is free: no permit comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._served import look
from contract.permit.rig import ADOPTED, Controller


def leads_to(site: Controller, cluster: str) -> None:
    """From now on the commands answer for this cluster: its slurm.conf has come to the controller."""
    world = json.loads(site.slurm.read_text(encoding="utf-8"))
    world["config"]["ClusterName"] = cluster
    site.slurm.write_text(json.dumps(world), encoding="utf-8")


@pytest.fixture
def held(controller: Callable[..., Controller]) -> Controller:
    """Ours, held as a node of the cluster alpha."""
    site = controller("gpu001")
    site.tells("gpu001", "state", "admitted")
    site.hold()
    assert '"cluster": "slurm alpha"' in site.data("hold")[0]
    return site


def refused(told: dict[str, Any]) -> str:
    assert told.get("failed") and told["error"]["kind"] == "wrong_machine", told
    return str(told["msg"])


def test_j1_another_clusters_free_node_permits_no_power(held: Controller) -> None:
    leads_to(held, "beta")
    held.node(state="IDLE", reason="", by="")
    held.later(100)
    told = held.power()
    assert "gpu001 of slurm beta" in told["msg"] and "gpu001 of slurm alpha" in told["msg"], told
    assert not held.switched() and held.events("evidence")[-1] == "drained", "no look at another one is told"
    for state in ("present", "held", "resumed"):
        assert "slurm beta" in refused(held.run("scheduler_node", state=state))
    waited = held.run("scheduler_wait", until="drained", timeout=0.0)["verdicts"]["gpu001"]
    assert not waited["ok"] and waited["kind"] == "wrong_machine", waited
    leads_to(held, "alpha")
    held.node(state="IDLE+DRAIN", reason=json.loads(held.data("hold")[0])["hold_token"], by="root")
    assert held.power()["changed"]


def test_j1_another_cluster_that_knows_no_such_node_permits_no_power(held: Controller) -> None:
    leads_to(held, "beta")
    world = json.loads(held.slurm.read_text(encoding="utf-8"))
    held.slurm.write_text(json.dumps({**world, "nodes": {}}), encoding="utf-8")
    held.later(100)
    assert "slurm beta" in held.power()["msg"] and not held.switched()


def test_j1_a_reason_that_was_given_for_something_else_moves_no_machine(held: Controller) -> None:
    leads_to(held, "beta")
    for state in ("held", "resumed"):
        refused(held.run("scheduler_node", state=state, force_reason="it was re-cabled"))


def test_j1_a_person_moves_a_machine_to_another_cluster(held: Controller) -> None:
    leads_to(held, "beta")
    held.node(state="IDLE", reason="", by="")
    assert held.run("scheduler_node", state="present", force_reason="moved, ticket 9")["cluster"] == "slurm beta"
    (named,) = held.data("named")
    assert "moved, ticket 9" in named and '"was_of": "slurm alpha"' in named
    held.hold()
    assert held.power()["changed"]
    leads_to(held, "alpha")
    refused(held.run("scheduler_node", state="present"))


def test_j1_what_was_held_before_clusters_were_noted_is_bound_by_the_next_hold(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001")
    site.tells("gpu001", "state", "admitted", ADOPTED)
    leads_to(site, "beta")
    site.hold()
    assert site.power()["changed"]
    leads_to(site, "alpha")
    refused(site.run("scheduler_node", state="present"))


def test_j1_what_was_adopted_is_a_node_of_the_cluster_that_it_was_seen_in(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001")
    site.tells("gpu001", "state", "admitted", {**ADOPTED, "cluster": "slurm beta"})
    refused(site.run("scheduler_node", state="held"))
    leads_to(site, "beta")
    site.hold()


def test_j1_what_was_admitted_and_never_held_is_a_node_of_the_cluster_that_it_served(
    controller: Callable[..., Controller],
) -> None:
    site = controller("gpu001", known=False)
    seen = {"scheduler": "slurm", "scheduler_node": "gpu001", "cluster": "slurm beta"}
    site.tells("gpu001", "evidence", "in_service", seen)
    site.tells("gpu001", "state", "admitted")
    refused(site.run("scheduler_node", state="held"))


def test_j1_the_status_and_the_next_run_are_told(held: Controller) -> None:
    leads_to(held, "beta")
    with held._node_of("gpu001") as (ledger, node):
        seen = look(ledger, {"gpu001": node}, lambda name, host: held.hosts[host].get(name))
    assert "not the one whose node the machine is" in seen["gpu001"].problem
