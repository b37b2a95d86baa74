# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch that is shipped in slices, and of which the door refuses most."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _slices as slices

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


class Sliced(slices.SlicedAction):
    NAME = "provisioner_wait"

    def __init__(self, line: Any = None) -> None:
        self._line: Any = line or Refusing()

    def _where(self) -> str:
        return "jump"


def batch(names: Sequence[str]) -> slices._Slices:
    params = {"interval": 1, "timeout": 100, "until": "deployed", "nodes": [{"host": name} for name in names]}
    return slices._Slices(params, "provisioner_wait")


def test_j3_however_many_are_refused_the_others_have_their_leave() -> None:
    names = [f"gpu{number:04}" for number in range(601)]
    run = batch(names)
    passed, since = Sliced()._permitted(run, names, float("inf"), destructive=True)
    assert passed == [PASSES] and since < float("inf")
    assert list(run.open) == [PASSES], "the others are closed, each with its reason"


@pytest.mark.parametrize(("at_once", "times"), [(0.0, 2), (3600.0, 1)])
def test_j3_leave_that_took_long_to_get_is_asked_for_again_and_counts_from_there(
    monkeypatch: pytest.MonkeyPatch, at_once: float, times: int
) -> None:
    """What it rests on may have gone meanwhile."""
    monkeypatch.setattr(slices, "_AT_ONCE_SECONDS", at_once)
    line, run = Slow(), batch([PASSES])
    passed, since = Sliced(line)._permitted(run, [PASSES], float("inf"), destructive=True)
    assert passed == [PASSES] and len(line.asked) == times and run.evidence == f"event:{times}"
    assert since <= line.asked[-1] and not any(since <= earlier for earlier in line.asked[:-1])
