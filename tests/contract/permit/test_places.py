# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row leads to another MAAS than the one that has the machine: nothing is written there, nor permitted by that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action import provisioner_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from contract.permit.rig import Controller
from contract.permit.test_adoptions import adopt, looked_at
from contract.permit.test_strangers import IMAGE, STATES, UNUSED, Make, machine, provisioned
from maas_server.config import Config, User
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED, READY
from maas_server.store import Machine

CARD = "52:54:00:00:00:01"


@pytest.fixture
def images() -> dict[str, Any]:
    return {"gpu-golden-1": {}}


@pytest.fixture
def other(tmp_path: Path, images: dict[str, Any]) -> Iterator[MaasServer]:
    """Another region, with the same key, on another machine than the first."""
    (tmp_path / "other").mkdir()
    server = MaasServer(Config(users=(User("fleet", "a:b:c"),), images=images, state_dir=tmp_path / "other"))
    server.start()
    yield server
    server.close()


def elsewhere(site: Controller, other: MaasServer) -> None:
    """Somebody has mistaken the region in the row."""
    site.hosts["gpu001"]["gpufleet_provisioner_url"] = other.url.replace("127.0.0.1", "localhost")


def record(maas: MaasServer, status: int = READY, owner: str = "") -> Machine:
    made = Machine(maas.store.new_id(), "gpu001", status=status, owner=owner)
    made.hardware = {"system_serial": "S-gpu001"}
    with maas.store.changing() as machines:
        machines[made.system_id] = made
    return made


def by_us(controller: Make, maas: MaasServer) -> Controller:
    """We have deployed it, and hold it."""
    site = controller(known=False)
    machine(maas, site, READY, owner="")
    site.node(**UNUSED)
    site.hold()
    ordered = provisioned(site, state="deployed", image=IMAGE, deploy_id="d0", force_reason="not verified")
    assert ordered["changed"], ordered
    finished(maas)
    return site


def finished(maas: MaasServer) -> None:
    with maas.store.changing() as machines:
        for one in machines.values():
            one.status, one.owner = DEPLOYED, "fleet"


def adopted(controller: Make, maas: MaasServer) -> Controller:
    """It works, and the ledger has taken it as it was."""
    site = controller(known=False)
    machine(maas, site, DEPLOYED)
    site.hosts["gpu001"]["gpufleet_boot_mac"] = CARD
    told = {"before": {"state": "deployed"}, "provisioner_id": "u1", "agrees": ["serial"], "stamp": "s1"}
    assert adopt(site, "gpu001", {**looked_at(site, "gpu001"), "provisioner": told}).get("changed")
    site.hold()
    return site


def refused(result: dict[str, Any], site: Controller) -> None:
    assert result.get("failed") and result["error"]["kind"] == "wrong_machine" and not result["changed"], result
    here, there = "maas at http://127.0.0.1:", "maas at http://localhost:"
    assert here in result["error"]["wanted"] and there in result["error"]["seen"], result
    for word in ("gpufleet_provisioner_url", "migrate_provisioner", "force_reason"):
        assert word in result["error"]["do"], result


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("there", ["no record", "a record"])
@pytest.mark.parametrize("bound", [by_us, adopted])
def test_r3_another_maas_is_told_nothing_of_what_we_deployed_or_adopted(
    controller: Make, maas: MaasServer, other: MaasServer, state: str, there: str, bound: Any
) -> None:
    site = bound(controller, maas)
    theirs = record(other) if there == "a record" else None
    before, intents = repr(theirs), site.events("intent")
    elsewhere(site, other)
    refused(provisioned(site, state=state, image=IMAGE, boot_mac=CARD), site)
    with other.store.changing() as machines:
        assert repr(theirs) == before and len(machines) == (theirs is not None)
    assert site.events("intent") == intents and site.events("maintenance") == []


@pytest.mark.parametrize("there", ["no record", "a record"])
@pytest.mark.parametrize("until", ["ready", "deployed", "released"])
def test_r3_nor_is_it_waited_for_there(
    controller: Make, maas: MaasServer, other: MaasServer, there: str, until: str
) -> None:
    site = by_us(controller, maas)
    theirs = record(other) if there == "a record" else None
    before, intents = repr(theirs), site.events("intent")
    elsewhere(site, other)
    waited = site.run("provisioner_wait", action=provisioner_wait.ActionModule, until=until, timeout=2.0)
    verdict = waited["verdicts"]["gpu001"]
    assert not verdict["ok"] and verdict["kind"] == "wrong_machine" and "localhost" in verdict["reason"], waited
    assert repr(theirs) == before and site.events("intent") == intents


def test_r3_a_maintenance_of_another_place_permits_nothing(
    controller: Make, maas: MaasServer, other: MaasServer
) -> None:
    site = by_us(controller, maas)
    assert provisioned(site, state="maintenance", why="reseat")["changed"]
    [held] = map(json.loads, site.data("maintenance"))
    assert held[moves.PLACE] == {"provisioner": "maas", "url": maas.url, "cloud": ""}
    assert site.power()["changed"]
    site.bmcs["gpu001"].machine.reset("On")
    elsewhere(site, other)
    told = site.power()
    assert told["error"]["kind"] == "not_ours" and "it is held at maas at http://127.0.0.1" in told["msg"], told
    assert site.bmcs["gpu001"].machine.power == "On"


