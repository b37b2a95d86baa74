# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MAAS as a source, against the server that was checked against recorded answers of a real one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from tests.maas_server.answers import Answer
from tests.maas_server.config import Config, User
from tests.maas_server.server import MaasServer
from tests.maas_server.store import Machine

pytestmark = pytest.mark.slow
KEY, TENANT_KEY = "consumer1:token1:secret-of-maas", "consumer2:token2:secret-of-tenant"


@pytest.fixture
def maas() -> Iterator[Any]:
    server = MaasServer(Config(users=(User("admin", KEY), User("tenant", TENANT_KEY, admin=False))))
    for number in range(1, 4):
        server.store.machines[f"abc{number}"] = Machine(
            f"abc{number}",
            f"gpu{number:03}",
            macs=[f"52:54:00:77:00:0{number}", f"52:54:00:77:01:0{number}"],
            zone="row-a",
            pool="training",
            status=4,
            power_type="redfish",
            power_parameters={
                "power_address": f"10.0.0.{number}", "power_user": "root", "node_id": "1",
                "power_pass": "secret-of-bmc",
            },
            hardware={"system_serial": f"ABC000{number}", "system_product": "DGXH100"},
            tags=["b200"],
        )  # fmt: skip
    server.start()
    yield server
    server.close()


@pytest.fixture
def fleet(site: Any, maas: Any) -> Any:
    site.env["GPUFLEET_MAAS_API_KEY"] = KEY
    site.configure({"type": "maas", "url": maas.url})
    return site


def test_machines(fleet: Any, maas: Any) -> None:
    answer = fleet.ask()
    one = answer.hosts["gpu001"]
    assert one["gpufleet_provisioner"] == "maas" and one["gpufleet_provisioner_id"] == "abc1"
    assert one["gpufleet_serial"] == "ABC0001" and one["gpufleet_boot_mac"] == "52:54:00:77:00:01"
    assert one["maas_pool"] == "training" and one["maas_zone"] == "row-a" and one["maas_tags"] == ["b200"]
    assert one["maas_status_name"] == "Ready" and one["maas_system_product"] == "DGXH100"
    assert "gpufleet_bmc_address" not in one and [asked.op for asked in maas.asked] == [""]


def test_bmc_addresses_in_blocks_and_no_password(fleet: Any, maas: Any) -> None:
    for number in range(4, 120):
        maas.store.machines[f"abc{number}"] = Machine(
            f"abc{number}", f"gpu{number:03}", macs=[f"52:54:00:78:00:{number:02x}"], power_type="ipmi",
            power_parameters={"power_address": f"10.0.1.{number}", "power_pass": "secret-of-bmc"},
        )  # fmt: skip
    fleet.configure({"type": "maas", "url": maas.url, "bmc": True})
    answer = fleet.ask()
    assert len(answer.hosts) == 119 and "secret-of" not in answer.text
    assert answer.hosts["gpu001"]["gpufleet_bmc_address"] == "10.0.0.1"
    assert answer.hosts["gpu001"]["gpufleet_bmc_username"] == "root"
    assert answer.hosts["gpu050"]["gpufleet_bmc_protocol"] == "ipmi"
    blocks = [len(parse_qs(asked.query)["id"]) for asked in maas.asked if not asked.op]
    assert sorted(blocks) == [19, 50, 50]


def test_only_an_administrator_reads_bmcs(fleet: Any, maas: Any) -> None:
    fleet.env["GPUFLEET_MAAS_API_KEY"] = TENANT_KEY
    fleet.configure({"type": "maas", "url": maas.url, "bmc": True})
    answer = fleet.ask(ok=False)
    assert "403" in answer.errors and "secret-of" not in answer.text


def test_filters_of_maas_itself(fleet: Any, maas: Any) -> None:
    maas.store.machines["abc1"].pool = "lab"
    maas.store.machines["abc2"].status = 6
    fleet.configure({"type": "maas", "url": maas.url, "query": {"pool": "training", "status": ["ready", "allocated"]}})
    assert sorted(fleet.ask().hosts) == ["gpu003"]
    fleet.configure({"type": "maas", "url": maas.url, "query": {"status": "Ready"}})
    assert "not one of the available choices" in fleet.ask(ok=False).errors


