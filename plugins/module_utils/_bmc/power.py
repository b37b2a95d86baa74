# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``redfish_power``: change a machine's power, and see it changed. PRIVATE to the collection."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.settle import look, settled, stable_now
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import Recognised
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

#: What a machine's power is when a state has been reached.
GOAL = {"on": c.ON, "off": c.OFF, "force_off": c.OFF, "graceful": c.OFF, "cycle": c.ON, "reset": c.ON}
#: A refused request is looked into for so long: the state that a BMC shows lags behind the one that it acts on.
_REFUSED_SECONDS = 10.0
#: How often the node itself is asked whether it has started anew; each time costs a connection.
_PROBE_EVERY = 8
_RESET_PACE = 0.5
#: The proof of what nothing has shown.
NONE = "none"


def power(params: Mapping[str, Any], ctx: Context) -> Result:
    """Bring the machine to the wanted state and hold it against what the BMC then says.

    :raises DeadlineExceeded: when the BMC took the request and nothing came of it.
    """
    with connect(params, ctx) as bmc:
        stepper = PowerSteps(bmc.power, ctx, Recognised(bmc, params, ctx), timeout=float(params["timeout"]))
        before = stepper.state()
        state = str(params["state"])
        changed = _PLANS[state](stepper, float(params["graceful_timeout"]))
        after = GOAL[state] if changed and ctx.check_mode else stepper.seen
        return Result(
            before={"power": before},
            after={"power": after},
            changed=changed,
            data={
                "proof": stepper.proof,
                "verdict": "inconclusive" if stepper.proof == NONE else "pass",
                "notes": stepper.notes,
            },
        )


class PowerSteps:
    """Single steps of power on one machine, each of which ends with the effect seen or with an exception.

    :param start_hits: a start is destructive too, since it is a network boot.
    """

    def __init__(
        self, power: c.Power, ctx: Context, machine: Recognised, *, timeout: float, start_hits: bool = False
    ) -> None:
        self.power = power
        self.ctx = ctx
        self._machine = machine
        self._start_hits = start_hits
        self.notes = machine.notes
        self.proof = "readback"
        #: Whether the answer to a request was lost.
        self.lost = False
        self.seen = c.UNKNOWN
        self._end = time.monotonic() + timeout

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def state(self) -> str:
        """The state before anything is written, of the machine that is meant."""
        self._machine.demand()
        self.seen = stable_now(self.power, self.ctx, timeout=min(self.left, 120.0))
        return self.seen

    def send(self, kind: str, goal: str = "") -> bool:
        """One request; False in check mode. A refusal because it is so already is none, and is seen by looking."""
        destructive = kind != c.POWER_ON and self.seen != c.OFF
        if destructive:
            self._machine.demand_known(kind)
        try:
            return self.power.set(kind, destructive=destructive or self._start_hits) == c.SENT
        except c.LostAnswer as exc:
            self.lost = True
            self.notes.append(f"{exc.what}: decided by reading the state")
            return True
        except (Refused, BadAnswer):
            if not goal or not self._comes_to(goal):
                raise
            self.notes.append(f"the BMC refused {kind}, and its state is {goal}")
            return True

    def _comes_to(self, goal: str) -> bool:
        try:
            settled(self.power, self.ctx, (goal,), timeout=min(self.left, _REFUSED_SECONDS))
        except DeadlineExceeded:
            return False
        return True

    def reach(self, kind: str, goal: str, *, timeout: float = float("inf"), do: str = "") -> None:
        """Ask, and wait until the state is there to stay."""
        if self.send(kind, goal):
            self.seen = settled(self.power, self.ctx, (goal,), timeout=min(timeout, self.left), do=do or _DO[goal])

    def on(self) -> None:
        self.reach(c.POWER_ON, c.ON)

    def force_off(self) -> None:
        self.reach(c.FORCE_OFF, c.OFF)

    def cycle(self) -> None:
        """Off, seen, then on, seen; a machine that is off is powered on."""
        if self.seen != c.OFF:
            self.force_off()
        if not self.ctx.check_mode or self.seen == c.OFF:
            self.on()


_DO = {
    c.ON: "the BMC took the request and the machine stayed off: check its power supplies and the BMC's own event log",
    c.OFF: "the machine did not go off: try force_off, and read the BMC's own event log",
}


def _on(steps: PowerSteps, graceful_timeout: float) -> bool:
    if steps.seen == c.ON:
        return False
    steps.on()
    return True


def _off(steps: PowerSteps, graceful_timeout: float) -> bool:
    if steps.seen == c.OFF:
        return False
    steps.reach(
        c.GRACEFUL_OFF, c.OFF, do="the operating system did not shut down: use graceful, or shut it down yourself"
    )
    return True


