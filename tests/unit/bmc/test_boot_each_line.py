# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What proves a network boot, over a BMC in memory: what it shows, or what the node itself says of its boot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import boot as verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import power, settle
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, DeadlineExceeded, NotProven
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result

MAC = "52:54:00:00:00:01"
NONE = c.BootOverride(c.DISABLED, "None", c.UEFI)
ONCE = c.BootOverride(c.ONCE, c.PXE, c.UEFI)
Seen = Optional[dict[str, str]]


class Rig(c.Power, c.Boot, c.Identify):
    """``overrides``: what each look at the override shows, the last one from then on; ``shows_after`` so many requests
    it is there. ``lost``: answers to lose."""

    address = "memory://"
    shown: str
    overrides: list[c.BootOverride]
    blind: bool
    lost: int
    shows_after: int
    sent: list[str]

    def state(self) -> str:
        return self.shown

    def identity(self) -> c.Identity:
        return c.Identity(serial="S1")

    def set(self, kind: str, *, destructive: bool) -> str:
        self.sent.append(kind)
        self.shown = c.ON if kind == c.POWER_ON else c.OFF
        return c.SENT

    def offer(self) -> Any:
        return c.BootOffer(targets=(c.PXE,), modes=(c.UEFI,), shows=not self.blind)

    def override(self) -> c.BootOverride:
        if self.shows_after:
            return ONCE if self.sent.count("boot") >= self.shows_after else NONE
        return self.overrides.pop(0) if len(self.overrides) > 1 else self.overrides[0]

    def check(self, target: str, mode: str, uri: str) -> None:
        pass

    def set_once(self, target: str, mode: str, uri: str, *, destructive: bool) -> str:
        self.sent.append("boot")
        if self.lost:
            self.lost -= 1
            raise c.LostAnswer("the answer was lost")
        return c.SENT


