# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ironic as a source, alone and joined with a list; and the cache, which serves such sources."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

pytestmark = pytest.mark.slow
CSV = {"type": "csv", "path": "servers.csv"}


def ironic_source(server: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "ironic", "url": server.url, "username": "admin",
        "password": "{{ lookup('ansible.builtin.env', 'IRONIC_PASSWORD') }}",
        "control_variables": ["gpufleet_serial", "gpufleet_sku"], **more,
    }  # fmt: skip


@pytest.fixture
def fleet(site: Any, ironic: Any) -> Any:
    ironic.add("gpu001", "52:54:00:77:00:01", extra={"gpufleet_sku": "h100-sxm-8", "gpufleet_bmc_password": "no"})
    ipmi = {"ipmi_address": "10.0.0.2", "ipmi_port": 6230, "ipmi_username": "u"}
    ironic.add("gpu002", "52:54:00:77:00:02", serial="ABC0002", conductor_group="b", driver="ipmi", driver_info=ipmi)
    site.env["IRONIC_PASSWORD"] = "s3cret-of-ironic"
    site.configure(ironic_source(ironic))
    return site


def test_ironic_nodes(fleet: Any, ironic: Any) -> None:
    hosts = fleet.ask().hosts
    one, two = hosts["gpu001"], hosts["gpu002"]
    assert one["gpufleet_provisioner"] == "ironic" and one["gpufleet_provisioner_id"] == ironic.nodes[0]["uuid"]
    assert one["gpufleet_boot_mac"] == "52:54:00:77:00:01" and one["gpufleet_sku"] == "h100-sxm-8"
    assert one["gpufleet_bmc_address"] == "https://gpu001.bmc.example.com"
    assert one["gpufleet_bmc_system_id"] == "/redfish/v1/Systems/1" and one["gpufleet_bmc_protocol"] == "redfish"
    assert two["gpufleet_bmc_address"] == "10.0.0.2:6230" and two["gpufleet_bmc_protocol"] == "ipmi"
    assert two["gpufleet_serial"] == "ABC0002"
    assert "gpufleet_bmc_password" not in one and "s3cret" not in json.dumps(hosts)
    assert one["ironic_provision_state"] == "available" and one["ironic_maintenance"] is False
    nodes, ports = [path for path in ironic.asked if "/v1/nodes" in path or "/v1/ports" in path]
    assert "fields=" in nodes and "fields=" in ports, "two lists, with the fields that are needed"


def test_ironic_in_pages_and_by_query(fleet: Any, ironic: Any) -> None:
    for number in range(3, 12):
        ironic.add(f"gpu{number:03}", f"52:54:00:77:00:{number:02}", conductor_group="b")
    ironic.page = 4
    assert len(fleet.ask().hosts) == 11
    fleet.configure(ironic_source(ironic, query={"conductor_group": "b"}))
    assert len(fleet.ask().hosts) == 10


def test_ironic_and_a_list_are_joined(fleet: Any, ironic: Any) -> None:
    fleet.write(
        "servers.csv",
        "name,serial,rack,boot_mac,bmc_password_ref\n"
        "other-name,ABC0001,r1,52:54:00:77:00:01,env:PW\n"
        "gpu001,ABC0002,r2,,env:PW\n"
        "spare,ABC0003,r3,,env:PW\n",
    )
    fleet.configure(ironic_source(ironic), {**CSV, "join_only": True})
    hosts = fleet.ask().hosts
    assert sorted(hosts) == ["gpu001", "gpu002"]
    assert (hosts["gpu001"]["csv_rack"], hosts["gpu001"]["gpufleet_serial"]) == ("r1", "ABC0001"), "by MAC"
    assert hosts["gpu002"]["csv_rack"] == "r2", "by serial, whatever the name"


def test_u6_a_node_of_which_no_list_speaks_is_told(fleet: Any, ironic: Any) -> None:
    fleet.write("servers.csv", "name,serial,rack,boot_mac\nx,ABC0001,r1,52:54:00:77:00:01\n")
    fleet.configure(ironic_source(ironic), {**CSV, "join_only": True})
    answer = fleet.ask()
    assert sorted(answer.hosts) == ["gpu001", "gpu002"]
    told = " ".join(answer.errors.split())
    assert "1 machine(s) match no row of a list with join_only" in told and "node gpu002" in told, told


def test_a_conflict_names_both_rows(fleet: Any, ironic: Any) -> None:
    fleet.write("servers.csv", "name,serial,boot_mac\na,ABC0002,52:54:00:77:00:01\n")
    fleet.configure(ironic_source(ironic), CSV)
    errors = fleet.ask(ok=False).errors
    assert "servers.csv:2 has the serial ABC0002 of source 1 (ironic), node gpu002" in errors
    assert "and the MAC 52:54:00:77:00:01 of source 1 (ironic), node gpu001" in errors


