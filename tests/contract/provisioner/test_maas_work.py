# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MAAS's tags, scripts, rescue mode and DPUs. Against the server of this project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    EvidenceMissing,
    NotAdopted,
    NotOurs,
    NotProven,
    Refused,
    Unsupported,
)
from calls import Line, await_all, deployed, lead, ready
from maas_server.answers import Answer
from sites import patched


@pytest.fixture
def maas(maas_site: Any) -> Iterator[Any]:
    maas_site.proxy.forget()
    config = maas_site.server.config
    config.tags, config.definitions = ("h100", "ib"), {"all-gpus": "//node[@class='display']"}
    yield maas_site
    config.tags, config.definitions = (), {}
    maas_site.proxy.forget()
    maas_site.server.intercept = None


def _forms(maas: Any, op: str) -> list[dict[str, list[str]]]:
    return [parse_qs(one.body.decode()) for one in maas.proxy.writes if f"op={op}" in one.query]


def _settled(maas: Any, options: dict[str, Any]) -> dict[str, Any]:
    verdict: dict[str, Any] = await_all(maas, "settled", options)["verdicts"][options["name"]]
    return verdict


def test_tags_are_given_and_read_back_and_others_stay(maas: Any) -> None:
    options = ready(maas)
    maas.machine(options["name"]).tags = ["by-a-person"]
    given = {**options, "driver": {"tags": ["h100", "ib"]}}
    assert lead(given, "enrolled", check=True)["after"]["tags"] == ["by-a-person", "h100", "ib"]
    assert maas.proxy.writes == []
    told = lead(given, "enrolled")
    assert told["changed"] and told["before"]["tags"] == ["by-a-person"]
    assert maas.machine(options["name"]).tags == ["by-a-person", "h100", "ib"]
    assert not lead(given, "enrolled")["changed"]


def test_a_new_machine_gets_its_tags(maas: Any) -> None:
    options = {**maas.new(), "driver": {"tags": ["h100"]}}
    assert lead(options, "enrolled")["after"]["tags"] == ["h100"]
    assert maas.machine(options["name"]).tags == ["h100"]


def test_a_tag_that_is_not_there_or_that_maas_works_out_itself_is_told(maas: Any) -> None:
    options = ready(maas)
    another = f"../machines/{maas.machine(options['name']).system_id}"
    for tag, words in (("h200", "has no tag h200"), ("all-gpus", "itself works out"), (another, "has no tag")):
        with pytest.raises(ConfigError, match=words):
            lead({**options, "driver": {"tags": [tag]}}, "enrolled")
    assert maas.proxy.writes == []


def test_a_tag_that_maas_takes_and_does_not_keep_is_not_proven(maas: Any) -> None:
    options = ready(maas)
    maas.server.intercept = lambda asked: Answer.json({"added": 0}) if asked.op == "update_nodes" else None
    with pytest.raises(NotProven, match="tag"):
        lead({**options, "driver": {"tags": ["h100"]}}, "enrolled")


def test_scripts_go_with_commissioning_and_with_tests(maas: Any) -> None:
    maas.server.config.commissioning_scripts = ("gpufleet-inventory",)
    options = ready(maas)
    given = {"commissioning_scripts": ["gpufleet-inventory"], "testing_scripts": ["memtester", "ntp"]}
    lead({**options, "driver": given}, "inspected")
    [form] = _forms(maas, "commission")
    assert form["commissioning_scripts"] == ["gpufleet-inventory"] and form["testing_scripts"] == ["memtester,ntp"]
    assert _settled(maas, options)["ok"]
    lead({**options, "driver": given}, "tested")
    [form] = _forms(maas, "test")
    assert form == {"testing_scripts": ["memtester,ntp"]}
    assert _settled(maas, options)["ok"]
    with pytest.raises(Refused, match="nosuch"):
        lead({**options, "driver": {"testing_scripts": ["nosuch"]}}, "tested")


def test_tests_that_fail_are_a_verdict_and_keep_a_deployed_machine_deployed(maas: Any) -> None:
    options = deployed(maas)
    fault = ("test", options["name"])
    maas.server.jobs.faults[fault] = "memtester: bit error"
    lead(options, "tested")
    verdict = _settled(maas, options)
    assert not verdict["ok"] and "Failed testing" in verdict["reason"] and "bit error" in verdict["reason"]
    del maas.server.jobs.faults[fault]
    lead(options, "tested")
    assert _settled(maas, options)["ok"]