def _force_off(steps: PowerSteps, graceful_timeout: float) -> bool:
    if steps.seen == c.OFF:
        return False
    steps.force_off()
    return True


def _graceful(steps: PowerSteps, graceful_timeout: float) -> bool:
    if steps.seen == c.OFF:
        return False
    left = graceful_timeout - steps.ctx.lifeline.waited()
    try:
        if left <= 0:  # an earlier part of this call has asked for it, and waited
            raise DeadlineExceeded("the shutdown has had its time")
        steps.reach(c.GRACEFUL_OFF, c.OFF, timeout=left)
    except Unsupported:
        steps.notes.append("this BMC offers no graceful shutdown: the power was cut")
        steps.force_off()
    except DeadlineExceeded:
        steps.notes.append(f"no shutdown within {graceful_timeout:g} s: the power was cut")
        steps.force_off()
    return True


def _cycle(steps: PowerSteps, graceful_timeout: float) -> bool:
    steps.cycle()
    return True


def _reset(steps: PowerSteps, graceful_timeout: float) -> bool:
    """Restart as the BMC offers it. A machine reads "on" before and after, so that alone proves nothing."""
    if steps.seen == c.OFF:
        steps.on()
        return True
    watch = _Restart(steps)
    if not watch.can_show and not steps.ctx.check_mode:
        steps.notes.append("neither this BMC nor the node could show a restart: off, then on, which can be seen")
        steps.cycle()
        return True
    try:
        sent = steps.send(c.RESTART)
    except Unsupported:
        steps.notes.append("this BMC offers no restart: off, then on")
        steps.cycle()
        return True
    if sent:
        steps.proof = watch.shown()
        steps.seen = c.ON
    return True


class _Restart:
    """How a restart shows: an off or changing state in between, what the BMC counts or times, or a new boot id."""

    def __init__(self, steps: PowerSteps) -> None:
        self._steps = steps
        self._marker = steps.power.restart_marker()
        self._stage = steps.power.start_stage()
        self._boot = "" if steps.ctx.check_mode else _boot_id(steps.ctx)
        self._states: list[str] = []
        self._signs: list[str] = []

    @property
    def can_show(self) -> bool:
        """Some BMCs read "on" all along: what else may change, if anything, is known before the request is sent."""
        return bool(self._marker or self._boot or self._stage == c.LATE)

    def shown(self) -> str:
        """Wait for a sign, and for power to be on.

        :raises DeadlineExceeded: where nothing has shown it, and the node does not either.
        """
        steps = self._steps
        try:
            steps.ctx.wait(
                self._read,
                lambda state: bool(self._signs) and self._states[-2:] == [c.ON, c.ON],
                timeout=steps.left,
                interval=_RESET_PACE,
                wanted="a sign of the restart, then power on, read twice in a row",
                seen=lambda state: f"power {state}, {'restarted' if self._signs else 'no sign of a restart'}",
                do="use the state cycle, whose off can be seen",
            )
        except DeadlineExceeded as exc:
            if self._node_is_gone():
                return NONE
            exc.address = exc.address or steps.power.address
            raise
        return self._signs[0]

    def _node_is_gone(self) -> bool:
        """The node ran, the BMC took the request, and the node is silent: more than that nobody can say yet."""
        probe, steps = self._steps.ctx.boot_probe, self._steps
        if not self._boot or self._signs or steps.lost or probe is None or probe() is not None:
            return False
        steps.notes.append(
            "the BMC took the restart, power reads on, and the node that answered before does not answer: that it"
            " starts anew is not proven; wait for it (node_wait), or give it more time"
        )
        return True

    def _read(self) -> str:
        state = look(self._steps.power)
        self._states.append(state)
        if state in (c.OFF, c.CHANGING):
            self._signs.append("readback")
        elif state == c.ON and not self._signs:
            self._signs.extend(self._other_sign(len(self._states)))
        return state

    def _other_sign(self, turn: int) -> tuple[str, ...]:
        power = self._steps.power
        if self._marker and power.restart_marker() not in ("", self._marker):
            return (power.restart_proof(),)
        if self._stage == c.LATE and power.start_stage() == c.EARLY:
            return (c.START_STAGE,)
        if self._boot and turn % _PROBE_EVERY == 0 and _boot_id(self._steps.ctx) not in ("", self._boot):
            return ("boot",)
        return ()


def _boot_id(ctx: Context) -> str:
    found = ctx.boot_probe() if ctx.boot_probe is not None else None
    return str((found or {}).get("boot_id") or "")


_PLANS: dict[str, Callable[[PowerSteps, float], bool]] = {
    "on": _on,
    "off": _off,
    "force_off": _force_off,
    "graceful": _graceful,
    "cycle": _cycle,
    "reset": _reset,
}
