# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fresh rack at xCAT: names that resolve, and cards that DHCP knows, before the first ``nodeset``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Refused
from calls import Killed, Line, lead
from xcat_commands.service import XcatwsSite
from xcat_commands.site import XcatSite

ALL = ["dhcp", "dns", "hosts"]


@pytest.fixture(params=[XcatSite, XcatwsSite], ids=["commands", "web"])
def site(request: pytest.FixtureRequest, started: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The machine that runs the task is the management node: its resolver is the one that is asked."""
    with started(request.param).in_good_health() as chosen:
        monkeypatch.setenv("PATH", f"{chosen._folder / 'system'}:{os.environ['PATH']}")
        yield chosen
    management = chosen.management
    management.hosts, management.dns, management.leases = {}, {}, {}
    management.has_domain = management.has_dns = True
    management.has_nmap = False
    for one in management.nodes.values():
        one.pop("ip", None)


def fresh(site: Any, *services: str, address: str = "10.8.0.18") -> dict[str, Any]:
    options = site.new()
    return {**options, "driver": {**site.extras, "name_services": list(services), "ip": address}}


def made(site: Any) -> list[str]:
    """What was run, in its order, by whichever way."""
    words = {"host": "makehosts", "dns": "makedns", "dhcp": "makedhcp"}
    ends = (one.what.split("?")[0] for one in site.faults.writes)
    found = (words.get(end.rpartition("/")[2], end.split(" ")[0]) for end in ends)
    return [one for one in found if one.startswith("make")]


def test_a_new_node_is_made_known_in_the_order_in_which_each_needs_the_other(site: Any) -> None:
    options = fresh(site, *ALL)
    told = lead(options, "ready")
    assert told["after"]["name_services"] == "makehosts makedns makedhcp"
    assert made(site) == ["makehosts", "makedns", "makedhcp"]
    name, management = options["name"], site.management
    assert management.hosts[name] == management.dns[name] == management.leases[options["boot_mac"]] == "10.8.0.18"
    assert "gpufleet-names" not in site.record(name).get("usercomment", "")
    site.faults.forget()
    assert not lead(options, "enrolled")["changed"] and made(site) == []


def test_nothing_is_made_where_the_site_does_not_want_it(site: Any) -> None:
    options = fresh(site)
    lead(options, "ready")
    assert made(site) == [] and options["name"] not in site.management.hosts
    with pytest.raises(ConfigError, match="makes no nis"):
        lead(fresh(site, "nis", address="10.8.0.20"), "ready")


def test_a_node_that_moves_or_whose_name_is_lost_is_made_known_again(site: Any) -> None:
    options = fresh(site, "hosts", "dhcp")
    lead(options, "ready")
    moved = {**options, "driver": {**options["driver"], "ip": "10.8.0.19"}}
    assert lead(moved, "enrolled")["changed"] and site.management.hosts[options["name"]] == "10.8.0.19"
    assert site.management.leases[options["boot_mac"]] == "10.8.0.19"
    del site.management.hosts[options["name"]]
    assert lead(moved, "enrolled")["changed"] and site.management.hosts[options["name"]] == "10.8.0.19"


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_run_that_was_killed_between_them_is_gone_on_with(site: Any, at: int) -> None:
    """Also where the name resolves by then, and DNS or DHCP does not know the node."""
    options = fresh(site, *ALL)
    with pytest.raises(Killed):
        lead(options, "ready", line=Line(die_at=at))
    lead(options, "ready")
    name, management = options["name"], site.management
    assert management.hosts[name] == management.dns[name] == management.leases[options["boot_mac"]]
    assert not lead(options, "enrolled")["changed"]


def test_a_command_that_fails_and_a_name_that_does_not_resolve_are_told(site: Any) -> None:
    site.management.has_dns = False
    options = fresh(site, *ALL)
    with pytest.raises(Refused, match="makedns.*REFUSED"):
        lead(options, "ready")
    site.management.has_dns = True
    site.management.has_domain = False
    with pytest.raises(Refused, match="does not resolve on xCAT's management node.*Please make sure"):
        lead(fresh(site, "hosts", address="10.8.0.21"), "ready")


def test_where_nodestat_asks_for_no_name_the_resolver_of_the_management_node_is_asked(site: Any) -> None:
    if isinstance(site, XcatwsSite):  # there is none that could be asked: the next command that needs it says so
        lead(fresh(site, "hosts", address="10.8.0.22"), "ready")
        return
    site.management.has_nmap, site.management.has_domain = True, False
    with pytest.raises(Refused, match="getent ahosts .* finds nothing"):
        lead(fresh(site, "hosts", address="10.8.0.23"), "ready")
    site.management.has_domain = True
    options = fresh(site, "hosts")
    site.management.hosts[options["name"]] = "10.9.9.9"
    lead(options, "ready")
    assert site.management.hosts[options["name"]] == "10.8.0.18"


def test_a_name_with_addresses_of_both_kinds_is_known_by_each(site: Any) -> None:
    """The node's ip is one of them; where it is none, that is told with all of them."""
    if isinstance(site, XcatwsSite):
        return
    options, other = (fresh(site, "hosts", address=f"10.8.0.{number}") for number in (24, 26))
    site.management.of_ipv6.update({options["name"]: "fd00::24", other["name"]: "fd00::26"})
    lead(options, "ready")
    site.management.hosts[other["name"]], site.management.has_domain = "10.8.0.25", False
    with pytest.raises(Refused, match="it is fd00::26, 10.8.0.25"):
        lead(other, "ready")


def test_check_mode_tells_it_and_sends_nothing(site: Any) -> None:
    options = fresh(site, *ALL)
    assert lead(options, "ready", check=True)["after"]["name_services"] and made(site) == []
