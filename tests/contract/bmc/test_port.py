# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every driver, on every BMC of the suite."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.boot import pxe_boot
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.info import info
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.log import log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.power import power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.registry import connect
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    DeadlineExceeded,
    Fenced,
    FleetError,
    NotProven,
    Unreachable,
    Unsupported,
)

from .conftest import POWER, PXE, Ctx, Rig


def change(rig: Rig, ctx: Ctx, state: str, **more: Any) -> dict[str, Any]:
    return power({**rig.params, **POWER, "state": state, **more}, ctx).as_dict(ctx)


def boot(rig: Rig, ctx: Ctx, **more: Any) -> dict[str, Any]:
    return pxe_boot({**rig.params, **PXE, **more}, ctx).as_dict(ctx)


def test_on_is_seen_and_a_second_time_nothing_is_sent(rig: Rig) -> None:
    first = change(rig, Ctx(), "on")
    assert (first["changed"], first["before"], first["after"]) == (True, {"power": "off"}, {"power": "on"})
    assert rig.power() == "On"
    sent = rig.writes()
    second = change(rig, Ctx(), "on")
    assert (second["changed"], second["asked"], rig.writes()) == (False, [], sent)


@pytest.mark.parametrize("state", ["off", "force_off", "graceful"])
def test_every_way_down_is_seen(rig: Rig, state: str) -> None:
    rig.force("On")
    ctx = Ctx()
    result = change(rig, ctx, state)
    assert (result["changed"], result["after"], rig.power()) == (True, {"power": "off"}, "Off")
    assert [destructive for _what, destructive in ctx.watch.asked] == [True]
    assert change(rig, Ctx(), state)["changed"] is False


def test_cycle_goes_through_off(rig: Rig) -> None:
    rig.force("On")
    ctx = Ctx()
    result = change(rig, ctx, "cycle")
    assert result["after"] == {"power": "on"} and result["changed"]
    assert [destructive for _what, destructive in ctx.watch.asked] == [True, False]


def test_powering_on_what_is_off_hits_nothing(rig: Rig) -> None:
    for state in ("on", "cycle", "reset"):
        rig.force("Off")
        ctx = Ctx()
        change(rig, ctx, state)
        assert [destructive for _what, destructive in ctx.watch.asked] == [False]


def test_reset_needs_a_sign(rig: Rig) -> None:
    rig.force("On")
    result = change(rig, Ctx(boot_probe=rig.probe), "reset")
    assert result["proof"] in ("readback", "boot")
    assert result["after"] == {"power": "on"}


def test_a_hanging_shutdown_is_not_off(rig: Rig) -> None:
    rig.force("On")
    rig.hang_shutdown()
    with pytest.raises(DeadlineExceeded):
        change(rig, Ctx(), "off", timeout=1.0)
    assert rig.power() == "On"
    result = change(rig, Ctx(), "graceful")
    assert rig.power() == "Off" and "power was cut" in result["notes"][0]


def test_a_bmc_that_obeys_in_words_alone(rig: Rig) -> None:
    rig.lie()
    with pytest.raises(DeadlineExceeded) as caught:
        change(rig, Ctx(), "on", timeout=1.0)
    assert "power off" in str(caught.value) and "stayed off" in str(caught.value)
    assert rig.writes() == 1


@pytest.mark.parametrize("start", ["On", "Off"])
@pytest.mark.parametrize("state", ["on", "off", "force_off", "graceful", "cycle", "reset"])
def test_check_mode_sends_nothing(rig: Rig, state: str, start: str) -> None:
    rig.force(start)
    before = rig.writes()
    goal = "on" if state in ("on", "cycle", "reset") else "off"
    result = change(rig, Ctx(check_mode=True, diff=True), state)
    assert result["after"] == {"power": goal} == result["diff"]["after"]
    assert result["changed"] is not (start.lower() == goal and state in ("on", "off", "force_off", "graceful"))
    for step in ("none", "on", "restart"):
        assert boot(rig, Ctx(check_mode=True), power=step)["changed"] is True
    assert rig.writes() == before


def test_nothing_is_sent_where_leave_is_refused(rig: Rig) -> None:
    rig.force("On")
    before = rig.writes()
    for act in (lambda ctx: change(rig, ctx, "force_off"), lambda ctx: boot(rig, ctx, power="restart")):
        ctx = Ctx()
        ctx.watch.deny = Fenced("not yours")
        with pytest.raises(Fenced):
            act(ctx)
        assert len(ctx.watch.asked) == 1
    assert rig.writes() == before


