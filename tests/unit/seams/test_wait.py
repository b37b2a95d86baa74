# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one loop that sleeps: its deadline, its beat, and the thread beside a long call."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded, Fenced
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import kept_alive, wait_until


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_reads_at_least_once_with_no_time_at_all() -> None:
    assert wait_until(lambda: "On", lambda v: v == "On", timeout=0, interval=1, wanted="On") == "On"


def test_a_value_that_comes_late_is_found() -> None:
    clock, values = Clock(), iter(["Off", "Off", "On"])
    found = wait_until(
        lambda: next(values), lambda v: v == "On", timeout=60, interval=2, wanted="On", clock=clock, pause=clock.pause
    )
    assert found == "On"
    assert len(clock.pauses) == 2
    assert all(1.8 <= pause <= 2.2 for pause in clock.pauses)


def test_b7_a_pause_may_grow() -> None:
    clock, values, grown = Clock(), iter(["Off", "Off", "Off", "On"]), iter([1.0, 10.0, 20.0])
    wait_until(
        lambda: next(values), lambda v: v == "On", timeout=60, interval=lambda: next(grown), wanted="On", clock=clock,
        pause=clock.pause,
    )  # fmt: skip
    assert [round(pause, -1) if pause > 2 else 1 for pause in clock.pauses] == [1, 10, 20]


def test_the_deadline_names_what_was_wanted_and_seen() -> None:
    clock = Clock()
    with pytest.raises(DeadlineExceeded) as caught:
        wait_until(
            lambda: "Off", lambda v: v == "On", timeout=7, interval=2, wanted="power On", clock=clock, pause=clock.pause
        )
    assert "power On" in str(caught.value) and "Off" in str(caught.value)
    assert clock.now == pytest.approx(7)


def test_the_last_pause_does_not_pass_the_deadline_and_one_more_look_is_taken() -> None:
    clock, looks = Clock(), []

    def read() -> float:
        looks.append(clock.now)
        return clock.now

    with pytest.raises(DeadlineExceeded):
        wait_until(read, lambda v: False, timeout=3, interval=10, wanted="never", clock=clock, pause=clock.pause)
    assert looks == [0.0, pytest.approx(3)]


def test_a_beat_that_raises_ends_the_wait_before_the_next_look() -> None:
    clock, beats = Clock(), []

    def beat() -> None:
        beats.append(clock.now)
        if len(beats) == 3:
            raise Fenced("the run is gone")

    with pytest.raises(Fenced):
        wait_until(lambda: 0, bool, timeout=60, interval=1, wanted="x", beat=beat, clock=clock, pause=clock.pause)
    assert len(clock.pauses) == 2


def test_beside_a_long_call_the_beat_goes_on_and_ends_with_it() -> None:
    beaten = threading.Event()
    with kept_alive(beaten.set, interval=0.01):
        assert beaten.wait(5)
    assert not [thread for thread in threading.enumerate() if thread.name == "gpufleet-lease"]


def test_a_failure_of_the_beat_is_not_lost() -> None:
    failed = threading.Event()

    def beat() -> None:
        failed.set()
        raise Fenced("the lease was taken")

    with pytest.raises(Fenced, match="taken"), kept_alive(beat, interval=0.01):
        assert failed.wait(5)
