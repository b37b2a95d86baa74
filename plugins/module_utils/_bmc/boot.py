# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb behind ``pxe_boot``: one network boot, proven. PRIVATE to the collection.

Two proofs count. The BMC shows the override that was asked for; or the node itself has started anew and its kernel
was given ``BOOTIF`` of its boot port, which only a network boot leaves. Where neither can be had the result is
inconclusive, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import require
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.power import PowerSteps
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.who import Recognised
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    DeadlineExceeded,
    FleetError,
    NotProven,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

READBACK = "readback"
BOOT = "boot"
NONE = "none"
#: How long a BMC may take to show an override that it has taken, and how often it is asked.
_READBACK_SECONDS = 30.0
_READBACK_PACE = 1.0
#: An override whose answer was lost is asked for so many times in all; it is the same one each time.
_ATTEMPTS = 3
_BOOT_PACE = 3.0
#: What to do where a BMC cannot show an override: for one that was set, and for one that was taken away.
_NOT_SHOWN = "set power to restart (or on, for a node that is off) and boot_mac, or accept_inconclusive"
_NOT_SHOWN_HERE = "look at the BMC's own page, or set accept_inconclusive: a restart would prove it too late"
#: Clocks of node and controller need not agree; its uptime and our stopwatch must, within this.
_SLACK_SECONDS = 5.0


def pxe_boot(params: Mapping[str, Any], ctx: Context) -> Result:
    """Set the override, prove it, and boot the machine if asked to.

    :raises NotProven: when the effect was not seen, or cannot be seen and ``accept_inconclusive`` is not set.
    """
    with connect(params, ctx) as bmc:
        boot = _NetworkBoot(bmc, params, ctx)
        try:
            return boot.disarmed() if boot.target == c.NOTHING else boot.run()
        except FleetError as exc:
            boot.disarm_after(exc)
            raise


