# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""While a slurm.conf is written anew another cluster answers, whose node of this name is free: no wait ends by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.registry import DRIVERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.wait import scheduler_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Result
from unit.scheduler.test_between_two_looks import BUSY, HELD, Evicting, call

ALPHA, BETA = Place("slurm alpha"), Place("slurm beta")
NODES = [{"host": "gpu001", "known_runs": ["r1"], "known_scheduler_node": "gpu001", "known_cluster": "slurm alpha"}]
OURS, DONE = replace(BUSY, place=ALPHA), replace(HELD, place=ALPHA)
THEIRS = replace(HELD, place=BETA)
UNKNOWN, AT_WORK = NodeView("gpu001", place=BETA), replace(BUSY, place=BETA)


class Keeping(Evicting):
    """Says which one it is with each look."""

    NAME = "keeping"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DRIVERS, Keeping.NAME, Keeping)


def seen() -> list[str]:
    return [one for one in Evicting.said if one != "evicted"]


def watched(looks: Sequence[Any], **more: Any) -> Result:
    given = {"until": "drained", "nodes": NODES, "completing_timeout": 60, "scheduler": "keeping", **more}
    return call(scheduler_wait, looks, **given)


@pytest.mark.parametrize(
    "odd", [[THEIRS], [UNKNOWN], [AT_WORK], [THEIRS, UNKNOWN], [THEIRS, AT_WORK, OURS, THEIRS, THEIRS]]
)
def test_c8_a_few_looks_at_another_cluster_end_no_drain_of_hours(odd: list[NodeView]) -> None:
    found = watched([OURS, *odd, OURS, DONE])
    assert found.data["verdicts"]["gpu001"]["ok"] and len(seen()) == len(odd) + 3, Evicting.said
    assert Evicting.said.count("evicted") == [OURS, *odd, OURS].count(OURS), "and none of that cluster's work"
    assert [(event.name, event.data["cluster"]) for event in found.events] == [("drained", "slurm alpha")]


def test_c8_what_was_drained_before_is_no_verdict_while_another_cluster_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For a host of another scheduler the batch goes on."""
    looks = iter([replace(OURS, name="gpu002"), replace(OURS, name="gpu002")])

    class Busy(Keeping):
        def states(self, names: Sequence[str]) -> dict[str, NodeView]:
            return dict.fromkeys(names, next(looks, replace(DONE, name="gpu002")))

    monkeypatch.setitem(DRIVERS, "busy", Busy)
    busy = {"host": "gpu002", "scheduler": "busy", "known_runs": ["r1"]}
    found = watched([DONE, DONE, THEIRS, DONE], nodes=[*NODES, busy])
    assert [one["ok"] for one in found.data["verdicts"].values()] == [True, True]
    assert [one for one in seen() if one == "drained"] == ["drained"] * 4


@pytest.mark.parametrize("first", [[], [OURS], [OURS, THEIRS, OURS]])
def test_c8_three_in_a_row_are_its_verdict(first: list[NodeView]) -> None:
    found = watched([*first, THEIRS, UNKNOWN, THEIRS, DONE])
    verdict = found.data["verdicts"]["gpu001"]
    assert (verdict["ok"], verdict["kind"], verdict["state"]) == (False, "wrong_machine", "unknown")
    assert "of slurm beta" in verdict["reason"] and found.events == []
    assert len(seen()) == len(first) + 3, "and the scheduler is not asked for it any more"


@pytest.mark.parametrize("last", [THEIRS, UNKNOWN])
def test_c8_at_the_deadline_the_last_look_is_its_verdict(last: NodeView) -> None:
    found = watched([last], timeout=0)
    verdict = found.data["verdicts"]["gpu001"]
    assert (verdict["ok"], verdict["kind"]) == (False, "wrong_machine") and "not within" not in verdict["reason"]
    assert "of slurm beta" in verdict["reason"] and found.events == []


def test_c8_where_a_cluster_was_silent_at_the_deadline_that_is_the_verdict() -> None:
    with pytest.raises(Unreachable, match="down"):
        watched([THEIRS, Unreachable("down")], timeout=0.05)


def test_c8_looks_that_another_machine_is_sent_are_counted_as_well() -> None:
    part: dict[str, Any] = {"timeout": 60.0}
    told = []
    for _look in range(4):
        found = watched([THEIRS], timeout=0, slice={**part, "elapsed": 1.0})
        part = {"timeout": 60.0, "elsewhere": found.data["slice"]["elsewhere"]}
        told.append((found.data["slice"]["over"], part["elsewhere"]))
    assert told == [(False, {"gpu001": 1}), (False, {"gpu001": 2}), (True, {"gpu001": 3}), (True, {"gpu001": 4})]
    assert not watched([DONE], timeout=0, slice={**part, "elapsed": 1.0}).data["slice"]["elsewhere"]
