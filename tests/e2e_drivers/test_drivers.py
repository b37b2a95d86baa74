# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same playbooks on the rack with each provisioner: nothing but the provisioner's own variables is different.

For each of them one story, whose tests run in order; each reads the world past the collection's code: what the machines
run and were told, what reached their BMCs and the provisioner's server, Slurm, and the ledger's file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import beside
import counts
import lab
import pytest
from bcm import Bcm
from beside import NEW, NODES, OLD, Beside
from maas import Maas
from pxe import Pxe
from warewulf import Warewulf
from xcat import Xcat

IDLE = {"state": "IDLE", "reason": ""}
KINDS: tuple[type[Beside], ...] = (Warewulf, Pxe, Xcat, Bcm, Maas)


@pytest.fixture(scope="module", params=[pytest.param(one, id=one.name) for one in KINDS])
def site(request: pytest.FixtureRequest) -> Iterator[Beside]:
    """Its server beside a rack as new."""
    lab.new_rack(*request.param.settings)
    with beside.slow_to_start():
        made: Beside = request.param()
        try:
            made.declare(OLD)
            yield made
        finally:
            made.close()


def test_the_inventory_differs_in_the_provisioner_alone(site: Beside) -> None:
    own, told = beside.racks_own(), beside.changed(beside.racks_own(), site, OLD)
    apart = {key for key in own.keys() | told.keys() if own.get(key) != told.get(key)}
    assert all(key.startswith("gpufleet_provisioner") for key in apart - {"gpufleet_image", "enroll_driver"}), apart
    assert told["gpufleet_image"] == {**own["gpufleet_image"], **site.image(OLD)}
    assert told["enroll_driver"] == {**own["enroll_driver"], site.name: site.options()}


@pytest.fixture(scope="module")
def day0(site: Beside) -> lab.Run:
    return play(site, "day0_bringup")


def play(site: Beside, name: str, *limit: str) -> lab.Run:
    return lab.play(name, "--limit", ",".join(limit or NODES), inventory=site.inventory, env=dict(site.env))


def ordered(node: str) -> list[str]:
    """The ids of the deployments that our ledger has of the node, oldest first."""
    rows = counts.ledger_rows(
        "SELECT nodes.name, data FROM events JOIN nodes USING (node_id) WHERE kind = 'state' ORDER BY events.id"
    )
    told = [json.loads(data).get("deploy_id") for name, data in rows if name == node]
    return [one for one in told if one]


def passports(node: str) -> list[str]:
    rows = counts.ledger_rows(
        "SELECT nodes.name, envelope FROM passports JOIN nodes USING (node_id) ORDER BY passports.id"
    )
    return [counts.payload(str(text)) for name, text in rows if name == node]


def in_service(site: Beside, node: str, version: str, boots: int, bmc_writes: int) -> None:
    """The node was booted so often by its BMC and from the network alone, runs this image of its last deployment, and
    Slurm and a passport have it so."""
    assert len(counts.bmc_writes(node)) == bmc_writes, counts.bmc_writes(node)
    assert lab.node_state(node) == IDLE
    assert counts.network_boots(node) == boots
    assert beside.version_of(node) == version
    assert site.shown(node) == ordered(node)[-1]
    assert len(passports(node)) == boots and version in passports(node)[-1]
    assert counts.events_of("state")[node][-1] == "admitted"


def moved(site: Beside) -> dict[str, Any]:
    """Whatever a write would move."""
    return {
        "bmc": {node: len(counts.bmc_writes(node)) for node in NODES},
        "provisioner": len(site.writes()),
        "slurm": {node: counts.slurm_writes(node) for node in NODES},
        "boots": {node: counts.network_boots(node) for node in NODES},
        "passports": {node: len(passports(node)) for node in NODES},
    }


def test_day0_takes_both_into_service(site: Beside, day0: lab.Run) -> None:
    assert day0.rc == 0, day0.tail()
    for node in NODES:
        in_service(site, node, OLD, 1, site.bmc_writes[0])
    assert sorted(lab.slurm("srun", f"-w{','.join(NODES)}", "hostname").split()) == list(NODES)
    assert site.writes(), "the provisioner was told nothing"
    assert not lab.ironic("GET", "/nodes")["nodes"], "it went by another provisioner"


def test_day0_again_changes_nothing_and_writes_to_nobody(site: Beside, day0: lab.Run) -> None:
    before = moved(site)
    again = play(site, "day0_bringup")
    assert again.rc == 0, again.tail()
    # A host for which nothing is left to do has no task of its own, and thus no row.
    assert not [host for host, row in again.recap().items() if row["changed"]]
    assert moved(site) == before


def test_day2_gives_both_the_image_that_is_declared_by_then(site: Beside, day0: lab.Run) -> None:
    site.declare(NEW)
    run = play(site, "day2_recycle")
    assert run.rc == 0, run.tail()
    for node in NODES:
        in_service(site, node, NEW, 2, sum(site.bmc_writes))
        assert len(set(ordered(node))) == 2, "each deployment has an id of its own"


def test_a_server_that_says_deployed_admits_no_node_that_boots_its_old_system(site: Beside, day0: lab.Run) -> None:
    node = NODES[0]
    assert beside.version_of(node) == NEW
    had = passports(node)
    site.declare(OLD)
    site.lie(node, True)
    run = play(site, "day2_recycle", node)
    assert run.rc == 2, run.tail()
    assert beside.version_of(node) == NEW, "it has booted its old system"
    assert "IDLE" not in lab.node_state(node)["state"] and "DRAIN" in lab.node_state(node)["state"]
    assert passports(node) == had
    assert counts.events_of("state")[node][-1] != "admitted"
    site.lie(node, False)


def test_and_takes_it_back_when_it_boots_what_it_is_told(site: Beside, day0: lab.Run) -> None:
    node, boots = NODES[0], counts.network_boots(NODES[0])
    run = play(site, "day2_recycle", node)
    assert run.rc == 0, run.tail()
    assert lab.node_state(node) == IDLE
    assert (beside.version_of(node), site.shown(node)) == (OLD, ordered(node)[-1])
    assert counts.network_boots(node) == boots + 1
