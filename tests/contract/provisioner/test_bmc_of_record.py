# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By its BMC a record switches a machine: a row that names another BMC moves it to another machine."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import WrongMachine
from calls import Line, deployed, lead

REDFISH = {"driver": {"driver": "redfish"}}


def test_what_serves_keeps_the_bmc_of_its_record_until_a_person_insists(site: Any) -> None:
    """Its release, or anybody's switch, would reach another machine."""
    options = deployed(site)
    moved = site.new_password({**options, "bmc_address": site.moved_bmc(options)["bmc_address"]}, "rotated-Pa55")
    told = lead(moved, "enrolled")
    assert not told["changed"] and site.faults.writes == [], (told["before"], told["after"])
    if site.keeps_bmc and not site.real:  # fake hardware has none
        assert told["deferred"] == (["bmc_address"] if site.driver.bmc_at_hand and not site.own_driver else [])
        line = Line()
        assert lead(moved, "enrolled", update_password="always", line=line)["changed"] and line.writes


def test_an_ironic_node_at_work_keeps_the_bmc_of_its_record(ironic_site: Any) -> None:
    site = ironic_site
    options = {**site.new(), **REDFISH}
    lead(options, "enrolled")
    site.set_state(options["name"], "active", None)
    site.faults.forget()
    keys = ("redfish_address", "ilo_address", "client_port", "irmc_address", "snmp_outlet", "drac_address")
    for moved, key in product((site.moved_bmc(options), options), keys):
        moved = {**moved, "driver": {"driver": "redfish", "driver_info": {key: "https://10.66.0.9"}}}
        assert not lead(moved, "enrolled")["changed"] and site.faults.writes == []
    assert lead({**options, "bmc_address": "https://10.66.0.9"}, "enrolled", update_password="always")["changed"]


def test_a_warewulf_node_at_work_keeps_the_bmc_of_its_record(warewulf_site: Any) -> None:
    options = deployed(warewulf_site)
    moved = {**options, "driver": {"ipmi": {"ipaddr": "10.66.0.9", "login": True}, "password_in_overlays": True}}
    assert not lead(moved, "enrolled")["changed"] and warewulf_site.faults.writes == []
    assert lead(moved, "enrolled", update_password="always")["changed"]


@pytest.mark.parametrize("kind", ["ironic_site", "maas_site"])
def test_no_record_is_given_the_bmc_of_another_one(kind: str, request: pytest.FixtureRequest) -> None:
    site = request.getfixturevalue(kind)
    more = REDFISH if kind == "ironic_site" else {}
    first, other, new = ({**site.new(), **more} for _number in range(3))
    lead(first, "enrolled")
    lead(other, "enrolled")
    site.faults.forget()
    for options in (other, new):
        for system in ("", "/redfish/v1/Systems/2"):
            for check in (True, False):
                with pytest.raises(WrongMachine, match="its BMC belongs to another record"):
                    lead(
                        {**options, "bmc_address": first["bmc_address"], "bmc_system_id": system},
                        "enrolled",
                        check=check,
                        update_password="always",
                    )
    assert site.faults.writes == []
    one = {**first, "bmc_system_id": "1"}
    lead(one, "enrolled")
    behind = {**other, "bmc_address": first["bmc_address"], "bmc_system_id": "2"}
    assert lead(behind, "enrolled")["changed"], "two systems behind one address"
