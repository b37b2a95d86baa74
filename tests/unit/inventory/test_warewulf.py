# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Warewulf as a source, against the server that was checked against recorded answers of a real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from tests.warewulf_server.server import Config, WarewulfServer, image, plain

pytestmark = pytest.mark.slow
PASSWORD, BMC_PASSWORD = "secret-of-warewulf", "secret-of-bmc"
IB = "80:00:00:48:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:7c:2c:41"


class Counted(WarewulfServer):
    """It keeps what it was asked for."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.asked: list[str] = []
        self.instead: Any = None

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Any:
        self.asked.append(f"{method} {target}")
        return self.instead or super().answer(method, target, headers, body)


def node(number: int, *profiles: str, **fields: Any) -> dict[str, Any]:
    return {
        "profiles": list(profiles),
        "ipmi": {"ipaddr": f"10.0.0.{number}", "port": "6230"},
        "network devices": {
            "fabric": {"hwaddr": IB, "type": "infiniband"},
            "oob": {"hwaddr": f"52:54:00:77:01:0{number}"},
            "pxe": {"hwaddr": f"52-54-00-77-00-0{number}", "ipaddr": f"10.1.0.{number}", "netmask": "255.255.0.0"},
        },
        "primary network": "pxe",
        **fields,
    }


@pytest.fixture
def warewulf() -> Iterator[Any]:
    server = Counted(Config(users={"admin": PASSWORD}, images={"u24": image()}))
    content = server.conf.load()
    content["nodeprofiles"] = {
        "default": {"ipmi": {"username": "root", "password": BMC_PASSWORD, "template": "ipmitool.tmpl"}},
        "gpu": {"image name": "u24", "cluster name": "training", "tags": {"sku": "h100-sxm-8"}},
    }
    content["nodes"] = {
        "gpu001": node(1, "default", "gpu", tags={"gpufleet-serial": "ABC0001", "gpufleet-hold": "by hand"}),
        "gpu002": node(2, "default", "gpu", **{"cluster name": "lab"}),
        "login1": node(3, "default", **{"image name": "u22"}),
    }
    server.conf.save(content)
    server.start()
    yield server
    server.close()


@pytest.fixture
def fleet(site: Any, warewulf: Any) -> Any:
    site.env.update(GPUFLEET_WAREWULF_URL=warewulf.url, GPUFLEET_WAREWULF_USERNAME="admin")
    site.env["GPUFLEET_WAREWULF_PASSWORD"] = PASSWORD
    site.configure({"type": "warewulf"})
    return site


def test_nodes_with_what_their_profiles_say_in_one_request(fleet: Any, warewulf: Any) -> None:
    answer = fleet.ask()
    assert sorted(answer.hosts) == ["gpu001", "gpu002", "login1"] and warewulf.asked == ["GET /api/nodes/"]
    one = answer.hosts["gpu001"]
    assert one["gpufleet_provisioner"] == "warewulf" and one["gpufleet_provisioner_id"] == "gpu001"
    assert one["gpufleet_serial"] == "ABC0001" and one["gpufleet_boot_mac"] == "52:54:00:77:00:01"
    assert one["ansible_host"] == "10.1.0.1" and one["gpufleet_bmc_address"] == "10.0.0.1"
    assert one["gpufleet_bmc_username"] == "root" and one["warewulf_ipmi_port"] == "6230"
    assert "gpufleet_bmc_protocol" not in one, "ipmitool's template is on every node, and no site's choice"
    assert one["warewulf_profiles"] == ["default", "gpu"] and one["warewulf_image"] == "u24"
    assert one["warewulf_cluster"] == "training" and one["warewulf_primary_network"] == "pxe"
    assert one["warewulf_tags"] == {"sku": "h100-sxm-8"} and one["warewulf_hold"] == "by hand"
    assert one["warewulf_discoverable"] is False


def test_no_secret_of_a_record_reaches_an_inventory_or_its_cache(fleet: Any, tmp_path: Path) -> None:
    """Warewulf tells the BMC's password in clear; an expression that asks for it finds nothing."""
    fields = {"picked": "ipmi", "of_profile": "tags.sku", "gpufleet_sku": "tags.sku", "called": "name"}
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    fleet.configure({"type": "warewulf", "fields": fields}, **cache)
    answer = fleet.ask()
    one = answer.hosts["gpu001"]
    assert one["picked"]["username"] == "root" and "password" not in one["picked"]
    assert one["gpufleet_sku"] == "h100-sxm-8" and one["called"] == "gpu001"
    kept = [path.read_text() for path in (tmp_path / "cache").iterdir()]
    assert kept and "gpu001" in kept[0]
    assert not any(secret in text for secret in (PASSWORD, BMC_PASSWORD) for text in (answer.text, *kept))


