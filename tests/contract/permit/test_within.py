# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A DPU is the network card of a machine: who commissions or deploys it ends what runs there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_node, provisioner_wait
from contract.permit.rig import Controller
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED, READY
from maas_server.store import Machine

Make = Callable[..., Controller]
CARD = "gpu001-dpu"
LEAVE = "a DPU is given MAAS's own Ubuntu"


def made(controller: Make, maas: MaasServer) -> tuple[Controller, Machine]:
    """gpu001 has its DPU in it, which is ready and belongs to no scheduler."""
    site = controller("gpu001", CARD)
    cards = []
    for host, status in (("gpu001", DEPLOYED), (CARD, READY)):
        one = Machine(maas.store.new_id(), host, status=status, owner="fleet" if status == DEPLOYED else "")
        one.hardware, one.power_state, one.power_type = {"system_serial": f"S-{host}"}, "on", "redfish"
        with maas.store.changing() as machines:
            machines[one.system_id] = one
        cards.append(one)
        key = {"gpufleet_provisioner_api_key": "a:b:c", "gpufleet_provisioner_url": maas.url}
        site.hosts[host].update(key, gpufleet_provisioner="maas")
    cards[1].is_dpu = True
    site.hosts[CARD]["gpufleet_scheduler"] = "none"
    site.hosts[CARD]["enroll_driver"] = {"is_dpu": True, "dpu_host": "gpu001", "distro_series": "noble"}
    return site, cards[1]


def order(site: Controller, *, waits: bool, **more: Any) -> dict[str, Any]:
    """To deploy it; what its task says, with the leave that a DPU needs."""
    image = {"name": "noble", "version": "stock"}
    if waits:
        nodes = [{"host": CARD, "image": image, "deploy_id": "d0"}]
        action = provisioner_wait.ActionModule
        told = site.run("provisioner_wait", CARD, action=action, until="deployed", timeout=0.0, nodes=nodes,
                        force_reason=LEAVE, driver=site.hosts[CARD]["enroll_driver"])  # fmt: skip
        assert not told.get("failed"), told
        verdict = told["verdicts"][CARD]
        return {"failed": not told["steps"], "msg": verdict["reason"], "error": {"kind": verdict["kind"]}}
    return site.run("provisioner_node", CARD, action=provisioner_node.ActionModule, state="deployed", image=image,
                    driver=site.hosts[CARD]["enroll_driver"], force_reason=LEAVE, **more)  # fmt: skip


@pytest.mark.parametrize("waits", [False, True])
def test_j7_a_dpu_is_deployed_while_the_machine_that_it_is_in_is_drained(
    controller: Make, maas: MaasServer, waits: bool
) -> None:
    site, card = made(controller, maas)
    told = order(site, waits=waits)
    assert told["failed"] and "gpu001: refused: this may hit running work" in told["msg"], told
    site.hold()
    site.jobs([{"id": "7", "node": "gpu001"}])
    site.node(state="MIXED+DRAIN")
    site.later(120)
    told = order(site, waits=waits)
    assert told["failed"] and "drain this node first" in told["msg"], "what it said before is old, and it works"
    assert card.status == READY and "intent" not in site.events("intent", CARD)
    site.jobs([])
    site.node(state="IDLE+DRAIN")
    assert site.run("scheduler_node", state="present")["state"] == "drained"
    site.later(240)
    told = order(site, waits=waits)
    assert not told.get("failed") and card.status != READY, told


def test_j7_a_machine_of_which_no_ledger_can_tell_is_none_to_take_down(controller: Make, maas: MaasServer) -> None:
    site, card = made(controller, maas)
    site.hosts[CARD]["enroll_driver"]["dpu_host"] = "gpu9"
    with maas.store.changing() as machines:
        for one in machines.values():
            one.hostname = "gpu9" if one.hostname == "gpu001" else one.hostname
    told = order(site, waits=False)
    assert told["failed"] and "no host has that name" in told["msg"] and card.status == READY


@pytest.mark.parametrize("written", [dict, json.dumps])
def test_j7_a_dpus_bmc_is_its_machines_as_well(controller: Make, maas: MaasServer, written: Callable[..., Any]) -> None:
    """Past MAAS, with the leave that its own BMC needs, and by an order to MAAS that says nothing of a driver."""
    site, card = made(controller, maas)
    site.hosts[CARD]["enroll_driver"] = written(site.hosts[CARD]["enroll_driver"])
    ordered = {"action": provisioner_node.ActionModule, "state": "powered_off"}
    orders: tuple[tuple[str, dict[str, Any]], ...] = (
        ("redfish_power", {"state": "force_off", "timeout": 60.0}),
        ("pxe_boot", {}),
        ("provisioner_node", ordered),
    )
    for verb, args in orders:
        told = site.run(verb, CARD, force_reason=LEAVE, **args)
        assert told["failed"] and "gpu001: refused: this may hit running work" in told["msg"], (verb, told)
    verdict = site.of_all("redfish_power", state="force_off", force_reason=LEAVE)[CARD]
    assert not verdict["ok"] and "gpu001: refused: this may hit running work" in verdict["reason"], verdict
    assert not site.bmcs[CARD].writes and card.power_state == "on"
    site.hold()
    for verb, args in orders:
        told = site.run(verb, CARD, force_reason=LEAVE, **args)
        assert not told.get("failed"), (verb, told)


def test_the_play_of_the_page_deploys_a_dpu(controller: Make, maas: MaasServer) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/how-to/maas.md").read_text(encoding="utf-8")
    own, [play] = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page.partition("## DPUs")[2], re.DOTALL)[:2])
    site, card = made(controller, maas)
    own["enroll_driver"]["dpu_host"] = "gpu001"
    site.hosts[CARD].update(own)
    site.hold()
    verbs = {"provisioner_node": provisioner_node, "provisioner_wait": provisioner_wait}
    for task in play["tasks"]:
        [(verb, said)] = [(key.rpartition(".")[2], of) for key, of in task.items() if key.startswith("gpufleet.")]
        args = {key: own[value[3:-3]] if str(value).startswith("{{") else value for key, value in said.items()}
        paced = {"interval": 0.2, "timeout": 40.0, "nodes": [{"host": CARD, "image": own["gpufleet_image"]}]}
        paced["driver"] = own["enroll_driver"]
        told = site.run(verb, CARD, action=verbs[verb].ActionModule, **args, **(paced if "until" in args else {}))
        assert not told.get("failed") and all(one["ok"] for one in (told.get("verdicts") or {}).values()), told
    assert card.status == DEPLOYED and card.distro_series == "noble"