def test_options_from_the_environment(fleet: Any, ironic: Any) -> None:
    fleet.configure({"type": "ironic"})
    fleet.env = {
        "GPUFLEET_IRONIC_URL": ironic.url, "GPUFLEET_IRONIC_USERNAME": "admin",
        "GPUFLEET_IRONIC_PASSWORD": "s3cret-of-ironic", "REQUESTS_CA_BUNDLE": "/nonexistent",
    }  # fmt: skip
    assert len(fleet.ask().hosts) == 2


ODD = {
    "an outage": (503, "text/html", b"<h1>Service Unavailable</h1>"),
    "a proxy's page": (200, "text/html", b"<h1>Welcome</h1>"),
    "no list": (200, "application/json", b'{"message": "maintenance"}'),
    "a list of nothing known": (200, "application/json", b'{"nodes": null}'),
    "404": (404, "application/json", b"{}"),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_an_error(fleet: Any, ironic: Any, odd: str) -> None:
    ironic.instead = lambda path: ODD[odd] if "/nodes" in path else None
    errors = fleet.ask(ok=False).errors
    assert "source 1 (ironic)" in errors or ironic.url in errors


def test_an_outage_between_two_pages_is_an_error(fleet: Any, ironic: Any) -> None:
    ironic.page = 1
    ironic.instead = lambda path: ODD["an outage"] if "marker" in path else None
    fleet.ask(ok=False)


def test_a_wrong_password_is_an_error_without_the_password(fleet: Any, ironic: Any) -> None:
    fleet.env["IRONIC_PASSWORD"] = "wr0ng-passw0rd"
    answer = fleet.ask(ok=False)
    assert "refused the login" in answer.errors and "wr0ng" not in answer.text
    assert len([path for path in ironic.asked if "/nodes" in path]) == 1, "tried once"


def test_nobody_listens(fleet: Any, ironic: Any) -> None:
    fleet.configure(ironic_source(ironic) | {"url": "http://127.0.0.1:9"})
    assert "Ironic does not answer" in fleet.ask(ok=False).errors


def test_pages_that_lead_in_a_circle_have_an_end(fleet: Any, ironic: Any) -> None:
    """Each is one of a list by itself, and says that there is more."""
    pages = ("a", "b", "c", "b")

    def page(path: str) -> Any:
        marker = next((pages[at + 1] for at, one in enumerate(pages[:-1]) if f"marker={one}" in path), pages[0])
        body = {"nodes": [{**ironic.nodes[0], "uuid": marker}], "next": f"{ironic.url}/v1/nodes?marker={marker}"}
        return (200, "application/json", json.dumps(body).encode()) if "/v1/nodes" in path else None

    ironic.instead = page
    fleet.configure(ironic_source(ironic))
    assert "brings a page again" in fleet.ask(ok=False).errors
    assert len([path for path in ironic.asked if "/nodes" in path]) == 4


# -- cache -----------------------------------------------------------------------------------------------------


def test_the_cache_serves_an_outage_only_where_it_was_asked_for_and_is_fresh(fleet: Any, ironic: Any) -> None:
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(fleet.folder / "cache")}
    fleet.configure(ironic_source(ironic))
    fleet.ask()
    ironic.instead = lambda path: ODD["an outage"]
    fleet.ask(ok=False)
    fleet.configure(ironic_source(ironic), **cache)
    fleet.ask(ok=False)  # asked for, and still empty
    ironic.instead = lambda path: None
    before = fleet.ask()
    ironic.instead = lambda path: ODD["an outage"]
    assert fleet.ask().hosts == before.hosts
    stored = "".join(path.read_text() for path in (fleet.folder / "cache").iterdir())
    assert "ABC0002" in stored and "s3cret" not in stored
    fleet.ask("--list", "--flush-cache", ok=False)
    ironic.instead = lambda path: None
    fleet.ask("--list", "--flush-cache")
    fleet.configure(ironic_source(ironic), **cache, cache_timeout=1)
    ironic.instead = lambda path: ODD["an outage"]
    for path in (fleet.folder / "cache").iterdir():
        past = path.stat().st_mtime - 100
        os.utime(path, (past, past))
    fleet.ask(ok=False)


def test_another_question_is_not_answered_from_the_cache(fleet: Any, ironic: Any) -> None:
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(fleet.folder / "cache")}
    fleet.configure(ironic_source(ironic), **cache)
    assert len(fleet.ask().hosts) == 2
    fleet.configure(ironic_source(ironic, query={"conductor_group": "b"}), **cache)
    assert len(fleet.ask().hosts) == 1
