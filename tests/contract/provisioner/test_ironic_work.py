# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ironic's own steps, runbooks and traits. Against a real one with fake hardware, whose steps do nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs, Refused
from calls import await_all, deployed, lead, ready
from service_sites import FIRMWARE, LOG

pytestmark = pytest.mark.slow
BIOS = {"interface": "bios", "step": "apply_configuration", "args": {"settings": [{"name": "numa", "value": "nps4"}]}}


@pytest.fixture
def ironic(ironic_site: Any) -> Iterator[Any]:
    ironic_site.proxy.forget()
    yield ironic_site
    ironic_site.proxy.forget()


def _with(ironic: Any, **extras: Any) -> dict[str, Any]:
    return {"driver": {**ironic.extras, **extras}}


def _bodies(site: Any, ending: str) -> list[Any]:
    return [json.loads(one.body) for one in site.proxy.writes if one.path.endswith(ending) and one.body]


def _settled(ironic: Any, options: dict[str, Any]) -> dict[str, Any]:
    verdict: dict[str, Any] = await_all(ironic, "settled", options)["verdicts"][options["name"]]
    return verdict


def test_firmware_and_bios_settings_are_steps_of_a_cleaning_from_available(ironic: Any) -> None:
    options = ready(ironic)
    begun = lead(options, "cleaned", **_with(ironic, clean_steps=[FIRMWARE, BIOS]))
    assert begun["before"]["provision_state"] == "available"
    assert [body["target"] for body in _bodies(ironic, "/provision")] == ["manage", "clean"]
    assert any("clean_steps=firmware.update,bios.apply_configuration" in one for one in begun["asked"])
    assert "http://x/y" not in json.dumps(begun)
    verdict = _settled(ironic, options)
    assert verdict["provision_state"] == "manageable", verdict
    kept = ironic.ask("GET", f"/nodes/{options['name']}/bios/numa")
    assert kept["numa"]["value"] == "nps4"


def test_who_says_nothing_or_two_things_is_told_before_anything_is_sent(ironic: Any) -> None:
    options = ready(ironic)
    for extras, words in (
        ({}, "not told what to do"),
        ({"clean_steps": [FIRMWARE], "runbook": "CUSTOM_BURN"}, "told twice"),
        ({"clean_steps": [{"step": "update"}]}, "no list of steps"),
        ({"clean_steps": "burnin_cpu"}, "no list of steps"),
    ):
        with pytest.raises(ConfigError, match=words):
            lead(options, "cleaned", **_with(ironic, **extras))
    assert ironic.proxy.writes == []


def test_a_step_that_cannot_be_done_fails_the_node_with_its_reason_and_the_next_one_goes_on(ironic: Any) -> None:
    """Ironic takes the order, and looks into the steps afterwards."""
    options = ready(ironic)
    lead(options, "cleaned", **_with(ironic, clean_steps=[FIRMWARE], disable_ramdisk=True))
    verdict = _settled(ironic, options)
    assert not verdict["ok"] and "requires booting a ramdisk" in verdict["reason"], verdict
    assert "http://x/y" not in str(verdict), "what a step is given may be a secret, and Ironic prints it"
    assert lead(options, "cleaned", **_with(ironic, clean_steps=[FIRMWARE], disable_ramdisk="false"))["changed"]
    assert _settled(ironic, options)["ok"]


def test_a_runbook_is_named_and_taken_by_a_node_with_its_trait(ironic: Any) -> None:
    steps = [{"interface": "firmware", "step": "update", "args": {"settings": []}, "order": 1}]
    book = {"name": "CUSTOM_GPUFLEET_BURN", "steps": steps}
    ironic.ask("POST", "/runbooks", book, version="1.92")
    options = ready(ironic)
    with pytest.raises(Refused, match="not been approved"):
        lead(options, "cleaned", **_with(ironic, runbook=book["name"]))
    traits = _with(ironic, traits=["CUSTOM_GPUFLEET_BURN", "CUSTOM_H100"])
    given = lead({**options, **traits}, "enrolled")
    assert given["changed"] and given["after"]["traits"] == ["CUSTOM_GPUFLEET_BURN", "CUSTOM_H100"]
    assert not lead({**options, **traits}, "enrolled")["changed"]
    told = lead(options, "cleaned", **_with(ironic, runbook=book["name"]))
    assert any("runbook=CUSTOM_GPUFLEET_BURN" in one for one in told["asked"])
    assert _settled(ironic, options)["ok"]


def test_a_trait_leads_to_no_other_request(ironic: Any) -> None:
    options = ready(ironic)
    with pytest.raises(Refused):
        lead({**options, **_with(ironic, traits=["../maintenance"])}, "enrolled")
    assert ironic.ask("GET", f"/nodes/{options['name']}")["maintenance"] is False


def test_servicing_keeps_the_deployment_and_takes_no_image(ironic: Any) -> None:
    options = deployed(ironic, deploy_id="41")
    lead(options, "serviced", **_with(ironic, service_steps=[LOG]))
    assert _settled(ironic, options)["provision_state"] == "active"
    assert not lead(options, "deployed")["changed"] and ironic.deployments() == 0


