# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that a provisioner does with a machine: its tables, its orders, and what is believed of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    NotProven,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names, registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import (
    DONE,
    STOP,
    WAIT,
    resolve_cell,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic import tables, work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.maas import marks
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from unit.provisioner.memory import Memory, at

assert set(names.WORKS) < set(names.STATES) and set(names.UNTIL) == {*names.GOALS, names.SETTLED}
WORKERS = sorted(name for name, driver in registry.DRIVERS.items() if driver.works)
STEP = {"interface": "firmware", "step": "update", "args": {"password": "hunter2x"}}


@pytest.mark.parametrize("name", WORKERS)
def test_every_row_of_work_is_known_ends_and_is_told_as_what_it_is(name: str) -> None:
    driver = registry.DRIVERS[name]
    assert set(driver.works) <= set(names.WORKS)
    assert driver.busy | driver.settled <= set(driver.states_map) and not driver.busy & driver.settled
    for row in driver.works.values():
        assert set(row) <= set(driver.states_map)
        for native, cell in row.items():
            for holds in (True, False):
                step = resolve_cell(cell, lambda holds=holds: {"cleaned_by_hand": holds})
                ends = driver.settled if step == "abort" else driver.busy
                assert step in (DONE, WAIT, STOP) or driver.leads_to[step] in ends
                assert (step == WAIT) <= (native in driver.busy), "what is waited for is under way"
    waited = {native for row in driver.steps.values() for native, cell in row.items() if cell == WAIT}
    assert waited <= driver.busy, "whatever is waited for anywhere"


class Worker(Memory):
    """One that may take an order and do nothing."""

    works: ClassVar[Any] = {"cleaned": {"new": "clean", "going": WAIT}, "rescued": {"odd": DONE}}
    leads_to: ClassVar[Mapping[str, str]] = {"clean": "going"}
    destructive = frozenset({"clean"})
    busy = frozenset({"going"})
    settled = frozenset({"new", "active"})
    idle: ClassVar[bool] = False

    def start(self, step: str, one: c.NodeState, wanted: Wanted) -> None:
        super().start(step, one, wanted)
        Worker.found = one if self.idle else at("going")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> type[Worker]:
    monkeypatch.setitem(registry.DRIVERS, Worker.name, Worker)
    Worker.idle, Worker.found = False, at("new")
    return Worker


def _led(state: str) -> dict[str, Any]:
    ctx = Context(node="n1")
    params = {"provisioner": "memory", "name": "n1", "serial": "S1", "state": state, "known_runs": [], "run_id": "r2"}
    return node(params, ctx).as_dict(ctx)


def test_work_is_begun_once_and_then_found_under_way(worker: Any) -> None:
    begun = _led("cleaned")
    assert begun["changed"] and begun["pending"] and begun["step"] == "clean" and worker.sent == ["n1"]
    found = _led("cleaned")
    assert found["pending"] and not found["changed"] and worker.sent == ["n1"]


def test_an_order_that_leads_to_nothing_is_not_told_as_begun(worker: Any) -> None:
    worker.idle = True
    with pytest.raises(NotProven, match="shows nothing of it"):
        _led("cleaned")


def test_what_it_does_not_do_is_asked_of_nobody(worker: Any) -> None:
    worker.found = None
    with pytest.raises(Unsupported, match="state tested"):
        _led("tested")


@pytest.mark.parametrize(
    ("native", "step"), [("new", DONE), ("going", WAIT), ("bad", STOP), ("cold", STOP), ("odd", STOP), ("active", DONE)]
)
def test_settled_is_what_is_named_so_and_whatever_else_needs_a_person(worker: Any, native: str, step: str) -> None:
    assert worker({}, Context()).next_step(at(native), names.SETTLED, None) == step


