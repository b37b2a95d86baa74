# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait for a batch and the guard before each write, over a provisioner in memory: who is left alone, and when."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    Fenced,
    FleetError,
    NotOurs,
    Refused,
    Unreachable,
    Unsupported,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import guard
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import STOP
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node as one_node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline
from unit.provisioner.memory import OTHER, RUN, Memory, at, verdict, wait


def test_t1_a_node_is_sent_on_once_and_waited_for() -> None:
    found = verdict(at("new"), at("going"), at("going"), at("active"), timeout=20)
    assert found["ok"] and Memory.sent == ["n1"]


@pytest.mark.parametrize(
    ("view", "told"),
    [
        (at("odd"), "needs a person"),
        (at("bad", last_error="no lease"), "bad: no lease"),
        (at("new", foreign="owner is bob"), "not ours to touch: owner is bob"),
        (at("going", foreign="owner is bob"), "not ours to touch"),
        (at("new", maintenance=True, hold=OTHER), "another controller"),
        (at("new", maintenance=True, hold=RUN), "in our own maintenance"),
        (at("cold"), "must now boot"),
        (None, "does not know"),
    ],
)
def test_t1_what_nothing_of_ours_brings_on_is_neither_touched_nor_waited_for(view: Any, told: str) -> None:
    begun = time.monotonic()
    found = verdict(view, timeout=60)
    assert not found["ok"] and told in found["reason"] and Memory.sent == []
    assert time.monotonic() - begun < 30


def test_t1_a_machine_that_others_boot_is_waited_for_once_they_did() -> None:
    assert verdict(at("cold"), at("cold"), at("active"), booted=True, timeout=20)["ok"]
    assert Memory.sent == []


def test_t1_check_mode_sends_nothing_and_waits_for_nothing() -> None:
    assert verdict(at("new"), check_mode=True, timeout=60)["ok"]
    result = wait(check_mode=True)
    assert Memory.sent == [] and result.data["steps"] == {} and result.changed is False


def test_t1_a_node_that_came_back_to_where_it_was_is_not_sent_on_again() -> None:
    found = verdict(
        at("new", stamp="1"), at("going", stamp="2"), at("new", stamp="3", last_error="no image"), timeout=60
    )
    assert not found["ok"] and "led back to new: no image" in found["reason"] and Memory.sent == ["n1"]
    assert found["kind"] == "", "which is a verdict about the node"
    back = at("new", stamp="3", last_error="the conductor was restarted", excuse="was restarted amid it")
    found = verdict(at("new", stamp="1"), at("going", stamp="2"), back, timeout=60)
    assert not found["ok"] and found["kind"] == "unreachable" and "led back to new" in found["reason"], found


def test_t1_a_node_that_is_late_is_not_there() -> None:
    found = verdict(at("going", last_error="slow disk"), timeout=0.1)
    assert not found["ok"] and "still going after 0.1 s; slow disk" in found["reason"]


@pytest.mark.parametrize("problem", [AuthFailed("refused"), Fenced("the run is gone")])
@pytest.mark.parametrize("where", ["look", "write"])
def test_t1_what_concerns_all_ends_the_task(problem: FleetError, where: str) -> None:
    Memory.seen = {"n1": [problem if where == "look" else at("new")], "n2": [at("new")]}
    Memory.refusals = {"n1": [problem]}
    with pytest.raises(type(problem)):
        wait(timeout=5)
    assert Memory.sent == []


def test_t1_what_concerns_one_node_is_its_own() -> None:
    Memory.seen = {"n1": [at("new")], "n2": [at("new"), at("active")]}
    Memory.refusals = {"n1": [Refused("no disk")]}
    found = wait(timeout=20).data["verdicts"]
    assert "no disk" in found["n1"]["reason"] and not found["n1"]["ok"] and found["n2"]["ok"]


def test_j7_the_ledger_gets_to_know_who_was_refused_where_the_wait_fails() -> None:
    Memory.seen = {"n1": [at("new")], "n2": [at("going"), AuthFailed("no such key")]}
    Memory.refusals = {"n1": [Refused("no disk")]}
    ctx = Context()
    with pytest.raises(AuthFailed):
        wait(ctx=ctx)
    assert [(event.node, event.data["kind"]) for event in ctx.told] == [("n1", "refused")]


class Answers(Memory):
    """Says no to an order that it was sent, and that was announced."""

    name = "answers"

    def start(self, step: str, node: c.NodeState, wanted: Wanted) -> None:
        self.ctx.may_write(f"{step} {wanted.host}", destructive=True, nodes=(wanted.host,))
        for problem in self.refusals.get(wanted.host, []):
            raise problem


