# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetBox as a source."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    ConfigError,
    FleetError,
    Unreachable,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_netbox as source
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_sources import KINDS, check_source

sys.path.insert(0, str(Path(__file__).resolve().parent))
from netbox_server import TOKEN, Netbox, card

WHERE = "source 1 (netbox)"


@pytest.fixture
def netbox() -> Iterator[Netbox]:
    server = Netbox()
    server.add(
        "gpu001",
        card("eno1", "7C:C2:55:10:20:11"),
        card("eno2", "7C:C2:55:10:20:12"),
        card("bmc", "7C:C2:55:10:20:01", mgmt_only=True),
        card("ib0", None, "infiniband-ndr"),
        card("bond0", "7C:C2:55:10:20:11", "lag"),
        serial="S4X0012K",
        primary_ip={"address": "10.10.12.1/16"},
        oob_ip={"address": "10.20.12.1/24"},
        tags=[{"slug": "ring-1"}],
        custom_fields={"sku": "h100-sxm-8", "bmc_password": "hunter2"},
    )
    server.add(None, {**card("eth0", None), "mac_address": "7C:C2:55:10:20:21"}, serial="S4X0013K")
    server.start()
    yield server
    server.close()


def read(server: Netbox, **options: Any) -> list[Any]:
    given = {"type": "netbox", "url": server.url, "token": TOKEN, **options}
    return check_source(given, 1).read(given, WHERE)


def test_devices_with_their_cards(netbox: Netbox) -> None:
    one, two = read(netbox, boot_interface="", fields={"gpufleet_sku": "custom_fields.sku", "all": "custom_fields"})
    assert one.name == "gpu001" and one.identities() == [
        ("serial", "S4X0012K"),
        *(("MAC", f"7c:c2:55:10:20:{last}") for last in ("01", "11", "12")),
    ]
    told = one.variables
    assert told["gpufleet_bmc_address"] == "10.20.12.1" and told["ansible_host"] == "10.10.12.1"
    assert told["gpufleet_boot_mac"] is None, "of two, nobody says which one boots"
    assert told["netbox_bmc_mac"] == "7c:c2:55:10:20:01" and told["netbox_tags"] == ["ring-1"]
    assert (told["netbox_rack"], told["netbox_site"], told["netbox_role"]) == ("r12", "dc1", "gpu-node")
    assert told["gpufleet_sku"] == "h100-sxm-8" and told["all"] == {"sku": "h100-sxm-8"}, "no secret can be picked"
    assert two.name == "" and two.variables["gpufleet_boot_mac"] == "7c:c2:55:10:20:21", "as before NetBox 4.2"
    assert len(netbox.asked) == 2 and "device_id=1&device_id=2" in netbox.asked[1]


