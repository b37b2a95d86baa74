# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only MAAS has: its signature, its words, its silence. Against the server of this project."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    DeadlineExceeded,
    NotOurs,
    NotProven,
    Refused,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import api as maas_api
from calls import await_all, deployed, lead, ready
from maas_server.answers import Answer


@pytest.fixture
def maas(maas_site: Any) -> Iterator[Any]:
    maas_site.proxy.forget()
    yield maas_site
    maas_site.proxy.forget()
    maas_site.server.intercept = None
    maas_site.server.door.clock = time.time


def _sent(site: Any, op: str = "", method: str = "POST") -> list[dict[str, list[str]]]:
    found = [
        one for one in site.proxy.writes if one.method == method and (f"op={op}" in one.query if op else not one.query)
    ]
    return [parse_qs(one.body.decode(), keep_blank_values=True) for one in found]


# -- enrolling ---------------------------------------------------------------------------------------------------


def test_commission_false_is_always_sent(maas: Any) -> None:
    """Left out, it is true for administrators: the machine would be booted by being enrolled."""
    options = maas.new()
    result = lead(options, "enrolled")
    (form,) = _sent(maas)
    assert form["commission"] == ["false"]
    assert result["provision_state"] == "New" and maas.native(options["name"]) == "New"


def test_words_for_redfish(maas: Any) -> None:
    options = {**maas.new(), "bmc_address": "https://10.9.0.1:8443", "bmc_system_id": "/redfish/v1/Systems/5ac0"}
    result = lead(options, "enrolled")
    parameters = maas.machine(options["name"]).power_parameters
    assert parameters == {
        "power_address": "10.9.0.1:8443",  # with its scheme MAAS answers 500
        "power_user": "bmcadmin",
        "power_pass": options["bmc_password"],
        "node_id": "5ac0",
    }
    assert result["after"]["power_parameters"]["power_pass"] == "********"


def test_r3_a_machine_is_known_by_its_bmc_where_its_board_tells_no_serial(maas: Any) -> None:
    options = {**maas.new(), "serial": "", "bmc_address": "https://10.9.0.3:8443", "bmc_system_id": "5ac0"}
    lead(options, "enrolled")
    known = {key: value for key, value in options.items() if key != "boot_mac"}
    assert lead(known, "enrolled", check=True)["agrees"] == ["bmc_address"]
    others = (
        ({"bmc_address": "https://10.9.0.3"}, ""),
        ({"bmc_system_id": "5ac1"}, "5ac0"),
        ({"bmc_system_id": ""}, "5ac0"),
    )
    for other, system in others:
        looked = lead({**known, **other}, "enrolled", check=True)
        assert (looked["agrees"], looked["bmc_system"]) == ([], system)


def test_words_for_ipmi(maas: Any) -> None:
    options = {**maas.new(), "bmc_protocol": "ipmi", "bmc_address": "10.9.0.4:623"}
    options["driver"] = {"power_parameters": {"cipher_suite_id": "3"}}
    lead(options, "enrolled")
    machine = maas.machine(options["name"])
    assert machine.power_type == "ipmi" and machine.power_parameters["power_address"] == "10.9.0.4"
    assert machine.power_parameters["cipher_suite_id"] == "3"
    with pytest.raises(ConfigError, match="port 623"):
        lead({**maas.new(), "bmc_protocol": "ipmi", "bmc_address": "10.9.0.4:6230"}, "enrolled")


def test_a_machine_that_enlisted_itself_is_taken_over(maas: Any) -> None:
    options = maas.new()
    lead(options, "enrolled")
    maas.machine(options["name"]).hostname = "happy-cat"
    result = lead(options, "enrolled")
    assert result["changed"] and (result["before"]["hostname"], result["name"]) == ("happy-cat", options["name"])
    maas.machine(options["name"]).hostname = "lucky-dog"
    maas.machine("lucky-dog").status = 4
    with pytest.raises(WrongMachine, match="MAC belongs to"):
        lead(options, "enrolled")


def test_properties_are_read_back(maas: Any) -> None:
    options = {**ready(maas), "properties": {"pool": "quarantine", "cpu_arch": "x86_64", "memory_mb": 1}}
    assert lead(options, "enrolled")["after"]["pool"] == "quarantine"
    assert not lead(options, "enrolled")["changed"]
    with pytest.raises(Refused, match="Select a valid choice"):
        lead({**options, "properties": {"pool": "nosuch"}}, "enrolled")
    # Taken with 200 and ignored: what MAAS does with a field that it does not know.
    maas.proxy.fault = lambda asked: (200, {}, b"{}") if asked.method == "PUT" else None
    with pytest.raises(NotProven, match="does not read back"):
        lead({**options, "properties": {"pool": "training"}}, "enrolled")


