# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the MAAS server of this project was kinder than a live region: it answers as that one did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from calls import await_all, deployed, lead
from maas_asked import KEY, TENANT, Client
from maas_server.config import Config, User
from maas_server.server import MaasServer

NEW, FAILED_COMMISSIONING, READY, DEPLOYED, BROKEN, ALLOCATED = 0, 2, 4, 6, 8, 10


@pytest.fixture
def maas(tmp_path: Path) -> Iterator[Client]:
    users = (User("admin", KEY), User("tenant", TENANT, admin=False))
    server = MaasServer(Config(users=users, state_dir=tmp_path, images={"gold": {"sha256": "a" * 64}}))
    server.start()
    yield Client(server)
    server.close()


FORM = {"hostname": "a", "architecture": "amd64", "mac_addresses": "52:54:00:00:00:09", "commission": "false"}
REDFISH = {
    "power_type": "redfish",
    "power_parameters_power_address": "10.0.0.9",
    "power_parameters_power_user": "root",
    "power_parameters_power_pass": "x",
}
IPMI = {"power_type": "ipmi", "power_parameters_power_address": "10.0.0.9"}


def test_m7_a_key_that_is_no_administrators_sees_what_is_free_and_its_own(maas: Client) -> None:
    free, own, other = (
        maas.machine(READY),
        maas.machine(DEPLOYED, owner="tenant"),
        maas.machine(DEPLOYED, owner="admin"),
    )
    seen = {one["system_id"] for one in maas("GET", "machines/", TENANT).json()}
    assert seen == {free.system_id, own.system_id}
    answer = maas("GET", f"machines/{other.system_id}/", TENANT)
    assert (answer.status_code, answer.text) == (403, "")
    answer = maas("GET", f"machines/{own.system_id}/?op=power_parameters", TENANT)
    assert (answer.status_code, answer.text) == (403, "")
    assert len(maas("GET", "machines/").json()) == 3


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"power_type": "telepathy"}, "power_type"),
        ({**REDFISH, "power_parameters_power_pass": ""}, "power_parameters"),
        ({**REDFISH, "power_parameters_nosuch": "1"}, "power_parameters"),
        (
            {"power_type": "ipmi", "power_parameters_power_address": "h", "power_parameters_cipher_suite_id": "99"},
            "power_",
        ),
        ({"hostname": "a_b"}, "hostname"),
        ({"hostname": "a.nowhere"}, "hostname"),
        ({"architecture": "riscv64"}, "architecture"),
    ],
)
def test_m7_what_a_machine_is_entered_with_is_checked(maas: Client, more: dict[str, str], field: str) -> None:
    answer = maas("POST", "machines/", data={**FORM, **more})
    assert answer.status_code == 400 and any(key.startswith(field) for key in answer.json()), answer.text
    assert maas.server.store.machines == {}
    assert maas("POST", "machines/", data={**FORM, **REDFISH}).status_code == 200
    (machine,) = maas.server.store.machines.values()
    answer = maas("PUT", f"machines/{machine.system_id}/", data={"description": "x", **more})
    assert answer.status_code == 400 and machine.description == "", "of a form with an error nothing is taken"


def test_m7_a_host_name_is_taken_once(maas: Client) -> None:
    assert maas("POST", "machines/", data=FORM).status_code == 200
    again = maas("POST", "machines/", data={**FORM, "mac_addresses": "52:54:00:00:00:0a"})
    assert again.json() == {"hostname": ["Node with this Hostname already exists."]}
    card = maas("POST", "machines/", data={**FORM, "hostname": "b"}).json()
    assert set(card) == {"mac_addresses", "power_type"} and "network interfaces" in card["power_type"][0]


def test_m7_a_dead_bmc_is_told_in_the_post(maas: Client) -> None:
    new, serves = maas.machine(NEW), maas.machine(DEPLOYED, owner="admin", osystem="custom", distro_series="gold")
    serves.annotations["image"] = "gold"
    maas.server.config.dead.update((new.hostname, serves.hostname))
    assert maas.op(new, "commission").status_code == 500
    assert (new.status, new.owner) == (NEW, "admin")
    assert maas.op(serves, "release").status_code == 500
    assert (serves.status, serves.osystem, serves.owner, serves.annotations) == (
        DEPLOYED,
        "",
        "admin",
        {"image": "gold"},
    )


def test_m7_no_rack_is_told_in_the_post(maas: Client) -> None:
    new, ready, ours = maas.machine(NEW), maas.machine(READY), maas.machine(ALLOCATED, owner="admin")
    maas.server.config.no_rack.update(one.hostname for one in (new, ready, ours))
    assert maas.op(new, "commission").status_code == 503 and new.status == NEW
    for machine, stays in ((ready, READY), (ours, ALLOCATED)):
        answer = maas.op(machine, "deploy", data={"distro_series": "gold"})
        assert answer.status_code == 500 and "BMC task queue" in answer.text and machine.status == stays
    assert ready.owner == "" and ours.owner == "admin"


