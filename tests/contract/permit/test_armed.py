# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a network boot of a machine needs, and that one that failed leaves no machine armed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contract.permit.rig import Controller
from fake_bmc.redfish_server import FakeBmc
from fake_bmc.sessions import error


@pytest.mark.parametrize("refused", [False, True])
def test_j8_a_network_boot_that_fails_disarms(controller: Callable[..., Controller], refused: bool) -> None:
    """The machine is off and its BMC takes the override and refuses to switch it on; or takes nothing back either."""
    site = controller()
    site.hold()
    bmc = site.bmcs["gpu001"]
    bmc.machine.reset("ForceOff")
    bmc.reset = _refuses(bmc, refused)
    failed = site.run("pxe_boot", power="on", timeout=60.0)
    assert failed["failed"], failed
    armed = bmc.machine.override["enabled"] == "Once"
    told = "pxe_boot and target none for gpu001" in failed["msg"]
    assert armed is refused and told is refused, (failed, bmc.machine.override)


@pytest.mark.parametrize("shown", ["On", "ForceOff"])
@pytest.mark.parametrize("power", ["none", "on"])
def test_j8_a_machine_is_armed_only_where_it_may_be_powered_off(
    controller: Callable[..., Controller], power: str, shown: str
) -> None:
    """Whoever starts it next boots it from the network: of one that is off, its scheduler, for a job that waits."""
    site = controller()
    site.tells("gpu001", "state", "admitted")
    woken = {"state": "ALLOCATED+POWERING_UP"} if shown == "ForceOff" else {}
    site.node(**woken)
    site.bmcs["gpu001"].machine.reset(shown)
    refused = site.run("pxe_boot", power=power, timeout=60.0)
    assert refused["error"]["kind"] == "evidence_missing" and not site.switched(), refused
    site.node(state="IDLE")
    site.hold()
    done = site.run("pxe_boot", power=power, timeout=60.0)
    assert done["changed"] and done["evidence"].startswith("event:"), done


def test_j8_a_machine_that_is_armed_already_is_started_only_where_it_may_be_powered_off(
    controller: Callable[..., Controller],
) -> None:
    site = controller()
    machine = site.bmcs["gpu001"].machine
    machine.reset("ForceOff")
    machine.override.update(enabled="Once", target="Pxe")
    refused = site.run("pxe_boot", power="on", timeout=60.0)
    assert refused["error"]["kind"] == "evidence_missing" and machine.power == "Off", refused


def test_j8_a_machine_that_no_scheduler_knows_is_armed_as_it_is_restarted(
    controller: Callable[..., Controller],
) -> None:
    site = controller()
    site.hosts["gpu001"].update(gpufleet_scheduler="none")
    site.bmcs["gpu001"].machine.reset("ForceOff")
    assert site.run("scheduler_wait", until="drained", timeout=60.0)["not_ok"] == []
    done = site.run("pxe_boot", power="on", timeout=60.0)
    assert done.get("changed") and done["evidence"].startswith("event:"), done


def test_j8_no_task_gives_itself_leave_to_arm(controller: Callable[..., Controller]) -> None:
    site = controller()
    refused = site.run("pxe_boot", permitted=True, leave={"destroys": True}, timeout=60.0)
    assert refused["failed"] and refused["error"]["kind"] == "config" and not site.switched(), refused


def test_j8_nothing_is_taken_away_where_arming_was_refused(controller: Callable[..., Controller]) -> None:
    """What stands there is somebody's, and no failure of ours is to be mended."""
    site = controller()
    stands = {"enabled": "Once", "target": "Cd"}
    site.bmcs["gpu001"].machine.override.update(stands)
    assert site.run("pxe_boot", timeout=60.0)["error"]["kind"] == "evidence_missing"
    assert stands.items() <= site.bmcs["gpu001"].machine.override.items() and not site.switched()


def test_j8_who_disarms_in_vain_is_not_told_to_restart_the_machine(controller: Callable[..., Controller]) -> None:
    site = controller()
    bmc = site.bmcs["gpu001"]
    bmc.machine.override.update(enabled="Once", target="Pxe")
    bmc.faults["liar"] = True
    failed = site.run("pxe_boot", target="none", timeout=2.0)
    assert failed["error"]["kind"] == "not_proven" and "do not restart gpu001" in failed["msg"], failed
    assert "power restart" not in failed["msg"], failed


def test_j8_who_disarms_needs_no_proof_that_the_node_is_drained(controller: Callable[..., Controller]) -> None:
    site = controller()
    site.bmcs["gpu001"].machine.override.update(enabled="Once", target="Pxe")
    done = site.run("pxe_boot", target="none", timeout=60.0)
    assert (done["changed"], done["proof"], done["after"]["boot"]["enabled"]) == (True, "readback", "disabled"), done
    again = site.run("pxe_boot", target="none", timeout=60.0)
    assert (again["changed"], again["asked"]) == (False, []) and site.events("intent") == ["pxe_boot"]


def _refuses(bmc: FakeBmc, also_patches: bool) -> Callable[..., None]:
    def reset(name: str, body: object) -> None:
        if also_patches:
            bmc.faults["refuse"] = (400, "Base.1.8.GeneralError", "no")
        raise error(400, "Base.1.8.GeneralError", "no")

    return reset
