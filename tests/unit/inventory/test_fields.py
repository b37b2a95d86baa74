# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host variables that a site picks out of a source's own record, by JMESPath."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_csv import read_csv
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import CHECKED, Fields
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record

UUID = "4c4c4544-0038-3510-8052-b4c04f4d3132"
RAW = {
    "zone": {"name": "row-a"},
    "serials": {"chassis": " ABC0001 ", "none": "To be filled by O.E.M.", "number": 12345, "big": "1.23E+10"},
    "cards": [{"address": "52-54-00-AB-CD-01", "boot": True}, {"address": "52:54:00:ab:cd:02", "boot": False}],
    "network": {"ip": "10.0.0.7/24", "all": "10.0.0.255/24"},
    "uuid": UUID.upper(),
    "locked": True,
    "ram": 2048,
    "empty": "",
    "bell": "a\u0007b",
    "c1": "a\u009bb",
    "turned": "a\u202eb",
    "paragraph": "a\u2029b",
    "no_uuid": "03000200-0400-0500-0006-000700080009",
}


def filled(fields: dict[str, str], record: Record | None = None) -> Record:
    chosen = Fields(fields, "source 1")
    return chosen.fill(record or Record("here"), chosen.pick(RAW, "row 7"))


def test_variables_of_the_roles_are_read_like_cells() -> None:
    found = filled(
        {
            "gpufleet_serial": "serials.chassis",
            "gpufleet_system_uuid": "uuid",
            "gpufleet_boot_mac": "cards[?boot].address | [0]",
            "gpufleet_failure_domain": "zone.name",
            "gpufleet_provisioner": "'MAAS'",
            "ansible_host": "network.ip",
        }
    )
    assert found.variables == {
        "gpufleet_serial": "ABC0001",
        "gpufleet_system_uuid": UUID,
        "gpufleet_boot_mac": "52:54:00:ab:cd:01",
        "gpufleet_failure_domain": "row-a",
        "gpufleet_provisioner": "maas",
        "ansible_host": "10.0.0.7",
    }


def test_what_identifies_a_machine_is_what_it_is_joined_by() -> None:
    known = Record("here", serial="abc0001", system_uuid="", macs=["52:54:00:ab:cd:01", "52:54:00:ab:cd:09"])
    fields = {"gpufleet_serial": "serials.chassis", "gpufleet_boot_mac": "cards[0].address"}
    found = filled(fields, known)
    assert found.identities() == [
        ("serial", "ABC0001"), ("MAC", "52:54:00:ab:cd:01"), ("MAC", "52:54:00:ab:cd:09"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "expression", "known", "both"),
    [
        ("gpufleet_serial", "serials.chassis", {"serial": "S1"}, ("ABC0001", "S1")),
        ("gpufleet_system_uuid", "uuid", {"system_uuid": UUID.replace("4c", "5c")}, (UUID, UUID.replace("4c", "5c"))),
        ("gpufleet_boot_mac", "cards[0].address", {"macs": ["52:54:00:ab:cd:09"]}, ("cd:01", "cd:09")),
    ],
)
def test_t1_another_machine_than_the_source_says_is_never_picked(
    variable: str, expression: str, known: dict[str, Any], both: tuple[str, str]
) -> None:
    """Two machines would be joined into one: what is picked replaces nothing that the source said."""
    with pytest.raises(ConfigError, match=variable) as caught:
        filled({variable: expression}, Record("here", **known))
    assert caught.value.node == "here" and all(one in str(caught.value) for one in both)


def test_the_mac_of_a_bmc_is_no_card_that_boots() -> None:
    known = Record("here", macs=["52:54:00:ab:cd:09"], variables={"csv_bmc_mac": "52:54:00:ab:cd:09"})
    assert filled({"gpufleet_boot_mac": "cards[0].address"}, known).variables["gpufleet_boot_mac"].endswith("01")


def test_where_nothing_is_found_the_source_has_its_say() -> None:
    known = Record("here", serial="OLD", variables={"gpufleet_serial": "OLD", "gpufleet_sku": "h100"})
    found = filled({"gpufleet_serial": "serials.lost", "gpufleet_sku": "empty", "mine": "lost"}, known)
    assert found.serial == "OLD" and found.variables == {"gpufleet_serial": "OLD", "gpufleet_sku": "h100"}


