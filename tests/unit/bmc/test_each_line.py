# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power that flickers, drops off or lies: what is believed, and what is asked leave for."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import power as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import settle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import Recognised
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    DeadlineExceeded,
    Refused,
    Unreachable,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same waits, in shorter steps."""
    monkeypatch.setattr(settle, "PACE", ((float("inf"), 0.01),))
    monkeypatch.setattr(verb, "_RESET_PACE", 0.01)
    monkeypatch.setattr(verb, "_REFUSED_SECONDS", 0.1)


class Machine(c.Power):
    """Shows one state after another, the last one from then on. ``after``: what a request makes of what is to come."""

    address = "https://bmc"

    def __init__(self, *states: Any, after: dict[str, list[Any]] | None = None, marker: Any = ("",)) -> None:
        self.states = list(states)
        self.after = after or {}
        self.markers = list(marker)
        self.sent: list[tuple[str, bool]] = []

    def state(self) -> str:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return str(state)

    def set(self, kind: str, *, destructive: bool) -> str:
        self.sent.append((kind, destructive))
        coming = self.after.get(kind, [])
        if coming and isinstance(coming[0], (Refused, Unsupported)):
            problem, *rest = coming
            self.states = rest or self.states
            raise problem
        self.states = list(coming) or self.states
        return c.SENT

    def offer(self) -> tuple[str, ...] | None:
        return None

    def restart_marker(self) -> str:
        return str(self.markers.pop(0) if len(self.markers) > 1 else self.markers[0])


def settled(*states: Any, timeout: float = 0.3) -> str:
    return settle.settled(Machine(*states), Context(), (c.ON,), timeout=timeout)


@pytest.mark.parametrize(
    "states",
    [
        (c.ON, c.OFF),
        (c.ON, c.OFF, c.ON, c.OFF),
        (c.ON, c.CHANGING, c.ON, c.CHANGING),
        (c.OFF, c.OFF),
        (c.ON, Unreachable("gone"), c.ON, Unreachable("gone")),
    ],
)
def test_t1_a_state_that_does_not_stay_is_not_reached(states: tuple[Any, ...]) -> None:
    with pytest.raises(DeadlineExceeded):
        settled(*states, timeout=0.1)


@pytest.mark.parametrize(
    "states", [(c.ON,), (c.OFF, c.ON), (c.ON, c.OFF, c.ON, c.ON), (Unreachable("gone"), Unreachable("gone"), c.ON)]
)
def test_t1_a_state_that_stays_is_reached_whatever_came_before(states: tuple[Any, ...]) -> None:
    assert settled(*states, timeout=20) == c.ON


class Named(c.Identify):
    address = "memory://"

    def identity(self) -> c.Identity:
        return c.Identity(serial="S1")


class One(c.Bmc):
    protocol = "memory"
    address = "memory://"

    def __init__(self, machine: Machine) -> None:
        self.has = (machine, Named())

    def close(self) -> None:
        pass


def change(machine: Machine, state: str, *, timeout: float = 20, graceful: float = 0.1) -> verb.PowerSteps:
    steps = verb.PowerSteps(machine, Context(), Recognised(One(machine), {"serial": "S1"}, Context()), timeout=timeout)
    steps.state()
    verb._PLANS[state](steps, graceful)
    return steps


@pytest.mark.parametrize(
    ("shown", "state", "sent"),
    [
        (c.ON, "force_off", [(c.FORCE_OFF, True)]),
        (c.ON, "off", [(c.GRACEFUL_OFF, True)]),
        (c.OFF, "on", [(c.POWER_ON, False)]),
        (c.ON, "cycle", [(c.FORCE_OFF, True), (c.POWER_ON, False)]),
        (c.OFF, "cycle", [(c.POWER_ON, False)]),
        (c.OFF, "force_off", []),
        (c.OFF, "off", []),
        (c.OFF, "graceful", []),
        (c.ON, "on", []),
    ],
)
def test_t1_what_may_hit_running_work_is_announced_and_what_is_so_already_is_not_sent(
    shown: str, state: str, sent: list[tuple[str, bool]]
) -> None:
    after = {c.FORCE_OFF: [c.OFF], c.GRACEFUL_OFF: [c.OFF], c.POWER_ON: [c.ON]}
    machine = Machine(shown, after={kind: list(states) for kind, states in after.items()})
    change(machine, state)
    assert machine.sent == sent


@pytest.mark.parametrize("state", ["off", "force_off", "graceful", "cycle"])
def test_t1_a_request_that_does_nothing_is_no_change(state: str) -> None:
    with pytest.raises(DeadlineExceeded):
        change(Machine(c.ON), state, timeout=0.2)


def test_t1_a_machine_that_will_not_shut_down_is_cut_off() -> None:
    machine = Machine(c.ON, after={c.FORCE_OFF: [c.OFF]})
    assert change(machine, "graceful").seen == c.OFF
    assert [kind for kind, _destructive in machine.sent] == [c.GRACEFUL_OFF, c.FORCE_OFF]
    machine = Machine(c.ON, after={c.GRACEFUL_OFF: [Unsupported("no"), c.ON], c.FORCE_OFF: [c.OFF]})
    assert change(machine, "graceful").seen == c.OFF


@pytest.mark.parametrize(("then", "works"), [([c.OFF], True), ([c.ON], False), ([c.OFF, c.ON], False)])
def test_t1_a_refusal_is_believed_unless_the_state_is_there(then: list[Any], works: bool) -> None:
    machine = Machine(c.ON, after={c.FORCE_OFF: [Refused("it is so already"), *then]})
    if works:
        assert change(machine, "force_off").seen == c.OFF
    else:
        with pytest.raises(Refused):
            change(machine, "force_off", timeout=1)


@pytest.mark.parametrize(
    ("shown", "marker", "proof"),
    [
        ([c.OFF, c.ON, c.ON], ["10:00"], "readback"),
        ([c.CHANGING, c.ON, c.ON], ["10:00"], "readback"),
        ([c.ON], ["10:00", "10:00", "10:05"], "reset_time"),
    ],
)
def test_t1_a_restart_shows_by_a_sign_of_its_own(shown: list[Any], marker: list[str], proof: str) -> None:
    assert change(Machine(c.ON, after={c.RESTART: shown}, marker=marker), "reset").proof == proof


@pytest.mark.parametrize(
    ("shown", "marker"),
    [
        ([c.ON], ["10:00"]),
        ([c.ON], ["10:00", ""]),
        ([c.UNKNOWN, c.ON], ["10:00"]),
        ([Unreachable("busy"), c.ON], ["10:00"]),
        ([c.OFF], ["10:00"]),
        ([c.OFF, c.ON, c.OFF, c.ON, c.OFF], ["10:00"]),
    ],
)
def test_t1_power_that_reads_on_is_no_restart(shown: list[Any], marker: list[str]) -> None:
    with pytest.raises(DeadlineExceeded):
        change(Machine(c.ON, after={c.RESTART: shown}, marker=marker), "reset", timeout=0.3)
