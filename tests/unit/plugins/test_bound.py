# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scheduler's node a machine is, and which holds of ours stand elsewhere, out of rows of the ledger."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _bound as bound

ALPHA = {"cluster": "slurm alpha", "cluster_host": "ctl1"}
ALPHA2 = {"cluster": "slurm alpha", "cluster_host": "ctl2"}
BY_REST = {"cluster": "slurm alpha", "scheduler_at": "https://a"}
BETA = {"cluster": "slurm beta", "cluster_host": "ctl1"}
T1, T2 = "gpufleet:r1:x", "gpufleet:r2:y"


def taken(token: str, place: dict[str, str], **more: Any) -> tuple[str, dict[str, Any]]:
    return "taken", {"hold_token": token, **place, **more}


def lifted(token: str, place: dict[str, str], **more: Any) -> tuple[str, dict[str, Any]]:
    return "released", {"hold_token": token, **place, **more}


STANDING: dict[str, tuple[list[tuple[str, dict[str, Any]]], list[tuple[str, str]]]] = {
    "one in each cluster": ([taken(T1, ALPHA), taken(T2, BETA)], [(T1, ""), (T2, "")]),
    "the newest of one cluster": ([taken(T1, ALPHA), taken(T2, ALPHA)], [(T2, "")]),
    "with who set it": ([taken(T1, ALPHA, hold_author="root")], [(T1, "root")]),
    "lifted where it was taken": ([taken(T1, ALPHA), taken(T2, BETA), lifted(T1, ALPHA)], [(T2, "")]),
    "lifted elsewhere": ([taken(T1, ALPHA), taken(T2, BETA), lifted(T2, BETA)], [(T1, "")]),
    "two clusters of one name": ([taken(T1, ALPHA), taken(T2, ALPHA2), lifted(T2, ALPHA2)], [(T1, "")]),
    "lifted by whoever tells less": ([taken(T1, ALPHA), lifted(T1, BY_REST)], []),
    "told less, after the other of that name": (
        [taken(T1, ALPHA), taken(T2, ALPHA2), lifted("", BY_REST)], [(T1, "")],
    ),
    "told less, and then more": ([taken(T1, BY_REST), taken(T2, ALPHA), lifted("", ALPHA)], []),
    "taken by whoever tells less": ([taken(T1, ALPHA), taken(T2, BY_REST), lifted("", ALPHA2)], [(T2, "")]),
    "of before clusters were noted": (
        [taken(T1, {}, scheduler_node="n1"), taken(T2, ALPHA, scheduler_node="n2")], [(T1, ""), (T2, "")],
    ),
    "of before, of the same node": (
        [taken(T1, {}, scheduler_node="n1"), taken(T2, ALPHA, scheduler_node="n1"), lifted(T2, ALPHA)], [],
    ),
    "of before, and lifted by its token": ([taken(T1, {}), lifted(T1, ALPHA)], []),
    "a look that began before it": ([taken(T1, ALPHA), lifted(T2, ALPHA, after_event=0, looked_at=1.0)], [(T1, "")]),
    "a look that began after it": ([taken(T1, ALPHA), lifted(T1, ALPHA, after_event=1, looked_at=1.0)], []),
}  # fmt: skip


@pytest.mark.parametrize("case", STANDING)
def test_h1_which_holds_nobody_has_lifted(case: str) -> None:
    told, stand = STANDING[case]
    events = [{"id": number, "name": name, "data": data} for number, (name, data) in enumerate(told, 1)]
    assert list(bound.standing(events)) == stand


def test_h1_a_hold_of_before_that_the_machine_has_left_since_stands_beside_a_later_one_of_that_name() -> None:
    """It may be another cluster's."""
    told = [taken(T1, {}, scheduler_node="n1"), taken(T2, BETA, scheduler_node="n1")]
    events = [{"id": number, "name": name, "data": data} for number, (name, data) in zip((3, 9), told)]
    assert list(bound.standing(events, 2)) == [(T2, "")]
    assert list(bound.standing(events, 5)) == [(T1, ""), (T2, "")]


PLACES: dict[str, tuple[list[dict[str, str]], Place]] = {
    "none": ([], Place()),
    "the newest": ([BETA, ALPHA], Place("slurm beta", "ctl1")),
    "filled from before": ([BY_REST, ALPHA], Place("slurm alpha", "ctl1", "https://a")),
    "not from another one in between": ([BY_REST, BETA, ALPHA], Place("slurm alpha", "", "https://a")),
    "what tells nothing is passed over": ([{}, ALPHA], Place("slurm alpha", "ctl1")),
}


@pytest.mark.parametrize("case", PLACES)
def test_r5_of_which_scheduler_it_is(case: str) -> None:
    binding, place = PLACES[case]
    assert bound._place(binding) == place


def test_r5_a_look_binds_as_the_node_that_it_saw_alone(ledger: Ledger) -> None:
    """Under another name, which may have been a slip of the row, it saw another machine."""
    node = ledger.identify("n1", aliases=[("serial", "n1")])
    ledger.append("r1", [(node, Event("state", "admitted", {"scheduler_node": "n1"}))])
    for name, place in (("n1", ALPHA), ("n9", BETA)):
        ledger.append("r1", [(node, Event("evidence", "in_service", {"scheduler_node": name, **place}))])
    found = bound.bindings(ledger, [node])[node]
    assert (found.name, found.place) == ("n1", Place())


def test_r5_the_others_that_are_a_node_of_this_name(ledger: Ledger) -> None:
    """Retired ones and those that were it once are none of them; nor is one whose name only reads alike."""
    ids = {name: ledger.identify(name, aliases=[("serial", name)]) for name in ("a", "b", "gone", "moved", "alike")}
    for name, of in {**dict.fromkeys(("b", "gone", "moved"), "gpu_1"), "alike": "gpuX1"}.items():
        ledger.append("r1", [(ids[name], Event("state", "admitted", {"scheduler_node": of, **ALPHA}))])
    ledger.append("r1", [(ids["gone"], Event("state", "retired"))])
    ledger.append("r1", [(ids["moved"], Event("named", "scheduler_node", {"scheduler_node": "gpu_2", **ALPHA}))])
    assert bound.others(ledger, "gpu_1", ids["a"]) == [{"host": "b", **ALPHA}]
    assert bound.others(ledger, "gpu_1", ids["b"]) == []