class _NetworkBoot:
    def __init__(self, bmc: c.Bmc, params: Mapping[str, Any], ctx: Context) -> None:
        self.boot = bmc.boot
        self.ctx = ctx
        self.target = str(params["target"])
        self.mode = str(params["mode"])
        self.uri = str(params.get("http_boot_uri") or "")
        self.power = str(params["power"])
        self.prove = str(params["prove"])
        self.accept = bool(params["accept_inconclusive"])
        self.mac = net.spelled(params.get("boot_mac"))
        self.timeout = float(params["timeout"])
        self.machine = Recognised(bmc, params, ctx)
        # What is armed decides the next start, whoever asks for that: a machine that is off may be its scheduler's,
        # which has put it to sleep or wakes it for a job.
        self.steps = PowerSteps(bmc.power, ctx, self.machine, timeout=self.timeout, start_hits=self.target != c.NOTHING)
        self.blind = False
        #: When the power came on for it; 0 where it has not.
        self.booted_at = 0.0
        #: Whether what the BMC shows by another name is known to be what we have set.
        self.ours = False
        #: Whether this call has asked for an override that may still stand.
        self.armed = False
        if self.target == c.NOTHING and (self.power != "none" or self.prove == BOOT):
            raise ConfigError(
                "a boot override that is taken away boots nothing",
                wanted="power none, and a proof that is not the node's boot",
                seen=f"power {self.power}, prove {self.prove}",
                do="take it away in a task of its own, and change the power in another one (redfish_power)",
            )
        if self.prove == BOOT:
            require(params, "boot_mac", node=ctx.node)
            self._demand_way_to_node()

    def _demand_way_to_node(self) -> None:
        problem = "the power option is none" if self.power == "none" else ""
        if self.ctx.boot_probe is None and not self.ctx.check_mode:
            problem = "this task has no connection to the node itself"
        if problem:
            raise ConfigError(
                "the boot cannot be proven by the node",
                wanted="a power step, and a task that is not delegated",
                seen=problem,
                do="set power to on or restart, and run the task on the node's own inventory host",
            )

    def run(self) -> Result:
        power = self.steps.state()
        shown = self.boot.override()
        self.boot.check(self.target, self.mode, self.uri)
        self.blind = not self.boot.offer().shows
        boots = self.power == "restart" or (self.power == "on" and power == c.OFF)
        # What is armed now decides what the next start makes of the machine, whenever that comes.
        if boots or not self._is_it(shown):
            self.machine.demand_known(f"boot override {self.target}, power {self.power}")
        by_node = boots and self._wants_node()
        probe = self._probe() if by_node and power == c.ON else None
        current = shown
        if self.power == "restart" and power != c.OFF:
            self.steps.force_off()
            current = self.boot.override()  # some forget it with the power
        set_now = not self._is_it(current)
        if set_now:
            self._no_other_name_stands(current)
        after = self._override(current, set_now)
        shows = self._is_it(after)
        proof = READBACK if shows and self.prove != BOOT and not self.ctx.check_mode else NONE
        if boots:
            started = time.monotonic()
            self.booted_at = 0.0 if self.ctx.check_mode else time.time()
            self._power_on()
            if by_node and proof == NONE:
                proof = self._proven_by_node(probe, started)
        return self._result(power, shown, after, changed=set_now or boots, proof=proof)

    def _wants_node(self) -> bool:
        if self.ctx.check_mode or self.prove == READBACK or self.ctx.boot_probe is None:
            return False
        return self.prove == BOOT or (self.blind and bool(self.mac))

    # -- the override ------------------------------------------------------------------------------------------

    def _override(self, shown: c.BootOverride, set_now: bool) -> c.BootOverride:
        """Set it, unless it stands there by its own name; what a BMC shows by another name may be anybody's."""
        if not set_now:
            return shown
        wanted = c.BootOverride(c.ONCE, self.target, shown.mode if self.mode == c.KEEP else self.mode, self.uri)
        for attempt in range(1, _ATTEMPTS + 1):
            lost = self._sent_but_lost()
            if self.ctx.check_mode:
                return wanted
            try:
                return self._read_back()
            except DeadlineExceeded as exc:
                if lost and attempt < _ATTEMPTS:
                    continue
                if self.blind or self.prove == BOOT:
                    return self.boot.override()
                raise self._not_taken(exc) from exc
        raise AssertionError("the last attempt returns or raises")

    def disarmed(self) -> Result:
        """No one-time override stands, whoever has set it; one that lasts is how somebody has set up the machine."""
        power, shown = self.steps.state(), self.boot.override()
        self.blind = not self.boot.offer().shows
        changed, after = shown.stands() or self.blind, shown
        if shown.enabled == c.CONTINUOUS:
            self.steps.notes.append(f"an override that lasts is left as it is: {_words(shown)}")
        if changed:
            self.machine.demand_known("no boot override")
            after = self._without(shown)
        proof = NONE if self.blind or self.ctx.check_mode else READBACK
        return self._result(power, shown, after, changed=changed, proof=proof)

    def _without(self, shown: c.BootOverride) -> c.BootOverride:
        """:raises NotProven: where the BMC takes it and goes on showing an override."""
        try:
            self.boot.clear()
        except c.LostAnswer as exc:
            self.steps.notes.append(f"{exc.what}: decided by reading the override")
        if self.ctx.check_mode:
            return c.BootOverride(c.DISABLED, c.NOTHING, shown.mode)
        try:
            return self._gone(lambda override: not override.stands())
        except DeadlineExceeded as exc:
            raise NotProven(
                "the BMC took the request to clear its boot override and goes on showing it",
                address=self.boot.address,
                wanted=exc.wanted,
                seen=exc.seen,
                do=f"do not restart {self.ctx.node or 'the machine'} before: clear it on the BMC's page, or ask again",
            ) from exc

    def _gone(self, gone: Callable[[c.BootOverride], bool]) -> c.BootOverride:
        return self.ctx.wait(
            self.boot.override,
            gone,
            timeout=min(self.steps.left, _READBACK_SECONDS),
            interval=_READBACK_PACE,
            wanted="no boot override",
            seen=_words,
        )

    def disarm_after(self, problem: FleetError) -> None:
        """A task that failed leaves no network boot behind, which would come with somebody's next restart."""
        if not self.armed:
            return
        try:
            self.boot.clear()
            self._gone(lambda override: not override.stands())
            if not self.boot.offer().shows:
                raise NotProven("this BMC took the request to clear it, and cannot show an override")
        except FleetError as exc:
            who = self.ctx.node or self.boot.address
            problem.details["armed"] = f"the boot override may still stand: {exc.what}"
            left = (
                f"the boot override that was asked for may still stand, and the next start of {who} be a network boot:"
                f" take it away with pxe_boot and target none for {who}"
            )
            problem.do = f"{problem.do}; {left}" if problem.do else left

    def _is_it(self, shown: c.BootOverride) -> bool:
        return shown.is_once(self.target, self.mode, self.uri, ours=self.ours)

    def _no_other_name_stands(self, shown: c.BootOverride) -> None:
        """From here on the other name counts as ours, unless it stood there before and cannot be taken away."""
        self.ours = shown.enabled != c.ONCE or shown.may_be != self.target or self._cleared(shown)
        if not self.ours:
            self.blind = True
            self.steps.notes.append(
                f"the BMC showed {shown.enabled} {shown.target} before anything was written:"
                " that it shows it afterwards proves nothing"
            )

    def _cleared(self, shown: c.BootOverride) -> bool:
        if self.ctx.check_mode:
            return True
        try:
            self.boot.clear(destructive=True)
            self._gone(lambda override: override.enabled != c.ONCE or override.target != shown.target)
        except (c.LostAnswer, DeadlineExceeded, Refused, Unsupported):
            return False
        return True

    def _sent_but_lost(self) -> bool:
        sent = len(self.ctx.asked)
        try:
            self.boot.set_once(self.target, self.mode, self.uri, destructive=True)
        except c.LostAnswer as exc:
            self.steps.notes.append(f"{exc.what}: decided by reading the override")
            return True
        finally:
            self.armed = self.armed or len(self.ctx.asked) > sent
        return False

    def _read_back(self) -> c.BootOverride:
        return self.ctx.wait(
            self.boot.override,
            self._is_it,
            timeout=min(self.steps.left, 0.0 if self.blind else _READBACK_SECONDS),
            interval=_READBACK_PACE,
            wanted=f"once {self.target}" + ("" if self.mode == c.KEEP else f" {self.mode}"),
            seen=_words,
        )

    def _not_taken(self, exc: DeadlineExceeded) -> NotProven:
        return NotProven(
            "the BMC took the boot override and does not show it",
            address=self.boot.address,
            wanted=exc.wanted,
            seen=exc.seen,
            do="is this BMC known not to show it? Then prove it by the node's boot: power restart, prove boot",
        )

    # -- the boot ----------------------------------------------------------------------------------------------

    def _power_on(self) -> None:
        if self.ctx.check_mode:
            self.steps.seen = c.OFF
        self.steps.on()

    def _probe(self) -> Mapping[str, str] | None:
        return self.ctx.boot_probe() if self.ctx.boot_probe is not None else None

    def _proven_by_node(self, before: Mapping[str, str] | None, started: float) -> str:
        old = str((before or {}).get("boot_id") or "")
        found = self.ctx.wait(
            self._probe,
            lambda seen: seen is not None and _is_new(seen, old, time.monotonic() - started),
            timeout=self.steps.left,
            interval=_BOOT_PACE,
            wanted="a new boot of the node, seen by the node itself",
            seen=lambda seen: "no answer of the node" if seen is None else f"still boot {seen.get('boot_id')}",
            do="look at the node's console: what did it boot?",
        )
        line = str((found or {}).get("cmdline") or "")
        ports = [word.partition("=")[2] for word in line.split() if word.startswith("BOOTIF=")]
        # Before the address stands the kind of the network: 01 for Ethernet, 20 for InfiniBand.
        if self.mac and self.mac in {net.spelled(part) for port in ports for part in (port, port.partition("-")[2])}:
            return BOOT
        raise NotProven(
            "the node did not boot from the network",
            address=self.boot.address,
            wanted=f"BOOTIF of the boot port {self.mac} in /proc/cmdline",
            seen=f"BOOTIF {', '.join(ports)}" if ports else "no BOOTIF: it booted from a disk",
            do="check the boot order, and that the loader of the network boot passes BOOTIF (pxelinux: ipappend 2)",
        )

    # -- the result --------------------------------------------------------------------------------------------

    def _result(self, power: str, shown: c.BootOverride, after: c.BootOverride, *, changed: bool, proof: str) -> Result:
        verdict = "inconclusive" if proof == NONE else "pass"
        if proof == NONE and not self.ctx.check_mode and not self.accept:
            raise NotProven(
                "the request was sent, and nothing shows that it was taken",
                address=self.boot.address,
                wanted="a BMC that shows it, or a boot that the node itself proves",
                seen=f"{_words(after)}, which on this BMC says nothing",
                do=_NOT_SHOWN_HERE if self.target == c.NOTHING else _NOT_SHOWN,
            )
        if self.target != c.NOTHING and self._is_it(after):
            after = replace(after, target=self.target)
        booted = self.power == "restart" or (self.power == "on" and power == c.OFF)
        return Result(
            before={"power": power, "boot": shown.as_dict()},
            after={"power": c.ON if booted else self.steps.seen, "boot": after.as_dict()},
            changed=changed,
            data={"proof": proof, "verdict": verdict, "booted_at": self.booted_at, "notes": self.steps.notes},
        )


def _is_new(seen: Mapping[str, str], old: str, elapsed: float) -> bool:
    """Another boot than the one before; where that is not known, one not older than our power-on."""
    if old:
        return seen.get("boot_id") not in ("", None, old)
    try:
        return float(seen.get("uptime") or "inf") <= elapsed + _SLACK_SECONDS
    except ValueError:
        return False


def _words(override: c.BootOverride) -> str:
    return f"{override.enabled} {override.target} {override.mode}"