def test_power_parameters_are_not_read_of_a_deployed_machine(maas: Any) -> None:
    options = deployed(maas)
    lead(options, "enrolled")
    assert not [one for one in maas.proxy.asked if "power_parameters" in one.query]
    lead({**options, "update_password": "always", "bmc_password": "rotated"}, "enrolled")
    assert maas.machine(options["name"]).power_parameters["power_pass"] == "rotated"


def test_two_machines_of_one_name(maas: Any) -> None:
    options = ready(maas)
    twin = maas.new()
    lead(twin, "enrolled")
    other = maas.machine(twin["name"])
    other.hostname, other.domain = options["name"], "other"
    with pytest.raises(Refused, match="2 machines called"):
        lead(options, "enrolled")
    assert lead({**options, "provisioner_id": f"{options['name']}.maas"}, "enrolled")["name"] == options["name"]
    assert not await_all(maas, "ready", options)["verdicts"][options["name"]]["ok"]
    full = {**options, "provisioner_id": f"{options['name']}.maas"}
    assert await_all(maas, "ready", full)["verdicts"][options["name"]]["ok"]


def test_a_system_id_is_no_other_machines_name(maas: Any) -> None:
    """Who may name a machine in MAAS does not choose by that which one a run works on."""
    options = ready(maas)
    twin = maas.new()
    lead(twin, "enrolled")
    own = maas.machine(options["name"]).system_id
    maas.machine(twin["name"]).hostname = own
    assert not lead({**options, "provisioner_id": own}, "enrolled")["changed"]


# -- deploying and releasing -------------------------------------------------------------------------------------


def test_m6_annotations_of_names_that_maas_does_not_take_are_refused_before_the_deployment(maas: Any) -> None:
    """It answers 500, and only once the deployment is under way."""
    options = {**ready(maas), "image": maas.image()}
    for key in ("fleet/rack", "fleet:rack", "fleet rack"):
        with pytest.raises(ConfigError, match=f"no annotation of such a name.*Seen: {key}"):
            lead(options, "deployed", annotations={key: "12"})
    assert maas.proxy.writes == []
    lead(options, "deployed", annotations={"fleet-rack": "12"})
    assert maas.machine(options["name"]).annotations["fleet-rack"] == "12"
    with pytest.raises(ConfigError, match="no annotation of such a name"):
        lead(options, "deployed", annotations={"fleet rack": "12"})


def test_a_deployment_names_its_image_and_takes_its_options(maas: Any) -> None:
    options = {**ready(maas), "image": maas.image(), "driver": {"ephemeral_deploy": True, "hwe_kernel": "hwe-24.04"}}
    lead(options, "deployed")
    (form,) = _sent(maas, "deploy")
    assert form == {"distro_series": ["custom/gold-1"], "ephemeral_deploy": ["true"], "hwe_kernel": ["hwe-24.04"]}


def test_booleans_are_words(maas: Any) -> None:
    options = {**maas.new(), "driver": {"enable_ssh": 0, "skip_networking": "yes", "testing_scripts": ["none"]}}
    lead(options, "ready")
    (form,) = _sent(maas, "commission")
    assert form == {"enable_ssh": ["false"], "skip_networking": ["true"], "testing_scripts": ["none"]}


def test_a_stock_image_by_its_series(maas: Any) -> None:
    options = {**ready(maas), "image": maas.image(), "driver": {"distro_series": "noble"}}
    lead(options, "deployed")
    assert await_all(maas, "deployed", options)["verdicts"][options["name"]]["ok"]
    assert not lead(options, "deployed")["changed"]


