# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table of what stands where nobody has set a serial, and one way to compare two, for all who read one."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import spelling
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record as maas
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import (
    _MAKERS,
    contradict,
    orders,
    same_serial,
    same_uuid,
    serial_of,
    uuid_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.identity import SAME, normal_identity
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_record as inventory
from hypothesis import given
from hypothesis import strategies as st

NONE = [
    "", "          ", "0", "0000000000", "0123456789", "1234567890", "01234567890123456789AB", "Default string", "None",
    "NULL", "N/A", "NA", "Not Available", "Not Specified", "System Serial Number", "To be filled by O.E.M.", "Unknown",
    "Empty", "....................", "XXXXXXXX",
]  # fmt: skip
REAL = ["GF0001", "6XYZ003", "1662923610124", "S889914X3710910", "CNIVC0014M0388", "J105958B", "01234567891"]


@pytest.mark.parametrize("text", NONE)
def test_r4_what_stands_where_nobody_has_set_a_serial_is_none_to_anybody(text: str) -> None:
    for told in (text, f" {text.upper()} ", text.lower()):
        assert serial_of(told) == inventory.serial(told) == spelling.normal("serial", told) == ""
        assert normal_identity({"serial": told})["serial"] == "" and select.serials({"SerialNumber": told}) == []
        assert maas.serial({"hardware_info": {"system_serial": told}}) == ""
        assert not same_serial(told, told) and not contradict(told, "GF0001")
        assert not spelling.other_serials([told], ["GF0001"]) and not spelling.other_serials(["GF0001"], [told])


@pytest.mark.parametrize("text", REAL)
def test_r4_a_serial_is_one_in_any_case(text: str) -> None:
    for one, other in ((text, text.lower()), (f" {text.upper()}", text)):
        assert same_serial(one, other) and SAME["serial"](one, other) and not contradict(one, other)
        assert not spelling.other_serials([one], [other])
    assert not same_serial(text, f"{text}1") and not same_serial(f"{text}1", text)
    assert contradict(text, f"{text}1") and spelling.other_serials([text], [f"{text}1"])
    assert serial_of(text) == inventory.serial(text) == spelling.normal("serial", text) == text


@pytest.mark.parametrize("byte", ["01", "11", "a5", "00", "ff"])
def test_r4_one_byte_sixteen_times_is_no_uuid(byte: str) -> None:
    assert uuid_of(byte * 16) == ""
    assert uuid_of(byte * 15 + "77") != ""


UUID, OTHERS = "4c4c4544-0031-3510-8052-b4c04f573233", "4c4c4544-0031-3510-8052-b4c04f573234"


def spellings(two: list[str]) -> list[tuple[str, str]]:
    return list(itertools.product(orders(two[0]), [*orders(two[0]), *orders(two[1])]))


def test_r4_a_uuid_is_one_in_each_order_whoever_tells_it_first() -> None:
    """As a table, a kernel, IPMI or a program of any of them shows it."""
    spelt = orders(UUID)
    assert len(spelt) == 8 and UUID in spelt and all(orders(one) == spelt for one in spelt)
    for one in spelt:
        for other in spelt:
            assert same_uuid(one, other) and same_uuid(one.upper(), f"{{{other}}}"), (one, other)
        for other in orders(OTHERS):
            assert not same_uuid(one, other) and not same_uuid(other, one), (one, other)
    assert not same_uuid(UUID, "none") and not same_uuid("none", UUID) and same_uuid("none", "none")


@given(
    told=st.lists(st.uuids().map(str).filter(uuid_of), min_size=2, max_size=2).flatmap(
        lambda two: st.sampled_from(spellings(two))
    )
)
def test_r4_two_uuids_are_one_by_what_the_ledger_joins_them_by(told: tuple[str, str]) -> None:
    one, other = told
    joins = spelling.compared(("system_uuid", one)) == spelling.compared(("system_uuid", other))
    assert same_uuid(one, other) is same_uuid(other, one) is joins


@pytest.mark.parametrize("maker", _MAKERS)
def test_r4_a_placeholder_is_none_in_each_order(maker: str) -> None:
    assert [uuid_of(one) for one in orders(maker)] == [""] * len(orders(maker))