@pytest.mark.parametrize("problem", [AuthFailed("no such key"), NotOurs("it is locked"), ConfigError("no such image")])
def test_j7_whatever_kept_an_announced_order_from_being_taken_the_ledger_gets_to_know(
    monkeypatch: pytest.MonkeyPatch, problem: FleetError
) -> None:
    """Whoever deploys the second node then does so for himself; the first one is ours."""
    monkeypatch.setitem(DRIVERS, Answers.name, Answers)
    Memory.seen = {"n1": [at("new"), at("active")], "n2": [at("new")], "n3": [at("going"), at("active")]}
    Memory.refusals, ctx = {"n2": [problem]}, Context()
    with contextlib.suppress(AuthFailed):
        wait(provisioner="answers", ctx=ctx)
    assert [(event.node, event.data["kind"]) for event in ctx.told] == [("n2", problem.kind)]
    assert ctx.ordered == {"n1": "deployed"}


def test_t1_an_outage_that_passes_is_waited_out_and_one_that_lasts_is_told() -> None:
    assert verdict(Unreachable("down"), at("active"), timeout=20)["ok"]
    Memory.refusals = {"n1": [Unreachable("down")]}
    assert verdict(at("new"), at("new"), at("active"), timeout=20)["ok"]
    with pytest.raises(Unreachable):
        verdict(Unreachable("down"), timeout=0.1)


def test_x2_a_step_that_an_outage_kept_from_being_taken_says_nothing_of_the_node() -> None:
    """Looks are answered meanwhile, as by a proxy that serves what it knows; deploy and enroll go by the kind."""
    Memory.refusals = {"n1": [Unreachable("down") for _ in range(1000)]}
    found = verdict(at("new"), timeout=0.3)
    assert not found["ok"] and "down" in found["reason"] and found["kind"] == Unreachable.kind
    Memory.refusals = {}
    assert verdict(at("going"), timeout=0.1)["kind"] == "", "a node that is late is a finding"


@pytest.mark.parametrize(("later", "asked"), [("going", {}), ("cold", {"booted": True})])
def test_l7_an_outage_that_is_over_is_not_why_a_deploy_hangs(later: str, asked: dict[str, bool]) -> None:
    """The order was taken, and its answer lost: what comes after it is the node's own."""
    Memory.refusals = {"n1": [Unreachable("down")]}
    found = verdict(at("new"), at(later), timeout=0.3, **asked)
    assert not found["ok"] and found["kind"] == "" and "down" not in found["reason"], found


class Losing(Lifeline):
    def confirm(self) -> dict[str, str]:
        return {"n1": "another run works on it"}


@pytest.mark.parametrize("native", ["active", "cold", "going"])
def test_t1_a_node_that_was_lost_has_no_verdict_but_that(native: str) -> None:
    Memory.seen = {"n1": [at(native)], "n2": [at("active")]}
    found = wait(lifeline=Losing()).data["verdicts"]
    lost = found["n1"]
    assert (lost["ok"], lost["reason"], lost["step"]) == (False, "another run works on it", "")
    assert found["n2"]["ok"]


_TOLD = ("provisioner", "provisioner_url", "provisioner_username", "provisioner_ca_path", "provisioner_cloud")


@pytest.mark.parametrize("key", _TOLD)
@pytest.mark.parametrize(("own", "asked"), [("another", "memory"), ("", "memory"), ("another", "")])
def test_t1_a_node_of_another_provisioner_is_not_watched_here(key: str, own: str, asked: str) -> None:
    """A connection that is empty here and not there is another one, too."""
    Memory.seen = {"n1": [at("active")]}
    told = {**dict.fromkeys(_TOLD, "memory"), **({key: asked} if key != "provisioner" else {})}
    found = wait(nodes=[{"host": "n1", key: own}], **told).data["verdicts"]["n1"]
    assert not found["ok"] and f"its {key} is {own or 'not set'}" in found["reason"]


@pytest.mark.parametrize("native", ["new", "going", "active"])
def test_t1_a_node_that_is_another_machine_is_not_watched(native: str) -> None:
    Memory.known_serials = {"record": "S2"}
    found = verdict(at(native), timeout=20)
    assert not found["ok"] and "another machine" in found["reason"] and Memory.sent == []


def test_a_path_that_is_written_otherwise_is_no_other_and_a_secret_is_not_told() -> None:
    Memory.seen = {"n1": [at("active")]}
    item = {"host": "n1", "known_runs": ["r1"], "provisioner_ca_path": "~/ca.pem", "provisioner_password": "hunter2"}
    found = wait(nodes=[item], provisioner_ca_path=str(Path.home() / "ca.pem"), provisioner_password="other")
    assert "separate plays" not in str(found) and "hunter2" not in str(found)


def test_t1_a_node_that_is_another_machine_is_not_sent_on() -> None:
    """Its record says nothing; before the write it is asked what its inspection found."""
    Memory.known_serials = {"inspection": "S2"}
    found = verdict(at("new"), timeout=20)
    assert not found["ok"] and "another machine" in found["reason"] and Memory.sent == []
    Memory.known_serials = {"inspection": "S1"}
    assert verdict(at("new"), at("active"), timeout=20)["ok"]


# -- the guard -------------------------------------------------------------------------------------------------------

MINE = Wanted(host="n1", serial="S1", boot_mac="52:54:00:00:00:01", run="r2", runs=frozenset({"r1"}))


