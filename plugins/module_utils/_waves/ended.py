# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the waves of a run ended, and whether a further one may begin. PRIVATE to the collection.

Whoever was taken and is not in service again has failed, whatever kept it: a node that fell off the network, a gate
that could not tell and a drain that took too long stop a roll-out as a broken node does. So has one that was stopped
before its drain, as by a BMC that does not answer, unless it was somebody else who kept it. Counted is what has ended,
not what is planned: of a thousand nodes one is nothing, of the three that ended it is much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import SOMEBODY_ELSES, WHOSE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.budget import Limit

#: The kind of event; what is told of a node by its names.
KIND = "wave"
PLANNED, BEGUN, WITHDRAWN, PAUSED, RESUMED, RESET = "planned", "begun", "withdrawn", "paused", "resumed", "reset"
#: Told at the first of the nodes that were to go, for all of them: a run that is made each hour is halted each hour.
HALTED = "halted"
#: How a node can have come out of its wave.
THROUGH, FAILED, UNTOUCHED = "through", "failed", "untouched"
_FOREIGN, _UNSERVED, _ADMITTED = "foreign", "unserved", "admitted"
#: Seconds within which a run that began a wave has taken its nodes, or has ended: the BMCs of a batch are proven first.
PROMISED_SECONDS = 1800.0


@dataclass(frozen=True)
class Ended:
    """The hosts of the waves before, by how they came out.

    canaries: those that went before one had come through. unfinished: what a run that was killed left half-way.
    size: of the newest wave of an earlier run that a node has come through. back: those that earlier runs brought back,
    which prove nothing of what this one brings. serving: those that failed, and are in service as they were.
    """

    through: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    canaries: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    size: int = 0
    back: tuple[str, ...] = ()
    serving: frozenset[str] = frozenset()

    @property
    def sure(self) -> bool:
        """Has a node shown that it works?"""
        return bool(self.through)


def stops(note: Mapping[str, Any]) -> bool:
    """Does such a note of its own run mean that the node has failed? What somebody else holds was left alone.

    :param note: an event called ``stopped``.
    """
    return WHOSE.get(str(note["data"].get("kind") or "")) != SOMEBODY_ELSES


def how(begun: Mapping[str, Any], one: Mapping[str, Any], stopped: bool = False) -> str:
    """:param begun: the event by which its wave began. :param one: where it stands, as fleet_status tells it.
    :param stopped: did the run of that wave tell since what stopped it there?
    """
    moved = int(one["event"]) > int(begun["id"])
    if one["state"] == _ADMITTED:
        return THROUGH if moved else FAILED if stopped else UNTOUCHED
    theirs = one["kept"] or (one["state"] == _UNSERVED and one["held_by"] == _FOREIGN)
    # What was out before, and did not move, was taken and not brought back.
    return UNTOUCHED if theirs and not moved and not begun["data"].get("out") else FAILED


def ended(
    begun: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Mapping[str, Any]], stopped: Collection[str] = ()
) -> Ended:
    """:param begun: by host, the event by which its wave of this run began. :param stopped: as of :func:`how`."""
    found: dict[str, list[str]] = {THROUGH: [], FAILED: [], UNTOUCHED: []}
    for host, event in sorted(begun.items()):
        found[how(event, nodes[host], host in stopped)].append(host)
    canaries = tuple(host for host, event in sorted(begun.items()) if event["data"].get("canary"))
    return Ended(tuple(found[THROUGH]), tuple(found[FAILED]), canaries)


def halted(before: Ended, failures: Limit) -> str:
    """Why no further wave may begin; empty where one may."""
    canaries = sorted(set(before.failed) & set(before.canaries))
    if canaries:
        came = "was stopped while it served still" if before.serving.issuperset(canaries) else "is not in service again"
        return f"the canary {folded(canaries)} {came}, and what stopped it would stop the others"
    finished = len(before.failed) + len(before.through) + len(before.back)
    if len(before.failed) > failures.of(finished):
        came = "have not come through" if before.serving else "are not in service again"
        return f"{len(before.failed)} of {finished} nodes {came} ({folded(before.failed)}), and {failures} may fail"
    return ""


def paused(hosts: Mapping[str, str], events: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """By host, the pause that keeps it.

    :param hosts: node id by host, of the whole fleet; empty for one that the ledger does not know. A pause of all of
        it keeps whoever came later, too.
    :param events: by node id, the newest pause or resume.
    """
    over_all = [event for event in events.values() if event["name"] == PAUSED and event["data"].get("whole")]
    newest = max(over_all, key=_number, default=None)
    found = {
        host: max(filter(None, (events.get(node_id), newest)), key=_number, default=None)
        for host, node_id in hosts.items()
    }
    return {host: event for host, event in found.items() if event and event["name"] == PAUSED}


def _number(event: Mapping[str, Any]) -> int:
    return int(event["id"])


def promised(
    begun: Iterable[Mapping[str, Any]], states: Mapping[str, int], asker: Holder, now: float
) -> dict[str, str]:
    """By id of a node, the other run that is about to take it out of service, and did not come to record it.

    :param begun: the waves that stand. :param states: by node id, its newest state's event.
    :param asker: who asks, and can see of runs on its own machine whether they live.
    :param now: seconds, by the ledger's clock.
    """
    return {
        str(event["node_id"]): str(event["run_id"])
        for event in begun
        if event["run_id"] != asker.run_id
        and states.get(str(event["node_id"]), 0) < int(event["id"])
        and _may_come(event, asker, now)
    }


def _may_come(event: Mapping[str, Any], asker: Holder, now: float) -> bool:
    """Of who is seen to live, or to be dead, no clock tells more: a slow one comes to it however late it is."""
    lives = _lives(event, asker)
    return bool(event["at"] >= now - PROMISED_SECONDS) if lives is None else lives


def _lives(event: Mapping[str, Any], asker: Holder) -> bool | None:
    """None where it cannot be seen from here. Of who has not told where it runs nobody can see it."""
    try:
        holder = Holder(run_id=str(event["run_id"]), **event["data"]["holder"])
        dead, alive = holder.provably_dead_here(asker), holder.provably_alive_here(asker)
    except (KeyError, TypeError):
        return None
    return alive if dead or alive else None


def held_by(run: Holder) -> dict[str, Any]:
    """Where a run runs, as a wave tells it that it begins."""
    return {name: value for name, value in asdict(run).items() if name != "run_id"}