def test_a_cache_answers_in_place_of_warewulf_and_an_outage_does_not_empty_it(
    fleet: Any, warewulf: Any, tmp_path: Path
) -> None:
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    fleet.configure({"type": "warewulf"}, **cache)
    first = fleet.ask().hosts
    warewulf.instead = plain(500, "down")
    assert fleet.ask().hosts == first and len(warewulf.asked) == 1
    assert "source 1 (warewulf)" in fleet.ask("--list", "--flush-cache", ok=False).errors


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"profile": "gpu"}, ["gpu001", "gpu002"]),
        ({"profile": ["gpu", "default"], "cluster": "lab"}, ["gpu002"]),
        ({"image": ["u22", "u20"]}, ["login1"]),
        ({"tags": {"sku": "h100-sxm-8"}, "cluster": ["training", "spare"]}, ["gpu001"]),
    ],
)
def test_filters(fleet: Any, warewulf: Any, query: Any, expected: list[str]) -> None:
    fleet.configure({"type": "warewulf", "query": query})
    assert sorted(fleet.ask().hosts) == expected
    assert ("GET /api/profiles/" in warewulf.asked) is ("profile" in query)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"profiles": "gpu"}, "has no filter profiles"),
        ({"profile": "gppu"}, "Warewulf has no profile gppu"),
        ({"profile": []}, "query, profile: a word is wanted"),
        ({"tags": "sku=h100"}, "query, tags: a mapping"),
        (["gpu"], "query: a mapping is wanted"),
    ],
)
def test_what_is_no_filter_is_refused_and_never_read_over(fleet: Any, query: Any, words: str) -> None:
    fleet.configure({"type": "warewulf", "query": query})
    errors = fleet.ask(ok=False).errors
    assert words in errors and "source 1 (warewulf)" in errors


def device(**fields: str) -> Any:
    return lambda one: one["network devices"]["pxe"].update(fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (device(hwaddr="52:54:00:77:00"), "hwaddr of the network device pxe: '52:54:00:77:00'"),
        (device(hwaddr="00:00:00:00:00:00"), "belongs to no single card"),
        (device(ipaddr="10.1.0.256"), "ipaddr of the network device pxe: '10.1.0.256'"),
        (lambda one: one["ipmi"].update(ipaddr="10.0.0"), "ipmi, ipaddr: '10.0.0'"),
        (lambda one: one.update(tags={"gpufleet-serial": "1.23E+10"}), "the tag gpufleet-serial: '1.23E+10'"),
    ],
)
def test_a_wrong_cell_is_an_error_that_names_source_node_and_field(
    fleet: Any, warewulf: Any, change: Any, words: str
) -> None:
    warewulf.conf.change("gpu002", change)
    answer = fleet.ask(ok=False)
    assert words in answer.errors and "source 1 (warewulf), node gpu002" in answer.errors
    assert BMC_PASSWORD not in answer.text


def test_a_node_without_a_card_yet_is_there_and_nothing_is_made_up_for_it(fleet: Any, warewulf: Any) -> None:
    warewulf.conf.change("gpu009", lambda one: one.update({"profiles": ["gpu"], "discoverable": "true"}))
    warewulf.conf.change("gpu010", lambda one: one.update({"network devices": {"a": {"hwaddr": "525400770010"}}}))
    hosts = fleet.ask().hosts
    assert hosts["gpu009"]["warewulf_discoverable"] is True
    assert not {"gpufleet_boot_mac", "gpufleet_serial", "ansible_host", "gpufleet_bmc_address"} & set(hosts["gpu009"])
    assert hosts["gpu010"]["gpufleet_boot_mac"] == "52:54:00:77:00:10"


def test_two_nodes_with_one_card_are_an_error_that_names_both(fleet: Any, warewulf: Any) -> None:
    warewulf.conf.change("login1", device(hwaddr="52:54:00:77:00:01"))
    errors = fleet.ask(ok=False).errors
    assert "two rows have the MAC 52:54:00:77:00:01" in errors
    assert "node gpu001" in errors and "node login1" in errors


def test_rows_of_a_list_are_joined_to_nodes_by_their_cards(fleet: Any) -> None:
    fleet.write("racks.csv", "serial,boot_mac,rack\nABC0001,52:54:00:77:00:01,r12\nABC0002,52:54:00:77:01:02,r13\n")
    fleet.configure({"type": "warewulf"}, {"type": "csv", "path": "racks.csv", "join_only": True})
    answer = fleet.ask()
    assert (answer.hosts["gpu001"]["csv_rack"], answer.hosts["gpu002"]["csv_rack"]) == ("r12", "r13")
    assert "1 machine(s) match no row" in answer.errors and "node login1" in answer.errors
    fleet.write("racks.csv", "serial,boot_mac,rack\nXYZ0001,52:54:00:77:00:01,r12\n")
    assert "two different values of serial (ABC0001 and XYZ0001)" in fleet.ask(ok=False).errors


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"users": {"admin": "another"}}, "refused the login"),
        ({"allowed": False}, "takes no requests from here"),
        ({"api": False}, "nothing is served there"),
    ],
)
def test_whoever_may_not_read_is_told_so_and_gets_no_empty_fleet(
    fleet: Any, warewulf: Any, change: Any, words: str
) -> None:
    for key, value in change.items():
        setattr(warewulf.config, key, value)
    answer = fleet.ask(ok=False)
    assert words in answer.errors and "source 1 (warewulf)" in answer.errors and PASSWORD not in answer.text
    assert "gpufleet_provisioner_" not in answer.errors, "here they are options of a source"


@pytest.mark.parametrize(("status", "body"), [(500, "down"), (502, "down"), (200, "down"), (200, "[]"), (302, "")])
def test_an_outage_is_an_error(fleet: Any, warewulf: Any, status: int, body: str) -> None:
    warewulf.instead = plain(status, body)
    assert "source 1 (warewulf)" in fleet.ask(ok=False).errors


def test_an_empty_warewulf_is_an_empty_fleet(fleet: Any, warewulf: Any) -> None:
    """That is no outage: Warewulf says so."""
    warewulf.conf.save({"nodeprofiles": {}, "nodes": {}})
    assert fleet.ask().hosts == {}