@pytest.mark.parametrize(
    ("serials", "macs", "complete", "right"),
    [
        ({}, (), True, True),
        ({"record": "S1", "inspection": " s1 "}, (), True, True),
        ({"record": "S1", "inspection": "S2"}, (), True, False),
        ({"record": "S2"}, (), True, False),
        ({}, ("52:54:00:00:00:01",), True, True),
        ({}, ("52:54:00:00:00:02",), True, False),
        ({}, ("52:54:00:00:00:02",), False, False),
        ({"record": "S1"}, ("52:54:00:00:00:02",), False, True),
        ({"record": "S1"}, ("52:54:00:00:00:02",), True, False),
    ],
)
def test_t1_a_node_that_contradicts_the_inventory_is_another_machine(
    serials: dict[str, str], macs: tuple[str, ...], complete: bool, right: bool
) -> None:
    Memory.known_serials, Memory.cards = serials, c.Network(macs=frozenset(macs), complete=complete)
    driver = Memory({}, Context())
    if right:
        guard.right_machine(driver, at("new"), MINE)
        return
    with pytest.raises(WrongMachine), guard.writing(driver, at("new"), MINE):
        raise AssertionError("nothing is written to another machine")


@pytest.mark.parametrize(
    ("serials", "card"),
    [({"record": "S2"}, "01"), ({}, "02"), ({"inspection": "S2"}, "01")],
    ids=["serial", "card", "late"],
)
def test_r3_both_verbs_leave_a_machine_that_is_found_by_name_and_is_another(
    monkeypatch: pytest.MonkeyPatch, serials: dict[str, str], card: str
) -> None:
    Memory.known_serials, Memory.cards = serials, c.Network(frozenset({f"52:54:00:00:00:{card}"}), complete=True)
    Memory.found = at("new")
    monkeypatch.setitem(DRIVERS, "memory", Memory)
    mine = {"host": "n1", "known_runs": ["r1"], "serial": "S1", "boot_mac": "52:54:00:00:00:01"}
    gold = {"name": "gold", "version": "1", "url": "http://127.0.0.1:9/gold", "sha256": "0" * 64}
    found = verdict(at("new"), timeout=20, nodes=[mine])
    assert not found["ok"] and "another machine" in found["reason"]
    with pytest.raises(WrongMachine):
        one_node(
            {**mine, "name": "n1", "provisioner": "memory", "state": "deployed", "image": gold, "run_id": "r2"},
            Context(),
        )
    assert Memory.sent == []


def test_r4_a_serial_that_is_none_neither_agrees_nor_contradicts() -> None:
    """What a board says that nobody gave one: the cards decide."""
    driver = Memory({}, Context())
    Memory.known_serials = {"record": "To be filled by O.E.M."}
    for card, right in (("52:54:00:00:00:01", True), ("52:54:00:00:00:02", False)):
        Memory.cards = c.Network(macs=frozenset({card}), complete=False)
        if right:
            guard.right_machine(driver, at("new"), MINE)
        else:
            with pytest.raises(WrongMachine):
                guard.right_machine(driver, at("new"), MINE)


@pytest.mark.parametrize(
    ("view", "runs", "ours"),
    [
        (at("new"), {"r1"}, True),
        (at("new", hold=RUN), {"r1"}, True),
        (at("new", hold="gpufleet:r2:x"), set(), True),
        (at("new", hold=OTHER), {"r1"}, False),
        (at("new", foreign="locked"), {"r1"}, False),
        (at("new", hold=OTHER), None, True),
        (at("new", hold="gpufleet:r1+keep:x"), {"r1"}, False),
        (at("new", hold="gpufleet:r2+keep:x"), {"r2"}, False),
        (at("new", hold="gpufleet:r1+keep:x"), None, False),
        (at("new", hold="gpufleet:r1+quarantine:x"), {"r1"}, True),
    ],
)
def test_t1_a_node_is_left_to_whose_it_is(view: c.NodeState, runs: Any, ours: bool) -> None:
    wanted = replace(MINE, runs=None if runs is None else frozenset(runs))
    if ours:
        guard.leave_foreign_alone(Memory({}, Context()), view, wanted)
        return
    with pytest.raises(NotOurs):
        guard.leave_foreign_alone(Memory({}, Context()), view, wanted)


@pytest.mark.parametrize(("option", "limit"), [("erase", "erases"), ("annotations", "annotates")])
def test_t1_what_a_driver_cannot_do_is_not_asked_of_it(
    monkeypatch: pytest.MonkeyPatch, option: str, limit: str
) -> None:
    driver = Memory({}, Context())
    guard.can(driver, {option: {"a": "b"}})
    monkeypatch.setattr(Memory, limit, False)
    with pytest.raises(Unsupported):
        guard.can(driver, {option: {"a": "b"}})


def test_t1_a_state_that_no_table_knows_needs_a_person() -> None:
    driver = Memory({}, Context())
    assert driver.next_step(replace(at("odd"), native="unheard of"), "deployed", MINE) == STOP
