# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What steers the roles is taken from a tenant's hands only where the site has named it, and is checked there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_control import IRONIC_NAMES, NAMES, Control
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import CHECKED
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from tests.maas_server.config import Config, User
from tests.maas_server.server import MaasServer
from tests.maas_server.store import Machine

KEY = "consumer1:token1:secret-of-maas"
UUID = "6b0dbdd5-6b3c-4f2a-9a55-6a1c1f0a7d01"
#: A good value and a bad one, as a cell of a list would be.
VALUES: dict[str, tuple[str, str]] = {
    "gpufleet_node_id": (UUID, "not-a-uuid"),
    "gpufleet_sku": ("h100-sxm-8", "h100\x1b[2J"),
    "gpufleet_failure_domain": ("pdu12a", "pdu\u202e12a"),
    "gpufleet_tenant": ("team-a", "team\na"),
    "gpufleet_scheduler": ("slurm", "another"),
    "gpufleet_scheduler_node": ("node001", "node001\x9b31m"),
    "gpufleet_bmc_system_id": ("/redfish/v1/Systems/7", "7\r8"),
    "gpufleet_serial": ("ABC0001", "1.23E+10"),
    "gpufleet_system_uuid": (UUID, "12345"),
    "gpufleet_boot_mac": ("52:54:00:77:00:01", "52:54"),
}
#: Everything else that a source may not be told by a tenant: all host variables of the collection, and some more.
NEVER = sorted(
    {name for name in CHECKED if name.startswith("gpufleet_")} - set(VALUES)
    | {"gpufleet_bmc_password", "gpufleet_ledger_url", "gpufleet_provisioner_url", "gpufleet_image",
       "gpufleet_passport_key_path", "ansible_host", "ansible_connection"}
)  # fmt: skip
ALL = {**{name: good for name, (good, _bad) in VALUES.items()}, **dict.fromkeys(NEVER, "of-a-tenant")}


@pytest.fixture
def maas() -> Iterator[Any]:
    server = MaasServer(Config(users=(User("admin", KEY),)))
    server.start()
    yield server
    server.close()


def annotated(maas: Any, notes: dict[str, str], tags: list[str]) -> None:
    maas.store.machines["abc1"] = Machine(
        "abc1", "gpu001", macs=["52:54:00:77:00:01"], status=6, owner="admin", tags=tags, annotations=notes
    )


@pytest.fixture(params=["annotations", "extra", "properties"])
def told(request: pytest.FixtureRequest, site: Any) -> tuple[Any, Callable[..., None], Callable[..., None]]:
    """The site; who writes at the provisioner; who configures the source."""
    peer = request.getfixturevalue("maas" if request.param == "annotations" else "ironic")
    if request.param == "annotations":
        site.env["GPUFLEET_MAAS_API_KEY"] = KEY
        source = {"type": "maas", "url": peer.url}
    else:
        source = {"type": "ironic", "url": peer.url, "username": "admin", "password": "s3cret-of-ironic"}

    def write(notes: dict[str, str]) -> None:
        if request.param == "annotations":
            annotated(peer, notes, [*notes, *(f"{key}={value}" for key, value in notes.items())])
        else:
            info: dict[str, Any] = {"redfish_address": "https://bmc.example.com"}
            peer.nodes.clear(), peer.ports.clear()
            peer.add("gpu001", "", driver_info=info, **{request.param: dict(notes)})
            peer.nodes[0]["uuid"] = number = UUID
            for last in ("01", "02"):  # two cards that may boot: there is no first
                port = {"uuid": last, "address": f"52:54:00:77:00:{last}", "node_uuid": number, "pxe_enabled": True}
                peer.ports.append(port)

    def configure(**more: Any) -> None:
        site.configure({**source, **more})

    return site, write, configure


def names_of(source: str) -> list[str]:
    return [f"gpufleet_{name}" for name in (NAMES if source == "annotations" else IRONIC_NAMES)]


def own(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if name.startswith(("gpufleet_", "ansible_"))}


@pytest.mark.slow
def test_s2_unnamed_nothing_of_a_tenant_steers_the_roles(told: Any) -> None:
    site, write, configure = told
    configure()
    write({})
    without = own(site.ask().hosts["gpu001"])
    write(ALL)
    assert own(site.ask().hosts["gpu001"]) == without
    assert not set(without) & (set(VALUES) - {"gpufleet_boot_mac"}), "and no source made one up by itself"


