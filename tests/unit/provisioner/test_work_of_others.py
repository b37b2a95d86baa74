# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work goes on, or failed, on a machine that is deployed: whose that deployment is, its node is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotAdopted, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import guard
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import tables as of_ironic
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.driver import IronicDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import tables as of_maas
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas.driver import MaasDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

STAMP, NUMBERS = "1/2", {name: number for number, (name, _state) in of_maas.NUMBERS.items()}
IRONIC, MAAS = sorted(of_ironic.CARRYING), sorted(of_maas.CARRYING)


def _ironic(native: str, deploy_id: str = "", stamp: str = STAMP) -> tuple[Driver, NodeState]:
    driver = IronicDriver({"provisioner_url": "http://127.0.0.1:9"}, Context())
    info = {record._INSTANCE_DEPLOY: deploy_id} if deploy_id else {}
    raw = {"uuid": "u1", "name": "n1", "provision_state": native, "provision_updated_at": stamp, "instance_info": info}
    return driver, driver.state_of(raw)


def _maas(native: str, deploy_id: str = "", stamp: str = STAMP, system: str = "ubuntu") -> tuple[Driver, NodeState]:
    connection = {"provisioner_url": "http://127.0.0.1:9/MAAS", "provisioner_api_key": "a:b:c"}
    driver = MaasDriver({**connection, "driver": {"owners": ["admin"]}}, Context())
    looked, installed = stamp.split("/")
    raw = {
        "system_id": "abc347",
        "hostname": "n1",
        "status": NUMBERS[native],
        "owner": "admin",
        "osystem": system,
        "current_commissioning_result_id": looked,
        "current_installation_result_id": installed,
        "workload_annotations": {"gpufleet-deploy-id": deploy_id} if deploy_id else {},
    }
    return driver, driver._state(raw)


At = Callable[..., tuple[Driver, NodeState]]
CASES = [*((_ironic, native) for native in IRONIC), *((_maas, native) for native in MAAS)]


def _wanted(*, deployed: bool, ids: tuple[str, ...] = (), stamps: tuple[str, ...] = (), works: Any = ()) -> Wanted:
    known = {"deploy_ids": frozenset(ids), "stamps": frozenset(stamps), "works": frozenset(works)}
    return Wanted(host="n1", runs=frozenset(), deployed=deployed, **known)


@pytest.mark.parametrize(("at", "native"), CASES)
def test_j7_work_on_what_somebody_else_deployed_is_theirs(at: At, native: str) -> None:
    with pytest.raises(NotOurs if native == "Failed testing" else NotAdopted):
        guard.leave_foreign_alone(*at(native), _wanted(deployed=False))
    for told in ("", "d9"):
        with pytest.raises(NotOurs, match="since we did"):
            guard.leave_foreign_alone(*at(native, told), _wanted(deployed=True, ids=("d1",)))


@pytest.mark.parametrize("native", ["Testing", "Failed testing"])
def test_j7_a_machine_under_test_is_whoevers_deployment_it_has(native: str) -> None:
    """MAAS tests what is deployed, and goes back to that; no list of states of ours says so here."""
    ours = _wanted(deployed=True, ids=("d1",))
    for theirs, wanted in (("", _wanted(deployed=False)), ("d9", _wanted(deployed=False)), ("", ours), ("d9", ours)):
        with pytest.raises(NotOurs):
            guard.leave_foreign_alone(*_maas(native, theirs), wanted)
    guard.leave_foreign_alone(*_maas(native, "d1"), ours)
    guard.leave_foreign_alone(*_maas(native, system=""), _wanted(deployed=False))


@pytest.mark.parametrize(("at", "native"), CASES)
def test_j7_work_on_what_we_deployed_or_adopted_is_gone_on_with(at: At, native: str) -> None:
    guard.leave_foreign_alone(*at(native, "d1"), _wanted(deployed=True, ids=("d1",)))
    guard.leave_foreign_alone(*at(native), _wanted(deployed=True, stamps=(STAMP,)))


def test_j7_what_was_adopted_and_is_at_work_is_another_deployment_where_its_provisioner_tells_that() -> None:
    """Ironic dates a rescue as it does a deployment, MAAS a deployment alone."""
    ours = _wanted(deployed=True, stamps=(STAMP,), works=("rescued",))
    guard.leave_foreign_alone(*_ironic("rescue", stamp="3/4"), ours)
    for driver, node in (_ironic("rescue", "d9", "3/4"), _maas("Rescue mode", stamp="3/4")):
        with pytest.raises(NotOurs, match="since we did"):
            guard.leave_foreign_alone(driver, node, ours)


@pytest.mark.parametrize("native", IRONIC)
def test_j7_work_of_somebody_else_on_what_was_adopted_is_theirs(native: str) -> None:
    """A person has it in rescue, with their hands inside: nothing of ours ends that."""
    its_own = of_ironic.LED_TO_BY[native]
    for works in ((), tuple({"rescued", "unrescued", "serviced"} - {its_own})):
        with pytest.raises(NotOurs, match="since we did"):
            guard.leave_foreign_alone(
                *_ironic(native, stamp="3/4"), _wanted(deployed=True, stamps=(STAMP,), works=works)
            )
    guard.leave_foreign_alone(*_ironic(native, stamp="3/4"), _wanted(deployed=True, stamps=(STAMP,), works=(its_own,)))


def test_a_machine_that_was_rescued_with_nothing_on_it_needs_no_note() -> None:
    for native in MAAS:
        driver, node = _maas(native, system="")
        guard.leave_foreign_alone(driver, node, _wanted(deployed=False))
    assert (
        driver.next_step(_maas("Rescue mode", system="")[1], "unrescued", _wanted(deployed=False)) == of_maas.UNRESCUE
    )


def test_the_states_that_keep_a_deployment_are_those_of_work_on_one() -> None:
    for driver in (IronicDriver, MaasDriver):
        assert driver.carrying <= set(driver.states_map)
        assert not {native for native in driver.carrying if driver.states_map[native] in ("deployed", "deploying")}
    assert {*range(16, 23)} == {NUMBERS[native] for native in MAAS}, "rescues and tests, and what came of them"
    assert set(IRONIC) == {native for native in of_ironic.STATES if native.startswith(("resc", "unresc", "servic"))}
