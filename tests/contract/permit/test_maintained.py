# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hold at the provisioner is asked for again where it is old, whatever was swapped under it."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.action import node_identity
from contract.permit.rig import Controller
from contract.permit.test_strangers import Make, machine, provisioned
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED
from maas_server.store import Machine


def maintained(site: Controller, maas: MaasServer) -> Machine:
    """A node that we deployed, drained and took into maintenance."""
    one = machine(maas, site, DEPLOYED)
    site.tells("gpu001", "state", "imaging")  # by us
    site.hold()
    assert site.power()["error"]["kind"] == "not_ours" and not site.switched()
    held = provisioned(site, state="maintenance", why="reseat")
    assert held.get("maintenance") and "gpufleet:" in one.description, held
    return one


def test_j6_a_maintenance_is_asked_for_again_where_it_is_old(controller: Make, maas: MaasServer) -> None:
    site = controller()
    one = maintained(site, maas)
    site.later(600)
    assert site.power()["changed"] and site.events("maintenance") == ["held", "held"]
    site.bmcs["gpu001"].machine.reset("On")
    one.locked, one.description = False, ""  # by a person, in its own interface
    assert site.power()["changed"], "a minute ago it stood"
    site.bmcs["gpu001"].machine.reset("On")
    site.later(1200)
    refused = site.power()
    assert refused["error"]["kind"] == "not_ours" and "no maintenance of ours" in refused["msg"], refused
    assert site.events("maintenance") == ["held", "held", "lifted"] and site.bmcs["gpu001"].machine.power == "On"


def test_u3_a_board_that_was_swapped_in_maintenance_ends_none(controller: Make, maas: MaasServer) -> None:
    """The provisioner has the old board's serial until the next deployment."""
    site = controller()
    maintained(site, maas)
    site.bmcs["gpu001"].vendor["system"]["SerialNumber"] = "S-new"
    site.hosts["gpu001"]["gpufleet_serial"] = "S-new"
    said: dict[str, Any] = {"state": "replaced", "part": "board", "was": "S-gpu001", "reason": "RMA"}
    swapped = site.run("node_identity", action=node_identity.ActionModule, **said)
    assert swapped["changed"], swapped
    site.later(600)
    assert site.power()["changed"] and site.events("maintenance") == ["held", "held"]
