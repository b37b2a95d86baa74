# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the MAAS server of this project like a MAAS? Against answers recorded from MAAS 3.7.3, and its known traps."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import authorization
from maas_asked import KEY, TENANT, Client
from maas_server import statuses
from maas_server.config import Config, User
from maas_server.server import MaasServer
from recorded import demanded


@pytest.fixture
def maas(tmp_path: Path) -> Iterator[Client]:
    images = {"gpu-noble-b200": {"url": "http://x/", "sha256": "a" * 64, "size": 512}}
    users = (User("admin", KEY), User("tenant", TENANT, admin=False))
    server = MaasServer(Config(users=users, state_dir=tmp_path, images=images))
    server.start()
    yield Client(server)
    server.close()


def test_a_server_that_was_closed_leaves_no_thread(tmp_path: Path) -> None:
    """On a closed socket its loop spun to the end of the process, and made every later test ten times slower."""
    server = MaasServer(Config(users=(User("admin", KEY),), state_dir=tmp_path))
    server.start()
    mine = [thread for thread in threading.enumerate() if server.url in thread.name]
    assert len(mine) == 1
    server.close()
    assert not mine[0].is_alive()


# -- shapes, as recorded -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> Path:
    return demanded("maas")


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def test_a_machine_has_the_same_keys_and_kinds(maas: Client, recorded: Path) -> None:
    machine = maas.machine(6, owner="admin", macs=["52:54:00:00:00:01"], osystem="custom", distro_series="x")
    ours = maas("GET", f"machines/{machine.system_id}/").json()
    known: dict[str, set[str]] = {}
    for theirs in json.loads((recorded / "machines_all_statuses.json").read_text()):
        for key, value in theirs.items():
            known.setdefault(key, set()).add(_kind(value))
    assert set(ours) == set(known) and len(ours) == 81
    odd = {key: _kind(value) for key, value in ours.items() if _kind(value) not in known[key]}
    assert odd == {}, {key: known[key] for key in odd}


@pytest.mark.parametrize("key", ["interface_set", "blockdevice_set", "numanode_set"])
def test_its_parts_have_the_same_keys(maas: Client, recorded: Path, key: str) -> None:
    machine = maas.machine(6, owner="admin", macs=["52:54:00:00:00:01"])
    ours = maas("GET", f"machines/{machine.system_id}/").json()[key][0]
    theirs = json.loads((recorded / "machine_deployed.json").read_text())[key][0]
    assert set(ours) == set(theirs)


@pytest.mark.parametrize("key", ["domain", "zone", "pool", "default_gateways", "hardware_info"])
def test_its_mappings_have_the_same_keys(maas: Client, recorded: Path, key: str) -> None:
    machine = maas.machine(6, owner="admin")
    ours = maas("GET", f"machines/{machine.system_id}/").json()[key]
    assert set(ours) == set(json.loads((recorded / "machine_deployed.json").read_text())[key])


def test_statuses_have_the_same_numbers_and_names(recorded: Path) -> None:
    theirs = {
        one["status"]: one["status_name"] for one in json.loads((recorded / "machines_all_statuses.json").read_text())
    }
    assert theirs == statuses.NAMES


def test_lists_of_other_things(maas: Client, recorded: Path) -> None:
    whoami = maas("GET", "users/?op=whoami").json()
    assert set(whoami) == set(json.loads((recorded / "whoami.json").read_text()))
    assert maas("GET", "domains/").json() == json.loads((recorded / "domains.json").read_text())
    assert maas("GET", "version/").json() == json.loads((recorded / "version.json").read_text())
    ours = {one["type"]: one for one in maas("GET", "boot-resources/").json()}
    theirs = {one["type"]: one for one in json.loads((recorded / "boot-resources.json").read_text())}
    assert {kind: set(one) for kind, one in ours.items()} == {kind: set(one) for kind, one in theirs.items()}
    one = maas("GET", f"boot-resources/{ours['Uploaded']['id']}/").json()
    told = json.loads((recorded / "boot-resource_uploaded.json").read_text())
    assert set(one) == set(told)
    file, known = (next(iter(next(iter(each["sets"].values()))["files"].values())) for each in (one, told))
    assert set(file) == set(known)


