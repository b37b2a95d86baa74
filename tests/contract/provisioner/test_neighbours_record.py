# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row that finds its neighbour's record by a mistyped id: what we wrote there would be the proof that it is ours."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    FleetError,
    WrongMachine,
)
from calls import await_all, deployed, lead, ready


@pytest.mark.parametrize("state", ["enrolled", "ready", "deployed"])
def test_r3_nothing_of_ours_is_written_into_a_record_that_says_which_machine_it_is(site: Any, state: str) -> None:
    """It has a port and a BMC, and none of them is the row's; it lacks a serial, so nothing contradicts."""
    theirs = ready(site)
    site.forget_serial(theirs["name"])
    row = {name: value for name, value in site.new().items() if name != "boot_mac"}
    row["provisioner_id"] = theirs["name"]
    site.faults.forget()
    deployed = {"image": site.image(), "deploy_id": "7"} if state == "deployed" else {}
    with pytest.raises(EvidenceMissing, match="nothing shows that this record") as refused:
        lead(row, state, **deployed)
    assert not site.faults.writes and "correct gpufleet_provisioner_id" in refused.value.do


def test_r3_a_look_tells_that_nothing_would_be_written_into_it(site: Any) -> None:
    """Before the node is held and drained for that: as oob_ready looks, and day 0 with --check."""
    theirs = ready(site)
    site.forget_serial(theirs["name"])
    row = {name: value for name, value in site.new().items() if name != "boot_mac"}
    row["provisioner_id"] = theirs["name"]
    told = lead(row, "enrolled", check=True)["undeployable"]
    assert told["kind"] == "evidence_missing" and "nothing shows that this record" in told["reason"], told
    assert not lead({**theirs, "provisioner_id": theirs["name"]}, "enrolled", check=True)["undeployable"]


def test_r3_a_record_that_has_the_rows_boot_port_is_made_right(site: Any) -> None:
    """As whoever enrolled it by hand left it: found by its name, and known by its port."""
    ours = ready(site)
    site.forget_serial(ours["name"])
    lead({**ours, "provisioner_id": ours["name"]}, "ready")
    await_all(site, "ready", ours)


def test_r3_one_system_of_a_chassis_is_not_written_over_by_its_neighbours_row(ironic_site: Any) -> None:
    """Both have one BMC address; the record names its system there, and the row names none."""
    site = ironic_site
    mine, theirs = site.new(), site.new()
    about = {"redfish_address": mine["bmc_address"], "redfish_system_id": "/redfish/v1/Systems/2"}
    there = {"name": theirs["name"], "driver": "fake-hardware", "deploy_interface": "fake", "driver_info": about}
    site.ask("POST", "/nodes", there)
    site.proxy.forget()
    row = {**mine, "provisioner_id": site.ask("GET", f"/nodes/{theirs['name']}")["uuid"]}
    with pytest.raises(EvidenceMissing, match="nothing shows that this record") as refused:
        lead(row, "ready")
    assert not site.proxy.writes and "gpufleet_bmc_system_id: 2" in refused.value.do


#: Those of hardware types that the collection's own rows are not written for, as Ironic has or had them.
OTHER_BMCS = ("redfish_address", "ipmi_address", "ilo_address", "irmc_address", "drac_address", "snmp_address")


@pytest.mark.parametrize("key", OTHER_BMCS)
@pytest.mark.parametrize("state", ["enrolled", "ready", "deployed"])
def test_r3_a_record_that_has_a_bmc_of_any_hardware_type_says_which_machine_it_is(
    ironic_site: Any, key: str, state: str
) -> None:
    """It has no port and no serial, and the row names its UUID by mistake."""
    site = ironic_site
    mine, theirs = site.new(), site.new()
    there = {"name": theirs["name"], "driver": "fake-hardware", "deploy_interface": "fake"}
    site.ask("POST", "/nodes", {**there, "driver_info": {key: "10.66.0.9"}})
    site.proxy.forget()
    row = {name: value for name, value in mine.items() if name != "boot_mac"}
    row["provisioner_id"] = site.ask("GET", f"/nodes/{theirs['name']}")["uuid"]
    image = {"image": site.image(), "deploy_id": "7"} if state == "deployed" else {}
    with pytest.raises(EvidenceMissing, match="nothing shows that this record") as refused:
        lead(row, state, **image)
    assert not site.proxy.writes and "10.66.0.9" in str(refused.value)
    assert lead({**row, "bmc_address": "https://10.66.0.9"}, "enrolled")["changed"], "as the record spells it"


@pytest.mark.parametrize("key", OTHER_BMCS[:-1])
def test_r3_a_bmc_of_another_hardware_types_record_is_given_to_no_other(ironic_site: Any, key: str) -> None:
    site = ironic_site
    mine, theirs = site.new(), site.new()
    about = {key: mine["bmc_address"].partition("://")[2]}
    site.ask("POST", "/nodes", {"name": theirs["name"], "driver": "fake-hardware", "driver_info": about})
    site.proxy.forget()
    with pytest.raises(WrongMachine, match="its BMC belongs to another record"):
        lead({**mine, "driver": {"driver": "redfish"}}, "enrolled")
    assert not site.proxy.writes


def test_r3_a_record_that_was_defined_before_its_machine_came_is_made_right_by_the_name_of_its_bmc(
    xcat_site: Any,
) -> None:
    """By hand, with the BMC's name, and no card discovered yet: the message says how the row is to spell it."""
    site = xcat_site
    mine = site.new()
    bmc = f"{mine['name']}-bmc"
    site.management.nodes[mine["name"]] = {"groups": "all", "mgt": "ipmi", "bmc": bmc}
    row = {**mine, "bmc_address": "https://10.1.0.7"}
    with pytest.raises(EvidenceMissing, match="nothing shows that this record") as refused:
        lead(row, "ready")
    assert f"spell gpufleet_bmc_address as there, if {bmc} is it" in refused.value.do
    lead({**row, "bmc_address": f"https://{bmc}"}, "ready")
    await_all(site, "ready", {**row, "bmc_address": f"https://{bmc}"})


@pytest.mark.parametrize("more", ["?fields=%s", "?fields=%s#", "/?fields=%s"])
def test_r3_an_id_that_asks_for_a_part_of_a_record_hides_nothing_of_it(ironic_site: Any, more: str) -> None:
    """Whose node it is stands in the part that was not asked for."""
    site = ironic_site
    theirs = deployed(site)
    site.owned_by_somebody(theirs["name"])
    site.proxy.forget()
    part = "uuid,name,provision_state,provision_updated_at,extra,instance_info,driver_info"
    row = {**theirs, "provisioner_id": theirs["name"] + more % part}
    for state in ("released", "ready", "maintenance"):
        with pytest.raises(FleetError):
            lead(row, state)
    assert site.proxy.writes == [] and site.native(theirs["name"]) == "active"
