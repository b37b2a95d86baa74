# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only Ironic has: interfaces, cleaning, ports, its locks. Against a real one with fake hardware."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    Changed,
    ConfigError,
    NotOurs,
    Refused,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import api as ironic_api
from calls import Killed, Line, Waits, await_all, deployed, is_ordered_for_no_other_machine, lead, ready
from contract.proxy import DROP, LOSE
from ironic_server import PASSWORD, USER
from openstack.config import loader

pytestmark = pytest.mark.slow


@pytest.fixture
def ironic(ironic_site: Any) -> Iterator[Any]:
    ironic_site.proxy.forget()
    yield ironic_site
    ironic_site.proxy.forget()


def _bodies(site: Any, ending: str) -> list[Any]:
    return [json.loads(one.body) for one in site.proxy.writes if one.path.endswith(ending) and one.body]


def _settle(site: Any, name: str, *states: str) -> str:
    end = time.monotonic() + 30
    while site.native(name) not in states:
        assert time.monotonic() < end, site.native(name)
        time.sleep(0.1)
    return site.native(name)


def test_redfish_node_from_the_inventorys_words(ironic: Any) -> None:
    options = ironic.new()
    options.update(driver={}, bmc_system_id="5ac0", bmc_ca_path="/etc/ca.pem", bmc_address="https://10.9.0.1:8443")
    result = lead(options, "enrolled")
    assert result["after"]["driver_info"]["redfish_password"] == "********"
    record = ironic.ask("GET", f"/nodes/{options['name']}")
    assert record["driver"] == "redfish" and record["provision_state"] == "enroll"
    info = {key: value for key, value in record["driver_info"].items() if key != "redfish_password"}
    assert info == {
        "redfish_address": "https://10.9.0.1:8443",
        "redfish_system_id": "/redfish/v1/Systems/5ac0",
        "redfish_username": "bmcadmin",
        "redfish_verify_ca": "/etc/ca.pem",
    }
    assert record["extra"] == {"gpufleet_serial": options["serial"]}
    assert not lead(options, "enrolled")["changed"]
    moved = lead({**options, "bmc_address": "https://10.9.0.2"}, "enrolled")
    assert moved["before"]["driver_info.redfish_address"] == "https://10.9.0.1:8443"
    assert moved["after"]["driver_info.redfish_address"] == "https://10.9.0.2"
    assert moved["after"]["driver_info.redfish_password"] == "******** (sent again)"


def test_u3_the_record_has_the_serial_of_another_board_with_the_next_deployment(ironic: Any) -> None:
    options = deployed(ironic)
    new = {**options, "serial": "S-new", "image": ironic.image("2"), "deploy_id": "9"}
    new["known_former_serials"] = [options["serial"]]
    assert lead(new, "deployed", redeploy=True)["changed"]
    assert ironic.ask("GET", f"/nodes/{options['name']}")["extra"]["gpufleet_serial"] == "S-new"


def test_r2_a_record_is_not_moved_to_the_bmc_of_whoever_has_the_rows_card(ironic: Any) -> None:
    """The login of a BMC goes there as well, and Ironic would switch that machine from then on."""
    mine, theirs = ({**ironic.new(), "driver": {}} for _node in range(2))
    for one in (mine, theirs):
        lead(one, "enrolled")
    before = ironic.ask("GET", f"/nodes/{mine['name']}")
    ironic.proxy.forget()
    row = {**mine, "boot_mac": theirs["boot_mac"], "bmc_address": theirs["bmc_address"], "bmc_password": "another-one"}
    with pytest.raises(WrongMachine, match="the MAC belongs to another node"):
        lead(row, "enrolled")
    assert ironic.proxy.writes == [] and ironic.ask("GET", f"/nodes/{mine['name']}") == before
    assert lead({**mine, "bmc_password": "another-one"}, "enrolled", update_password="always")["changed"]