#: recorded answer -> what provokes it here
ERRORS: dict[str, Any] = {
    "400_unknown_filter": lambda maas, one: maas("GET", "machines/?nosuch=1"),
    "400_bad_status_filter": lambda maas, one: maas("GET", "machines/?status=8"),
    "400_unknown_op": lambda maas, one: maas("GET", "machines/?op=nosuch"),
    "400_no_auth_list": lambda maas, one: requests.get(maas.base + "machines/", timeout=10),
    "400_put_pool": lambda maas, one: maas("PUT", f"machines/{one.system_id}/", data={"pool": "nosuch"}),
    "401_bad_consumer": lambda maas, one: maas("GET", "machines/", "nobody:token:s3cret"),
    "401_no_auth_machine": lambda maas, one: requests.get(f"{maas.base}machines/{one.system_id}/", timeout=10),
    "401_bearer": lambda maas, one: requests.get(
        f"{maas.base}machines/{one.system_id}/", headers={"Authorization": "Bearer x"}, timeout=10
    ),
    "403_power_parameters": lambda maas, one: maas("GET", "machines/?op=power_parameters", TENANT),
    "403_put": lambda maas, one: maas("PUT", f"machines/{one.system_id}/", TENANT, data={"description": "x"}),
    "403_mark_broken_not_owner": lambda maas, one: maas.op(one, "mark_broken"),
    "403_locked_release": lambda maas, one: maas.op(maas.machine(6, owner="admin", locked=True), "release"),
    "404_machine": lambda maas, one: maas("GET", "machines/zzzzzz/"),
    "404_endpoint": lambda maas, one: maas("GET", "nosuch/"),
    "405_patch": lambda maas, one: maas("PATCH", f"machines/{one.system_id}/"),
    "409_power_on": lambda maas, one: maas.op(one, "power_on"),
    "409_release_state": lambda maas, one: maas.op(maas.machine(0), "release"),
    "409_lock": lambda maas, one: maas.op(one, "lock"),
    "500_power_address_url": lambda maas, one: maas(
        "PUT",
        f"machines/{one.system_id}/",
        data={"power_type": "redfish", "power_parameters_power_address": "https://10.1.1.1"},
    ),
}


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors_are_the_recorded_ones(maas: Client, recorded: Path, name: str) -> None:
    answer = ERRORS[name](maas, maas.machine(4))
    head = (recorded / "errors" / f"{name}.headers").read_text()
    code = int(head.split("HTTP ")[1][:3])
    kind = next((line.partition(": ")[2] for line in head.splitlines() if line.startswith("Content-Type:")), "")
    body = next(
        path for path in (recorded / "errors").glob(f"{name}.*") if path.suffix in (".txt", ".json")
    ).read_text()
    assert answer.status_code == code
    assert answer.text == body.rstrip("\n")
    assert answer.headers.get("Content-Type", "").partition(";")[0] == kind.partition(";")[0]


# -- traps that facts tell, beside what was recorded ----------------------------------------------------------------


def test_a_401_prints_the_secret(maas: Client) -> None:
    answer = maas("GET", "machines/", "consumer:token:wrong")
    assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == 'OAuth realm="OAuth"'
    assert "Expected signature base string: &s3cret" in answer.text


def test_a_nonce_serves_once_and_an_old_clock_never(maas: Client) -> None:
    header = {"Authorization": authorization(KEY)}
    assert requests.get(maas.base + "machines/", headers=header, timeout=10).status_code == 200
    again = requests.get(maas.base + "machines/", headers=header, timeout=10)
    assert again.status_code == 401 and "Nonce already used" in again.text
    maas.server.door.clock = lambda: time.time() + 301
    assert "Expired timestamp" in maas("GET", "machines/").text
    maas.server.door.clock = lambda: time.time() - 100000
    assert maas("GET", "machines/").status_code == 200, "a timestamp in the future is taken"


def test_a_missing_slash_is_404_and_no_redirect(maas: Client) -> None:
    answer = maas("GET", "machines")
    assert (answer.status_code, answer.text) == (404, "Unknown API endpoint: /MAAS/api/2.0/machines.")


@pytest.mark.parametrize(("word", "status"), [("0", 14), ("false", 12), ("False", 12), ("true", 14), ("no", 14)])
def test_zero_erases(maas: Client, word: str, status: int) -> None:
    machine = maas.machine(6, owner="admin")
    maas.server.config.delays["release"] = maas.server.config.delays["erase"] = 5
    maas.op(machine, "release", data={"erase": word})
    assert machine.status == status


