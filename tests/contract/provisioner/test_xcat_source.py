# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT as a source of the inventory, by the command that its driver uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, ConfigError, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_sources import check_source
from contract.faults import GARBAGE, OUTAGE

WHERE = "source 1 (xcat)"


@pytest.fixture
def xcat(xcat_site: Any) -> Iterator[Any]:
    known = dict(xcat_site.management.nodes)
    nodes = xcat_site.management.nodes
    nodes.clear()
    nodes["g001"] = {
        "groups": "all,gpu",
        "mac": "AA:BB:CC:00:00:01!g001|aa:bb:cc:00:00:02!*NOIP*",
        "ip": "10.1.0.1",
        "bmc": "10.2.0.1",
        "bmcusername": "root",
        "bmcpassword": "hunter2-of-the-bmc",
        "serial": "S4X0012K",
        "status": "booted",
        "provmethod": "u24-gold-1",
        "usercomment": "Anna: loud fan gpufleet-hold=gpufleet:run1:reseat",
    }
    nodes["g002"] = {"groups": "all,gpu", "bmc": "g002-bmc", "status": ""}
    nodes["login1"] = {"groups": "all", "mac": "aa:bb:cc:00:00:09"}
    xcat_site.faults.forget()
    yield xcat_site
    xcat_site.faults.forget()
    nodes.clear()
    nodes.update(known)


def read(site: Any, **options: Any) -> list[Any]:
    given = {"type": "xcat", "url": site.connection()["provisioner_url"], **options}
    return check_source(given, 1).read(given, WHERE)


def test_nodes_of_a_group_that_xcat_itself_chooses(xcat: Any) -> None:
    one, two = read(xcat, query={"group": "gpu"}, fields={"gpufleet_failure_domain": "groups", "picked": "bmcpassword"})
    assert one.name == "g001" and one.where == f"{WHERE}, node g001"
    assert one.identities() == [("serial", "S4X0012K"), ("MAC", "aa:bb:cc:00:00:01"), ("MAC", "aa:bb:cc:00:00:02")]
    told = one.variables
    assert told["gpufleet_provisioner"] == "xcat" and told["gpufleet_provisioner_id"] == "g001"
    assert told["gpufleet_boot_mac"] == "aa:bb:cc:00:00:01" and told["ansible_host"] == "10.1.0.1"
    assert told["gpufleet_bmc_address"] == "10.2.0.1" and told["gpufleet_bmc_username"] == "root"
    assert told["xcat_groups"] == ["all", "gpu"] and told["xcat_status"] == "booted"
    assert told["xcat_comment"] == "Anna: loud fan" and told["xcat_hold"] == "gpufleet:run1:reseat"
    assert told["gpufleet_failure_domain"] == "all,gpu" and "picked" not in told, "a password is not asked for"
    assert two.variables["gpufleet_boot_mac"] is None and two.variables["gpufleet_bmc_address"] == "g002-bmc"
    calls = [call.what for call in xcat.faults.calls]
    assert len(calls) == 2 and "gpu" in calls[0] and not any("bmcpassword" in call for call in calls)
    assert [one.name for one in read(xcat)] == ["g001", "g002", "login1"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"group": "gpus"}, "xCAT has no group gpus"),
        ({"grp": "gpu"}, "it has the key group alone"),
        ({"group": "gpu,-g001"}, "is no name of a group"),
        (["gpu"], "it has the key group alone"),
    ],
)
def test_what_is_no_group_is_never_an_empty_fleet_or_a_whole_one(xcat: Any, query: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(xcat, query=query)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("mac", "aa:bb:cc:00:00", "node g001: mac: 'aa:bb:cc:00:00': not a MAC"),
        ("serial", "4.02E+11", "node g001: serial: '4.02E+11' is a number that a spreadsheet made"),
        ("bmc", "10.2.0.0/24", "node g001: bmc"),
        ("ip", "10.1.0.300", "node g001: ip"),
    ],
)
def test_each_attribute_is_checked_like_the_cell_of_a_list(xcat: Any, field: str, value: str, told: str) -> None:
    xcat.management.nodes["g001"][field] = value
    with pytest.raises(ConfigError) as error:
        read(xcat)
    assert told in str(error.value)


@pytest.mark.parametrize(("way", "kind"), [(OUTAGE, Unreachable), (GARBAGE, BadAnswer), ("silence", BadAnswer)])
def test_an_xcat_that_does_not_answer_is_no_empty_fleet(xcat: Any, way: str, kind: type[Exception]) -> None:
    xcat.faults.strike(way)
    with pytest.raises(kind):
        read(xcat, query={"group": "gpu"})
    with pytest.raises(ConfigError, match="xCAT's command lsdef is not on this machine"):
        read(xcat, url="/nonexistent")