def test_ipmi_node_from_the_inventorys_words(ironic: Any) -> None:
    options = {**ironic.new(), "bmc_protocol": "ipmi", "bmc_address": "10.9.0.4:6230"}
    options["driver"] = {"driver_info": {"ipmi_cipher_suite": "3"}}
    lead(options, "enrolled")
    record = ironic.ask("GET", f"/nodes/{options['name']}")
    info = record["driver_info"]
    assert record["driver"] == "ipmi"
    assert (info["ipmi_address"], info["ipmi_port"], info["ipmi_cipher_suite"]) == ("10.9.0.4", "6230", "3")
    assert not lead(options, "enrolled")["changed"]


def test_an_interface_that_inspects_nothing_is_no_pass(ironic: Any) -> None:
    options = ironic.new()
    options["driver"] = {**ironic.extras, "inspect_interface": "no-inspect"}
    lead(options, "ready")
    assert await_all(ironic, "ready", options)["verdicts"][options["name"]]["ok"]
    assert lead(options, "ready")["inspection"] == "unsupported"
    assert "inspect" not in [body["target"] for body in _bodies(ironic, "/provision")]


def test_unknown_extras_are_refused(ironic: Any) -> None:
    with pytest.raises(ConfigError, match="unknown keys in driver: inspekt"):
        lead({**ironic.new(), "driver": {"inspekt": "x"}}, "ready")
    assert ironic.proxy.asked == []


def test_a_ramdisk_needs_its_kernel_and_a_disk_image_its_digest(ironic: Any) -> None:
    options = ready(ironic)
    with pytest.raises(ConfigError, match="kernel_url"):
        lead(options, "deployed", image={**ironic.image(), "kernel_url": ""})
    with pytest.raises(ConfigError, match="sha256"):
        lead(options, "deployed", image={**ironic.image(format="whole-disk"), "sha256": ""})
    assert ironic.proxy.writes == []


def test_whole_disk_image(ironic: Any) -> None:
    options = {**ready(ironic), "image": ironic.image(format="whole-disk")}
    lead(options, "deployed")
    assert await_all(ironic, "deployed", options)["verdicts"][options["name"]]["ok"]
    info = ironic.ask("GET", f"/nodes/{options['name']}")["instance_info"]
    assert info["image_os_hash_value"] == "1" * 64 and "kernel" not in info
    assert not lead(options, "deployed")["changed"]


def test_a_tampered_record_is_no_deployment(ironic: Any) -> None:
    """Who only writes instance_info has deployed nothing, and the record says since when."""
    options = {**deployed(ironic), "image": ironic.image("2")}
    patch = [{"op": "add", "path": "/instance_info/ramdisk", "value": options["image"]["url"]}]
    ironic.ask("PATCH", f"/nodes/{options['name']}", patch)
    assert lead(options, "deployed")["changed"]
    assert await_all(ironic, "deployed", options)["verdicts"][options["name"]]["ok"]


def test_undeploy_when_the_deploy_interface_changes(ironic: Any) -> None:
    options = deployed(ironic)
    options["driver"] = {"driver": "fake-hardware", "deploy_interface": "direct"}
    options["image"] = ironic.image("2")
    assert lead(options, "deployed")["step"] == "undeploy"
    _settle(ironic, options["name"], "available")
    # An undeploy has emptied instance_info; the deployment that follows writes it again.
    lead({**options, "driver": ironic.extras}, "deployed")
    assert await_all(ironic, "deployed", {**options, "driver": ironic.extras})["verdicts"][options["name"]]["ok"]


def test_erase_is_asked_for_by_name_alone(ironic: Any) -> None:
    for erase in (False, True):
        options = deployed(ironic)
        lead(options, "released", erase=erase)
        patched = [operation["path"] for body in _bodies(ironic, options_id(ironic, options)) for operation in body]
        assert ("/automated_clean" in patched) is erase


def options_id(site: Any, options: dict[str, Any]) -> str:
    return str(site.ask("GET", f"/nodes/{options['name']}")["uuid"])