def test_r3_what_the_ledger_was_told_by_an_older_release_is_asked_for_again_at_the_right_place_alone(
    controller: Make, maas: MaasServer, other: MaasServer
) -> None:
    """A maintenance that named no place, and is a minute old."""
    site = by_us(controller, maas)
    site.tells("gpu001", "maintenance", "held", {"hold_token": "gpufleet:an earlier run:reseat"})
    theirs = record(other)
    theirs.locked, theirs.description = True, "gpufleet:an earlier run:reseat"
    elsewhere(site, other)
    site.later(600)
    told = site.power()
    assert told["failed"] and "localhost" in told["msg"] and site.events("maintenance") == ["held"], told
    assert not site.switched()


def test_r3_the_same_maas_in_another_spelling_is_no_other_place(controller: Make, maas: MaasServer) -> None:
    site = by_us(controller, maas)
    site.hosts["gpu001"]["gpufleet_provisioner_url"] = f"{maas.url}/"
    assert provisioned(site, state="maintenance", why="reseat", force_reason="it is")["changed"]
    assert site.power()["changed"] and site.events("provisioner") == []


def test_r3_who_says_that_it_is_the_same_one_is_believed_from_then_on(
    controller: Make, maas: MaasServer, other: MaasServer
) -> None:
    """A region that was set up anew under another name, without our notes."""
    site = by_us(controller, maas)
    record(other)
    elsewhere(site, other)
    refused(provisioned(site, state="maintenance"), site)
    said = provisioned(site, state="maintenance", force_reason="maas1 is called maas2 since Monday")
    assert said["changed"] and site.events("provisioner") == [moves.RENAMED], said
    [told] = map(json.loads, site.data("provisioner"))
    assert told["reason"] == "maas1 is called maas2 since Monday" and "localhost" in told["to"]["url"], told
    assert site.power()["changed"], "held where it is known by now"
    assert not provisioned(site, state="maintenance").get("failed")
    with maas.store.changing() as machines:
        machines.clear()
    site.hosts["gpu001"]["gpufleet_provisioner_url"] = maas.url
    again = provisioned(site, state="enrolled")
    assert again["error"]["kind"] == "wrong_machine" and "localhost" in again["error"]["wanted"], again


def test_r3_a_wait_is_a_persons_word_for_those_that_came_to_their_end(
    controller: Make, maas: MaasServer, other: MaasServer
) -> None:
    site = by_us(controller, maas)
    elsewhere(site, other)
    wait: dict[str, Any] = {"until": "ready", "timeout": 0.0, "force_reason": "maas1 is called maas2"}
    site.run("provisioner_wait", action=provisioner_wait.ActionModule, **wait)
    assert site.events("provisioner") == [], "it has none"
    record(other)
    waited = site.run("provisioner_wait", action=provisioner_wait.ActionModule, **wait)
    assert waited["verdicts"]["gpu001"]["ok"] and site.events("provisioner") == [moves.RENAMED], waited
    assert not provisioned(site, state="enrolled").get("failed")


def test_r3_a_renamed_maas_that_tells_our_deployment_is_known_by_that(
    controller: Make, maas: MaasServer, other: MaasServer
) -> None:
    site = by_us(controller, maas)
    ours = record(other, DEPLOYED, "fleet")
    ours.annotations["gpufleet-deploy-id"] = "d0"
    elsewhere(site, other)
    assert provisioned(site, state="maintenance", why="reseat")["changed"] and "gpufleet:" in ours.description
    assert site.power()["changed"] and site.events("provisioner") == []


@pytest.mark.parametrize("given_back", ["released", "retired"])
def test_r3_what_is_none_of_ours_any_more_is_enrolled_anywhere(
    controller: Make, maas: MaasServer, other: MaasServer, given_back: str
) -> None:
    site = by_us(controller, maas)
    if given_back == "released":
        assert provisioned(site, state="released", force_reason="it goes")["changed"]
    else:
        site.tells("gpu001", "state", "retired")
    record(other)
    elsewhere(site, other)
    assert not provisioned(site, state="enrolled").get("failed")


def test_r3_a_ledger_of_an_older_release_compares_nothing(
    controller: Make, maas: MaasServer, other: MaasServer
) -> None:
    site = controller(known=False)
    machine(maas, site, DEPLOYED)
    site.node(**UNUSED)
    site.tells("gpu001", "intent", "provisioner_node", {"options": {"state": "deployed"}, "orders": "deployed"})
    record(other)
    elsewhere(site, other)
    assert provisioned(site, state="maintenance")["changed"]


def test_r3_a_record_that_was_deleted_there_is_made_anew_at_the_same_place(controller: Make, maas: MaasServer) -> None:
    """As for replaced hardware: day 2 enrols the machine anew."""
    site = by_us(controller, maas)
    with maas.store.changing() as machines:
        machines.clear()
    made = provisioned(site, state="enrolled", boot_mac=CARD)
    assert made["changed"], made
    with maas.store.changing() as machines:
        assert len(machines) == 1