def test_j8_an_override_is_taken_away_once(rig: Rig) -> None:
    """By every driver, without leave to hit running work; and nothing is sent where that shows none."""
    rig.force("On")
    boot(rig, Ctx(), accept_inconclusive=True)
    before, ctx = rig.writes(), Ctx()
    assert boot(rig, Ctx(check_mode=True), target="none")["changed"] and rig.writes() == before
    gone = boot(rig, ctx, target="none", accept_inconclusive=True)
    assert gone["changed"] and {destructive for _what, destructive in ctx.watch.asked} == {False}, gone
    blind = gone["proof"] == "none"
    assert (gone["after"]["boot"]["enabled"] == "once") is False or gone["after"]["boot"]["target"] == "none", gone
    again = boot(rig, Ctx(), target="none", accept_inconclusive=True)
    assert again["changed"] is blind and rig.power() == "On", again
    if blind:
        with pytest.raises(NotProven) as told:
            boot(rig, Ctx(), target="none")
        assert "power to restart" not in told.value.do, told.value.do


def test_j8_a_machine_is_armed_and_started_with_leave_to_hit_it(rig: Rig) -> None:
    """Also one that is off, whose scheduler may wake it for a job."""
    for shown in ("On", "Off"):
        rig.force(shown)
        boot(rig, Ctx(), target="none", accept_inconclusive=True)
        ctx = Ctx()
        boot(rig, ctx, power="on", accept_inconclusive=True, prove="readback")
        assert {asked for _what, asked in ctx.watch.asked} == {True}, (shown, ctx.watch.asked)


@pytest.mark.parametrize("more", [{"power": "restart"}, {"power": "on"}])
def test_j8_what_boots_nothing_changes_no_power(rig: Rig, more: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="boots nothing"):
        boot(rig, Ctx(), target="none", **more)
    assert rig.writes() == 0


def test_wrong_password_is_said_once(rig: Rig) -> None:
    rig.faults.forget()
    before = rig.refused()
    for number, call in enumerate((change, boot), 1):
        with pytest.raises(AuthFailed) as caught:
            call(rig, Ctx(), *(["on"] if call is change else []), bmc_password="wrong-horse")
        assert "wrong-horse" not in str(caught.value.as_result())
        assert rig.refused() - before == number


def test_a_refused_login_writes_nothing(rig: Rig) -> None:
    rig.faults.refuse_login()
    for call in (change, boot):
        with pytest.raises(AuthFailed):
            call(rig, Ctx(), *(["on"] if call is change else []))
    assert rig.writes() == 0


def test_b7_what_is_lost_at_first_is_asked_again(rig: Rig) -> None:
    rig.faults.outage(times=3)
    assert change(rig, Ctx(), "on")["after"] == {"power": "on"}
    assert rig.writes() == 1


def test_no_usable_answer_is_no_answer(rig: Rig) -> None:
    """Nothing that a stranger says instead of the BMC is a state, a success, or a refused login."""
    for way in rig.faults.unusable:
        rig.faults.strike(way)
        for act in (lambda: change(rig, Ctx(), "on", timeout=1.0), lambda: boot(rig, Ctx(), timeout=1.0)):
            with pytest.raises(FleetError) as caught:
                act()
            assert caught.value.kind != "auth" and caught.value.address, way
        rig.faults.forget()
    assert rig.writes() == 0


def test_a_lost_answer_is_looked_into(rig: Rig) -> None:
    rig.force("On")
    before = rig.writes()
    rig.faults.lose_answer()
    result = change(rig, Ctx(), "force_off", timeout=60.0)
    assert (rig.power(), rig.writes()) == ("Off", before + 1)
    assert "decided by reading" in result["notes"][0]


class Attestation(c.Capability):
    """A capability that no driver has."""

    title = "attestation"


def test_what_a_driver_lacks_is_said_once_and_in_one_way(rig: Rig) -> None:
    ctx = Ctx()
    with connect({**rig.params, "timeout": 5.0}, ctx) as bmc:
        with pytest.raises(Unsupported) as caught:
            bmc.part(Attestation)
        assert bmc.protocol in caught.value.what and caught.value.address == bmc.address
        assert "power" in caught.value.seen and "gpufleet_bmc_protocol" in caught.value.do
    assert rig.writes() == 0


