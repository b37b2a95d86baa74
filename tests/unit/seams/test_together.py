# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Those who are at work at once ask together, and nobody waits for one who does not come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import together
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers, Rounds, copied
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, asked_beside


class Peer:
    """Doubles each number that it is asked for, and counts how often it is asked."""

    def __init__(self) -> None:
        self.rounds: list[list[Any]] = []
        self.away = False

    def __call__(self, asked: Sequence[Any]) -> list[Any]:
        self.rounds.append(sorted(asked))
        if self.away:
            raise Unreachable("it is away")
        return [Refused("odd") if number % 2 else number * 2 for number in asked]


def at_work(rounds: Rounds, number: int, work: Callable[[int], None]) -> None:
    def one(which: int) -> None:
        with rounds.one():
            work(which)

    threads = [threading.Thread(target=one, args=(which,)) for which in range(number)]
    for _one in threads:
        rounds.enter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_each_hears_its_own_answer_of_one_question_for_all() -> None:
    rounds, peer, told = Rounds(quiet=60.0), Peer(), {}

    def work(which: int) -> None:
        for turn in range(3):
            told[which, turn] = rounds.ask("numbers", 2 * (100 * turn + which), peer)

    at_work(rounds, 50, work)
    assert peer.rounds == [sorted(2 * (100 * turn + which) for which in range(50)) for turn in range(3)]
    assert told == {(which, turn): 4 * (100 * turn + which) for which in range(50) for turn in range(3)}


def test_who_has_done_is_not_waited_for() -> None:
    rounds, peer = Rounds(quiet=60.0), Peer()
    at_work(rounds, 20, lambda which: [rounds.ask("numbers", 2, peer) for _turn in range(which % 3)] and None)
    assert [len(one) for one in peer.rounds] == [13, 6]


def test_who_sleeps_holds_up_nobody_for_long() -> None:
    rounds, peer, ended = Rounds(quiet=0.5), Peer(), {}
    began = time.monotonic()

    def work(which: int) -> None:
        if which == 0:
            time.sleep(2.5)
        rounds.ask("numbers", 2, peer)
        ended[which] = time.monotonic() - began

    at_work(rounds, 5, work)
    assert [len(one) for one in peer.rounds] == [4, 1] and max(ended[which] for which in range(1, 5)) < 2.5 <= ended[0]


def test_a_refusal_is_its_own_and_what_befalls_the_question_is_everybodys() -> None:
    rounds, peer, failed = Rounds(quiet=60.0), Peer(), {}

    def work(which: int) -> None:
        try:
            rounds.ask("numbers", which, peer)
        except Refused as exc:
            failed[which] = exc.located(node=f"n{which}")
        peer.away = True
        with pytest.raises(Unreachable) as raised:
            rounds.ask("numbers", which, peer)
        raised.value.located(node=f"n{which}")
        assert raised.value.node == f"n{which}", "nobody else's"

    at_work(rounds, 6, work)
    assert {which: exc.node for which, exc in failed.items()} == {1: "n1", 3: "n3", 5: "n5"}


def test_groups_are_asked_apart_in_one_round_by_one_thread() -> None:
    rounds, busy, seen = Rounds(quiet=60.0), threading.Lock(), []

    def serve(asked: Sequence[Any]) -> list[Any]:
        assert busy.acquire(blocking=False), "one asks at a time"
        seen.append(len(asked))
        busy.release()
        return list(asked)

    at_work(rounds, 9, lambda which: rounds.ask(which % 3, which, serve))
    assert sorted(seen) == [3, 3, 3]


def test_a_copy_of_an_error_is_another_one_of_the_same() -> None:
    first = Unreachable("away", address="x", details={"slow": 3})
    other = copied(first)
    assert isinstance(other, Unreachable) and str(other) == str(first) and other.args == first.args
    other.details["slow"] = 4
    other.located(node="n1")
    assert first.details == {"slow": 3} and not first.node


def test_what_all_have_in_common_is_made_once() -> None:
    peers, made = Peers(), []
    found = [peers.one("a", lambda: made.append(1) or object()) for _turn in range(3)]
    assert len(set(map(id, found))) == 1 == len(made)


def test_what_takes_long_to_make_keeps_nobody_from_other_things() -> None:
    """It may wait for one who needs them."""
    peers, may, told = Peers(), threading.Event(), []

    def long() -> str:
        told.append(may.wait(20))
        return "made"

    thread = threading.Thread(target=lambda: told.append(peers.one("a", long)))
    thread.start()
    other = threading.Thread(target=lambda: (peers.one("b", lambda: "b"), may.set()))
    other.start()
    other.join(10)
    thread.join(30)
    assert told == [True, "made"] and peers.one("a", lambda: "anew") == "made"


class LedgerAway(Lifeline):
    @asked_beside()
    def beat(self) -> None:
        raise Unreachable("the ledger is away")


@pytest.mark.parametrize("away", ["ledger", "peer"])
def test_the_ledger_of_whoever_asks_for_all_is_nobody_elses(away: str) -> None:
    peers, told, first = Peers(), {}, threading.Lock()
    peers.rounds = Rounds(quiet=60.0)

    def work(which: int) -> None:
        line = LedgerAway() if first.acquire(blocking=False) and away == "ledger" else None
        driver: Any = SimpleNamespace(name="x", address="y", kept_open=(), ctx=Context(peers=peers, lifeline=line))

        def read(names: Mapping[str, None]) -> Mapping[str, int]:
            if away == "peer":
                raise Unreachable("it is away")
            driver.ctx.wait(lambda: True, bool, timeout=1, interval=1, wanted="an answer")
            return {name: len(names) for name in names}

        if line is None:
            time.sleep(0.5)  # the other one is the first to ask
        try:
            told[which] = together.of_each(driver, "nodes", {f"n{which}": None}, read)
        except Unreachable as exc:
            told[which] = exc.what

    at_work(peers.rounds, 4, work)
    whole = [one for one in told.values() if isinstance(one, dict)]
    lost = [one for one in told.values() if isinstance(one, str)]
    if away == "peer":
        assert lost == ["it is away"] * 4
    else:
        assert lost == ["the ledger is away"] and all(list(one.values()) == [3] for one in whole) and len(whole) == 3
