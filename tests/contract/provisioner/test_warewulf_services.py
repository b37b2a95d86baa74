# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of a Warewulf server that must know its nodes, which ``wwctl`` configures alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused
from calls import Killed, Line, lead, of_all


@pytest.fixture
def site(warewulf_site: Any) -> Iterator[Any]:
    """Which other tests have after this one."""
    yield warewulf_site
    warewulf_site.server.host.__init__()


def own(site: Any, options: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = site.server.conf.load()["nodes"][options["name"]]
    return found


@pytest.fixture
def host(site: Any, tmp_path: Path) -> Any:
    site.server.host.__init__()
    site.server.host.installed(site.server.url, tmp_path)
    site.server.host.template = "static"
    return site.server.host


def configuring(site: Any, host: Any, *services: str, address: str = "10.8.0.18") -> dict[str, Any]:
    paths = {"wwctl": host.folder / "wwctl", "dhcp_conf": host.dhcp_conf, "tftp_root": host.tftp_root}
    told = {key: str(path) for key, path in paths.items()}
    return {**site.new(), "driver": {"warewulf": {**told, "configure": list(services), "ipaddr": address}}}


def test_dhcp_and_tftp_are_configured_where_they_lack_the_node_and_only_there(site: Any, host: Any) -> None:
    options = configuring(site, host, "dhcp", "tftp")
    assert lead(options, "ready")["changed"]
    assert options["boot_mac"] in host.dhcp_conf.read_text()
    assert sorted(host.ran) == [["configure", "dhcp"], ["configure", "tftp"]]
    assert not lead(options, "enrolled")["changed"] and len(host.ran) == 2
    moved = {**options, "driver": {**options["driver"]["warewulf"], "configure": ["dhcp"], "ipaddr": "10.8.0.1"}}
    assert lead(moved, "enrolled")["changed"] and len(host.ran) == 3, "10.8.0.1 is not in 10.8.0.18"


def several(site: Any, host: Any, count: int) -> list[dict[str, Any]]:
    return [configuring(site, host, "dhcp", address=f"10.8.1.{number}") for number in range(1, 1 + count)]


def test_dhcp_is_told_once_of_all_nodes_that_one_task_enters(site: Any, host: Any) -> None:
    """It writes the entries of all nodes: told of each, it would write the square of them. A host that comes late to
    its first turn has it told once more."""
    batch = several(site, host, 8)
    told = of_all(batch, "ready")
    assert all(one["changed"] and "configure dhcp" in one["after"] for one in told.values()), told
    assert host.ran[0] == ["configure", "dhcp"] and len(host.ran) <= 2
    assert all(one["boot_mac"] in host.dhcp_conf.read_text() for one in batch)
    assert not any(own(site, one)["tags"].get(DUE) for one in batch)


def test_a_service_that_was_not_restarted_is_told_of_each_node_of_a_task(site: Any, host: Any) -> None:
    host.systemd = False
    batch = several(site, host, 3)
    told = of_all(batch, "ready")
    assert all(isinstance(one, Refused) and one.node == name for name, one in told.items()), told
    assert all(own(site, one)["tags"][DUE] == "dhcp" for one in batch)
    host.systemd, before = True, len(host.ran)
    assert all(one["changed"] for one in of_all(batch, "ready").values()) and len(host.ran) - before < 3


def test_what_was_told_before_a_nodes_record_stood_is_told_anew(site: Any, host: Any) -> None:
    batch = several(site, host, 2)
    of_all(batch, "ready", at_once=1)
    assert host.ran == [["configure", "dhcp"]] * 2
    assert all(one["boot_mac"] in host.dhcp_conf.read_text() for one in batch)


def test_what_somebody_elses_failed_run_has_written_since_is_told_anew(site: Any, host: Any) -> None:
    """Of the second node, after this task's run for the first: its file has the node, and the service was told of none
    that came since."""
    first, second = several(site, host, 2)

    def colleague(_asked: Any) -> None:
        if second["name"] in site.server.conf.load()["nodes"]:
            site.proxy.fault, host.systemd = (lambda asked: None), False
            done = subprocess.run([host.folder / "wwctl", "configure", "dhcp"], check=False, capture_output=True)
            host.systemd = True
            assert done.returncode == 255 and second["boot_mac"] in host.dhcp_conf.read_text()

    site.proxy.fault = colleague
    told = of_all([first, second], "ready", at_once=1)
    assert host.ran == [["configure", "dhcp"]] * 3, "for the first, by the colleague, and for the second"
    assert all("configure dhcp" in one["after"] for one in told.values()), told


DUE = "gpufleet-configure-due"


def test_a_service_that_was_not_restarted_is_told_and_restarted_by_a_later_run(site: Any, host: Any) -> None:
    """Its file has the node by then, so that nothing there tells of it."""
    host.systemd = False
    options = configuring(site, host, "dhcp")
    for _run in range(2):
        with pytest.raises(Refused, match="was not restarted.*exit status 255"):
            lead(options, "ready")
        assert options["boot_mac"] in host.dhcp_conf.read_text() and own(site, options)["tags"][DUE] == "dhcp"
    host.systemd = True
    told = lead(options, "ready")
    assert told["changed"] and "configure dhcp" in told["after"] and len(host.ran) == 3
    assert DUE not in {key for key, one in own(site, options)["tags"].items() if one}
    assert not lead(options, "enrolled")["changed"] and len(host.ran) == 3


def cut_off(site: Any, host: Any, how: str, die_at: int) -> dict[str, Any]:
    """A node that is entered, moved, or whose entry was lost, by a run that was killed after so many writes."""
    options = configuring(site, host, "dhcp")
    if how != "new":
        lead(options, "ready")
    if how == "moved":
        options["driver"]["warewulf"]["ipaddr"] = "10.8.0.1"
    if how == "lost":
        host.dhcp_conf.write_text("", "utf-8")
    with pytest.raises(Killed):
        lead(options, "enrolled", line=Line(die_at=die_at))
    return options


@pytest.mark.parametrize("how", ["new", "moved", "lost"])
def test_a_run_that_was_killed_while_dhcp_was_told_tells_it_again(site: Any, host: Any, how: str) -> None:
    options = cut_off(site, host, how, 2)  # the record, or its tag; the command; and then the tag
    before = len(host.ran)
    assert lead(options, "enrolled")["changed"] and len(host.ran) == before + 1


@pytest.mark.parametrize("how", ["new", "moved"])
def test_a_node_whose_entry_another_ones_failed_turn_has_written_is_told_as_well(
    site: Any, host: Any, how: str
) -> None:
    options = cut_off(site, host, how, 1)
    host.systemd = False
    with pytest.raises(Refused, match="was not restarted"):
        lead(configuring(site, host, "dhcp", address="10.8.0.19"), "ready")
    host.systemd = True
    before = len(host.ran)
    assert lead(options, "enrolled")["changed"] and len(host.ran) == before + 1


def test_a_run_that_was_killed_before_dhcp_was_told_tells_it(site: Any, host: Any) -> None:
    options = configuring(site, host, "dhcp")
    with pytest.raises(Killed):
        lead(options, "ready", line=Line(die_at=1))
    assert host.ran == [] and options["name"] in site.server.conf.load()["nodes"]
    lead(options, "ready")
    assert host.ran == [["configure", "dhcp"]]


@pytest.mark.parametrize("off", ["template", "enabled"])
def test_a_command_that_says_nothing_and_does_nothing_is_not_believed(site: Any, host: Any, off: str) -> None:
    setattr(host, off, "" if off == "template" else False)
    with pytest.raises(Refused, match="still lacks the node.*template: static"):
        lead(configuring(site, host, "dhcp"), "ready")