def test_rescue_of_a_machine_that_is_deployed_ends_where_it_began(maas: Any) -> None:
    options = deployed(maas, deploy_id="41")
    lead(options, "rescued")
    assert _settled(maas, options)["provision_state"] == "Rescue mode"
    with pytest.raises(NotOurs, match="needs a person"):
        lead(options, "released")
    lead(options, "unrescued")
    assert _settled(maas, options)["provision_state"] == "Deployed"
    assert not lead(options, "deployed")["changed"]


def test_a_deployment_of_ours_that_hangs_is_aborted_and_deployed_anew(maas: Any) -> None:
    options = {**ready(maas), "image": maas.image(), "deploy_id": "41", "known_deployed": True}
    options["known_deploy_ids"] = ["41"]
    with patched((maas.server.config.delays, "deploy", 600.0)):
        lead(options, "deployed")
    assert maas.native(options["name"]) == "Deploying"
    theirs = {**options, "known_deployed": False, "known_deploy_ids": []}
    with pytest.raises(NotAdopted):
        lead(theirs, "aborted")
    with pytest.raises(EvidenceMissing):
        lead(options, "aborted", line=Line(refuse=(options["name"],)))
    assert lead(options, "aborted", check=True)["provision_state"] == "Allocated"
    assert maas.native(options["name"]) == "Deploying" and _forms(maas, "abort") == []
    told = lead(options, "aborted")
    assert told["changed"] and told["provision_state"] == "Allocated" and _settled(maas, options)["ok"]
    assert not lead(options, "aborted")["changed"]
    lead(options, "deployed")
    assert await_all(maas, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert not lead(options, "aborted")["changed"], "one that is there does not hang"


def test_failed_tests_are_overridden_with_a_reason_alone(maas: Any) -> None:
    options = ready(maas)
    maas.machine(options["name"]).status = 22
    given = {**options, "driver": {"override_failed_testing": True}}
    with pytest.raises(Refused, match="with a reason alone"):
        lead(given, "ready")
    verdict = await_all(maas, "ready", given)["verdicts"][options["name"]]
    assert not verdict["ok"] and "with a reason alone" in verdict["reason"] and maas.proxy.writes == []
    assert lead(options, "ready", check=True, force_reason="a verified image")["step"] == "test", "a reason for what?"
    assert lead(given, "ready", force_reason="the test is wrong about this DIMM")["step"] == "override_failed_testing"
    assert maas.native(options["name"]) == "Ready" and _forms(maas, "test") == []


def test_a_dpu_is_arm64_and_never_erased_and_keeps_its_power(maas: Any) -> None:
    with pytest.raises(ConfigError, match="no DPU of such an architecture"):
        lead({**maas.new(), "driver": {"is_dpu": True}}, "enrolled")
    assert maas.proxy.writes == []
    options = {**maas.new(), "driver": {"is_dpu": True}, "properties": {"cpu_arch": "aarch64"}}
    lead(options, "ready")
    assert await_all(maas, "ready", options)["verdicts"][options["name"]]["ok"]
    assert maas.machine(options["name"]).is_dpu
    stock = {**options, "image": {**maas.image(), "version": "a"}, "driver": {"is_dpu": True, "distro_series": "noble"}}
    lead(stock, "deployed")
    assert await_all(maas, "deployed", stock)["verdicts"][options["name"]]["ok"]
    maas.proxy.forget()
    with pytest.raises(Unsupported, match="erases no disk of a DPU"):
        lead(stock, "released", erase=True)
    assert maas.proxy.writes == []
    lead(stock, "released")
    assert await_all(maas, "released", stock)["verdicts"][options["name"]]["ok"]
    assert maas.machine(options["name"]).power_state == "on"


def test_a_dpu_is_entered_with_a_kernel_that_maas_takes_for_one(maas: Any) -> None:
    """Also where the site has set an older one for whatever is entered, with which MAAS refuses it."""
    options = {**maas.new(), "driver": {"is_dpu": True}, "properties": {"cpu_arch": "aarch64"}}
    with pytest.raises(ConfigError, match="no DPU of such a kernel"):
        lead({**options, "driver": {"is_dpu": True, "min_hwe_kernel": "ga-22.04"}}, "enrolled")
    assert maas.proxy.writes == []
    with patched((maas.server.config, "default_min_hwe_kernel", "ga-22.04")):
        assert lead(options, "enrolled", check=True)["after"]["min_hwe_kernel"] == "hwe-22.04"
        assert lead(options, "enrolled")["after"]["min_hwe_kernel"] == "hwe-22.04"
    assert maas.machine(options["name"]).min_hwe_kernel == "hwe-22.04"
    newer = {**options, "driver": {"is_dpu": True, "min_hwe_kernel": "hwe-24.04"}}
    told = lead(newer, "enrolled")
    assert told["before"]["min_hwe_kernel"] == "hwe-22.04" and told["after"]["min_hwe_kernel"] == "hwe-24.04"
    assert not lead(newer, "enrolled")["changed"] and not lead(options, "enrolled")["changed"], "a newer one stays"
    with pytest.raises(Refused, match="No kernel matches"):
        lead({**options, "driver": {"is_dpu": True, "min_hwe_kernel": "hwe-99.04"}}, "enrolled")
    plain = {**maas.new(), "driver": {"min_hwe_kernel": "ga-24.04"}}
    lead(plain, "enrolled")
    assert maas.machine(plain["name"]).min_hwe_kernel == "ga-24.04", "of any machine, where the site says so"


def test_a_dpu_boots_while_the_machine_that_it_is_in_is_on(maas: Any) -> None:
    host = deployed(maas)
    driver = {"is_dpu": True, "dpu_host": host["name"]}
    options = {**maas.new(), "driver": driver, "properties": {"cpu_arch": "aarch64"}}
    lead(host, "powered_off")
    lead(options, "enrolled")
    maas.proxy.forget()
    for given, seen in ((options, "its power is off"), ({**options, "driver": {**driver, "dpu_host": "gone"}}, "gone")):
        with pytest.raises(Refused, match="from the machine that it is in") as refused:
            lead(given, "ready")
        assert seen in str(refused.value)
    assert [one for one in maas.proxy.writes if "op=" in one.query] == []
    lead(host, "powered_on")
    lead(options, "ready")
    assert await_all(maas, "ready", options)["verdicts"][options["name"]]["ok"]


def test_a_dpu_that_the_inventory_has_as_a_node_is_led_nowhere(maas: Any) -> None:
    """Whichever way it came into the inventory; and it is told before anything is written, of it alone."""
    options, other = ready(maas), ready(maas)
    card = maas.machine(options["name"])
    card.is_dpu = True
    given = {**options, "image": maas.image(), "deploy_id": "41"}
    maas.proxy.forget()
    for state, check in (("deployed", True), ("deployed", False), ("inspected", False), ("tested", False)):
        with pytest.raises(ConfigError, match="has this machine as a DPU"):
            lead(given, state, check=check)
    told = await_all(maas, "deployed", given, {**other, "image": maas.image(), "deploy_id": "42"})["verdicts"]
    assert "as a DPU" in told[options["name"]]["reason"] and told[other["name"]]["ok"]
    assert not [one for one in maas.proxy.writes if card.system_id in one.path]


def test_our_own_lock_lets_no_mark_be_written_and_that_is_told(maas: Any) -> None:
    options = deployed(maas)
    lead(options, "maintenance", run_id="r1", known_runs=["r1"])
    maas.proxy.forget()
    told = lead(options, "annotated", annotations={"rack": "r12"}, known_runs=["r1"])
    assert told["deferred"] == ["rack"] and not told["changed"] and maas.proxy.writes == []


@pytest.mark.parametrize("state", ["restarted", "powered_on"])
def test_a_machine_that_maas_will_not_switch_on_is_not_switched_off(maas: Any, state: str) -> None:
    """Without an owner MAAS takes ``power_off``, and answers ``power_on`` with 409."""
    free, held = ready(maas), deployed(maas)
    lead(held, "powered_off")
    lead(held, "maintenance")
    maas.faults.forget()
    for options, why in ((free, "without an owner"), (held, "locked")):
        for check in (True, False):
            with pytest.raises(Refused, match=why):
                lead(options, state, check=check)
    assert maas.faults.writes == []
