# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""R: a preflight holds each record against its row as the run will, and tells what the run would refuse in its words.

Beside the provisioners of this folder, which are started already; what else a preflight tells of them is asked in
tests/contract/preflight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_services as services
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import ONE_NODE, SERVICE, Cause
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight import Batch
from calls import await_all, lead
from contract.proxy import DROP

pytestmark = pytest.mark.slow


def told(*rows: dict[str, Any]) -> dict[str, list[Cause]]:
    """What a look at the provisioner finds of hosts with these options."""
    variables = {
        row["host"]: {
            **{f"gpufleet_{key}": value for key, value in row.items()},
            "enroll_driver": row["driver"],
        }
        for row in rows
    }
    batch = Batch(list(variables), lambda name, host: variables[host].get(name), lambda host: variables[host].keys(), 4)
    services.provisioner(batch)
    return batch.found


def by_its_ports(shipped: Any, neighbour: dict[str, Any]) -> None:
    """Nothing but the cards of its record says which machine the neighbour is."""
    shipped.forget_serial(neighbour["name"])


def by_its_serial(shipped: Any, neighbour: dict[str, Any]) -> None:
    """Nothing but what was found of its board does."""
    shipped.forget_serial(neighbour["name"])
    shipped.other_serial(neighbour["name"], neighbour["serial"])


@pytest.mark.parametrize("known", [by_its_ports, by_its_serial])
def test_r_a_wrong_id_is_told_before_the_run_as_the_run_tells_it(
    shipped: Any, known: Callable[[Any, dict[str, Any]], None]
) -> None:
    """It names another machine's record. The neighbour's own row is sound, and so is that of one who is new there."""
    neighbour, one = shipped.new(), shipped.new()
    lead(neighbour, "enrolled")
    known(shipped, neighbour)
    wrong = {**one, "provisioner_id": neighbour["name"]}
    with pytest.raises(WrongMachine) as refused:
        lead(wrong, "ready")
    shipped.faults.forget()
    hosts = {"gpu001": wrong, "gpu002": neighbour, "gpu003": shipped.new()}
    found = told(*({**row, "host": host, "provisioner_id": row.get("provisioner_id") or row["name"]}
                   for host, row in hosts.items()))  # fmt: skip
    assert not found["gpu002"] and not found["gpu003"], found
    [cause] = found["gpu001"]
    run = refused.value
    assert (cause.kind, cause.what, cause.do) == (ONE_NODE, run.what, run.do)
    assert (cause.wanted, cause.seen) == (run.wanted, run.seen)
    assert not shipped.faults.writes, "a look writes nothing"


def test_r_an_id_that_nobody_has_beside_a_card_that_somebody_has_is_told_before_the_run(shipped: Any) -> None:
    """Of MAAS's machines that are New one may be found by its card; here it has an owner, or is past that."""
    owner = shipped.new()
    lead(owner, "ready")
    assert await_all(shipped, "ready", owner)["verdicts"][owner["name"]]["ok"]
    row = {**owner, "host": "gpu001", "provisioner_id": "of-nobody"}
    with pytest.raises(WrongMachine) as refused:
        lead({**owner, "provisioner_id": "of-nobody"}, "ready")
    [cause] = told(row)["gpu001"]
    assert (cause.kind, cause.what, cause.do) == (ONE_NODE, refused.value.what, refused.value.do)


def requests(provisioner: Any, *, known: int, hosts: int) -> int:
    """How often it is asked for so many hosts, some of which it knows."""
    rows = [{**provisioner.new(), "host": f"gpu{number:03}"} for number in range(1, hosts + 1)]
    for row in rows[:known]:
        lead({key: value for key, value in row.items() if key != "host"}, "enrolled")
    provisioner.faults.forget()
    found = told(*({**row, "provisioner_id": row["name"]} for row in rows))
    assert not any(found.values()), found
    return len(provisioner.faults.calls)


def test_u2_fifty_hosts_cost_a_provisioner_no_more_requests_than_two(shipped: Any) -> None:
    """Also what it is asked of a record that it has, and of a card that none has."""
    assert requests(shipped, known=4, hosts=50) == requests(shipped, known=1, hosts=2)


@pytest.mark.parametrize("site", ["xcat_site", "bcm_site"])
def test_u2_fifty_hosts_cost_no_more_commands_than_two(request: pytest.FixtureRequest, site: str) -> None:
    provisioner = request.getfixturevalue(site)
    assert requests(provisioner, known=3, hosts=50) == requests(provisioner, known=1, hosts=2)


def test_c7_a_provisioner_that_goes_away_in_the_middle_is_waited_for_once(shipped: Any) -> None:
    """What was to be asked next is asked of nobody."""
    rows = [{**shipped.new(), "host": f"gpu{number:03}"} for number in range(1, 6)]
    lead({key: value for key, value in rows[0].items() if key != "host"}, "enrolled")
    shipped.faults.forget()
    shipped.proxy.fault = lambda asked: DROP if len(shipped.proxy.asked) > 1 else None
    found = told(*({**row, "provisioner_id": row["name"]} for row in rows))
    assert [[cause.kind for cause in set(causes)] for causes in found.values()] == [[SERVICE]] * 5, found
    assert len({cause for causes in found.values() for cause in causes}) == 1, "one line for all of them"
    assert len({(asked.path, asked.query) for asked in shipped.proxy.asked}) == 2, "it was asked for nothing else"


def test_r3_a_record_is_held_against_the_serial_that_only_the_bmc_tells_by_day_0_and_not_before(
    ironic_site: Any,
) -> None:
    """It was made by hand with the BMC's name, and an inspection has found the serial; the row has its address."""
    site = ironic_site
    mine = site.new()
    about = {"redfish_address": "https://gpu001-bmc.example", "redfish_system_id": "/redfish/v1/Systems/1"}
    made = {"name": mine["name"], "driver": "fake-hardware", "deploy_interface": "fake", "driver_info": about}
    site.ask("POST", "/nodes", {**made, "extra": {"gpufleet_serial": mine["serial"]}})
    row = {name: value for name, value in mine.items() if name not in ("serial", "boot_mac")}
    row["provisioner_id"] = site.ask("GET", f"/nodes/{mine['name']}")["uuid"]
    assert told({**row, "host": mine["name"]}) == {mine["name"]: []}
    assert not lead({**row, "serial": mine["serial"]}, "enrolled", check=True)["undeployable"]
    [cause] = told({**row, "host": mine["name"], "serial": "ANOTHER1"})[mine["name"]]
    assert "ANOTHER1" in f"{cause.wanted} {cause.seen}", cause
