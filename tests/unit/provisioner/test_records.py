# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written into a provisioner's record, and what is read out of it, for any input."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import record as ironic_record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import record as maas_record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.api import authorization
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import (
    BY_NAME,
    Image,
    Wanted,
    own_extras,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form
from hypothesis import example, given
from hypothesis import strategies as st
from maas_server.config import User
from maas_server.oauth import Doorkeeper

KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.lists(st.integers(), max_size=3))
MAPPINGS = st.dictionaries(KEYS, VALUES, max_size=6)


def _applied(document: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """RFC 6902, as far as it is used."""
    result = copy.deepcopy(document)
    for operation in operations:
        (key,) = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        if operation["op"] == "remove":
            del result[key]
        else:
            result[key] = operation["value"]
    return result


@given(MAPPINGS, MAPPINGS)
def test_a_patch_makes_what_is_wanted_and_then_there_is_none(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    operations = ironic_record.patch(current, wanted)
    made = _applied(current, operations)
    for key, value in wanted.items():
        assert (key not in made) if value is None else made[key] == value
    for key in set(current) - set(wanted):
        assert made[key] == current[key]
    assert ironic_record.patch(made, wanted) == []


@given(st.text(max_size=40), st.text(st.characters(categories=("L", "N")), min_size=1, max_size=10))
@example("\n", "why")
@example("first\n\nlast\n", "why")
@example("first\r\nlast\r", "why")
def test_t3_what_people_wrote_beside_a_token_stays_to_the_last_line_break(description: str, why: str) -> None:
    token = f"gpufleet:run:{why}"
    written = maas_record.with_token(description, f"gpufleet:other:{why}")
    written = maas_record.with_token(written, token)
    assert maas_record.token_in(written) == token
    assert [line for line in written.splitlines() if has_form(line)] == [token]
    assert maas_record.with_token(written, "") == description


@pytest.mark.parametrize(
    ("description", "lifted"),
    [
        ("gpufleet:run:x", ""),
        ("gpufleet:run:x\nadded below", "added below"),
        ("above\n  gpufleet:run:x \nbelow\n", "above\nbelow\n"),
    ],
)
def test_a_token_that_a_person_moved_is_lifted_all_the_same(description: str, lifted: str) -> None:
    assert maas_record.with_token(description, "") == lifted


@given(st.binary(min_size=6, max_size=6), st.sampled_from([":", "-", "", "."]), st.booleans())
def test_a_mac_in_any_form(raw: bytes, separator: str, upper: bool) -> None:
    text = separator.join(f"{byte:02x}" for byte in raw)
    assert mac(text.upper() if upper else text) == ":".join(f"{byte:02x}" for byte in raw)


CONSUMERS = st.text(st.sampled_from("abcxyzABCXYZ0189+/&%= "), min_size=1, max_size=20)
SECRETS = st.text(st.sampled_from('abcxyzABCXYZ0189+/&%=" ,'), min_size=1, max_size=20)


@given(CONSUMERS, SECRETS)
def test_any_secret_survives_its_header(consumer: str, secret: str) -> None:
    """The server reads the header by other means than the client writes it."""
    key = f"{consumer}:token:{secret}"
    door = Doorkeeper((User("fleet", key),))
    user = door.user(authorization(key))
    assert user is not None and user.name == "fleet"


@given(st.dictionaries(st.sampled_from(["name", "version", "url", "sha256", "deploy_id", "odd"]), st.text(max_size=5)))
def test_an_image_names_itself_or_is_refused(mapping: dict[str, str]) -> None:
    if mapping and not all(mapping.get(key) for key in ("name", "version", "url")):
        with pytest.raises(ConfigError, match="the image lacks"):
            Image.of(mapping)
        return
    image = Image.of(mapping)
    if image is not None:
        assert image.is_noted(image.identity())
        assert not image.is_noted({**image.identity(), "version": image.version + "x"})
        later = Image.of({**mapping, "deploy_id": "next"})
        assert later is not None and later.is_noted(later.identity())
        assert later.is_noted(image.identity()) is (image.deploy_id == "next")


def test_which_keys_an_image_needs_is_its_drivers_to_say() -> None:
    by_url = {"name": "gold", "version": "1", "url": "http://x/gold"}
    by_name = {"name": "gold", "version": "1", "named": "gold-b200"}
    assert Image.of(by_url) and Image.of(by_name, needs=BY_NAME) and Image.of({**by_url, **by_name})
    with pytest.raises(ConfigError, match="the image lacks named"):
        Image.of(by_url, needs=BY_NAME)
    with pytest.raises(ConfigError, match="the image lacks url"):
        Image.of(by_name)
    named, other = Image.of(by_name, needs=BY_NAME), Image.of({**by_name, "named": "gold-h100"}, needs=BY_NAME)
    assert named and other and not named.is_noted(other.identity())
    plain, both = Image.of(by_url), Image.of({**by_url, "named": "gold-b200"})
    assert plain and both and both.is_noted(plain.identity()), "a name for others makes no other image"


def test_an_image_of_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown image format floppy"):
        Image.of({"name": "a", "version": "1", "url": "x", "format": "floppy"})


@pytest.mark.parametrize(
    ("text", "label"), [("gold", "gold-2026.11.1"), ("gold/b200", "gold-b200-2026.11.1"), ("a b", "a-b-2026.11.1")]
)
def test_a_label_is_a_name_that_maas_takes(text: str, label: str) -> None:
    image = Image.of({"name": text, "version": "2026.11.1", "url": "x"})
    assert image is not None and image.label == label


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("custom/gold-1", "custom/gold-1", True),
        ("gold-1", "custom/gold-1", True),
        ("noble", "ubuntu/noble", True),
        ("ubuntu/noble", "custom/noble", False),
        ("custom/gold-1", "custom/gold-2", False),
        ("custom/gold-1", "", False),
        ("", "", False),
    ],
)
def test_series(one: str, other: str, same: bool) -> None:
    assert maas_record.same_series(one, other) is same