def test_what_is_not_offered_is_not_sent(rig: Rig) -> None:
    """A driver says what this BMC offers; the rest is refused before anything is written, and what it offers is not."""
    ctx = Ctx(check_mode=True)
    with connect({**rig.params, "timeout": 20.0}, ctx) as bmc:
        offered = bmc.power.offer() or ()
        for kind in (c.POWER_ON, c.FORCE_OFF, c.GRACEFUL_OFF, c.RESTART):
            if kind in offered:
                assert bmc.power.set(kind, destructive=False) == c.WITHHELD
            else:
                with pytest.raises(Unsupported):
                    bmc.power.set(kind, destructive=False)
        targets = bmc.boot.offer().targets or ()
        assert targets
        for target in (name for name in names.BOOT_TARGETS if name != c.NOTHING):
            if target in targets:
                bmc.boot.check(target, c.KEEP, "")
            else:
                with pytest.raises(Unsupported):
                    bmc.boot.check(target, c.KEEP, "")
    assert rig.writes() == 0


def test_a_dead_address(rig: Rig) -> None:
    host = "127.0.0.1:9"
    with pytest.raises(Unreachable):
        change(rig, Ctx(), "on", bmc_address=host, timeout=2.0)


def test_an_override_counts_only_when_it_is_shown(rig: Rig) -> None:
    ctx = Ctx()
    if rig.blind:
        with pytest.raises(NotProven) as caught:
            boot(rig, ctx)
        assert caught.value.kind == "not_proven"
        result = boot(rig, Ctx(), accept_inconclusive=True)
        assert (result["proof"], result["verdict"], result["changed"]) == ("none", "inconclusive", True)
    else:
        result = boot(rig, ctx)
        assert (result["proof"], result["verdict"], result["changed"]) == ("readback", "pass", True)
        sent = rig.writes()
        assert boot(rig, Ctx())["changed"] is False
        assert rig.writes() == sent
    assert rig.power() == "Off"


@pytest.mark.parametrize("start,step", [("Off", "on"), ("Off", "restart"), ("On", "restart")])
def test_a_network_boot_seen_by_the_node(rig: Rig, start: str, step: str) -> None:
    rig.force(start)
    result = boot(rig, Ctx(boot_probe=rig.probe), power=step, prove="boot" if not rig.blind else "auto")
    assert (result["proof"], result["verdict"]) == ("boot", "pass")
    assert result["after"]["power"] == "on" and rig.power() == "On"


def test_a_disk_boot_is_no_network_boot(rig: Rig) -> None:
    def from_disk() -> Any:
        found = rig.probe()
        return found and {**found, "cmdline": "root=/dev/sda1"}

    with pytest.raises(NotProven) as caught:
        boot(rig, Ctx(boot_probe=from_disk), power="on", prove="boot")
    assert "booted from a disk" in str(caught.value)


def test_t1_a_boot_of_another_port_is_no_proof(rig: Rig) -> None:
    """The node did boot from a network: by a port that nobody asked for, and perhaps another server's image."""

    def other_port() -> Any:
        found = rig.probe()
        return found and {**found, "cmdline": "quiet BOOTIF=01-52-54-00-00-00-02"}

    with pytest.raises(NotProven) as caught:
        boot(rig, Ctx(boot_probe=other_port), power="on", prove="boot")
    assert "BOOTIF 01-52-54-00-00-00-02" in caught.value.seen


@pytest.mark.slow
def test_an_old_boot_is_no_new_one(rig: Rig) -> None:
    old = {"boot_id": "the-old-one", "cmdline": "BOOTIF=01-52-54-00-00-00-01", "uptime": "86400"}
    for start in ("Off", "On"):
        rig.force(start)
        with pytest.raises(DeadlineExceeded):
            boot(rig, Ctx(boot_probe=lambda: old), power="restart", prove="boot", timeout=2.0)


def test_power_on_leaves_a_running_machine_alone(rig: Rig) -> None:
    rig.force("On")
    ctx = Ctx(boot_probe=rig.probe)
    boot(rig, ctx, power="on", accept_inconclusive=True)
    assert not any("Reset" in what or "Control" in what for what, _destructive in ctx.watch.asked)


def test_its_event_log_is_read_or_there_is_none(rig: Rig) -> None:
    before = rig.writes()
    try:
        found = log({**rig.params, "timeout": 30.0, "most": 5}, Ctx()).data
    except Unsupported as exc:
        assert "event log" in exc.what and exc.address and exc.do
    else:
        assert found["log"]["id"] and found["unread"] == [] and len(found["entries"]) <= 5
    assert rig.writes() == before


def test_what_a_bmc_says_of_itself(rig: Rig) -> None:
    rig.force("On")
    before = rig.writes()
    found = info({**rig.params, "timeout": 20.0}, Ctx()).data
    assert found["power"] == "on"
    assert found["identity"]["uuid"]
    assert {"on", "force_off"} <= set(found["capabilities"]["power"])
    assert "pxe" in found["capabilities"]["boot_targets"]
    assert found["capabilities"]["shows_boot_override"] is not rig.blind
    assert rig.writes() == before