def test_steps_of_a_deployment_go_with_it_and_none_of_them_writes_the_image(ironic: Any) -> None:
    options = {**ready(ironic), "image": ironic.image(), "image_verified": True}
    own = {"interface": "deploy", "step": "write_image", "priority": 80}
    with pytest.raises(ConfigError, match="has steps that write it: write_image"):
        lead(options, "deployed", **_with(ironic, deploy_steps=[own]))
    assert ironic.proxy.writes == []
    lead(options, "deployed", **_with(ironic, deploy_steps=[{**BIOS, "priority": 150}]))
    [order] = [body for body in _bodies(ironic, "/provision") if body["target"] == "active"]
    assert order["deploy_steps"] == [{**BIOS, "priority": 150}]


def _template(ironic: Any, name: str, *steps: dict[str, Any]) -> str:
    ironic.ask("POST", "/deploy_templates", {"name": name, "steps": list(steps)})
    return name


def _deployed_with(ironic: Any, options: dict[str, Any], deploy_id: str, **extras: Any) -> Any:
    given = {**options, "image": ironic.image(), "deploy_id": deploy_id, **_with(ironic, **extras)}
    lead(given, "deployed", redeploy=True)
    assert await_all(ironic, "deployed", given)["verdicts"][options["name"]]["ok"]
    return ironic.ask("GET", f"/nodes/{options['name']}")


def _numa(ironic: Any, name: str) -> Any:
    """To what the BIOS of a node was set last: only a step sets it."""
    return (ironic.ask("GET", f"/nodes/{name}/bios").get("bios") or [{}])[0].get("value")


def test_the_steps_of_a_traits_deploy_template_run_with_each_deployment(ironic: Any) -> None:
    name = _template(ironic, "CUSTOM_GPUFLEET_NUMA", {**BIOS, "priority": 150})
    ironic_steps = {**_with(ironic)["driver"], "driver": "fake-steps"}
    options = {**ironic.new(), "driver": ironic_steps}
    lead(options, "ready")
    assert await_all(ironic, "ready", options)["verdicts"][options["name"]]["ok"]
    extras = {"driver": "fake-steps", "traits": ["CUSTOM_H100", name]}
    seen = _deployed_with(ironic, options, "41", driver="fake-steps")
    assert _numa(ironic, options["name"]) is None and "traits" not in seen["instance_info"]
    seen = _deployed_with(ironic, options, "42", **extras)
    assert _numa(ironic, options["name"]) == "nps4"
    assert seen["instance_info"]["traits"] == ["CUSTOM_GPUFLEET_NUMA", "CUSTOM_H100"]
    given = {**options, "image": ironic.image(), "deploy_id": "42", **_with(ironic, driver="fake-steps", traits=[])}
    assert not lead(given, "deployed")["changed"], "traits alone are no other image"
    lead(options, "released")
    assert await_all(ironic, "released", options)["verdicts"][options["name"]]["ok"]
    assert not ironic.ask("GET", f"/nodes/{options['name']}")["instance_info"]
    other = {**BIOS, "priority": 150, "args": {"settings": [{"name": "numa", "value": "nps1"}]}}
    ironic.ask("PATCH", f"/deploy_templates/{name}", [{"op": "replace", "path": "/steps", "value": [other]}])
    _deployed_with(ironic, options, "43", **extras)
    assert _numa(ironic, options["name"]) == "nps1", "also after what an undeploy took"


def test_a_template_that_writes_the_image_takes_a_reason(ironic: Any) -> None:
    own = {"interface": "deploy", "step": "write_image", "priority": 80, "args": {}}
    name = _template(ironic, "CUSTOM_GPUFLEET_OTHER", own)
    options = {**ready(ironic), "image": ironic.image(), **_with(ironic, traits=[name])}
    for check in (True, False):
        with pytest.raises(Refused, match="CUSTOM_GPUFLEET_OTHER"):
            lead(options, "deployed", check=check)
    assert ironic.proxy.writes == []
    assert lead(options, "deployed", check=True, force_reason="its step is the site's own")["step"] == "deploy"


def test_what_a_person_holds_in_a_step_is_told_and_left(ironic: Any) -> None:
    options = ready(ironic)
    ironic.set_state(options["name"], "clean hold", "manageable")
    verdict = _settled(ironic, options)
    assert not verdict["ok"] and "clean hold needs a person" in verdict["reason"], verdict
    with pytest.raises(NotOurs, match="needs a person"):
        lead(options, "cleaned", **_with(ironic, clean_steps=[FIRMWARE]))
    assert ironic.proxy.writes == []


def test_a_cleaning_that_comes_with_making_it_ready_is_not_the_one_that_was_asked_for(ironic: Any) -> None:
    options = ready(ironic)
    ironic.set_state(options["name"], "clean wait", "available")
    with pytest.raises(NotOurs, match="needs a person: clean wait"):
        lead(options, "cleaned", **_with(ironic, clean_steps=[FIRMWARE]))
    ironic.set_state(options["name"], "clean wait", "manageable")
    found = lead(options, "cleaned", **_with(ironic, clean_steps=[FIRMWARE]))
    assert found["pending"] and not found["changed"] and ironic.proxy.writes == []
    ironic.set_state(options["name"], "manageable", None)
