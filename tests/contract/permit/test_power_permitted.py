# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power through the provisioner asks for what power through the BMC asks for: the lease, the evidence, whose it is."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import power
from contract.permit.rig import Controller
from contract.permit.test_strangers import UNUSED, Make, machine, provisioned, refused
from maas_server.server import MaasServer
from maas_server.statuses import DEPLOYED
from maas_server.store import Machine


@pytest.fixture
def images() -> dict[str, Any]:
    return {"gpu-golden-1": {}}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "INTERVAL", 0.05)


def running(controller: Make, maas: MaasServer, *, adopted: bool = True) -> tuple[Controller, Machine]:
    """A machine that is on, and at work as far as anybody knows."""
    site = controller(known=False)
    one = machine(maas, site, DEPLOYED)
    one.power_state, one.power_type = "on", "redfish"
    if adopted:
        site.node(**UNUSED)
        stamp = provisioned(site, state="enrolled", force_reason="a look")["stamp"]
        site.tells("gpu001", "state", "admitted", {"adopted": True, "provisioner_stamp": stamp})
        site.node(state="IDLE")
    return site, one


@pytest.mark.parametrize("state", ["powered_off", "restarted"])
def test_j9_a_machine_that_serves_keeps_its_power_until_it_is_drained(
    controller: Make, maas: MaasServer, state: str
) -> None:
    site, one = running(controller, maas)
    told = provisioned(site, state=state)
    assert told["error"]["kind"] == "evidence_missing" and one.power_state == "on", told
    site.hold()
    assert provisioned(site, state=state)["changed"] and one.power_state == ("off" if state == "powered_off" else "on")
    assert "released" not in str(site.data("intent")[-1]), "it is no order that ends whose it is"


def test_j9_another_run_has_it(controller: Make, maas: MaasServer) -> None:
    site, one = running(controller, maas)
    site.hold()
    site.taken()
    for state in ("powered_off", "powered_on", "restarted"):
        one.power_state = "off" if state == "powered_on" else "on"
        told = provisioned(site, state=state)
        assert told["error"]["kind"] == "lease_held", told
        assert one.power_state == ("off" if state == "powered_on" else "on")


def test_j7_nobody_switches_what_somebody_else_deployed(controller: Make, maas: MaasServer) -> None:
    site, one = running(controller, maas, adopted=False)
    site.node(**UNUSED)
    refused(provisioned(site, state="powered_off"), "gpu001: Deployed")
    assert one.power_state == "on"
