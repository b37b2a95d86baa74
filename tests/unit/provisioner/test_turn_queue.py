# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of one task that wait for the same turn."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import turn
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.turn import NoTurn, Queue
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until


class Gone(Exception):
    """Its run is there no more."""


def test_they_have_it_one_by_one_in_the_order_in_which_they_came() -> None:
    queue, had, most, now = Queue(), [], 0, 0

    def work(number: int) -> None:
        nonlocal most, now
        with queue.place(lambda: None):
            now += 1
            most = max(most, now)
            had.append(number)
            now -= 1

    with queue.place(lambda: None):
        threads = []
        for number in range(5):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            there = functools.partial(len, queue._waiting)
            wait_until(there, (number + 2).__eq__, timeout=20, interval=0.01, wanted="its place")
        assert had == []
    for thread in threads:
        thread.join(20)
    assert had == [0, 1, 2, 3, 4] and most == 1


def test_who_is_cut_while_it_waits_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "_BEAT_SECONDS", 0.01)
    queue = Queue()

    def gone() -> None:
        raise Gone

    with queue.place(lambda: None), pytest.raises(Gone), queue.place(gone):
        raise AssertionError("two have the turn")
    with queue.place(gone):
        pass


def test_where_one_has_waited_in_vain_those_behind_it_have_as_well_and_who_comes_later_tries_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though those are still there: each of them asks whether its run is, and hears of it when it has the answer."""
    monkeypatch.setattr(turn, "_BEAT_SECONDS", 0.01)
    queue, told, asks, answered = Queue(), [], [], threading.Event()

    def beat() -> None:
        asks.append(threading.get_ident())
        answered.wait(20)

    def work(beat: Callable[[], None]) -> None:
        try:
            with queue.place(beat):
                told.append("its turn")
        except NoTurn as exc:
            told.append(exc.what)

    behind = [threading.Thread(target=work, args=(beat,)) for _number in range(3)]
    with pytest.raises(NoTurn), queue.place(lambda: None):
        for thread in behind:
            thread.start()
        wait_until(lambda: len(set(asks)), (3).__eq__, timeout=20, interval=0.01, wanted="all of them asking")
        raise NoTurn("others keep xcat to themselves")
    later = threading.Thread(target=work, args=(lambda: None,))
    later.start()
    wait_until(lambda: len(queue._waiting), (4).__eq__, timeout=20, interval=0.01, wanted="its place behind them")
    answered.set()
    for thread in (*behind, later):
        thread.join(20)
    assert told == ["others keep xcat to themselves"] * 3 + ["its turn"]