@pytest.mark.slow
def test_s2_each_is_taken_where_it_is_named_and_no_other(told: Any, request: pytest.FixtureRequest) -> None:
    site, write, configure = told
    write(ALL)
    names = names_of(request.node.callspec.params["told"])
    for name in names:
        configure(control_variables=[name])
        found = own(site.ask().hosts["gpu001"])
        assert found[name] == VALUES[name][0]
        assert not set(found) & (set(VALUES) - {name, "gpufleet_boot_mac"}), name
    configure(control_variables=names)
    found = own(site.ask().hosts["gpu001"])
    assert {name: found[name] for name in names} == {name: VALUES[name][0] for name in names}


@pytest.mark.slow
def test_s2_what_a_cell_may_not_hold_ends_the_inventory(told: Any, request: pytest.FixtureRequest) -> None:
    site, write, configure = told
    for name in names_of(request.node.callspec.params["told"]):
        write({name: VALUES[name][1]})
        configure(control_variables=[name])
        text = site.ask(ok=False).text
        assert "control_variables" in text and name in text and "gpu001" in text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), "what is refused is shown harmlessly"


@pytest.mark.slow
def test_s2_a_cache_of_before_the_option_answers_nothing(told: Any) -> None:
    site, write, configure = told
    write(ALL)
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": "cache"}

    def ask(**more: Any) -> dict[str, Any]:
        configure(**more)
        site.config.write_text(site.config.read_text() + "".join(f"{key}: {value}\n" for key, value in cache.items()))
        return own(site.ask().hosts["gpu001"])

    assert ask(control_variables=["gpufleet_tenant"])["gpufleet_tenant"] == "team-a"
    assert "gpufleet_tenant" not in ask()


def take(names: list[str], *places: Any, **variables: Any) -> Record:
    record = Record("source 1, node gpu001", variables=variables)
    return Control(names, IRONIC_NAMES, "source 1").take(record, *places)


@pytest.mark.parametrize("name", NEVER)
def test_s2_what_is_nobodys_to_say_cannot_be_named(name: str) -> None:
    for allowed in (NAMES, IRONIC_NAMES):
        with pytest.raises(ConfigError, match=f"control_variables, {name}: no variable"):
            Control([name], allowed, "source 1")


@pytest.mark.parametrize("given", ["gpufleet_sku", {"gpufleet_sku": "x"}, [1], True])
def test_s2_the_option_is_a_list_of_names(given: Any) -> None:
    with pytest.raises(ConfigError, match="control_variables"):
        Control(given, NAMES, "source 1")


@pytest.mark.parametrize("value", [["a"], {"a": "b"}, True, 1.5])
def test_s2_only_text_is_taken(value: Any) -> None:
    with pytest.raises(ConfigError, match="gpufleet_tenant: a text is wanted"):
        take(["gpufleet_tenant"], {"gpufleet_tenant": value})


def test_s2_places_are_asked_in_their_order_and_a_boards_default_is_nothing() -> None:
    extra = {"gpufleet_serial": "To be filled by O.E.M.", "serial_number": " ABC0001 ", "serial": "XYZ"}
    properties = {"system_uuid": UUID.upper(), "gpufleet_serial": "0"}
    record = take(["gpufleet_serial", "gpufleet_system_uuid"], extra, properties)
    assert (record.serial, record.system_uuid) == ("ABC0001", UUID), "machines are joined by them"
    assert record.variables == {"gpufleet_serial": "ABC0001", "gpufleet_system_uuid": UUID}
    assert take(["gpufleet_serial"], {}, None, "text").variables == {}


def test_s2_what_the_source_itself_says_stands() -> None:
    given = {"gpufleet_boot_mac": "52:54:00:77:00:09"}
    record = take(["gpufleet_boot_mac"], {"gpufleet_boot_mac": "52:54:00:77:00:01"}, **given)
    assert record.variables == given and record.macs == []


@pytest.mark.parametrize("given", [[], None, ""])
def test_s2_without_the_option_nothing_is_taken(given: Any) -> None:
    assert take(given, ALL, ALL).variables == {}