def test_an_empty_multipart_body_is_a_silent_400(maas: Client) -> None:
    machine = maas.machine(6, owner="admin")
    head = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = maas.op(machine, "release", data=b"--x--\r\n", headers=head)
    assert (answer.status_code, answer.content, answer.headers.get("Content-Type")) == (400, b"", None)
    assert machine.status == 6
    assert maas.op(machine, "release").status_code == 200


def test_a_json_body_is_half_read(maas: Client) -> None:
    machine = maas.machine(4)
    assert maas.op(machine, "deploy", json={"distro_series": "jammy"}).status_code == 200
    assert machine.distro_series == "noble", "the series was not read"
    assert maas.settled(machine) == 6
    other = maas.machine(6, owner="admin")
    maas.server.config.delays["erase"] = 5
    assert maas.op(other, "release", json={"erase": True}).json()["status"] == 14


def test_created_without_a_word_is_commissioned(maas: Client) -> None:
    form = {"hostname": "a", "architecture": "amd64", "mac_addresses": "52:54:00:00:00:09", "power_type": "manual"}
    assert maas("POST", "machines/", data=form).json()["status_name"] == "Commissioning"
    form = {**form, "hostname": "b", "mac_addresses": "52:54:00:00:00:0a", "commission": "false"}
    assert maas("POST", "machines/", data=form).json()["status_name"] == "New"
    assert "already exists" in maas("POST", "machines/", data={**form, "mac_addresses": "52:54:00:00:00:0c"}).text
    form = {**form, "hostname": "c"}
    assert "already in use" in maas("POST", "machines/", data=form).text
    no_mac = {key: value for key, value in form.items() if key != "mac_addresses"}
    ipmi = {"power_type": "ipmi", "power_parameters_power_address": "10.0.0.9"}
    assert maas("POST", "machines/", data={**no_mac, **ipmi}).status_code == 200


def test_unknown_fields_are_ignored(maas: Client) -> None:
    machine = maas.machine(4)
    assert maas("PUT", f"machines/{machine.system_id}/", data={"nosuch": "1", "tag_names": "h200"}).status_code == 200
    assert machine.tags == []


@pytest.mark.parametrize(("status", "code"), [(0, 409), (2, 409), (4, 200), (6, 409), (10, 200), (11, 409), (12, 409)])
def test_what_deploys(maas: Client, status: int, code: int) -> None:
    machine = maas.machine(status, owner="admin" if status in (6, 10, 11) else "")
    answer = maas.op(machine, "deploy", data={"distro_series": "custom/gpu-noble-b200"})
    assert answer.status_code == code
    if code == 409:
        assert answer.text == f"Can't deploy a machine that is in the '{statuses.NAMES[status]}' state"


@pytest.mark.parametrize(("status", "code"), [(0, 200), (2, 200), (4, 200), (6, 400), (10, 400), (11, 400), (22, 400)])
def test_what_commissions(maas: Client, status: int, code: int) -> None:
    assert maas.op(maas.machine(status), "commission").status_code == code


@pytest.mark.parametrize(("status", "end"), [(0, 0), (2, 4), (4, 4), (6, 6), (12, 12), (22, 4)])
def test_what_tests(maas: Client, status: int, end: int) -> None:
    machine = maas.machine(status)
    answer = maas.op(machine, "test")
    assert answer.status_code == (400 if status in (0, 12) else 200)
    assert maas.settled(machine) == end
    assert maas.op(machine, "test", data={"testing_scripts": "none"}).status_code == 400


def test_a_failed_test_may_be_overridden(maas: Client) -> None:
    for fields, end in (({}, 4), ({"osystem": "ubuntu"}, 6)):
        machine = maas.machine(22, **fields)
        assert maas.op(machine, "override_failed_testing").status_code == 200 and machine.status == end
        assert maas.op(machine, "override_failed_testing").status_code == 409


def test_a_host_name_is_one_machines_over_all_domains(maas: Client) -> None:
    maas.server.config.domains = ("maas", "lab")
    one, other = maas.machine(4, hostname="a"), maas.machine(4, hostname="b", domain="lab")
    put = lambda **form: maas("PUT", f"machines/{one.system_id}/", data=form)  # noqa: E731
    assert "already exists" in put(hostname="b").text and put(hostname="c.nowhere").status_code == 400
    assert put(domain="nowhere").status_code == 400 and other.hostname == "b"
    assert put(hostname="c.lab").json()["fqdn"] == "c.lab" and put(domain="maas").json()["fqdn"] == "c.maas"