def _wanted(**bmc: Any) -> Wanted:
    login = {"bmc_username": "u", "bmc_password": "p"}
    return Wanted(host="gpu001", bmc={**login, **{f"bmc_{key}": value for key, value in bmc.items()}})


@pytest.mark.parametrize(
    ("address", "ironic", "maas"),
    [
        ("https://10.1.1.1", "https://10.1.1.1", "10.1.1.1"),
        ("10.1.1.1", "https://10.1.1.1", "10.1.1.1"),
        ("bmc17.oob:8443", "https://bmc17.oob:8443", "bmc17.oob:8443"),
        ("https://[2001:db8::1]:443/", "https://[2001:db8::1]:443", "[2001:db8::1]:443"),
        ("http://10.1.1.1:8000/redfish/v1", "http://10.1.1.1:8000", "10.1.1.1:8000"),
    ],
)
def test_redfish_addresses(address: str, ironic: str, maas: str) -> None:
    wanted = _wanted(address=address)
    assert ironic_record.driver_info(wanted)["redfish_address"] == ironic
    assert maas_record.power_parameters(wanted)["power_address"] == maas


@pytest.mark.parametrize(
    ("verify", "ca", "told"),
    [(None, None, True), (True, "/ca.pem", "/ca.pem"), (False, "/ca.pem", False), (None, "/c", "/c")],
)
def test_whom_ironic_trusts(verify: Any, ca: Any, told: Any) -> None:
    info = ironic_record.driver_info(_wanted(address="10.1.1.1", verify_tls=verify, ca_path=ca))
    assert info["redfish_verify_ca"] == told


def test_a_bmc_needs_a_login() -> None:
    for make in (ironic_record.driver_info, maas_record.power_parameters):
        with pytest.raises(ConfigError, match="bmc_password"):
            make(Wanted(host="gpu001", bmc={"bmc_address": "10.1.1.1", "bmc_username": "u"}))


@given(
    st.dictionaries(st.sampled_from(["ironic", "maas", "deploy_interface"]), st.dictionaries(KEYS, VALUES, max_size=2))
)
def test_each_driver_takes_its_own_part(told: dict[str, Any]) -> None:
    parts = {"ironic", "maas"} & set(told)
    if parts and set(told) - parts:
        with pytest.raises(ConfigError, match="beside the parts"):
            own_extras({"driver": told}, "ironic")
    elif parts:
        assert own_extras({"driver": told}, "ironic") == (told.get("ironic") or {})
    else:
        assert own_extras({"driver": told}, "ironic") == told


@given(st.dictionaries(KEYS, st.text(min_size=1, max_size=12), max_size=5))
def test_what_is_shown_hides_what_is_secret(values: dict[str, str]) -> None:
    shown = ironic_record.shown(
        {**values, "redfish_password": "s3cret", "ipmi_password": "s3cret", "snmp_auth_token": "s3cret"}
    )
    assert "s3cret" not in [value for key, value in shown.items() if key not in values]
