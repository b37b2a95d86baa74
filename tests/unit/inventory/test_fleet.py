# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin through ansible-inventory: what a person and an automation controller get."""

from __future__ import annotations

from typing import Any

import pytest

HEADER = "name,serial,rack,bmc_ip,bmc_user,bmc_password_ref,boot_mac,note\n"
ROWS = (
    "gpu001,ABC0001,r1,10.0.0.1,root,env:BMC_PW,52:54:00:77:00:01,plain # text\n"
    "gpu002,ABC0002,r2,10.0.0.2,root,file:/etc/bmc,52:54:00:77:00:02,{{ 'uid=' ~ 0 }}\n"
)
CSV = {"type": "csv", "path": "servers.csv"}


@pytest.fixture
def listed(site: Any) -> Any:
    site.write("servers.csv", HEADER + ROWS)
    site.configure(CSV)
    return site


def test_host_variables_are_plain_strings(listed: Any) -> None:
    """What an automation controller stores: strings, and text with a template in it under its mark."""
    hosts = listed.ask(itself=True).hosts
    assert listed.ask().hosts == hosts, "what other tests ask answers as the program itself does"
    assert hosts["gpu001"] == {
        "gpufleet_serial": "ABC0001",
        "gpufleet_bmc_address": "10.0.0.1",
        "gpufleet_bmc_username": "root",
        "gpufleet_bmc_password": "{{ lookup('ansible.builtin.env', 'BMC_PW') }}",
        "gpufleet_boot_mac": "52:54:00:77:00:01",
        "csv_rack": "r1",
        "csv_note": "plain # text",
    }
    assert hosts["gpu002"]["csv_note"] == {"__ansible_unsafe": "{{ 'uid=' ~ 0 }}"}


def test_groups_and_composed_variables(listed: Any) -> None:
    listed.configure(
        CSV,
        compose={"gpufleet_failure_domain": "'row-' ~ csv_rack", "where": "{'rack': csv_rack}", "lost": "no_such + 1"},
        groups={"first": "csv_rack == 'r1'"},
        keyed_groups=[{"key": "csv_rack", "prefix": "rack"}],
    )
    answer = listed.ask()
    assert answer.hosts["gpu001"]["gpufleet_failure_domain"] == "row-r1"
    assert answer.hosts["gpu001"]["where"] == {"rack": "r1"}, "also inside of what was composed"
    assert "lost" not in answer.hosts["gpu001"]
    assert answer.data["first"]["hosts"] == ["gpu001"] and answer.data["rack_r2"]["hosts"] == ["gpu002"]
    graph = listed.ask("--graph").text
    assert "@rack_r1" in graph and "gpu001" in graph


@pytest.mark.slow
def test_strict_makes_a_mistake_an_error(listed: Any) -> None:
    listed.configure(CSV, compose={"lost": "no_such + 1"}, strict=True)
    assert "no_such" in listed.ask(ok=False).errors


@pytest.mark.slow
def test_extra_vars_are_seen_where_asked_for(listed: Any) -> None:
    listed.configure(CSV, compose={"wave": "wave_number"}, use_extra_vars=True)
    hosts = listed.ask("--list", "--export", "-e", "wave_number=7").hosts
    assert hosts["gpu001"]["wave"] == "7"


def test_a_secret_is_read_when_it_is_needed(listed: Any) -> None:
    """The inventory holds the lookup, and the host its outcome; text of a source is never evaluated."""
    listed.env["BMC_PW"] = "hunter2"
    assert "hunter2" not in listed.ask().text
    debug = ("-m", "ansible.builtin.debug", "-a")
    assert "hunter2" in listed.ask("gpu001", *debug, "var=gpufleet_bmc_password", program="ansible").text
    note = listed.ask("gpu002", *debug, "msg='{{ csv_note }}'", program="ansible").text
    assert "uid=0" not in note and "{{ 'uid=' ~ 0 }}" in note


@pytest.mark.parametrize(
    ("filters", "hosts"),
    [
        ([{"exclude": "csv_rack == 'r1'"}], ["gpu002"]),
        ([{"include": "csv_rack == 'r1'"}], ["gpu001"]),
        ([{"exclude": "gpufleet_serial == 'ABC0001'"}, {"include": "true"}], ["gpu002"]),
        ([{"include": "csv_rack == 'r2'"}, {"exclude": "true"}], ["gpu002"]),
    ],
)
@pytest.mark.slow
def test_filters(listed: Any, filters: list[dict[str, str]], hosts: list[str]) -> None:
    listed.configure(CSV, filters=filters)
    assert sorted(listed.ask().hosts) == hosts


