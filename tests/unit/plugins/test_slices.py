# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that is shipped in slices, and of which the door refuses most."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing, Fenced, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _slices as slices
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._steps_there import Steps

PASSES = "gpu0600"


class Refusing:
    """Names one host at a time, as a ledger does, and lets one pass."""

    def before_write(self, what: str, *, destructive: bool, nodes: Sequence[str], lasts: float) -> str:
        for node in nodes:
            if node != PASSES:
                raise EvidenceMissing("no proof", node=node)
        return "event:1"


class Slow:
    """Lets all pass, and needs a while for it the first time; when it was asked each time."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def before_write(self, what: str, *, destructive: bool, nodes: Sequence[str], lasts: float) -> str:
        self.asked.append(time.monotonic())
        time.sleep(0 if self.asked[1:] else 0.02)
        return f"event:{len(self.asked)}"


class Silent:
    """Nobody can be asked for two of them; with the others it takes a while, as it does to find that out."""

    names = ("gpu0001", "gpu0002")

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def confirm(self) -> dict[str, str]:
        return {}

    def before_write(self, what: str, *, destructive: bool, nodes: Sequence[str], lasts: float) -> str:
        self.asked.append(tuple(nodes))
        if set(nodes) & set(self.names):
            raise Unreachable("slurmctld does not answer", node=nodes[0], details={"nodes": list(self.names)})
        return "event:1"


class Sliced(slices.SlicedAction):
    NAME = "provisioner_wait"

    def __init__(self, line: Any = None) -> None:
        self._line: Any = line or Refusing()

    def _where(self) -> str:
        return "jump"

    def _say(self, line: str) -> None:
        assert "does not answer" in line


def batch(names: Sequence[str]) -> Steps:
    params = {"interval": 1, "timeout": 100, "until": "deployed", "nodes": [{"host": name} for name in names]}
    return Steps(params, "provisioner_wait")


def test_j3_however_many_are_refused_the_others_have_their_leave() -> None:
    names = [f"gpu{number:04}" for number in range(601)]
    run = batch(names)
    passed, since = Sliced()._permitted(run, names, destructive=True)
    assert passed == [PASSES] and since < float("inf")
    assert list(run.open) == [PASSES], "the others are closed, each with its reason"


@pytest.mark.parametrize(("at_once", "times"), [(0.0, 2), (3600.0, 1)])
def test_j3_leave_that_took_long_to_get_is_asked_for_again_and_counts_from_there(
    monkeypatch: pytest.MonkeyPatch, at_once: float, times: int
) -> None:
    """What it rests on may have gone meanwhile."""
    monkeypatch.setattr(slices, "_AT_ONCE_SECONDS", at_once)
    line, run = Slow(), batch([PASSES])
    passed, since = Sliced(line)._permitted(run, [PASSES], destructive=True)
    assert passed == [PASSES] and len(line.asked) == times and run.evidence == f"event:{times}"
    assert since <= line.asked[-1] and not any(since <= earlier for earlier in line.asked[:-1])


def test_j3_leave_counts_from_when_it_was_given_and_not_from_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A scheduler that needs a minute had spent it before the slice was sent."""
    monkeypatch.setattr(slices, "_AT_ONCE_SECONDS", 0.0)
    line, run = Slow(), batch([PASSES])
    line.confirm = dict  # type: ignore[attr-defined]
    run.term.hears({"boot": "b", "uptime": 1000.0})
    run.due = {PASSES: True}
    leave = Sliced(line)._leave_for(run)
    assert leave["destroys"] == leave["writes"] == [PASSES]
    assert leave["given"] - 1000.0 == pytest.approx(line.asked[-1] - run.term._heard, abs=0.01)


def test_j3_whose_scheduler_is_silent_waits_and_keeps_no_other_host_waiting() -> None:
    line, run = Silent(), batch([*Silent.names, PASSES])
    run.term.hears({"boot": "b", "uptime": 1000.0})
    run.due = dict.fromkeys(run.open, True)
    leave = Sliced(line)._leave_for(run)
    assert leave["destroys"] == [PASSES] and run.pause == run.interval
    assert line.asked == [(*Silent.names, PASSES), (PASSES,)], "the silent one is asked once for all of its own"
    assert list(run.open) == [*Silent.names, PASSES], "which says nothing of any node"


class Lost:
    """One host was taken by another run; and the end of the call is told."""

    def __init__(self, ends: Exception | None = None) -> None:
        self.ends, self.confirmed = ends, 0

    def lost(self) -> dict[str, str]:
        return {"gpu0001": "another run works on it"}

    def beat(self) -> None:
        pass

    def confirm(self) -> dict[str, str]:
        self.confirmed += 1
        if self.ends is not None:
            raise self.ends
        return {}


class Empty(Sliced):
    """Nothing is sent: each host has its verdict before."""

    def _sent(self, params: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"sent: {params}")

    def writes(self, params: Mapping[str, Any]) -> bool:
        return False

    def _told_if_there(self, events: list[Any]) -> None:
        assert not events


class Ended(Empty):
    CARRIES = Steps
    _intended = "deploy on jump"


def test_j3_a_host_that_was_lost_is_sent_to_nobody() -> None:
    """It is closed before the slice, which has none left."""
    run = batch(["gpu0001"])
    assert Empty(Lost())._slice(run) and run.over
    [verdict] = run.result()["verdicts"].values()
    assert verdict["kind"] == "not_ours" and "another run works on it" in verdict["reason"]


def test_j3_what_was_announced_ends_with_a_last_look_at_the_leases() -> None:
    """What was found on a node that another run took meanwhile is nobody's."""
    params = batch(["gpu0001"])._params
    line = Lost()
    assert Ended(line)._in_slices(dict(params))["verdicts"] and line.confirmed == 1
    with pytest.raises(Fenced):
        Ended(Lost(Fenced("the lease is no longer ours")))._in_slices(dict(params))


class Uneven:
    """Lets all pass; the second question comes a moment after the first."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def confirm(self) -> dict[str, str]:
        return {}

    def before_write(self, what: str, *, destructive: bool, nodes: Sequence[str], lasts: float) -> str:
        time.sleep(0.05 if self.asked else 0)
        self.asked.append(time.monotonic())
        return "event:1"


def test_j3_leave_for_several_ends_with_that_which_was_given_first() -> None:
    line, run = Uneven(), batch(["gpu0001", "gpu0002"])
    run.term.hears({"boot": "b", "uptime": 1000.0})
    run.due = {"gpu0001": True, "gpu0002": False}
    leave = Sliced(line)._leave_for(run)
    assert leave["destroys"] == ["gpu0001"] and leave["writes"] == ["gpu0002", "gpu0001"] and len(line.asked) == 2
    assert leave["given"] - 1000.0 <= line.asked[0] - run.term._heard
