# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a write needs beside the node's lease. PRIVATE to the collection.

Proof that it hits no running work, where it could; maintenance of its provisioner, where it goes past that to the BMC.
Or a reason why neither counts, which is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing, FleetError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import CLOCK_SECONDS, Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import (
    PERMITS,
    RESUMED,
    RESUMING,
    Event,
)

#: A destructive write needs evidence that permits it, not older than this when the task first looked at it.
EVIDENCE_SECONDS = 60.0


#: What is told of a write past a provisioner, by whether that has a maintenance that could be set.
_WANTED: Mapping[bool, str] = {
    True: "the node in maintenance under our token",
    False: "a word of its provisioner, which has no maintenance that would keep it off meanwhile",
}
_DO: Mapping[bool, str] = {
    True: "let the provisioner do it (provisioner_node), or set its maintenance first (provisioner_node with state"
    " maintenance)",
    False: "let the provisioner do it (provisioner_node with state deployed or released)",
}


@dataclass
class Permit:
    """What was found for one write. It holds once its notes are written: :meth:`Permits.keep`."""

    proven: dict[str, int] = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)
    maintained: set[str] = field(default_factory=set)
    #: By node id, what the ledger must be told before the write.
    notes: list[tuple[str, Event]] = field(default_factory=list)


class Permits:
    """The permits of one task.

    :param managed_by: the provisioner that owns power and boot of this node, for a verb that goes past it to the BMC:
        such a write needs the provisioner's maintenance under our token.
    :param maintained: can that provisioner keep a maintenance of ours at all?
    """

    def __init__(
        self,
        open_ledger: Callable[[], Ledger],
        *,
        verb: str,
        force_reason: str,
        managed_by: str,
        maintained: bool = True,
    ) -> None:
        self._open = open_ledger
        self._verb = verb
        self._force_reason = force_reason
        self._managed_by = managed_by
        self._has_maintenance = maintained
        #: The event that proves it for each node: it was fresh when it was first seen, and its age counts no more.
        self._proven: dict[str, int] = {}
        self._forced: set[str] = set()
        self._maintained: set[str] = set()

    def demand(self, ids: Mapping[str, str], what: str, *, destructive: bool) -> Permit:
        """Reads alone, also inside a transaction of the caller's.

        :param ids: the ledger's id of each node of the write, by its name.
        :raises NotOurs: naming the first node that has no permit; then nothing of this write is to be recorded.
        """
        permit = Permit()
        unmaintained = {name: node_id for name, node_id in ids.items() if name not in self._maintained}
        if self._managed_by and unmaintained:
            self._demand_maintenance(unmaintained, what, permit)
        if destructive:
            self._demand_evidence({name: ids[name] for name in ids if name not in self._forced}, what, permit)
        return permit

    def keep(self, permit: Permit) -> None:
        self._proven.update(permit.proven)
        self._forced |= permit.forced
        self._maintained |= permit.maintained

    def told(self, name: str) -> str | None:
        """What permits a write to this node, as a result tells it."""
        if name in self._forced:
            return f"forced:{self._force_reason}"
        return f"event:{self._proven[name]}" if name in self._proven else None

    def foresee(self, ids: Mapping[str, str]) -> None:
        """Remember the evidence that is fresh now; a node without it is refused when its destructive write comes."""
        names = {node_id: name for name, node_id in ids.items() if name not in self._proven}
        latest = self._open().latest(list(names), "evidence") if names else {}
        resumed = self._resumed(latest)
        for node_id, event in latest.items():
            if not (_problem(event, self._open().now()) or resumed.get(node_id)):
                self._proven[names[node_id]] = event["id"]

    def _demand_evidence(self, ids: Mapping[str, str], what: str, permit: Permit) -> None:
        """Asked for anew at each write: what proved it before may have been taken back since."""
        latest = self._open().latest(list(ids.values()), "evidence") if ids else {}
        now = self._open().now() if ids else 0.0
        resumed = self._resumed(latest)
        for name, node_id in ids.items():
            event = latest.get(node_id)
            problem = resumed.get(node_id) or _problem(event, now)
            if event is not None and not problem:
                permit.proven[name] = event["id"]
            elif self._stands(name, event) and not resumed.get(node_id):
                continue
            elif self._force_reason:
                permit.notes.append((node_id, self._forced_note(what)))
                permit.forced.add(name)
            else:
                raise _evidence_missing(name, what, problem)

    def _resumed(self, latest: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """By node id, what takes back the newest evidence of it: an intent to resume that came after it.

        Whoever announced it may have died before or after the write: nobody knows whether the node serves again.
        """
        ledger, found = self._open(), {}
        newest = ledger.latest(list(latest), "intent", [RESUMING]) if latest else {}
        for node_id in [one for one, event in newest.items() if event["id"] > latest[one]["id"]]:
            since = ledger.history(node_id, since=latest[node_id]["id"], kinds=["intent"], names=[RESUMING])
            intents = [event for event in since if _resumes(event)]
            if intents:
                found[node_id] = f"run {intents[-1]['run_id']} has begun to resume it since (event {intents[-1]['id']})"
        return found

    def _stands(self, name: str, latest: Mapping[str, Any] | None) -> bool:
        """Does what this task saw fresh still hold? Nothing that came after it may say otherwise."""
        first = self._proven.get(name)
        if first is None or latest is None:
            return False
        if latest["id"] == first:
            return True
        later = self._open().history(latest["node_id"], since=first, kinds=("evidence",))
        return all(event["name"] in PERMITS for event in later)

    def _demand_maintenance(self, ids: Mapping[str, str], what: str, permit: Permit) -> None:
        """Provisioners revert outside power changes (Ironic within its sync interval), and boot what they like."""
        latest = self._open().latest(list(ids.values()), "maintenance")
        for name, node_id in ids.items():
            event = latest.get(node_id)
            held = event is not None and event["name"] == "held"
            if not held and not self._force_reason:
                raise self._not_in_maintenance(name, what)
            if not held:
                permit.notes.append((node_id, self._forced_note(what)))
            permit.maintained.add(name)

    def _forced_note(self, what: str) -> Event:
        return Event("note", "forced", {"verb": self._verb, "write": what, "reason": self._force_reason})

    def _not_in_maintenance(self, node: str, what: str) -> FleetError:
        return NotOurs(
            f"refused: power and boot of this node belong to its provisioner ({self._managed_by})",
            node=node,
            wanted=f"{_WANTED[self._has_maintenance]}, before: {what}",
            seen="the ledger has no maintenance of ours for this node",
            do=f"{_DO[self._has_maintenance]}, or give force_reason, which is recorded",
        )


def _problem(event: Mapping[str, Any] | None, now: float) -> str:
    """Why this event, the newest of its kind, permits no destructive write by itself; empty where it does.

    :param now: by the clock that dated it, the ledger's own.
    """
    if event is None:
        return "the ledger has no such event for this node"
    if event["name"] not in PERMITS:
        return f"the newest event of this kind says {event['name']}{_whose(event['data'])}"
    age = now - event["at"]
    if age < -CLOCK_SECONDS:
        return f"event {event['id']} ({event['name']}) is {-age:.0f} s ahead of the ledger's clock: that was set back"
    if age > EVIDENCE_SECONDS:
        return f"event {event['id']} ({event['name']}) is {age:.0f} s old"
    return ""


def _resumes(intent: Mapping[str, Any]) -> bool:
    options = intent["data"].get("options")
    return isinstance(options, Mapping) and options.get("state") == RESUMED


def _whose(data: Mapping[str, Any]) -> str:
    """Who stands in the way, as the scheduler told it."""
    jobs, reason = data.get("jobs"), data.get("reason")
    return (f", jobs {jobs}" if jobs else "") + (f", reason {reason!r}" if reason else "")


def _evidence_missing(node: str, what: str, problem: str) -> FleetError:
    return EvidenceMissing(
        "refused: this may hit running work",
        node=node,
        wanted=f"proof, at most {EVIDENCE_SECONDS:.0f} s old, that the node is drained or unknown to its scheduler,"
        f" before: {what}",
        seen=problem,
        do="run scheduler_wait (until drained) for this node right before this task,"
        " or give force_reason, which is recorded",
    )
