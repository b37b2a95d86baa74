# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders for many nodes, and one writer at a time: who is judged when, and what a lost answer ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    ConfigError,
    Fenced,
    FleetError,
    Refused,
    Unreachable,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import node as node_verb
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import registry
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn as turns
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, Result
from unit.provisioner.memory import Memory, at, verdict, wait


@pytest.mark.parametrize("native", ["active", "cold"])
def test_t1_a_node_is_asked_who_it_is_before_it_is_called_deployed_or_due_for_its_boot(native: str) -> None:
    """Its record says nothing; whoever believes the verdict boots the machine, or hands it on."""
    Memory.known_serials = {"inspection": "S2"}
    found = verdict(at(native), timeout=20)
    assert not found["ok"] and "another machine" in found["reason"] and found["step"] == ""
    Memory.found = at(native)
    with pytest.raises(WrongMachine):
        lead()
    Memory.known_serials = {"inspection": "S1"}
    assert verdict(at(native), timeout=20)["step"] == lead().data["step"] == ("boot" if native == "cold" else "")


def lead() -> Result:
    params = {
        "provisioner": "memory", "name": "n1", "state": "deployed", "serial": "S1",
        "image": {"name": "a", "version": "1", "url": "http://a"},
    }  # fmt: skip
    return node_verb.node(params, Context(node="n1"))


class Many(Memory):
    """Has a request of its own for many nodes; what befalls it befalls all of them, and may come after its effect."""

    name = "many"
    told_orders: ClassVar[list[Any]] = []
    untold: ClassVar[set[str]] = set()

    def start_many(self, step: str, nodes: Sequence[tuple[c.NodeState, Wanted]]) -> Iterator[c.Taken]:
        problem, effect = self.told_orders.pop(0)
        if effect:
            self.sent.append(",".join(wanted.host for _node, wanted in nodes))
        if problem:
            raise problem
        yield from ((wanted.host, None) for _node, wanted in nodes if wanted.host not in self.untold)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.DRIVERS, Many.name, Many)


def test_t1_an_order_for_many_whose_answer_is_lost_is_looked_after_and_not_given_again(many: None) -> None:
    Many.told_orders = [(Unreachable("no answer"), True)]
    Memory.seen = {host: [at("new"), at("going"), at("active")] for host in ("n1", "n2")}
    found = wait(provisioner="many", timeout=20).data["verdicts"]
    assert found["n1"]["ok"] and found["n2"]["ok"] and Memory.sent == ["n1,n2"]


def test_t1_an_order_for_many_that_was_lost_is_given_again_and_one_that_is_refused_is_not(many: None) -> None:
    Many.told_orders = [(Unreachable("no answer"), False), (None, True)]
    Memory.seen = {host: [at("new"), at("new"), at("active")] for host in ("n1", "n2")}
    found = wait(provisioner="many", timeout=20).data["verdicts"]
    assert found["n1"]["ok"] and found["n2"]["ok"] and Memory.sent == ["n1,n2"]
    Many.told_orders = [(Refused("no such image"), False)]
    Memory.seen = {"n1": [at("new")], "n2": [at("new")], "n3": [at("active")]}
    found = wait(provisioner="many", timeout=20).data["verdicts"]
    assert [host for host, one in found.items() if "no such image" in one["reason"]] == ["n1", "n2"]
    assert found["n3"]["ok"]


def test_an_order_of_which_its_driver_says_nothing_was_given_to_nobody(many: None, monkeypatch: Any) -> None:
    """It is looked after and given again, and no node is blamed for it."""
    monkeypatch.setattr(Many, "untold", {"n2"})
    Many.told_orders = [(None, True)] * 40
    Memory.seen = {"n1": [at("new"), at("active")], "n2": [at("new")]}
    ctx = Context()
    found = wait(provisioner="many", ctx=ctx).data
    assert found["verdicts"]["n1"]["ok"] and found["steps"] == {"n1": ["deploy"]} and ctx.ordered == {}
    assert "does not say whether it was taken" in found["verdicts"]["n2"]["reason"]
    assert found["verdicts"]["n2"]["kind"] == "bad_answer"