@pytest.mark.parametrize("status", [4, 12])
def test_a_release_that_is_nothing(maas: Client, status: int) -> None:
    machine = maas.machine(status)
    assert maas.op(machine, "release").status_code == 200 and machine.status == status


def test_a_release_clears_what_the_deployment_brought(maas: Client) -> None:
    machine = maas.machine(6, owner="admin", annotations={"a": "b"}, osystem="custom", distro_series="x")
    maas.op(machine, "release")
    assert maas.settled(machine) == 4
    assert (machine.owner, machine.annotations, machine.osystem) == ("", {}, "")


def test_marking_broken_and_fixed(maas: Client) -> None:
    machine = maas.machine(6, owner="admin", osystem="ubuntu", distro_series="noble")
    assert maas.op(machine, "mark_broken", data={"comment": "Xid 79"}).json()["error_description"] == "Xid 79"
    fixed = maas.op(machine, "mark_fixed").json()
    assert (fixed["status_name"], fixed["osystem"], fixed["power_state"]) == ("Deployed", "", "off")


def test_an_abort_answers_with_what_was(maas: Client) -> None:
    maas.server.config.delays["commission"] = 5
    machine = maas.machine(4)
    maas.op(machine, "commission")
    assert maas.op(machine, "abort").json()["status_name"] == "Commissioning"
    assert machine.status == 0, "New, though it was Ready"


def test_annotations_are_the_owners(maas: Client) -> None:
    machine = maas.machine(6, owner="tenant")
    assert maas.op(machine, "set_workload_annotations", data={"a": "b"}).status_code == 409
    assert maas.op(machine, "set_workload_annotations", TENANT, data={"a": "b"}).json()["workload_annotations"] == {
        "a": "b"
    }
    assert maas.op(machine, "set_workload_annotations", TENANT, data={"a": ""}).json()["workload_annotations"] == {}
    assert maas.op(maas.machine(4), "set_workload_annotations", data={"a": "b"}).status_code == 409


def test_what_was_begun_goes_on_after_a_stop(maas: Client, tmp_path: Path) -> None:
    maas.server.config.delays["deploy"] = 30
    machine = maas.machine(4, macs=["52:54:00:00:00:01"])
    maas.op(machine, "deploy", data={"distro_series": "custom/gpu-noble-b200"})
    maas.server.stop_listening()
    second = MaasServer(Config(users=maas.server.config.users, state_dir=tmp_path, images=maas.server.config.images))
    try:
        again = second.store.machines[machine.system_id]
        assert Client(second).settled(again) == 6
    finally:
        second.close()
    assert (tmp_path / "machines.json").stat().st_mode & 0o077 == 0


def test_a_deployment_writes_the_boot_entry_and_a_release_the_disk(tmp_path: Path) -> None:
    images = {
        "gold-1": {"url": "http://10.77.0.1/gold-1.tar.gz", "kernel_url": "http://10.77.0.1/vmlinuz", "sha256": ""}
    }
    root = tmp_path / "http"
    (root / "pxelinux.cfg").mkdir(parents=True)
    entry = root / "pxelinux.cfg" / "52-54-00-77-00-01"
    (tmp_path / "theirs").write_text("somebody else's")
    entry.symlink_to(tmp_path / "theirs")
    config = Config(users=(User("admin", KEY),), state_dir=tmp_path, boot_root=root, images=images)
    maas = Client(MaasServer(config))
    maas.server.start()
    machine = maas.machine(4, macs=["52:54:00:77:00:01"])
    maas.op(machine, "deploy", data={"distro_series": "gold-1"})
    assert maas.settled(machine) == 6 and machine.power_state == "on"
    lines = entry.read_text().splitlines()
    assert lines[0] == "#!ipxe"
    assert any(line.startswith("kernel http://10.77.0.1/vmlinuz ") for line in lines)
    assert "initrd http://10.77.0.1/gold-1.tar.gz || goto boot_ramdisk" in lines
    assert (tmp_path / "theirs").read_text() == "somebody else's" and not entry.is_symlink()
    maas.op(machine, "release")
    assert maas.settled(machine) == 4 and "sanboot" in entry.read_text()
    maas.server.close()