@pytest.mark.parametrize("rule", [{"include": "no_such_variable"}, {"include": "a", "exclude": "b"}, {"drop": "true"}])
@pytest.mark.slow
def test_a_filter_that_fails_decides_nothing(listed: Any, rule: dict[str, str]) -> None:
    listed.configure(CSV, filters=[rule])
    assert "filter" in listed.ask(ok=False).errors


@pytest.mark.slow
def test_r5_two_lists_do_not_give_two_machines_one_node_of_the_scheduler(listed: Any) -> None:
    listed.write("servers.csv", "name,serial,scheduler_node\na,ABC0001,n1\n")
    listed.write("more.csv", "name,serial,scheduler_node\nb,ABC0002,n1\n")
    listed.configure(CSV, {**CSV, "path": "more.csv"})
    assert "two machines have the gpufleet_scheduler_node n1" in listed.ask(ok=False).errors


@pytest.mark.slow
def test_host_names(listed: Any) -> None:
    listed.configure(CSV, hostnames=["no_such_variable", "'node-' ~ gpufleet_serial | lower"])
    assert sorted(listed.ask().hosts) == ["node-abc0001", "node-abc0002"]
    listed.configure(CSV, hostnames=["'same'"])
    assert "servers.csv:2; " in listed.ask(ok=False).errors and "servers.csv:3" in listed.ask(ok=False).errors
    listed.configure(CSV, hostnames=["'two words'"])
    assert "cannot be the name of a host" in listed.ask(ok=False).errors
    listed.write("servers.csv", "serial\nABC0001\n")
    listed.configure(CSV)
    assert sorted(listed.ask().hosts) == ["ABC0001"], "without a name the serial"


@pytest.mark.slow
def test_names_of_the_configuration_file(listed: Any) -> None:
    content = listed.config.read_bytes()
    for name, ok in (("fleet.yml", True), ("lab.fleet.yaml", True), ("hosts.yml", False)):
        listed.ask(config=listed.write(name, content), ok=ok)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"type": "foreman"}, "no known type"),
        ({"type": "csv", "path": "servers.csv", "passwrd": "x"}, "unknown options: passwrd"),
        ({**CSV, "password_refs": "env:*"}, "password_refs: a list of texts is wanted"),
        ({**CSV, "password_refs": None}, "password_refs: a list of texts is wanted"),
        ({**CSV, "delimiter": ";;"}, "the option delimiter is no character that parts cells"),
        ({**CSV, "password_refs": ["env:*"]}, "servers.csv:3:6: bmc_password_ref: its content is no place"),
        ({"type": "csv"}, "needs a path"),
        ({"type": "csv", "path": "gone.csv"}, "gone.csv: the server list cannot be read: No such file"),
        ({"type": "ironic"}, "source 1 (ironic): missing: the source's url"),
        ({"type": "ironic"}, "Do: set the source's url in the inventory"),
        ({"type": "maas", "url": "http://127.0.0.1:9/MAAS"}, "Do: set the source's api_key in the inventory"),
        ({"type": "maas", "url": "http://127.0.0.1:9/MAAS", "api_key": "a:b"}, "consumer:token:secret"),
        ({"type": "maas", "url": "http://127.0.0.1:9", "api_key": "a:b:c", "query": {"hue": 1}}, "no filter hue"),
    ],
)
@pytest.mark.slow
def test_a_wrong_source_is_an_error(listed: Any, source: dict[str, str], said: str) -> None:
    listed.configure(source)
    assert said in listed.ask(ok=False).errors


def test_a_mistake_in_the_last_row_leaves_no_half_inventory(listed: Any) -> None:
    listed.write("servers.csv", HEADER + ROWS + "gpu003,,r1,,,,,\n")
    listed.env["ANSIBLE_INVENTORY_UNPARSED_FAILED"] = "False"
    answer = listed.ask()
    assert answer.hosts == {} and "servers.csv:4:1: nothing tells which machine" in answer.errors


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("soruces", "soruces: sources is meant?"),
        ("keyed_group", "keyed_group: keyed_groups is meant?"),
        ("filter", "filter: filters is meant?"),
        ("zzz", "see ansible-doc -t inventory gpufleet.baremetal.fleet"),
    ],
)
def test_u8_a_key_that_the_file_cannot_have_is_told(listed: Any, key: str, said: str) -> None:
    """ansible-core reads over it: the groups, filters or sources that it stood for are not there."""
    listed.configure(CSV, **{key: []})
    errors = " ".join(listed.ask(ok=False).errors.split())
    assert f"unknown keys: {key}" in errors and said in errors, errors


def test_u8_a_key_for_anchors_is_left_to_the_file(listed: Any) -> None:
    listed.configure(CSV, **{"x-shared": {"a": 1}})
    assert listed.ask().hosts