@pytest.mark.parametrize(
    ("name", "native", "step"),
    [
        *(
            ("maas", native, STOP)
            for native in ("Missing", "Reserved", "Retired", "Broken", "Failed testing", "status 23")
        ),
        *(("maas", native, DONE) for native in ("New", "Ready", "Deployed", "Allocated", "Rescue mode")),
        *(
            ("ironic", native, STOP)
            for native in ("deploy hold", "clean hold", "service hold", "adopt failed", "unheard of")
        ),
        *(("ironic", native, DONE) for native in ("enroll", "manageable", "available", "active", "rescue")),
    ],
)
def test_what_is_broken_gone_or_unheard_of_is_no_end_of_work(name: str, native: str, step: str) -> None:
    driver = registry.DRIVERS[name]
    one = c.NodeState(id="x", name="x", native=native, state=driver.states_map.get(native, c.OTHER))
    made = driver({"provisioner_url": "http://127.0.0.1:9", "provisioner_api_key": "a:b:c"}, Context())
    assert made.next_step(one, names.SETTLED, None) == step


def _wanted(**extras: Any) -> Wanted:
    return Wanted(host="n1", extras=extras, rescue_password="R3scue-Passw0rd")


def test_an_order_to_ironic_takes_steps_or_a_runbook_and_shows_neither_their_arguments() -> None:
    body, version = work.order(tables.CLEAN, _wanted(clean_steps=[STEP]))
    assert body == {"clean_steps": [STEP]} and version == tables.MICROVERSION
    assert work.told(body) == ["clean_steps=firmware.update"]
    assert work.order(tables.SERVICE, _wanted(service_steps=[STEP]))[1] == tables.SERVICE_VERSION
    assert work.order(tables.SERVICE, _wanted(runbook="CUSTOM_B")) == ({"runbook": "CUSTOM_B"}, tables.RUNBOOK_VERSION)
    assert work.told({"rescue_password": "R3scue-Passw0rd"}) == ["rescue_password"]
    assert work.order(tables.UNRESCUE, _wanted()) == ({}, tables.MICROVERSION)
    for extras in ({}, {"clean_steps": [STEP], "runbook": "x"}, {"clean_steps": ["x"]}, {"clean_steps": [{}]}):
        with pytest.raises(ConfigError):
            work.order(tables.CLEAN, _wanted(**extras))


def test_steps_of_a_deployment_that_write_the_image_are_other_bytes() -> None:
    steps = [STEP, {"interface": "deploy", "step": "inject_files"}]
    assert "inject_files" in work.writes_an_image({"deploy_steps": steps})
    assert work.writes_an_image({"deploy_steps": [STEP]}) == work.writes_an_image({}) == ""


def test_marks_of_maas() -> None:
    assert marks.lacking({"tags": ["b", "a"]}, ["b", "c"]) == ["a"]
    assert marks.not_given({"tag_names": ["a"]}, ["a"]) is None
    assert isinstance(marks.not_given({"tag_names": ["a"]}, ["a", "b"]), NotProven)
    assert isinstance(marks.not_erasable({"is_dpu": True}), Unsupported)
    assert marks.not_erasable({"is_dpu": False}) is None and marks.not_erasable({}) is None
    assert marks.kernel({"is_dpu": True}, {}) == {"min_hwe_kernel": "hwe-22.04"} and marks.kernel({}, {}) == {}
    assert marks.kernel({"is_dpu": True}, {"min_hwe_kernel": "hwe-24.04"}) == {}
    assert marks.kernel({"min_hwe_kernel": "ga-24.04"}, {}) == {"min_hwe_kernel": "ga-24.04"}
    for name, taken in (("ga-22.04", False), ("hwe-20.04", False), ("hwe-22.04-edge", True), ("ga-24.04", True)):
        given = {"is_dpu": True, "min_hwe_kernel": name}
        assert (marks.no_dpu(given, "arm64/generic") is None) == taken
    assert isinstance(marks.without_power("gpu001", "off", "maas"), Refused)
    assert isinstance(marks.without_power("gpu001", None, "maas"), Refused)
    assert marks.without_power("gpu001", "on", "maas") is None
    card = {"is_dpu": True, "hostname": "gpu001-dpu", "system_id": "abc3"}
    assert isinstance(marks.undeclared(card, {}), ConfigError)
    assert marks.undeclared(card, {"is_dpu": True}) is None and marks.undeclared({}, {}) is None
    assert marks.as_dpu({"is_dpu": "false"}) == [] and marks.as_dpu({"is_dpu": True}) == [("is_dpu", "true")]