def test_names_of_ones_own_take_whatever_is_there() -> None:
    found = filled({"ram": "ram", "locked": "locked", "zones": "{here: [zone.name]}"})
    assert found.variables == {"ram": 2048, "locked": True, "zones": {"here": ["row-a"]}}


@pytest.mark.parametrize(
    ("variable", "expression", "why"),
    [
        ("gpufleet_serial", "serials.big", "spreadsheet"),
        ("gpufleet_serial", "locked", "a text is wanted"),
        ("gpufleet_serial", "cards", "a text is wanted"),
        ("gpufleet_boot_mac", "zone.name", "twelve"),
        ("gpufleet_system_uuid", "zone.name", "not a UUID"),
        ("gpufleet_provisioner", "zone.name", "ironic"),
        ("gpufleet_provisioner_id", "'gpu001?fields=uuid'", "no name or id of one node"),
        ("gpufleet_sku", "bell", "control character"),
        ("gpufleet_sku", "c1", "control character"),
        ("gpufleet_sku", "turned", "control character"),
        ("gpufleet_sku", "paragraph", "control character"),
        ("gpufleet_bmc_address", "'10.0.0.999'", "not an IP"),
        ("ansible_host", "network.all", "no single"),
    ],
)
def test_what_a_cell_may_not_hold_an_expression_may_not_find(variable: str, expression: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        filled({variable: expression})
    assert caught.value.node == "here" and variable in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"gpufleet_bmc_password": "zone.name"}, "no variable that a source may fill"),
        ({"gpufleet_ledger_url": "zone.name"}, "no variable that a source may fill"),
        ({"gpufleet_image": "zone.name"}, "no variable that a source may fill"),
        ({"ansible_connection": "zone.name"}, "no variable that a source may fill"),
        ({"ansible_python_interpreter": "zone.name"}, "no variable that a source may fill"),
        ({"Not-A-Name": "zone.name"}, "no variable that a source may fill"),
        ({"bmc_password": "zone.name"}, "a secret has no place"),
        ({"mine": "zone."}, "no JMESPath expression"),
        ({"mine": "]"}, "no JMESPath expression"),
        ({"mine": ""}, "no JMESPath expression"),
        ({"mine": 7}, "no JMESPath expression"),
        ({"mine": None}, "no JMESPath expression"),
        (["zone.name"], "a mapping"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_asked(fields: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Fields(fields, "source 1")


@pytest.mark.parametrize(
    "name",
    ["hostvars", "omit", "inventory_hostname", "group_names", "groups", "playbook_dir", "environment", "vars", "when"],
)
def test_t1_a_name_of_ansibles_own_is_filled_by_no_source(name: str) -> None:
    with pytest.raises(ConfigError, match="Ansible's own"):
        Fields({name: "zone.name"}, "source 1")


def test_t1_what_a_board_says_that_has_none_is_nothing_found() -> None:
    known = Record("here", serial="OLD", system_uuid=UUID, variables={"gpufleet_serial": "OLD"})
    found = filled({"gpufleet_serial": "serials.none", "gpufleet_system_uuid": "no_uuid"}, known)
    assert (found.serial, found.system_uuid, found.variables) == ("OLD", UUID, {"gpufleet_serial": "OLD"})
    assert filled({"gpufleet_serial": "serials.none"}).variables == {}


def test_an_expression_that_fails_on_a_record_is_told() -> None:
    with pytest.raises(ConfigError, match="row 7.*abs"):
        filled({"mine": "abs(zone.name)"})


def test_the_example_of_the_page_takes_an_empty_cell() -> None:
    """Such a cell is not in the row at all, and most functions of JMESPath refuse what is not there."""
    page = (Path(__file__).resolve().parents[3] / "inventory" / "README.md").read_text(encoding="utf-8")
    [expression] = re.findall(r'gpufleet_failure_domain: "(.*feed.*)"', page)
    fields = Fields({"gpufleet_failure_domain": expression}, "source 1")
    for row, found in (({"rack": "r1", "feed": "b"}, "r1-b"), ({"rack": "r1"}, "r1"), ({}, "")):
        assert fields.pick(row, "row 7") == {"gpufleet_failure_domain": found}


def test_every_variable_of_the_roles_that_a_list_fills_can_be_picked_and_no_secret() -> None:
    assert {"gpufleet_tenant", "gpufleet_scheduler_node", "gpufleet_bmc_system_id", "ansible_host"} <= set(CHECKED)
    assert "gpufleet_bmc_password" not in CHECKED


def test_without_the_library_only_the_option_is_missing() -> None:
    program = (
        "import sys\nsys.modules['jmespath'] = None\n"
        "from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_fields import Fields\n"
        "print(bool(Fields(None, 'x')))\n"
        "try:\n    Fields({'a': 'b'}, 'x')\nexcept Exception as exc:\n    print(type(exc).__name__, exc)\n"
    )
    path = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.startswith("False\nMissingLibrary the Python library jmespath"), done.stdout


def test_rows_of_a_list(tmp_path: Any) -> None:
    path = tmp_path / "servers.csv"
    path.write_text("name,serial,rack,bmc_password_ref\ngpu001,ABC0001,r12,env:PW\n", encoding="utf-8")
    fields = Fields({"gpufleet_failure_domain": "join('-', ['feed', rack])", "row": "@"}, "source 1")
    (row,) = read_csv(str(path), fields=fields)
    assert row.variables["gpufleet_failure_domain"] == "feed-r12"
    assert row.variables["row"] == {"name": "gpu001", "serial": "ABC0001", "rack": "r12"}


@pytest.mark.slow
def test_nodes_of_ironic(site: Any, ironic: Any) -> None:
    ironic.add("gpu001", "52:54:00:77:00:01", description="in row a", traits=["CUSTOM_H100"])
    site.env["IRONIC_PASSWORD"] = "s3cret-of-ironic"
    fields = {
        "note": "description",
        "gpufleet_sku": "traits[0]",
        "gpufleet_boot_mac": "ports[?pxe_enabled].address | [0]",
        "gpufleet_serial": "join('-', ['IR', name])",
    }
    source = {"type": "ironic", "url": ironic.url, "username": "admin", "password": "s3cret-of-ironic"}
    site.configure({**source, "fields": fields})
    one = site.ask().hosts["gpu001"]
    assert one["note"] == "in row a" and one["gpufleet_sku"] == "CUSTOM_H100"
    assert one["gpufleet_boot_mac"] == "52:54:00:77:00:01" and one["gpufleet_serial"] == "IR-gpu001"
    assert "******" not in str(one)


@pytest.mark.slow
def test_a_mistake_names_source_variable_and_machine(site: Any) -> None:
    site.write("servers.csv", "name,serial,rack\ngpu001,ABC0001,r12\n")
    site.configure({"type": "csv", "path": "servers.csv", "fields": {"gpufleet_boot_mac": "rack"}})
    told = site.ask(ok=False).errors
    assert "servers.csv:2" in told and "gpufleet_boot_mac" in told and "twelve" in told


@pytest.mark.slow
def test_an_expression_that_fails_in_one_row_names_the_row(site: Any) -> None:
    site.write("servers.csv", "name,serial,rack\ngpu001,ABC0001,r12\ngpu002,ABC0002,\n")
    site.configure({"type": "csv", "path": "servers.csv", "fields": {"mine": "starts_with(rack || `1`, 'r')"}})
    told = site.ask(ok=False).errors
    assert "servers.csv:3" in told and "mine" in told and "starts_with" in told


@pytest.mark.slow
def test_an_expression_that_finds_nothing_in_any_row_is_told_once(site: Any) -> None:
    site.write("servers.csv", "name,serial,rack\ngpu001,ABC0001,r12\ngpu002,ABC0002,\ngpu003,ABC0003,\n")
    fields = {"mine": "rack", "yours": "rck", "theirs": "[rck][]"}
    site.configure({"type": "csv", "path": "servers.csv", "name": "the list", "fields": fields})
    answer = site.ask()
    assert answer.errors.count("found nothing in any of its records") == 2, answer.errors
    assert "the list: fields, yours: 'rck'" in answer.errors and "theirs" in answer.errors
    assert answer.hosts["gpu001"]["mine"] == "r12"


def test_no_record_is_no_expression_in_vain() -> None:
    fields = Fields({"mine": "rack"}, "source 1")
    assert fields.in_vain() == []
    fields.pick({"rack": ""}, "row 1")
    assert len(fields.in_vain()) == 1
    fields.pick({"rack": 0}, "row 2")
    assert fields.in_vain() == []
