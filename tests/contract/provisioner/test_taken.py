# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of a batch's order it is told for each node whether it was taken: whose a deployment is rests on that."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.watch import watch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import await_all, lead, ready
from contract.faults import NO, REFUSAL
from task_queue.site import TaskQueueSite

pytestmark = pytest.mark.many_runs


def batch_of(site: Any, *versions: str) -> list[dict[str, Any]]:
    """Nodes that are ready, each with this version of the image."""
    return [{**ready(site), "image": site.image(version), "deploy_id": f"d{version}"} for version in versions]


def ordered(site: Any, batch: list[dict[str, Any]], ctx: Context) -> dict[str, Any]:
    """One look of the watcher, and what it sends for it; the verdicts."""
    keys = ("boot_mac", "serial", "image", "driver", "deploy_id")
    nodes = [{"host": one["name"], **{key: one[key] for key in keys}} for one in batch]
    params = {**site.connection(), "until": "deployed", "timeout": 0, "interval": 0.05, "nodes": nodes}
    return dict(watch(params, ctx).as_dict(ctx)["verdicts"])


def taken(site: Any, batch: list[dict[str, Any]]) -> set[str]:
    """Whose deployment is under way there: it is not begun again."""
    site.faults.forget()
    return {one["name"] for one in batch if not lead(one, "deployed")["changed"]}


def given(ctx: Context) -> set[str]:
    return {host for host, goal in ctx.ordered.items() if goal == "deployed"}


def test_what_was_taken_before_the_login_is_refused_is_told_and_nothing_else(site: Any) -> None:
    """It ends the wait of all, and takes nothing back: what was never taken would be whoever's it is, as ours."""
    seen = set()
    for first in itertools.count(1):
        batch = batch_of(site, "1", "2")
        site.faults.strike_writes(REFUSAL, first)
        ctx = Context()
        try:
            ordered(site, batch, ctx)
            whole = True
        except AuthFailed:
            whole = False
        there = taken(site, batch)
        assert given(ctx) == there, f"the writes from the {first}. on were refused"
        assert not {event.node for event in ctx.told} & there
        seen.add(len(there))
        if whole:
            break
    assert seen == {0, 1, 2}, "none was refused in the middle"


def test_of_two_images_in_a_batch_one_that_is_refused_keeps_none_from_the_other(site: Any) -> None:
    for nth in itertools.count(1):
        batch = batch_of(site, "1", "2")
        site.faults.strike_writes(NO, nth, nth)
        ctx = Context()
        verdicts = ordered(site, batch, ctx)
        refused = {host for host, one in verdicts.items() if one["kind"] == "refused"}
        whole = len(site.faults.writes) < nth
        there = taken(site, batch)
        assert given(ctx) == there == set(verdicts) - refused, verdicts
        assert {event.node for event in ctx.told} == refused and len(refused) == (0 if whole else 1)
        assert all(event.data["kind"] == "refused" for event in ctx.told)
        if whole:
            break
    assert nth > 2
    assert all(one["ok"] for one in await_all(site, "deployed", *batch)["verdicts"].values())


def test_of_two_images_in_a_batch_one_whose_answer_is_lost_is_deployed_once(site: Any) -> None:
    batch = batch_of(site, "1", "2")
    site.faults.lose_answer(2)
    ctx = Context()
    ordered(site, batch, ctx)
    assert given(ctx) >= taken(site, batch)
    assert all(one["ok"] for one in await_all(site, "deployed", *batch)["verdicts"].values())


def test_of_one_order_for_many_nodes_a_part_may_be_taken(started: Any) -> None:
    """As where a queue is full for one of them: its answer names those that it took."""
    with started(TaskQueueSite).in_good_health() as site:
        batch = batch_of(site, "1", "1", "1")
        names = [one["name"] for one in batch]
        site.queue.full.add(names[1])
        ctx = Context()
        verdicts = ordered(site, batch, ctx)
        assert len(site.faults.writes) == 1 and given(ctx) == {names[0], names[2]}
        assert "did not take the order" in verdicts[names[1]]["reason"] and verdicts[names[1]]["kind"] == "refused"
        assert [event.node for event in ctx.told] == [names[1]]
        site.queue.full.clear()
        assert all(one["ok"] for one in await_all(site, "deployed", *batch)["verdicts"].values())