def after_a_failed_cleaning(ironic: Any) -> dict[str, Any]:
    """The options of a node whose cleaning Ironic itself found wrong."""
    options = ready(ironic)
    name = str(options["name"])
    ironic.ask("PUT", f"/nodes/{name}/states/provision", {"target": "manage"})
    _settle(ironic, name, "manageable")
    steps = [{"interface": "deploy", "step": "no_such_step"}]
    ironic.ask("PUT", f"/nodes/{name}/states/provision", {"target": "clean", "clean_steps": steps})
    _settle(ironic, name, "clean failed")
    return options


def test_a_failed_cleaning_is_recovered(ironic: Any) -> None:
    options = after_a_failed_cleaning(ironic)
    name = options["name"]
    record = ironic.ask("GET", f"/nodes/{name}")
    told = lead(options, "ready")
    assert told["changed"] and told["step"] == "recover-clean"
    assert await_all(ironic, "ready", options)["verdicts"][name]["ok"]
    assert not ironic.ask("GET", f"/nodes/{name}")["maintenance"], record["maintenance_reason"]


def test_h3_a_failed_cleaning_that_a_person_has_taken_is_left_alone(ironic: Any) -> None:
    options = after_a_failed_cleaning(ironic)
    name = options["name"]
    ironic.ask("PUT", f"/nodes/{name}/maintenance", {"reason": "carol: swaps the riser"})
    with pytest.raises(NotOurs, match="carol: swaps the riser"):
        lead(options, "ready")
    record = ironic.ask("GET", f"/nodes/{name}")
    assert (record["provision_state"], record["maintenance_reason"]) == ("clean failed", "carol: swaps the riser")


def test_a_failed_cleaning_is_not_recovered_by_waiting(ironic: Any) -> None:
    options = after_a_failed_cleaning(ironic)
    name = options["name"]
    ironic.proxy.forget()
    verdict = await_all(ironic, "ready", options)["verdicts"][name]
    assert not verdict["ok"] and "does not support this clean step" in verdict["reason"] and ironic.proxy.writes == []


def test_a_node_in_rescue_needs_a_person(ironic: Any) -> None:
    options = deployed(ironic)
    ironic.ask("PUT", f"/nodes/{options['name']}/states/provision", {"target": "rescue", "rescue_password": "x1Y2z3W4"})
    _settle(ironic, options["name"], "rescue", "rescue failed")
    with pytest.raises(NotOurs):
        lead(options, "deployed", redeploy=True)
    assert ironic.proxy.writes == []


@pytest.mark.parametrize("native", ["manageable", "available"])
def test_the_boot_port_boots_again(ironic: Any, native: str) -> None:
    """Redfish inspection switches pxe_enabled off on every port; a deployment would then write no boot entry."""
    options = {**ready(ironic), "image": ironic.image()}
    name = options["name"]
    port = ironic.ask("GET", f"/ports?address={options['boot_mac']}")["ports"][0]["uuid"]
    off = [{"op": "replace", "path": "/pxe_enabled", "value": False}]
    ironic.ask("PUT", f"/nodes/{name}/states/provision", {"target": "manage"})
    _settle(ironic, name, "manageable")
    ironic.ask("PATCH", f"/ports/{port}", off)
    if native == "available":
        ironic.ask("PUT", f"/nodes/{name}/states/provision", {"target": "provide"})
        _settle(ironic, name, "available")
    lead(options, "deployed")
    assert await_all(ironic, "deployed", options)["verdicts"][name]["ok"]
    assert ironic.ask("GET", f"/ports/{port}")["pxe_enabled"] is True
    assert not ironic.ask("GET", f"/nodes/{name}")["maintenance"]