def test_m7_what_a_deploy_is_refused_for(maas: Client) -> None:
    machine = maas.machine(READY)
    kernel = maas.op(machine, "deploy", data={"distro_series": "noble", "hwe_kernel": "hwe-99.99"})
    assert (kernel.status_code, kernel.text) == (400, "hwe-99.99 is not available for ubuntu/noble on amd64/generic.")
    odd = maas.op(machine, "deploy", data={"distro_series": "noble", "ephemeral_deploy": "maybe"})
    assert odd.status_code == 400 and odd.text.startswith("Invalid ephemeral_deploy: ") and machine.status == READY
    for op in ("commission", "test"):
        assert maas.op(machine, op, data={"testing_scripts": "nosuch"}).json().keys() == {"testing_scripts"}


def test_m7_what_success_keeps(maas: Client) -> None:
    """An old reason stays for ever; whom a failed commissioning belongs to does as well."""
    machine = maas.machine(READY, error_description="Installation failed")
    maas.op(machine, "deploy", data={"distro_series": "gold"})
    assert maas.settled(machine) == DEPLOYED and machine.error_description == "Installation failed"
    maas.op(machine, "release")
    assert machine.osystem == "", "wiped at once"
    assert maas.settled(machine) == READY and machine.error_description == "Installation failed"
    maas.server.jobs.faults[("commission", machine.hostname)] = "no lease"
    maas.op(machine, "commission")
    assert maas.settled(machine) == FAILED_COMMISSIONING and machine.owner == "admin"


def test_m7_what_is_off_is_released_at_once(maas: Client) -> None:
    machine = maas.machine(DEPLOYED, owner="admin", power_state="off", annotations={"a": "b"}, osystem="custom")
    told = maas.op(machine, "release").json()
    assert (told["status_name"], told["owner"], told["workload_annotations"]) == ("Ready", None, {})


@pytest.mark.parametrize("status", [ALLOCATED, 7, BROKEN, 11, 17])
def test_m7_mark_broken_crashes_nothing(maas: Client, status: int) -> None:
    machine = maas.machine(status, owner="admin")
    answer = maas.op(machine, "mark_broken", data={"comment": "Xid 79"})
    assert answer.status_code == 200 and answer.json()["status_name"] == "Broken"
    assert machine.owner == ("admin" if status == BROKEN else "")
    assert maas.op(maas.machine(READY), "mark_fixed").text == "Can't mark a non-broken node as 'Ready'."


def test_m7_annotations_are_refused_as_there(maas: Client) -> None:
    words = "Cannot set workload annotation: it hasn't been acquired."
    for machine in (maas.machine(READY), maas.machine(DEPLOYED, owner="tenant")):
        answer = maas.op(machine, "set_workload_annotations", data={"a": "b"})
        assert (answer.status_code, answer.text) == (409, words)
    locked = maas.op(maas.machine(DEPLOYED, owner="admin", locked=True), "set_workload_annotations", data={"a": "b"})
    assert (locked.status_code, locked.text) == (403, "")


def test_m7_an_abort_of_a_test_leads_back(maas: Client) -> None:
    maas.server.config.delays["test"] = 5
    machine = maas.machine(DEPLOYED, owner="admin")
    maas.op(machine, "test")
    assert maas.op(machine, "abort").status_code == 200 and machine.status == DEPLOYED


@pytest.mark.parametrize(
    "query", ["pool=nosuch", "zone=nosuch", "tags=nosuch", "owner=nobody", "mac_address=x", "not_in_pool=nosuch"]
)
def test_m7_what_is_filtered_by_must_be_there(maas: Client, query: str) -> None:
    assert maas("GET", f"machines/?{query}").status_code == 400


def test_m7_a_card_in_capitals_is_not_found(maas: Client) -> None:
    maas.machine(READY, macs=["52:54:00:00:00:ab"])
    for mac, count in (("52:54:00:00:00:ab", 1), ("52:54:00:00:00:AB", 0)):
        assert len(maas("GET", f"machines/?mac_address={mac}").json()) == count


def test_m7_a_machine_that_nobody_looked_at_says_so(maas: Client) -> None:
    told: Any = maas("POST", "machines/", data=FORM).json()
    assert (told["commissioning_status"], told["current_testing_result_id"], told["memory"]) == (-1, None, 0)
    assert told["status_message"] is None and told["status_action"] is None


def test_m7_a_node_whose_release_a_dead_bmc_refused_is_imaged_anew(maas_site: Any) -> None:
    """MAAS calls it Deployed again, with our note of an image that it has wiped."""
    with maas_site.in_good_health():
        options = deployed(maas_site)
        maas_site.server.config.dead.add(options["name"])
        with pytest.raises(FleetError):
            lead(options, "released")
        assert maas_site.native(options["name"]) == "Deployed"
        maas_site.server.config.dead.clear()
        maas_site.faults.forget()
        assert lead(options, "deployed")["changed"]
        assert await_all(maas_site, "deployed", options)["verdicts"][options["name"]]["ok"]
        assert maas_site.deployments() == 1


@pytest.mark.parametrize(("erase", "said"), [(True, b"erase=true&quick_erase=true&secure_erase=false"), (False, b"")])
def test_how_a_release_erases_makes_none_erase(maas_site: Any, erase: bool, said: bytes) -> None:
    with maas_site.in_good_health():
        options = deployed(maas_site)
        maas_site.faults.forget()
        lead({**options, "driver": {"secure_erase": False, "quick_erase": True}}, "released", erase=erase)
        (release,) = [call for call in maas_site.faults.writes if "op=release" in call.what]
        assert sorted(release.body.split(b"&")) == sorted(said.split(b"&"))