def test_a_fleet_of_several_questions_has_the_cards_of_all(netbox: Netbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK", 2)
    for number in range(3, 6):
        netbox.add(f"gpu00{number}", card("eno1", f"7C:C2:55:10:20:{number}1"), serial=f"S4X001{number}")
    macs = [one.variables["gpufleet_boot_mac"] for one in read(netbox, boot_interface="")]
    assert macs == [None, "7c:c2:55:10:20:21", *(f"7c:c2:55:10:20:{number}1" for number in range(3, 6))]


def test_the_card_that_boots_is_named(netbox: Netbox) -> None:
    netbox.devices.pop()
    (one,) = read(netbox, boot_interface="eno2")
    assert one.variables["gpufleet_boot_mac"] == "7c:c2:55:10:20:12"
    with pytest.raises(ConfigError, match="device gpu001: it has no interface eno9"):
        read(netbox, boot_interface="eno9")


def test_all_pages_are_read_and_the_token_goes_nowhere_else(netbox: Netbox) -> None:
    for number in range(7):
        netbox.add(f"more{number}", serial=f"MORE{number}")
    netbox.page = 2
    assert len(read(netbox)) == 9
    assert sum("devices" in path for path in netbox.asked) == 5
    assert [path for path in netbox.asked if "offset=8" in path and "devices" in path]


def test_each_filter_has_the_lookups_that_netbox_makes_of_its_kind() -> None:
    query = {"name__isw": "gpu", "serial__empty": False, "id__gte": 5, "role__n": "x", "cf_sku__n": "h", "rack_id": 3}
    found = dict(source.filters(query, "x"))
    assert list(found) == list(query) and found["serial__empty"] == "false" and found["id__gte"] == "5"


@pytest.mark.parametrize("query", [{"cf_sku": "b200"}, {"cf_sku__n": "h100-sxm-8"}, {"cf_empty": "x"}])
def test_a_custom_field_that_netbox_filters_by_nothing_is_told(netbox: Netbox, query: Any) -> None:
    """So is one for which its administrator has filtering disabled."""
    netbox.devices[0]["custom_fields"]["empty"] = None
    fields = [{**device, "custom_fields": {"empty": "", **device["custom_fields"]}} for device in netbox.devices]
    with pytest.raises(ConfigError, match="has passed it over"):
        source._know_fields(fields, source.filters(query, "x"), "x")


def test_netbox_itself_filters(netbox: Netbox) -> None:
    assert [one.name for one in read(netbox, query={"tag": ["ring-1"], "site": "dc1"})] == ["gpu001"]
    assert [one.name for one in read(netbox, query={"cf_sku": "h100-sxm-8"})] == ["gpu001"]
    assert read(netbox, query={"status": ["planned", "staged"]}) == []
    assert "tag=ring-1" in netbox.asked[0] and "status=planned&status=staged" in netbox.asked[-1]


@pytest.mark.parametrize(
    "query",
    [{"rol": "gpu"}, {"sites": "dc1"}, {"cf_skus": "x"}, {"site": ""}, ["site"], {"site": {}}]
    + [{name: "x"} for name in ("role__isw", "tag__ic", "has_primary_ip__n", "name__gt", "id__ic", "site_id__gt")]
    + [{name: "x"} for name in ("status__isw", "device_type__iew", "cluster", "cf_sku__gte", "name__", "id__empty")],
)
def test_what_netbox_would_pass_over_is_no_filter(netbox: Netbox, query: Any) -> None:
    """Misspelt, it would let the whole site through."""
    with pytest.raises(ConfigError, match="query|no filter"):
        read(netbox, query=query)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"serial": "4.02E+11"}, "device gpu001: serial: '4.02E+11' is a number that a spreadsheet made"),
        ({"primary_ip": {"address": "10.20.300.1/24"}}, "device gpu001: primary_ip"),
    ],
)
def test_each_cell_is_checked_like_that_of_a_list(netbox: Netbox, change: Any, told: str) -> None:
    netbox.devices[0].update(change)
    with pytest.raises(ConfigError) as error:
        read(netbox)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((200, {}, b"<html>"), BadAnswer),
        ((200, {}, b"[]"), BadAnswer),
        ((200, {}, b'{"count": 2, "results": [null, 1]}'), BadAnswer),
        ((200, {}, b'{"count": 3, "results": []}'), BadAnswer),
        ((200, {}, b'{"count": 3, "results": [{"id": 1}, {"id": 1}]}'), BadAnswer),
        ((302, {"Location": "https://login.example.com"}, b""), BadAnswer),
        ((403, {}, b'{"detail": "Invalid token"}'), AuthFailed),
        ((502, {}, b""), Unreachable),
    ],
)
def test_an_answer_that_is_no_list_is_never_a_short_one(netbox: Netbox, answer: Any, kind: type[FleetError]) -> None:
    netbox.instead = lambda path: answer
    with pytest.raises(kind) as error:
        read(netbox)
    assert TOKEN not in str(error.value) and "Invalid token" not in str(error.value)


def test_a_list_that_changes_while_it_is_read_is_none(netbox: Netbox) -> None:
    netbox.page = 1

    def removed(path: str) -> None:
        if "offset=1" in path and "devices" in path:
            netbox.devices.pop()

    netbox.instead = removed
    with pytest.raises(BadAnswer, match="changed while it was read"):
        read(netbox)


def test_a_choice_that_netbox_does_not_know_is_a_mistake_of_the_query(netbox: Netbox) -> None:
    with pytest.raises(ConfigError, match="Select a valid choice"):
        read(netbox, query={"site": "nosuch"})


def test_a_token_is_no_part_of_a_caches_key_and_its_second_kind_is_told_otherwise(netbox: Netbox) -> None:
    from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_sources import SECRETS

    assert "token" in KINDS["netbox"].options and "token" in SECRETS
    for token, kind in ((TOKEN, "Token"), ("nbt_abc.def", "Bearer")):
        api = source.NetboxApi({"url": netbox.url, "token": token}, WHERE)
        assert api._session.headers["Authorization"] == f"{kind} {token}"
        api.close()
    with pytest.raises(ConfigError, match="needs token"):
        read(netbox, token="")


@pytest.mark.parametrize(
    "url", ["http://netbox.invalid", "HTTP://netbox.invalid/api", "http://localhost@netbox.invalid"]
)
def test_s8_a_token_goes_nowhere_in_clear(netbox: Netbox, url: str) -> None:
    with pytest.raises(ConfigError, match="in clear"):
        read(netbox, url=url)