@pytest.mark.parametrize("moment", range(4))
def test_killed_while_the_boot_port_is_put_right(ironic: Any, moment: int) -> None:
    options = {**ready(ironic), "image": ironic.image()}
    name = options["name"]
    port = ironic.ask("GET", f"/ports?address={options['boot_mac']}")["ports"][0]["uuid"]
    ironic.ask("PUT", f"/nodes/{name}/maintenance", {"reason": "gpufleet:test:x"})
    ironic.ask("PATCH", f"/ports/{port}", [{"op": "replace", "path": "/pxe_enabled", "value": False}])
    ironic.ask("DELETE", f"/nodes/{name}/maintenance")
    with contextlib.suppress(Killed):
        lead(options, "deployed", line=Line(die_at=moment))
    lead(options, "deployed")
    assert await_all(ironic, "deployed", options)["verdicts"][name]["ok"]
    assert ironic.ask("GET", f"/ports/{port}")["pxe_enabled"] is True
    assert not ironic.ask("GET", f"/nodes/{name}")["maintenance"]


def test_a_node_that_a_conductor_has_locked_is_asked_again(ironic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ironic_api, "LOCK_INTERVAL", 0.05)
    options = ready(ironic)
    text = json.dumps({"error_message": json.dumps({"faultstring": "Node x is locked by host rack-conductor, retry"})})
    left = iter([True, True, False, False, False, False])
    locked = (409, {"Content-Type": "application/json"}, text.encode())
    ironic.proxy.fault = lambda asked: locked if asked.method == "PUT" and next(left) else None
    assert lead(options, "maintenance")["changed"]
    assert len([one for one in ironic.proxy.writes if one.method == "PUT"]) == 3


