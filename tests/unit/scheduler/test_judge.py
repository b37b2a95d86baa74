# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that nobody holds: no wait drains it, and its work is its owner's."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler import hold
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Hold, NodeView, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.judge import (
    Judgement,
    after_outage,
    until_drained,
    until_idle,
)


@pytest.mark.parametrize("work", [(), (Work("7"),)])
def test_t1_who_holds_nothing_is_not_waited_for_and_nothing_of_it_is_evicted(work: tuple[Work, ...]) -> None:
    claim = hold.Claim("gpufleet:run1:reimage", frozenset({"run1"}))
    found = until_drained(NodeView("gpu1", "mixed" if work else "idle", answers=True, work=work), claim)
    assert (found.ok, found.settled, found.evict) == (False, True, False)
    assert "it is in service" in found.reason and "hold it first" in found.reason


CLAIM = hold.Claim("gpufleet:run1:reimage", frozenset({"run1"}))
OURS, ALICES, SLURMS = Hold("gpufleet:run1:reimage"), Hold("alice: memtest", author="alice"), Hold("Not responding")


def at(state: str, *holds: Hold, **more: Any) -> NodeView:
    return NodeView("gpu1", state, holds=holds, **more)


@pytest.mark.parametrize(
    ("judge", "view", "kind"),
    [
        (until_drained, at("drained", ALICES), "not_ours"),
        (until_drained, at("idle", answers=True), "not_ours"),
        (until_drained, at("draining", OURS, work=(Work("7"),)), "not_ours"),
        (until_drained, at("draining", OURS), ""),
        (until_drained, at("unknown", unread="a line that is none"), "bad_answer"),
        (until_idle, at("drained", ALICES), "not_ours"),
        (until_idle, at("drained", OURS), "not_ours"),
        (until_idle, at("unknown", unread="a line that is none"), "bad_answer"),
        (until_idle, at("absent"), "config"),
        (until_idle, at("down"), ""),
    ],
)
def test_what_is_not_the_nodes_own_is_told_by_its_kind(judge: Any, view: NodeView, kind: str) -> None:
    found = judge(view, CLAIM)
    assert not found.ok and found.kind == kind, found


def test_c7_what_was_away_meanwhile_is_named_and_the_node_is_not_to_blame() -> None:
    """People look for the service by its name."""
    silent = NodeView("n1", state="unknown", native="UNKNOWN")
    told = after_outage(Judgement(False, False, "its agent does not answer yet"), silent, "slurm")
    assert told.kind == "unreachable" and "; slurm was away itself meanwhile" in told.reason
