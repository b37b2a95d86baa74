# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row that names nothing of its machine but a BMC: whoever answers there would be it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "provisioner"))
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._preflight import CHECKS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import Nodes, in_service
from xcat_commands.site import XcatSite

pytestmark = pytest.mark.slow


@pytest.fixture
def blank(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What a host names of an xCAT that has a record for its row, which says nothing of any machine."""
    (tmp_path / "x").mkdir()
    site = XcatSite(tmp_path / "x")
    site.management.nodes["gpu001"] = {"groups": "all", "mgt": "ipmi"}
    yield {"gpufleet_provisioner": "xcat", "gpufleet_provisioner_url": str(tmp_path / "x")}
    site.close()


def neighbours(nodes: Nodes) -> None:
    """gpu001 is new and silent, and its row has the BMC of gpu002, which works in the same cluster for others."""
    for bmc in nodes.bmcs.values():
        bmc.machine._power = "On"
    os.unlink(nodes.ledger)
    nodes.scheduler("gpu002", state="ALLOCATED", booted="2026-11-01T00:00:00")
    nodes.scheduler("gpu001", state="UNKNOWN", booted="None")
    del nodes.hosts["gpu001"]["gpufleet_serial"]
    nodes.hosts["gpu001"]["gpufleet_bmc_address"] = nodes.bmcs["gpu002"].url
    del nodes.hosts["gpu002"]


def way(**given: bool) -> list[dict[str, Any]]:
    """As day 0 goes to a new machine, as far as its power."""
    role = {"name": "gpufleet.baremetal.oob_ready"}
    tasks = [
        {"ansible.builtin.import_role": role, "vars": {"oob_ready_new": True, **given}},
        {"gpufleet.baremetal.scheduler_node": {"state": "held", "why": "day0"}},
        {"gpufleet.baremetal.scheduler_wait": {"until": "drained", "timeout": 5}},
        {"gpufleet.baremetal.redfish_power": {"state": "force_off"}},
    ]
    return [{"hosts": "gpu001", "gather_facts": False, "strategy": "linear", "tasks": tasks}]


@pytest.mark.parametrize("free", [False, True], ids=["nobody says", "a person says that it is free"])
def test_r3_a_machine_that_runs_and_has_nothing_in_common_with_its_row_is_left_as_it_is(
    tmp_path: Path, free: bool
) -> None:
    with in_service(tmp_path, 2) as nodes:
        neighbours(nodes)
        said = ("-e", "oob_ready_take_running=true") if free else ()
        told = nodes.plays(way(oob_ready_provisioner=False), *said, ok=free)
        assert nodes.bmcs["gpu002"].machine.power == ("Off" if free else "On")
        assert free or "the inventory names neither serial, system UUID nor boot MAC" in told, told
        assert free or "DRAIN" not in nodes.scheduler("gpu001")


def test_r3_a_record_that_says_nothing_of_any_machine_does_not_say_that_this_one_is_free(
    tmp_path: Path, blank: dict[str, Any]
) -> None:
    with in_service(tmp_path, 2) as nodes:
        neighbours(nodes)
        nodes.shared |= blank
        nodes.options["provisioner_node"] = {"driver": {"netboot": "xnba", "arch": "x86_64"}}
        told = nodes.plays(way(oob_ready_deploys=False), ok=False)
        assert "nobody can say whether it is in use" in told, told
        assert nodes.bmcs["gpu002"].machine.power == "On" and "DRAIN" not in nodes.scheduler("gpu001")


def test_r3_day_0_of_a_row_that_names_a_bmc_alone_goes_on_with_what_it_began(tmp_path: Path) -> None:
    """The first run ends at its provisioner, which is away; an inspection has left the machine on."""
    with in_service(tmp_path) as nodes:
        os.unlink(nodes.ledger)
        del nodes.hosts["gpu001"]["gpufleet_serial"]
        nodes.scheduler("gpu001", state="UNKNOWN", booted="None")
        nodes.options["preflight"] = {"skip": list(CHECKS)}
        for power in ("Off", "On"):
            nodes.bmcs["gpu001"].machine._power = power
            nodes.book("day0_bringup", ok=False)
            said = " ".join(nodes.output.split())
            assert "nobody can say" not in said and "gpufleet.baremetal.enroll" in said, (power, said[-4000:])


#: What the ledger has of the machine behind the BMC: who it was first, and what has become of it.
KNOWN: dict[str, tuple[str, list[Event]]] = {
    "admitted": ("gpu001", [Event("state", "enrolled"), Event("state", "admitted")]),
    "enrolled": ("gpu001", [Event("state", "enrolled")]),
    "being imaged": ("gpu001", [Event("state", "enrolled"), Event("state", "imaging", {"deploy_id": "d-1"})]),
    "a neighbour that was held": (
        "gpu009",
        [Event("hold", "taken", {"hold_token": make_token("r1", "day0"), "scheduler_node": "gpu009"})],
    ),
    "a neighbour that was enrolled": ("gpu009", [Event("state", "enrolled")]),
}


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("free", [False, True], ids=["nobody says", "a person says that it is free"])
def test_r3_of_a_row_that_names_a_bmc_alone_what_the_ledger_has_is_told_by_name_and_keeps_its_power(
    tmp_path: Path, known: str, free: bool
) -> None:
    """The row may have slipped to a neighbour who is in the midst of a day 0 of its own, which a person took over."""
    name, events = KNOWN[known]
    with in_service(tmp_path) as nodes:
        os.unlink(nodes.ledger)
        with Ledger(nodes.url) as ledger:
            node = ledger.identify(name, aliases=[("serial", "SN0001")])
            ledger.append("r1", [(node, event) for event in events])
        del nodes.hosts["gpu001"]["gpufleet_serial"]
        nodes.bmcs["gpu001"].machine._power = "On"
        nodes.scheduler("gpu001", booted="2026-11-01T00:00:00")
        said = ("-e", "oob_ready_take_running=true") if free else ()
        nodes.plays(way(oob_ready_provisioner=False), *said, ok=False)
        told = " ".join(nodes.output.split())
        assert "The ledger has the machine behind this BMC as" in told and f"saw it first as {name}" in told, told
        assert "correct gpufleet_bmc_address" in told and "name gpufleet_serial SN0001" in told
        assert nodes.bmcs["gpu001"].machine.power == "On" and nodes.scheduler("gpu001") == "IDLE"