@pytest.mark.parametrize("problem", [AuthFailed("refused"), Fenced("the run is gone")])
def test_t1_an_order_for_many_that_fails_by_what_concerns_all_ends_the_task(many: None, problem: FleetError) -> None:
    Many.told_orders = [(problem, False)]
    Memory.seen = {"n1": [at("new")]}
    with pytest.raises(type(problem)):
        wait(provisioner="many", timeout=5)


# -- one writer at a time --------------------------------------------------------------------------------------------


@pytest.fixture
def serial(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(turns, "TIMEOUT", 0.1)
    monkeypatch.setattr(Memory, "serial", True)


def test_t1_one_writer_at_a_time_where_one_of_two_writes_is_lost(serial: None, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Memory({}, Context())
    with turns.turn(driver, driver.ctx), pytest.raises(turns.NoTurn), turns.turn(driver, driver.ctx):
        raise AssertionError("two write at once")
    monkeypatch.setattr(Memory, "serial", False)
    with turns.turn(driver, driver.ctx), turns.turn(driver, driver.ctx):
        pass


def test_a_turn_that_is_not_got_is_asked_for_again_and_ends_nobodys_time(serial: None) -> None:
    """Others write for longer than a turn is waited for; the node's own time goes on, and it is deployed in the end."""
    driver = Memory({}, Context())
    holding = turns.turn(driver, driver.ctx)
    holding.__enter__()
    free = threading.Timer(0.5, holding.__exit__, (None, None, None))
    free.start()
    Memory.seen["n1"] = [at("new")]
    try:
        found = verdict(*[at("new")] * 400, at("active"), timeout=20)
    finally:
        free.join()
    assert found["ok"] and Memory.sent == ["n1"]


class Meanwhile(Lifeline):
    """A person takes n2 while n1 is written."""

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> None:
        Memory.seen["n2"] = [at("new", foreign="owner is bob")]


def test_t1_where_one_writes_at_a_time_each_node_is_judged_right_before_its_own_write(serial: None) -> None:
    Memory.seen = {
        "n1": [at("new"), at("new"), at("active")],
        "n2": [at("new")],
        "n3": [at("new")] * 2 + [at("active")],
    }
    found = wait(lifeline=Meanwhile(), timeout=20).data["verdicts"]
    assert Memory.sent == ["n1", "n3"] and "owner is bob" in found["n2"]["reason"]
    assert found["n1"]["ok"] and found["n3"]["ok"]


def test_a_turn_that_is_not_got_is_waited_for_once_for_all(serial: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not sent now is asked again at the next poll; to wait for each would take the time of the whole batch."""
    monkeypatch.setattr(turns, "TIMEOUT", 0.5)
    driver = Memory({}, Context())
    Memory.seen = {f"n{number}": [at("new")] for number in range(20)}
    with turns.turn(driver, driver.ctx):
        begun = time.monotonic()
        found = wait(timeout=0.6).data["verdicts"]
        assert time.monotonic() - begun < 5
    assert Memory.sent == [] and all("to themselves" in one["reason"] for one in found.values())


def test_t1_two_provisioners_wait_for_each_other_never(serial: None, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Memory({}, Context())
    with turns.turn(driver, driver.ctx):
        monkeypatch.setattr(Memory, "address", "memory://other")
        with turns.turn(driver, driver.ctx):
            pass


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_t1_locks_that_others_could_take_are_none(serial: None, tmp_path: Any, mode: int) -> None:
    folder = tmp_path / f"gpufleet-provisioner-{os.getuid()}"
    folder.mkdir()
    folder.chmod(mode)
    driver = Memory({}, Context())
    with pytest.raises(ConfigError, match="alone"), turns.turn(driver, driver.ctx):
        raise AssertionError("the folder is not ours alone")
