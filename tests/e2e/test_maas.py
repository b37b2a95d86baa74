# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same playbooks on MAAS: another inventory, and nothing else is different."""

from __future__ import annotations

import counts
import lab
import pytest

INVENTORY = "inventory-maas"


@pytest.fixture(scope="module", autouse=True)
def rack() -> None:
    lab.new_rack("MAAS=true")


def test_the_inventories_differ_in_the_provisioner_alone() -> None:
    def variables(inventory: str) -> set[str]:
        texts = [path.read_text(encoding="utf-8") for path in sorted((lab.RACK / inventory).rglob("*.yml"))]
        return {line for text in texts for line in text.splitlines() if ":" in line}

    apart = variables("inventory") ^ variables(INVENTORY)
    assert apart and all("gpufleet_provisioner" in line for line in apart), apart


@pytest.fixture(scope="module")
def day0() -> lab.Run:
    return lab.play("day0_bringup", inventory=INVENTORY)


def test_day0_admits_every_node(day0: lab.Run) -> None:
    assert day0.rc == 0, day0.tail()
    assert {node: lab.node_state(node)["state"] for node in lab.NODES} == dict.fromkeys(lab.NODES, "IDLE")
    assert {node: counts.network_boots(node) for node in lab.NODES} == dict.fromkeys(lab.NODES, 1)
    assert day0.tasks["most"] <= 51


def test_t2_day0_again_changes_nothing_and_writes_to_nobody(day0: lab.Run) -> None:
    before = counts.counters(INVENTORY)
    assert before["provisioner"], "no write to MAAS was counted"
    again = lab.play("day0_bringup", inventory=INVENTORY)
    assert again.rc == 0, again.tail()
    assert all(row["changed"] == 0 for row in again.recap().values())
    assert counts.counters(INVENTORY) == before


def test_day2_quarantines_the_faulty_node_and_readmits_it_later(day0: lab.Run) -> None:
    lab.fault("gpu002", "gpu_missing")
    held = lab.play("day2_recycle", inventory=INVENTORY)
    assert held.rc == 2, held.tail()
    assert "quarantined" in lab.node_state("gpu002")["reason"]
    assert counts.network_boots("gpu002") == 2
    assert counts.network_boots("gpu001") == 1
    lab.fault("gpu002", "none")
    # A GPU that the driver does not see may come back with power, so that day 2 takes the node up by itself.
    mended = ("--limit", "gpu002")
    assert "day2_recycle -i INVENTORY --limit gpu002" in held.output
    assert "day2_recycle_all" not in held.output
    back = lab.play("day2_recycle", *mended, inventory=INVENTORY)
    assert back.rc == 0, back.tail()
    assert lab.node_state("gpu002") == {"state": "IDLE", "reason": ""}


def test_a_deploy_that_was_killed_is_gone_on_with(day0: lab.Run) -> None:
    every = ("--limit", "gpu004", "-e", '{"day2_recycle_all": true}')
    killed = lab.play("day2_recycle", *every, inventory=INVENTORY, kill="end:Start the deploy")
    assert killed.rc == -9, killed.tail()
    lab.wait_for(lambda: not lab.orphans(), 60, "the orphans have noticed")
    run = lab.play("day2_recycle", "--limit", "gpu004", inventory=INVENTORY)
    assert run.rc == 0, run.tail()
    assert counts.network_boots("gpu004") == 2
