# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host on which commands of the site's services run is no node: the provisioner's own machine is not imaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_fleet_status import HISTORY, Fleet, status
from contract.node.test_fleet_plan import asked, recorded
from contract.node.test_topology import seen_at, slurm

pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_a_login_host_is_told_as_no_node_and_nothing_leads_on_from_there(fleet: Fleet) -> None:
    """Named by the others alone, as by the variables of their group; and by a group that is left out otherwise."""
    for host in HISTORY:
        fleet.hosts[host]["gpufleet_provisioner_login_host"] = "mn1"
    fleet.hosts["retired"]["gpufleet_scheduler_login_host"] = "login1"
    fleet.hosts.update(mn1={}, login1={})
    before = fleet.count()
    (result,) = fleet.play(status())
    for name, option in (("mn1", "provisioner"), ("login1", "scheduler")):
        one = result["nodes"][name]
        assert (one["state"], one["next"], one["way"]) == ("unknown", "", []), one
        assert f"gpufleet_{option}_login_host names, and no node" in one["stopped"], one
    assert result["nodes"]["admitted"]["state"] == "admitted" and fleet.count() == before


def test_no_verb_goes_to_a_login_hosts_bmc_or_record(fleet: Fleet) -> None:
    """By its own variables, or by its group: also where nothing has looked at the whole fleet before."""
    mine = {"gpufleet_bmc_address": "https://127.0.0.250", "gpufleet_bmc_username": "a", "gpufleet_bmc_password": "b"}
    xcat = {"gpufleet_provisioner": "xcat", "gpufleet_provisioner_login_host": "mn1"}
    fleet.hosts = {"mn1": {**mine, **xcat, "gpufleet_serial": "S-mn1"}}
    before = fleet.count()
    asked: list[dict[str, Any]] = [
        {"gpufleet.baremetal.provisioner_node": {"state": "ready"}},
        {"gpufleet.baremetal.redfish_power": {"state": "off"}},
        {"gpufleet.baremetal.redfish_power": {"state": "off", "batch": True}, "run_once": True},
        {"gpufleet.baremetal.pxe_boot": {}},
        {"gpufleet.baremetal.bmc_info": {}},
        {"gpufleet.baremetal.provisioner_wait": {"until": "ready"}, "run_once": True},
    ]
    for task in asked:
        told = json.dumps(fleet.play({**task, "ignore_errors": True}))
        assert "gpufleet_provisioner_login_host names, and no node" in told, (task, told)
    fleet.hosts["mn1"]["gpufleet_provisioner_login_host"] = "mn2"
    fleet.groups = {"gpufleet_services": {"hosts": {"mn1": {}}}}
    for task in asked:
        told = json.dumps(fleet.play({**task, "ignore_errors": True}))
        assert "in the group gpufleet_services, and no node" in told, (task, told)
    assert fleet.count() == before


def of_services(nodes: Nodes) -> tuple[str, str]:
    """mn1 is in the inventory to be reached there, and in the group that every playbook leaves out."""
    told = {"all": {"children": {"gpufleet_services": {"hosts": {"mn1": {}}}}}}
    (nodes.folder / "services.yml").write_text(yaml.safe_dump(told), encoding="utf-8")
    return "-i", "services.yml"


def test_a_service_host_is_no_node_of_a_fleet_that_is_out(tmp_path: Path) -> None:
    """By its group, and where others name it alone: then it is told that it is none, and counts for nothing."""
    plan = {"budgets": {"fleet": 1}}
    with in_service(tmp_path, 3) as nodes:
        (told,) = asked(nodes, plan, flags=of_services(nodes))
        assert (told["out"], told["waves"][0]) == ([], ["gpu001"]) and told["budgets"][0]["nodes"] == 3, told
        nodes.hosts["login1"] = {}
        nodes.shared["gpufleet_provisioner_login_host"] = "login1"
        (told,) = asked(nodes, plan)
        assert (told["out"], told["waves"][0]) == ([], ["gpu001"]) and told["budgets"][0]["nodes"] == 3, told
        assert "and no node" in told["left"]["login1"]


def test_a_pause_of_the_whole_fleet_is_one_beside_service_hosts(tmp_path: Path) -> None:
    """Whoever comes to the fleet later is paused with it."""
    with in_service(tmp_path, 3) as nodes:
        flags, late = of_services(nodes), nodes.hosts.pop("gpu003")
        nodes.book("waves", *flags, "-e", "waves=pause", "-e", '{"waves_why": "cooling"}', ok=True)
        assert [told["whole"] for _what, _host, told in recorded(nodes)] == [True, True]
        nodes.hosts["gpu003"] = late
        (told,) = asked(nodes, {"budgets": {"fleet": 9}}, flags=flags)
        assert told["waves"] == [] and "cooling" in told["left"]["gpu003"], told


def test_a_service_host_has_no_place_in_a_topology(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        flags = of_services(nodes)
        slurm(nodes, ["SwitchName=leaf-a1 Level=0 LinkSpeed=1 Nodes=gpu[001-003]"])
        seen_at(nodes, gpu001="leaf-a1", gpu002="leaf-a1", gpu003="leaf-a1")
        nodes.book("topology", *flags, ok=True)
        nodes.book("topology", *flags, "-e", "topology=write", ok=True)
        written = (tmp_path / "topology.conf").read_text(encoding="utf-8").splitlines()
        assert written[1:] == ["SwitchName=leaf-a1 Nodes=gpu[001-003]"]