def test_what_another_controller_took_while_it_was_locked_is_left_as_it_is(
    ironic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note of our deployment would be told of theirs, and who ordered that would deploy it once more."""
    monkeypatch.setattr(ironic_api, "LOCK_INTERVAL", 0.1)
    options = {**ready(ironic), "image": ironic.image(), "deploy_id": "ours"}
    locked = (409, {"Content-Type": "application/json"}, b'{"error_message": "Node x is locked by host y"}')

    def taken(asked: Any) -> Any:
        if asked.method != "PATCH":
            return None
        ironic.proxy.fault = lambda asked: None
        ironic.set_state(options["name"], "active", None)
        return locked

    ironic.proxy.fault = taken
    with pytest.raises(Changed, match="somebody has taken, held or given back"):
        lead(options, "deployed")
    assert [one.method for one in ironic.proxy.writes] == ["PATCH"]
    assert not ironic.ask("GET", f"/nodes/{options['name']}")["instance_info"]


def test_a_node_that_another_controller_has_enrolled_as_well_is_not_deleted(ironic: Any) -> None:
    """It found it by its name, and made its port, while ours waited for leave to."""
    options = ironic.new()
    line = Waits(2, lambda: lead(options, "enrolled"))
    ours = lead(options, "enrolled", line=line)
    assert ours["changed"] and [one.method for one in ironic.proxy.writes] == ["POST"] * 3
    [port] = ironic.ask("GET", f"/ports?address={options['boot_mac']}&fields=node_uuid")["ports"]
    assert ironic.ask("GET", f"/nodes/{options['name']}")["uuid"] == port["node_uuid"]
    assert not lead(options, "enrolled")["changed"]


@pytest.mark.parametrize("nth", [2, 3], ids=["before the refusal", "before it is deleted"])
def test_a_node_whose_port_is_refused_is_not_deleted_once_somebody_has_taken_it_up(ironic: Any, nth: int) -> None:
    options = ironic.new()

    def taken() -> None:
        ironic.set_state(options["name"], "manageable", None)

    refused = (409, {"Content-Type": "application/json"}, b'{"error_message": "A port with this MAC already exists."}')
    ironic.proxy.fault = lambda asked: refused if asked.method == "POST" and "/ports" in asked.path else None
    with pytest.raises(Refused, match="already exists") as told:
        lead(options, "enrolled", line=Waits(nth, taken))
    assert "DELETE" not in [one.method for one in ironic.proxy.writes]
    assert ironic.native(options["name"]) == "manageable" and "stays, which somebody has taken up" in told.value.do


def test_another_409_is_told_at_once(ironic: Any) -> None:
    options = ready(ironic)
    text = json.dumps({"error_message": {"faultstring": "Node is in a state that does not allow it"}})
    refused = (409, {"Content-Type": "application/json"}, text.encode())
    ironic.proxy.fault = lambda asked: refused if asked.is_write else None
    with pytest.raises(Refused, match="does not allow it"):
        lead(options, "maintenance")
    assert len([one for one in ironic.proxy.writes if one.method == "PUT"]) == 1, "openstacksdk alone tries for 15 s"


def test_owners_that_are_ours(ironic: Any) -> None:
    options = deployed(ironic)
    ironic.owned_by_somebody(options["name"])
    with pytest.raises(NotOurs, match="lessee is tenant-7"):
        lead(options, "released")
    options["driver"] = {**ironic.extras, "owners": ["tenant-7"]}
    assert lead(options, "released")["changed"]


def test_half_a_login_is_a_mistake(ironic: Any) -> None:
    with pytest.raises(ConfigError, match="a user and a password"):
        lead({**ironic.new(), "provisioner_password": None}, "ready")
    with pytest.raises(ConfigError, match="no usable cloud"):
        lead({**ironic.new(), "provisioner_cloud": "no-such-cloud"}, "ready")


def test_a_cloud_in_place_of_a_url(ironic: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    login = {"endpoint": ironic.proxy.url, "username": USER, "password": PASSWORD}
    cloud = {"auth_type": "http_basic", "baremetal_endpoint_override": ironic.proxy.url, "auth": login}
    bad = {**cloud, "auth": {**login, "password": "not-th1s"}}
    (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": {"site": cloud, "bad": bad}}), encoding="utf-8")
    # The SDK makes its list of places to look when it is imported.
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(tmp_path / "clouds.yaml")])
    options = {**ironic.new(), "provisioner_cloud": "site"}
    for key in ("provisioner_url", "provisioner_username", "provisioner_password"):
        del options[key]
    assert lead(options, "enrolled")["changed"]
    assert not lead(options, "enrolled")["changed"]
    with pytest.raises(AuthFailed):
        lead({**options, "provisioner_cloud": "bad"}, "enrolled")


def test_a_node_that_was_known_stays_where_its_row_has_the_card_of_another_one(ironic: Any) -> None:
    """What this very call has entered is taken back then, and nothing else."""
    ours, theirs = ironic.new(), ironic.new()
    for options in (ours, theirs):
        lead(options, "enrolled")
    uuid = options_id(ironic, ours)
    with pytest.raises(WrongMachine, match="MAC belongs to another node"):
        lead({**ours, "boot_mac": theirs["boot_mac"]}, "enrolled")
    assert options_id(ironic, ours) == uuid and not lead(ours, "enrolled")["changed"]


@pytest.mark.parametrize("fault", [DROP, LOSE], ids=["not sent", "answer lost"])
def test_a_node_whose_port_got_no_answer_stays_and_the_next_run_goes_on(ironic: Any, fault: Any) -> None:
    """It was refused nothing; and the port may be there."""
    options = ironic.new()
    ironic.proxy.fault = lambda asked: fault if (asked.method, asked.path) == ("POST", "/v1/ports") else None
    with pytest.raises(Unreachable):
        lead(options, "enrolled")
    uuid = options_id(ironic, options)
    ironic.proxy.forget()
    assert lead(options, "enrolled")["changed"] is (fault is DROP) and options_id(ironic, options) == uuid
    assert [port["address"] for port in ironic.ask("GET", f"/ports?node={uuid}")["ports"]] == [options["boot_mac"]]


def test_a_node_at_rest_is_ordered_for_no_other_machine(ironic: Any) -> None:
    """What an inspection found is no word of ours, and not every card has a port."""
    is_ordered_for_no_other_machine(ironic, ironic.other_card)
    options = {**ready(ironic), "image": ironic.image()}
    ironic.other_serial(options["name"], options["serial"])
    assert lead({**options, "boot_mac": "52:54:ff:fd" + options["boot_mac"][11:]}, "deployed")["changed"]
