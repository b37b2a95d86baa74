# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest that the ledger has of a hold at the scheduler, one reader for all. PRIVATE to the collection.

That a hold is gone is told by whoever looks, too, who may have begun before another one was taken, and come to tell it
after that: such a look has not seen the newer one lifted, and no write since its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import (
    AFTER_EVENT,
    JUDGED_AFTER,
    Moment,
    seen_at,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import FOREIGN_HOLD

Event = Mapping[str, Any]


def newest_holds(ledger: Ledger, nodes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By node, its newest event of a hold."""
    return as_seen(ledger, ledger.latest(nodes, "hold"))


def as_seen(ledger: Ledger, found: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same of what was told last of each, by node."""
    looked = [node for node, event in found.items() if is_look(event)]
    taken = ledger.latest(looked, "hold", ("taken",)) if looked else {}
    unseen = {node: event for node, event in taken.items() if event["id"] > seen(found[node])}
    return {**found, **unseen}


def is_look(hold: Event) -> bool:
    """Was it told by a look, and not by whoever lifted it?"""
    return hold["name"] != "taken" and AFTER_EVENT in hold["data"]


def is_late(ledger: Ledger, event: Event) -> bool:
    """Is it a look of another run that began before our newest hold was noted, and was told after that? What it saw of
    the node is what was then."""
    if event["kind"] != "evidence":
        return False
    taken = ledger.latest([event["node_id"]], "hold", ("taken",)).get(event["node_id"])
    between = taken is not None and _judged_at(event) < taken["id"] < event["id"]
    return taken is not None and between and event["run_id"] != taken["run_id"]


def newest_look(ledger: Ledger, node_id: str) -> dict[str, Any] | None:
    """The newest look at a node in its scheduler, without those that are late."""
    newest = ledger.latest([node_id], "evidence").get(node_id)
    if newest is None or not is_late(ledger, newest):
        return newest
    told = ledger.history(node_id, since=_judged_at(newest), kinds=("evidence",))
    return next((event for event in reversed(told) if not is_late(ledger, event)), newest)


def _judged_at(look: Event) -> int:
    """Whose a hold is rests on what our ledger told; that it serves, or has work, on the look alone."""
    judged = look["data"].get(JUDGED_AFTER) if look["name"] == FOREIGN_HOLD else None
    return min(seen_at(look).event, judged if isinstance(judged, int) else int(look["id"]))


def seen(hold: Event) -> int:
    """The newest event of which whoever told this may have seen what it brought about."""
    return Moment.of(hold["data"]).event if is_look(hold) else int(hold["id"])
