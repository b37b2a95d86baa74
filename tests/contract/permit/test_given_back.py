# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders that were not taken, or may not have been: the node is whose it was, and what is deployed then is theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait
from contract.permit.rig import Controller
from contract.permit.test_strangers import (
    IMAGE,
    UNUSED,
    Elsewhere,
    Make,
    about_to_be_deployed,
    deployed_meanwhile,
    machine,
    provisioned,
    refused,
)
from maas_server import operations
from maas_server.answers import conflict
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED, FAILED_DEPLOYMENT, NEW


@pytest.fixture
def images() -> dict[str, Any]:
    return {"gpu-golden-1": {}}


@pytest.mark.parametrize("killed", [True, False])
def test_j7_the_release_of_what_was_adopted_is_gone_on_with_until_somebody_else_deploys_it(
    controller: Make, maas: MaasServer, killed: bool
) -> None:
    """The run ended before its order was answered, and MAAS has the machine as it was adopted."""
    site = controller(known=False)
    one = machine(maas, site, DEPLOYED)
    site.node(**UNUSED)
    stamp = provisioned(site, state="enrolled", force_reason="a look")["stamp"]
    site.tells("gpu001", "state", "admitted", {"adopted": True, "provisioner_stamp": stamp})
    site.hold()
    site.tells("gpu001", "intent", "provisioner_node", {"options": {"state": "released"}, "orders": "released"})
    if not killed:
        site.tells("gpu001", "outcome", "provisioner_node", {"kind": "unreachable", "error": "MAAS does not answer"})
    waited = site.run("provisioner_wait", action=provisioner_wait.ActionModule, until="deployed", timeout=2.0)
    assert "no note" not in waited["verdicts"]["gpu001"]["reason"], waited
    with maas.store.changing():
        one.results["installation"] = 9
    refused(provisioned(site, state="released"), "gpu001: Deployed")
    with maas.store.changing():
        del one.results["installation"]
    assert provisioned(site, state="released")["changed"]


@contextmanager
def refusing(verb: str) -> Iterator[None]:
    """MAAS says no to this order, whatever it told of the machine before."""

    def refuses(*_of_request: Any) -> None:
        raise conflict("the machine is taken")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(operations.POST, verb, (refuses, False))
        yield


@pytest.mark.parametrize("waits", [False, True])
def test_j7_what_maas_refused_to_deploy_for_us_is_whoever_deploys_it_then(
    controller: Make, maas: MaasServer, waits: bool
) -> None:
    """Our note of the deployment that was to be may stay with the machine."""
    site = about_to_be_deployed(controller, maas)
    site.tells("gpu001", "state", "imaging", {"deploy_id": "d0"})
    order = {"deploy_id": "d0", "force_reason": "not verified"}
    with refusing("deploy"):
        if waits:
            verb, wait = "provisioner_wait", provisioner_wait.ActionModule
            nodes = [{"host": "gpu001", "image": IMAGE, "deploy_id": "d0"}]
            told = site.run(verb, action=wait, until="deployed", timeout=20.0, nodes=nodes, force_reason="not verified")
            kind = told["verdicts"]["gpu001"]["kind"]
        else:
            verb, told = "provisioner_node", provisioned(site, state="deployed", image=IMAGE, **order)
            kind = told["error"]["kind"]
    assert kind == "refused" and site.events("intent")[-1] == verb, told
    deployed_meanwhile(maas, **{"gpufleet-deploy-id": "d0"})
    refused(provisioned(site, state="released"), "gpu001: Deployed")


@pytest.mark.parametrize("waits", [False, True])
def test_j7_what_was_commissioned_for_our_deployment_is_whoever_deploys_it_then(
    controller: Make, maas: MaasServer, waits: bool
) -> None:
    """Of our order no more went out than that: the run ended, or its image was not verified."""
    site = about_to_be_deployed(controller, maas)
    with maas.store.changing() as machines:
        for one in machines.values():
            one.status = NEW
    site.tells("gpu001", "state", "imaging", {"deploy_id": "d0"})
    if waits:
        nodes = [{"host": "gpu001", "image": IMAGE, "deploy_id": "d0"}]
        verb, more = "provisioner_wait", {"until": "deployed", "timeout": 0.0, "nodes": nodes}
        told = site.run(verb, action=provisioner_wait.ActionModule, force_reason="not verified", **more)
        assert told["steps"] == {"gpu001": ["commission"]}, told
    else:
        told = provisioned(site, state="deployed", image=IMAGE, deploy_id="d0", force_reason="not verified")
        assert told["step"] == "commission" and told["ordered"] == "", told
    assert site.events("intent")[-1].startswith("provisioner_")
    deployed_meanwhile(maas)
    refused(provisioned(site, state="released"), "gpu001: Deployed")