class Bmc(c.Bmc):
    protocol = "memory"
    address = "memory://"
    rig: ClassVar[Rig]

    def __init__(self, params: Mapping[str, Any], ctx: Context) -> None:
        self.has = (self.rig,)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setitem(DRIVERS, "memory", Bmc)
    monkeypatch.setattr(settle, "PACE", ((float("inf"), 0.01),))
    for module, name, value in (
        (verb, "_READBACK_SECONDS", 0.1), (verb, "_READBACK_PACE", 0.01), (verb, "_BOOT_PACE", 0.01),
        (power, "_RESET_PACE", 0.01), (power, "_PROBE_EVERY", 1),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    made = Rig()
    made.shown, made.overrides, made.blind, made.lost, made.sent = c.ON, [NONE, ONCE], False, 0, []
    made.shows_after = 0
    Bmc.rig = made
    return made


def boot(*, probes: list[Seen] | None = None, check_mode: bool = False, **params: Any) -> Result:
    """``probes``: what each look at the node itself shows, the last one from then on."""

    def probe() -> Seen:
        assert probes is not None
        return probes.pop(0) if len(probes) > 1 else probes[0]

    given = {
        "bmc_protocol": "memory", "bmc_address": "x", "bmc_username": "x", "bmc_password": "x", "target": c.PXE,
        "mode": c.KEEP, "power": "none", "prove": "auto", "accept_inconclusive": False, "timeout": 0.5,
        "boot_mac": MAC, "serial": "s1", **params,
    }  # fmt: skip
    ctx = Context(node="n1", check_mode=check_mode, boot_probe=None if probes is None else probe)
    return verb.pxe_boot(given, ctx)


def node(boot_id: str, bootif: str = "", uptime: str = "1") -> Seen:
    line = "root=/dev/sda1 quiet" + (f" BOOTIF={bootif}" if bootif else "")
    return {"boot_id": boot_id, "cmdline": line, "uptime": uptime}


OURS = "01-52-54-00-00-00-01"


# -- what the BMC shows ----------------------------------------------------------------------------------------------


def test_t1_an_override_that_shows_is_proof(rig: Rig) -> None:
    result = boot()
    assert (result.data["proof"], result.data["verdict"], result.changed) == ("readback", "pass", True)
    assert rig.sent == ["boot"]


def test_t1_an_override_that_shows_late_is_waited_for(rig: Rig) -> None:
    rig.overrides = [NONE, NONE, NONE, ONCE]
    assert boot(timeout=20).data["proof"] == "readback"
    assert rig.sent == ["boot"]


def test_t1_an_override_that_does_not_show_is_none(rig: Rig) -> None:
    rig.overrides = [NONE]
    with pytest.raises(NotProven, match="does not show it"):
        boot()


@pytest.mark.parametrize("accept", [True, False])
def test_t1_what_a_blind_bmc_shows_is_no_proof(rig: Rig, accept: bool) -> None:
    rig.blind, rig.overrides = True, [NONE]
    if not accept:
        with pytest.raises(NotProven, match="nothing shows"):
            boot()
        return
    result = boot(accept_inconclusive=True)
    assert (result.data["proof"], result.data["verdict"]) == ("none", "inconclusive")


def test_t1_an_override_whose_answer_was_lost_is_sent_again(rig: Rig) -> None:
    rig.lost, rig.shows_after = 1, 2
    assert boot(timeout=20).data["proof"] == "readback"
    assert rig.sent == ["boot", "boot"]


def test_t1_an_override_that_is_forgotten_with_the_power_is_set_after_it(rig: Rig) -> None:
    rig.overrides = [ONCE, NONE, ONCE]
    assert boot(power="restart").data["proof"] == "readback"
    assert rig.sent == [c.FORCE_OFF, "boot", c.POWER_ON]


def test_t1_a_running_machine_is_off_before_its_override_is_set(rig: Rig) -> None:
    rig.shows_after = 1
    boot(power="restart")
    assert rig.sent == [c.FORCE_OFF, "boot", c.POWER_ON]


def test_t1_check_mode_proves_nothing(rig: Rig) -> None:
    result = boot(check_mode=True)
    assert (result.data["proof"], result.data["verdict"]) == ("none", "inconclusive")


# -- what the node says ----------------------------------------------------------------------------------------------


def test_t1_a_new_boot_over_the_boot_port_is_proof(rig: Rig) -> None:
    rig.blind, rig.overrides = True, [NONE]
    result = boot(power="restart", probes=[node("b1"), None, node("b1"), node("b2", OURS)], timeout=20)
    assert (result.data["proof"], result.data["verdict"]) == ("boot", "pass")


@pytest.mark.parametrize("bootif", ["01-52-54-00-00-00-02", "", "01-52-54-00-00-00-0", "junk"])
def test_t1_a_boot_over_another_port_is_none(rig: Rig, bootif: str) -> None:
    rig.blind, rig.overrides = True, [NONE]
    with pytest.raises(NotProven, match="did not boot from the network"):
        boot(power="restart", probes=[node("b1", OURS), node("b2", bootif)], timeout=20)


@pytest.mark.parametrize("after", [node("b1", OURS), node("", OURS), None])
def test_t1_the_boot_of_before_is_none(rig: Rig, after: Seen) -> None:
    rig.blind, rig.overrides = True, [NONE]
    with pytest.raises(DeadlineExceeded):
        boot(power="restart", probes=[node("b1", OURS), after])


@pytest.mark.parametrize(("uptime", "proven"), [("1", True), ("5000", False), ("", False), ("many", False)])
def test_t1_where_the_boot_of_before_is_not_known_only_a_young_one_counts(rig: Rig, uptime: str, proven: bool) -> None:
    rig.blind, rig.overrides = True, [NONE]
    probes = [None, node("b2", OURS, uptime)]
    if proven:
        assert boot(power="restart", probes=probes, timeout=20).data["proof"] == "boot"
    else:
        with pytest.raises(DeadlineExceeded):
            boot(power="restart", probes=probes)


def test_t1_a_proof_by_the_node_needs_a_way_to_it(rig: Rig) -> None:
    with pytest.raises(ConfigError, match="no connection to the node"):
        boot(power="restart", prove="boot")
    with pytest.raises(ConfigError, match="the power option is none"):
        boot(prove="boot", probes=[node("b1")])
    assert rig.sent == []


# -- a restart -------------------------------------------------------------------------------------------------------


def restart(probes: list[Seen], timeout: float) -> Result:
    def probe() -> Seen:
        return probes.pop(0) if len(probes) > 1 else probes[0]

    given = {
        "bmc_protocol": "memory", "bmc_address": "x", "bmc_username": "x", "bmc_password": "x", "state": "reset",
        "serial": "S1", "timeout": timeout, "graceful_timeout": 0.1,
    }  # fmt: skip
    return power.power(given, Context(boot_probe=probe))


class Restarting(Rig):
    """Reads on all the time."""

    def set(self, kind: str, *, destructive: bool) -> str:
        return c.SENT


@pytest.mark.parametrize(("after", "proven"), [(node("b2"), True), (node("b1"), False), (node(""), False)])
def test_t1_a_new_boot_id_proves_a_restart_and_the_old_one_does_not(after: Seen, proven: bool) -> None:
    made = Restarting()
    made.shown = c.ON
    Bmc.rig = made
    if proven:
        assert restart([node("b1"), after], 20).data["proof"] == "boot"
    else:
        with pytest.raises(DeadlineExceeded):
            restart([node("b1"), after], 0.3)