def test_erase_is_not_mentioned_unless_asked_for(maas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """``erase=0`` erases."""
    for kind in ("release", "erase"):
        monkeypatch.setitem(maas.server.config.delays, kind, 5)
    options = deployed(maas)
    lead(options, "released")
    assert _sent(maas, "release") == [{}] and maas.native(options["name"]) == "Releasing"
    options = deployed(maas)
    lead(options, "released", erase=True)
    assert _sent(maas, "release") == [{"erase": ["true"]}] and maas.native(options["name"]) == "Disk erasing"


def test_a_failed_deployment_is_released_first(maas: Any) -> None:
    options = {**ready(maas), "image": maas.image()}
    fault = ("deploy", options["name"])
    maas.server.jobs.faults[fault] = "curtin: no space left on device"
    lead(options, "deployed")
    verdict = await_all(maas, "deployed", options)["verdicts"][options["name"]]
    assert (
        not verdict["ok"]
        and verdict["provision_state"] == "Failed deployment"
        and "Installation failed" in verdict["reason"]
    )
    del maas.server.jobs.faults[fault]
    again = lead(options, "deployed")
    assert again["step"] == "release"
    assert await_all(maas, "deployed", options)["verdicts"][options["name"]]["ok"]


def test_deployed_without_a_system_is_not_deployed(maas: Any) -> None:
    """mark_fixed calls a machine Deployed whose system mark_broken has wiped."""
    options = deployed(maas)
    machine = maas.machine(options["name"])
    machine.osystem = machine.distro_series = ""
    result = lead(options, "deployed")
    assert result["step"] == "release"
    assert await_all(maas, "deployed", options)["verdicts"][options["name"]]["ok"]


def test_a_release_to_new_is_commissioned_on_the_way(maas: Any) -> None:
    options = {**deployed(maas), "image": maas.image("2")}
    maas.machine(options["name"]).commissioning_status = 0
    lead(options, "deployed")
    steps = await_all(maas, "deployed", options)["steps"][options["name"]]
    assert steps == ["commission", "deploy"]


# -- what failed its tests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["ready", "deployed"])
def test_m3_a_machine_that_failed_its_tests_is_tested_anew(maas: Any, goal: str) -> None:
    """From there MAAS commissions nothing; and what it found is not passed over."""
    options = {**ready(maas), "image": maas.image(), "driver": {"testing_scripts": ["memtester", "ntp"]}}
    maas.machine(options["name"]).status = 22  # Failed testing
    begun = lead(options, goal)
    assert begun["step"] == "test" and begun["provision_state"] in ("Testing", "Ready")
    (form,) = _sent(maas, "test")
    assert form == {"testing_scripts": ["memtester,ntp"]}
    assert await_all(maas, goal, options)["verdicts"][options["name"]]["ok"]
    assert not _sent(maas, "commission") and not _sent(maas, "override_failed_testing")


def test_m3_a_machine_that_fails_its_tests_again_is_not_ready(maas: Any) -> None:
    options = {**ready(maas), "driver": {"testing_scripts": "none"}}
    machine = maas.machine(options["name"])
    machine.status = 22
    maas.server.jobs.faults[("test", options["name"])] = "memtester: bit 7 stuck"
    try:
        lead(options, "ready")
        maas.until(options["name"], "Failed testing")
        verdict = await_all(maas, "ready", {**options, "driver": {}}, timeout=5)["verdicts"][options["name"]]
    finally:
        del maas.server.jobs.faults[("test", options["name"])]
    assert not verdict["ok"] and "memtester: bit 7 stuck" in verdict["reason"], verdict
    assert _sent(maas, "test")[0] == {}, "without a word on scripts, MAAS runs its own"


# -- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("domain", "in_maas"), [("dc1.example.com", "dc1.example.com"), ("lab.invalid", "maas")])
def test_m4_a_machine_that_is_enrolled_by_its_full_name_is_found_by_it(maas: Any, domain: str, in_maas: str) -> None:
    """Its domain is MAAS's where that has it. Where not, the machine stands in MAAS's own, and is the same one."""
    options = maas.new()
    full = {**options, "name": f"{options['name']}.{domain}"}
    lead(full, "ready")
    assert await_all(maas, "ready", full)["verdicts"][full["name"]]["ok"]
    machine = maas.machine(options["name"])
    assert (machine.hostname, machine.domain) == (options["name"], in_maas)
    assert not lead(full, "ready")["changed"] and not lead(options, "ready")["changed"], "found, by either name"
    with pytest.raises(WrongMachine):
        lead({**maas.new(), "name": full["name"]}, "ready")


# -- holds -------------------------------------------------------------------------------------------------------


def test_our_hold_is_a_lock_and_a_line_that_people_see(maas: Any) -> None:
    options = deployed(maas)
    machine = maas.machine(options["name"])
    machine.description = "Rack 12, bought in May"
    lead(options, "maintenance", run_id="run1", why="reseat")
    assert machine.locked and machine.description == "Rack 12, bought in May\ngpufleet:run1:reseat"
    lead(options, "serviceable")
    assert not machine.locked and machine.description == "Rack 12, bought in May"


def test_a_lock_of_somebody_else_is_not_unlocked(maas: Any) -> None:
    options = deployed(maas)
    maas.machine(options["name"]).locked = True
    with pytest.raises(NotOurs, match="locked by somebody else"):
        lead(options, "serviceable")
    assert maas.machine(options["name"]).locked


# -- what MAAS does not say --------------------------------------------------------------------------------------


def test_a_silent_403_is_explained(maas: Any) -> None:
    options = deployed(maas)
    machine = maas.machine(options["name"])
    url = maas.proxy.url

    def lock_now(asked: Any) -> None:
        if asked.is_write:
            machine.locked = True

    maas.proxy.fault = lock_now  # between our look and our write
    with pytest.raises(NotOurs, match="the machine is locked"):
        lead(options, "released")
    maas.proxy.forget()
    machine.locked, machine.owner = False, "tenant"

    # From the write on MAAS does not show it to this key any more.
    maas.proxy.fault = lambda asked: setattr(machine, "owner", "fleet") if asked.is_write else None
    other = {**options, "provisioner_url": url, "provisioner_api_key": "tenant:token:other"}
    with pytest.raises(Refused, match="neither the machine's owner nor an administrator"):
        lead(other, "released")


def test_the_body_of_a_401_is_never_shown(maas: Any) -> None:
    wrong = {**maas.new(), "provisioner_api_key": "fleetkey:token:wr0ng"}
    with pytest.raises(AuthFailed) as caught:
        lead(wrong, "ready")
    told = json.dumps(caught.value.as_result())
    assert "maas-S3cret-part" not in told and "signature" not in told


def test_a_slow_clock_is_named(maas: Any) -> None:
    maas.server.door.clock = lambda: time.time() + 4000
    with pytest.raises(AuthFailed, match="check the clock"):
        lead(maas.new(), "ready")


def test_each_try_is_signed_anew(maas: Any) -> None:
    """A nonce serves once: a repeated request with the old one would be a 401."""
    options = ready(maas)
    left = iter([True, True])
    busy = Answer(409, b"Conflict", {"Content-Type": "text/html", "Retry-After": "5"})
    maas.server.intercept = lambda asked: busy if asked.method == "PUT" and next(left, False) else None
    assert lead(options, "maintenance")["changed"]
    assert len([one for one in maas.proxy.writes if one.method == "PUT"]) == 3


def test_a_409_without_retry_after_is_a_wrong_state(maas: Any) -> None:
    options = ready(maas)
    refused = Answer.text(409, "Can't deploy a machine that is in the 'New' state")
    maas.server.intercept = lambda asked: refused if asked.op == "deploy" else None
    with pytest.raises(Refused, match="in the 'New' state"):
        lead(options, "deployed", image=maas.image())


def test_no_rack_controller(maas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maas_api, "AGAIN_TIMEOUT", 0.3)
    options = ready(maas)
    gone = Answer(503, b"Unable to connect to any rack controller", {"Content-Type": "text/plain", "Retry-After": "10"})
    maas.server.intercept = lambda asked: gone
    with pytest.raises(DeadlineExceeded, match="Unable to connect to any rack controller"):
        lead(options, "ready")
    maas.server.intercept = lambda asked: Answer.text(503, "No rack controllers can access the BMC of node x")
    with pytest.raises(Unreachable, match="No rack controllers"):
        lead(options, "ready")


def test_a_redirect_is_not_followed(maas: Any) -> None:
    maas.proxy.fault = lambda asked: (301, {"Location": "https://elsewhere/"}, b"")
    with pytest.raises(BadAnswer, match="redirect"):
        lead(maas.new(), "ready")
    assert len(maas.proxy.asked) == 1


def test_a_key_of_another_form(maas: Any) -> None:
    with pytest.raises(ConfigError, match="consumer:token:secret") as caught:
        lead({**maas.new(), "provisioner_api_key": "only-a-secret"}, "ready")
    assert "only-a-secret" not in str(caught.value)


def test_unknown_extras_are_refused(maas: Any) -> None:
    with pytest.raises(ConfigError, match="unknown keys in driver: inspekt"):
        lead({**maas.new(), "driver": {"inspekt": "x"}}, "ready")


def test_blocks_are_asked_four_at_a_time_at_most(maas: Any) -> None:
    batch = [{"name": name} for name in maas.many(260)]
    maas.proxy.forget()
    verdicts = await_all(maas, "ready", *batch)["verdicts"]
    assert len(verdicts) == 260 and all(one["ok"] for one in verdicts.values())
    assert len(maas.proxy.lists("/machines")) == 12