def test_j7_an_order_after_a_first_step_is_one_of_ours(controller: Make, maas: MaasServer) -> None:
    """In one task: MAAS takes the note of the deployment before the order. It tells of no deployment by its id."""
    site = about_to_be_deployed(controller, maas)
    told = provisioned(site, state="deployed", image=IMAGE, force_reason="not verified")
    assert told["ordered"] == "deployed" and [one["orders"] for one in orders(site)] == ["deployed"], told
    deployed_meanwhile(maas)
    assert provisioned(site, state="released")["changed"]
    assert [one["orders"] for one in orders(site)] == ["deployed", "released"]


def orders(site: Controller) -> list[dict[str, Any]]:
    return [told for told in map(json.loads, site.data("intent")) if "orders" in told]


@pytest.mark.parametrize(("noted", "ours"), [("", False), ("d1", False), ("d0", True)])
def test_j7_a_deployment_that_failed_is_whoevers_it_was(
    controller: Make, maas: MaasServer, noted: str, ours: bool
) -> None:
    """By the same key: parts of it may be there, and whoever ordered it looks for the reason."""
    site = about_to_be_deployed(controller, maas)
    [one] = maas.store.machines.values()
    site.tells("gpu001", "state", "imaging", {"deploy_id": "d0"})
    site.run("provisioner_node", action=Elsewhere, state="deployed", image=IMAGE, deploy_id="d0")
    deployed_meanwhile(maas, **({"gpufleet-deploy-id": noted} if noted else {}))
    one.status = FAILED_DEPLOYMENT
    done = provisioned(site, state="released")
    assert ours or (done["error"]["kind"] == "not_ours" and "release it in the provisioner" in done["error"]["do"]), (
        done
    )
    assert done["changed"] is ours and (one.status == FAILED_DEPLOYMENT) is not ours


def test_j7_what_maas_refused_to_release_is_ours_as_before(controller: Make, maas: MaasServer) -> None:
    site = controller(known=False)
    machine(maas, site, DEPLOYED)
    site.tells("gpu001", "state", "admitted")
    site.node(**UNUSED)
    site.hold()
    with refusing("release"):
        told = provisioned(site, state="released")
    assert told["error"]["kind"] == "refused" and site.events("intent")[-1] == "provisioner_node", told
    assert provisioned(site, state="released")["changed"]


BEGUN = ("state", "imaging", {"deploy_id": "d0"})
ORDER = ("intent", "provisioner_node", {"options": {"state": "deployed"}, "orders": "deployed"})
WORKED = {"adopted": True, "provisioner_record": "present", "provisioner_stamp": "1/2"}


@pytest.mark.parametrize(
    ("notes", "deployment", "whose"),
    [
        ([BEGUN, ORDER, ("state", "admitted", {})], {}, "theirs"),
        ([BEGUN, ORDER, ("state", "admitted", {})], {"gpufleet-deploy-id": "d9"}, "theirs"),
        ([BEGUN, ORDER, ("state", "admitted", {})], {"gpufleet-deploy-id": "d0"}, "ours"),
        ([("state", "admitted", WORKED)], {}, "theirs"),
        ([("state", "admitted", {**WORKED, "provisioner_record": "absent", "provisioner_stamp": ""})], {}, "unknown"),
        ([("state", "admitted", {"adopted": True})], {}, "ours"),  # by an older version, which kept no stamp
        ([ORDER], {}, "ours"),
    ],
)
def test_j7_what_somebody_deploys_on_a_node_of_ours_is_theirs(
    controller: Make, maas: MaasServer, notes: Any, deployment: dict[str, str], whose: str
) -> None:
    """By our own key, since we deployed or adopted it: its provisioner tells another deployment now."""
    site = controller(known=False)
    for kind, name, data in notes:
        site.tells("gpu001", kind, name, data)
    machine(maas, site, DEPLOYED).annotations.update(deployment)
    site.node(**UNUSED)
    site.hold()
    told = provisioned(site, state="released")
    if whose == "ours":
        assert told["changed"], told
        return
    kind = {"theirs": "not_ours", "unknown": "not_adopted"}[whose]
    assert told["error"]["kind"] == kind and not told["changed"], told
    assert ("since we did" in told["msg"]) == (whose == "theirs") and "force_reason" in told["msg"]
    assert ("--limit gpu001 -e adopt_again=true" in told["msg"]) == (notes == [("state", "admitted", WORKED)]), told
    assert provisioned(site, state="released", force_reason="their job has ended")["changed"]
