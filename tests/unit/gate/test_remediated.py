# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when a node's kernel log counts: the ledger knows when the node was last imaged."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.passed import Own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._gate import GateAction, seconds_ago


class Controller(GateAction):
    """The action without a task: its ledger is real."""

    NAME = "kernel_log_gate"
    LOADS = False

    def asked(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def lacking(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
        return ""

    def own(self, params: Mapping[str, Any], verdict: Mapping[str, Any]) -> Own:
        return Own({}, ())

    def __init__(self, ledger: Ledger) -> None:
        self._opened = ledger
        self.node = ledger.identify("gpu001", aliases=[("serial", "GF0001")])

    def ledger(self) -> Ledger:
        return self._opened

    def node_id(self, host: str = "", *, create: bool = True) -> str:
        return self.node

    def happened(self, ago: float, kind: str, name: str, data: dict[str, Any]) -> None:
        [number] = self._opened.append("run", [(self.node, Event(kind, name, data))])
        with self._opened.transaction() as conn:
            # What was written stays: only a test makes an event older, past the guard that keeps everybody else out.
            conn.exec_driver_sql("DROP TRIGGER IF EXISTS events_update")
            earlier = f"at = at - {float(ago)}, uptime = uptime - {float(ago)}"
            conn.exec_driver_sql(f"UPDATE events SET {earlier} WHERE id = {int(number)}")

    def seconds(self) -> float:
        found = self.remediated()
        assert found is not None
        return found


def deploy(before: str, after: str) -> dict[str, Any]:
    return {"changed": True, "before": {"state": before}, "after": {"state": after}}


@pytest.fixture
def controller(ledger: Ledger) -> Controller:
    return Controller(ledger)


def test_t1_a_node_that_was_never_imaged_is_judged_by_its_whole_boot(controller: Controller) -> None:
    controller.happened(10, "state", "validating", {})
    controller.happened(10, "outcome", "provisioner_node", deploy("deployed", "deployed"))
    assert controller.remediated() is None
    assert seconds_ago(None) == "boot"


@pytest.mark.parametrize(
    ("before", "after"), [("available", "deploying"), ("available", "deployed"), ("error", "deploying")]
)
def test_t1_a_deploy_begins_the_window(controller: Controller, before: str, after: str) -> None:
    controller.happened(500, "outcome", "provisioner_node", deploy(before, after))
    assert 499 < controller.seconds() < 560


@pytest.mark.parametrize(("before", "after"), [("deployed", "deployed"), ("deploying", "deployed")])
def test_t1_a_call_that_found_a_deploy_begins_none(controller: Controller, before: str, after: str) -> None:
    """A note on a deployed node, or its maintenance lifted, would hide what the kernel logged until then."""
    controller.happened(5000, "state", "imaging", {})
    controller.happened(5, "outcome", "provisioner_node", deploy(before, after))
    assert controller.seconds() > 4999


@pytest.mark.parametrize("order", [(5000, 50), (50, 5000)])
def test_t1_of_state_and_deploy_the_newer_one_counts(controller: Controller, order: tuple[float, float]) -> None:
    state, begun = ("state", "imaging", {}), ("outcome", "provisioner_node", deploy("available", "deploying"))
    for ago, event in sorted(zip(order, (state, begun)), key=lambda one: one[0], reverse=True):
        controller.happened(ago, *event)
    assert 49 < controller.seconds() < 110


def test_v8_on_its_boot_a_controller_knows_how_long_ago_the_imaging_was_whatever_its_clock_says(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back by less than has passed, and with no event between, the clock alone would tell of nothing."""
    real = time.time
    controller.happened(5000, "state", "imaging", {})
    monkeypatch.setattr(time, "time", lambda: real() - 4000.0)
    assert 4999 < controller.seconds() < 5060
    monkeypatch.setattr(time, "time", lambda: real() - 90000.0)
    controller.happened(0, "note", "x", {})
    assert 4999 < controller.seconds() < 5060


def test_v8_a_controller_that_was_stopped_from_outside_goes_by_its_clock(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was saved and restored is up for as long as it ran; one that was put back to an earlier moment has
    never run for so long."""
    real, up = time.time, time.clock_gettime
    controller.happened(600, "state", "imaging", {})
    monkeypatch.setattr(time, "time", lambda: real() + 3 * 86400)
    assert controller.seconds() > 3 * 86400
    monkeypatch.setattr(time, "clock_gettime", lambda clock: up(clock) - 9000.0)
    assert controller.remediated() is None


@pytest.fixture
def rebooted(controller: Controller) -> Controller:
    """What it writes was written before its last boot."""
    with controller.ledger().transaction() as conn:
        conn.exec_driver_sql(
            "CREATE TRIGGER events_before AFTER INSERT ON events BEGIN"
            " UPDATE events SET boot = 'an earlier one' WHERE id = new.id; END"
        )
        conn.exec_driver_sql("DROP TRIGGER events_update")
    return controller


def test_v8_after_the_ledgers_clock_was_set_back_nobody_knows_how_long_ago_the_imaging_was(
    rebooted: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the window of the kernel log would be the five seconds that a clock may be wrong."""
    real = time.time
    rebooted.happened(0, "state", "imaging", {})
    assert rebooted.seconds() < 60
    monkeypatch.setattr(time, "time", lambda: real() - 600.0)
    assert rebooted.remediated() is None
    rebooted.happened(0, "note", "x", {})
    assert rebooted.remediated() is None
    # Much later the clock is past the imaging again, and still shows less than has passed.
    monkeypatch.setattr(time, "time", lambda: real() + 100.0)
    assert rebooted.remediated() is None
    rebooted.happened(0, "state", "imaging", {})
    assert rebooted.seconds() < 60


def test_v8_a_clock_that_was_set_back_to_a_time_after_the_imaging_tells_its_age_no_more(
    rebooted: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    rebooted.happened(5000, "state", "imaging", {})
    rebooted.happened(0, "note", "x", {})
    assert rebooted.seconds() > 4999
    monkeypatch.setattr(time, "time", lambda: real() - 4000.0)
    assert rebooted.remediated() is None
    rebooted.happened(0, "note", "x", {})
    monkeypatch.setattr(time, "time", real)
    assert rebooted.remediated() is None
