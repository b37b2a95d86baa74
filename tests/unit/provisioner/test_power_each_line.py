# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power through a provisioner: what is sent, what is waited for, and what is never sent twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    DeadlineExceeded,
    EvidenceMissing,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import power
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import record as bcm_record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import tables as bcm_tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm.driver import BcmDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import tables as xcat_tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.driver import XcatDriver
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from unit.provisioner.memory import Memory, at, forget

ON_ITS_WAY = "on, on its way to power off"


class Powered(Memory):
    """``shows``: what each look finds, the last one from then on."""

    switches = True
    busy = frozenset({"going"})
    shows: ClassVar[list[str]] = []

    def power_of(self, node: Any) -> str:
        return self.shows.pop(0) if len(self.shows) > 1 else self.shows[0]

    def switch(self, state: str, node: Any, wanted: Any) -> None:
        if self.ctx.may_write(f"power {state}", destructive=state == "off", nodes=(wanted.host,)):
            self.sent.append(state)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(power, "TIMEOUT", 0.05)
    monkeypatch.setattr(power, "INTERVAL", 0.01)
    forget()
    yield
    forget()


def switched(state: str, *shows: str, native: str = "active", ctx: Context | None = None, **more: Any) -> Any:
    ctx, Powered.shows = ctx or Context(), list(shows)
    found = power.switched(Powered({}, ctx), at(native), Wanted(host="n1", serial="S1", **more), state, ctx)
    return found, Memory.sent


@pytest.mark.parametrize(
    ("state", "shows", "sent"),
    [
        ("powered_off", ["on", ON_ITS_WAY, "off"], ["off"]),
        ("powered_off", ["off"], []),
        ("powered_on", ["off", "off", "on"], ["on"]),
        ("powered_on", ["on"], []),
        ("powered_on", ["unknown", "on"], ["on"]),
        ("restarted", ["on", "on", "off", "off", "on"], ["off", "on"]),
        ("restarted", ["off", "on"], ["on"]),
    ],
)
def test_what_is_not_so_yet_is_asked_for_and_waited_for(state: str, shows: list[str], sent: list[str]) -> None:
    found, asked = switched(state, *shows)
    assert found == (shows[0], shows[-1]) and asked == sent


@pytest.mark.parametrize(("begun", "shows", "sent"), [("on", ["off", "on"], []), ("off", ["on", "off", "on"], ["on"])])
def test_what_an_earlier_part_has_sent_is_waited_for_and_not_sent_again(
    begun: str, shows: list[str], sent: list[str]
) -> None:
    _found, asked = switched("restarted", *shows, ctx=Context(begun=begun))
    assert asked == sent


def test_a_machine_that_does_not_go_off_is_not_switched_on() -> None:
    with pytest.raises(DeadlineExceeded) as told:
        switched("restarted", "on", ON_ITS_WAY)
    assert Memory.sent == ["off"] and ON_ITS_WAY in told.value.seen


def test_check_mode_foretells_and_sends_nothing() -> None:
    assert switched("restarted", "on", ctx=Context(check_mode=True)) == (("on", "on"), [])


def test_while_the_provisioner_is_at_work_with_it_a_reason_is_needed() -> None:
    with pytest.raises(Refused, match="is at work with this machine"):
        switched("powered_off", "on", native="going")
    assert Memory.sent == []
    assert switched("powered_off", "on", "off", native="going", forced=True)[1] == ["off"]


def test_a_record_that_says_nothing_of_the_machine_is_no_permit() -> None:
    Memory.known_serials = {}
    with pytest.raises(EvidenceMissing, match="nothing shows"):
        switched("powered_off", "on")
    assert Memory.sent == []


@pytest.mark.parametrize(
    ("driver", "working", "resting"),
    [
        (XcatDriver, xcat_tables.AT_WORK, ("booted", "powering-off", "powering-on", "unreachable", "down", "noted")),
        (BcmDriver, bcm_tables.UNDER_WAY, ("up", "down", "ordered", "defined")),
    ],
)
def test_what_goes_off_or_on_by_its_own_request_is_not_at_work(driver: Any, working: Any, resting: Any) -> None:
    for native, expected in [*((one, True) for one in working), *((one, False) for one in resting)]:
        assert driver.is_at_work(None, NodeState("n", "n", native, "other")) is expected, native


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("custom      node001 ............. [   ON   ]\n", "on"),
        ("apc03:21 ............ [ OFF ] node001\n", "off"),
        ("apc03:21 ..... [ ON ] node001\napc04:18 ..... [ OFF ] node001\n", "off and on"),
        ("ipmi0 ............ [ FAIL ] node001 (no answer)\n", "fail"),
        ("apc03:21 ............ [ ON ] node0010\n", ""),
        ("Error: no device node001\n", ""),
    ],
)
def test_bcm_tells_power_with_the_node_on_either_side(text: str, told: str) -> None:
    assert bcm_record.power(text, "node001") == told