def test_a_wrong_key_is_an_error_that_shows_no_secret(fleet: Any) -> None:
    """The body of MAAS's own 401 prints the right secret."""
    fleet.env["GPUFLEET_MAAS_API_KEY"] = "consumer1:token1:wr0ng"
    answer = fleet.ask(ok=False)
    assert "refused the API key" in answer.errors
    assert "secret-of" not in answer.text and "wr0ng" not in answer.text


@pytest.mark.parametrize("status", [500, 502, 200])
def test_an_outage_is_an_error(fleet: Any, maas: Any, status: int) -> None:
    maas.intercept = lambda asked: Answer.text(status, "down")
    assert "source 1 (maas)" in fleet.ask(ok=False).errors


def test_an_empty_maas_is_an_empty_fleet(fleet: Any, maas: Any) -> None:
    """That is no outage: MAAS says so."""
    maas.store.machines.clear()
    fleet.env["ANSIBLE_INVENTORY_UNPARSED_FAILED"] = "True"
    assert fleet.ask().hosts == {}


def test_fields_of_a_site_see_the_whole_machine(fleet: Any, maas: Any) -> None:
    """Also what the plugin itself drops at once, such as the cards; and nothing is picked from what is no machine."""
    maas.store.machines["abc3"].node_type = 1
    fields = {"gpufleet_failure_domain": "zone.name", "cards": "length(interface_set)", "board": "hardware_info.board"}
    for bmc in (False, True):
        fleet.configure({"type": "maas", "url": maas.url, "fields": fields, "bmc": bmc})
        hosts = fleet.ask().hosts
        one = hosts["gpu001"]
        assert one["gpufleet_failure_domain"] == "row-a" and one["cards"] == 2
        assert "board" not in one or one["board"] is None
        assert one["gpufleet_serial"] == "ABC0001"


def _dpu(maas: Any) -> None:
    card = maas.store.machines["abc3"]
    card.is_dpu, card.architecture, card.hostname = True, "arm64/generic", "gpu001-dpu"


def test_a_dpu_is_no_node_and_that_is_told(fleet: Any, maas: Any) -> None:
    """In the whole list, in blocks by id, out of a cache, and where a list names it as a server."""
    _dpu(maas)
    fleet.write("servers.csv", "name,serial\ngpu001,ABC0001\ncard,ABC0003\n")
    cached = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(fleet.folder / "kept")}
    source = {"type": "maas", "url": maas.url}
    for sources, options in (
        ([source], {}),
        ([{**source, "bmc": True}], {}),
        ([source], cached),
        ([source], cached),
        ([{"type": "csv", "path": "servers.csv"}, source], {}),
        ([{"type": "csv", "path": "servers.csv"}, {**source, "join_only": True}], {}),
    ):
        fleet.configure(*sources, **options)
        answer = fleet.ask()
        assert set(answer.hosts) <= {"gpu001", "gpu002"} and "gpu001" in answer.hosts
        assert "1 machine(s) are DPUs, which are no nodes, and are left out" in answer.errors
        assert "gpu001-dpu (abc3)" in answer.errors
    fleet.configure(source, filters=[{"exclude": "maas_is_dpu"}])
    answer = fleet.ask()
    assert sorted(answer.hosts) == ["gpu001", "gpu002"] and "DPU" not in answer.errors


def test_a_group_that_a_site_names_has_the_dpus(fleet: Any, maas: Any) -> None:
    _dpu(maas)
    fleet.configure({"type": "maas", "url": maas.url, "dpu_group": "dpus"}, groups={"nodes": "not maas_is_dpu"})
    answer = fleet.ask()
    assert answer.data["dpus"]["hosts"] == ["gpu001-dpu"] and answer.data["nodes"]["hosts"] == ["gpu001", "gpu002"]
    assert answer.hosts["gpu001-dpu"]["maas_is_dpu"] is True and "DPU" not in answer.errors
    for name in ("all", "ungrouped", "d p u", "3"):
        fleet.configure({"type": "maas", "url": maas.url, "dpu_group": name})
        assert "dpu_group: the name of a group is wanted" in fleet.ask(ok=False).errors
