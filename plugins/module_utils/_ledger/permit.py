# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a write needs beside the node's lease. PRIVATE to the collection.

Proof that it hits no running work, where it could; maintenance of its provisioner, where it goes past that to the BMC.
Or a reason why neither counts, which is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moves
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    EvidenceMissing,
    EvidenceOld,
    NotOurs,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import is_late
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import CLOCK_SECONDS, Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import ours
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import seen_at
from ansible_collections.gpufleet.baremetal.plugins.module_utils._stranger import not_adopted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import KEEP
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import (
    FOREIGN_HOLD,
    IN_SERVICE,
    PERMITS,
    RESUMED,
    RESUMING,
    SERVES,
    Event,
)

#: A destructive write needs evidence that permits it, not older than this; what is older is renewed.
EVIDENCE_SECONDS = 60.0

#: The kind of event that says whether a node is in its provisioner's maintenance under our token, that it is, and that
#: it is not; and of such a look that part of a mark of quarantine is there all the same.
MAINTENANCE, HELD, LIFTED, HALF = "maintenance", "held", "lifted", "half_marked"
#: Whoever looked has found no record of the node, which says nothing of what stands in that.
NO_RECORD = "no_record"
#: What is asked for where nobody has looked yet whether a node is at work.
FIRST_LOOK = "first look"

Missing = TypeVar("Missing", bound=EvidenceMissing)
Unheld = TypeVar("Unheld", bound=NotOurs)


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


_DRAIN = (
    "drain this node first (the playbook drain), and let nobody readmit it before the other one is done; it is taken"
    " down with that, and no force_reason of the other one counts for it"
)


@dataclass
class Permit:
    """What was found for one write. It holds once its notes are written: :meth:`Permits.keep`."""

    #: The oldest that evidence may be for it.
    oldest: float = EVIDENCE_SECONDS
    proven: dict[str, int] = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)
    unmaintained: set[str] = field(default_factory=set)
    #: By node id, what the ledger must be told before the write.
    notes: list[tuple[str, Event]] = field(default_factory=list)


class Permits:
    """The permits of one task.

    :param managed_by: the provisioner that owns power and boot of this node, for a verb that goes past it to the BMC:
        such a write needs the provisioner's maintenance under our token.
    :param managed_at: the place of that provisioner, as of ``_moved.py``: another one's maintenance keeps this one off
        nothing.
    :param maintained: can that provisioner keep a maintenance of ours at all?
    :param along: of these nodes, the ledger's ids, by name, of machines that a destructive write takes down with them.
        They need evidence of their own, and no reason that is given for the node is one for them.
    :param asks: has this node a scheduler that could be asked whether it is at work? None: this verb may touch what is.
    """

    def __init__(
        self,
        open_ledger: Callable[[], Ledger],
        *,
        verb: str,
        force_reason: str,
        managed_by: str = "",
        managed_at: moves.Place | None = None,
        maintained: bool = True,
        asks: Callable[[str], bool] | None = None,
        along: Callable[[Sequence[str]], Mapping[str, str]] = lambda names: {},
    ) -> None:
        self._open = open_ledger
        self._along = along
        self._verb = verb
        self._force_reason = force_reason
        self._managed_by = managed_by
        self._managed_at = managed_at or {}
        self._has_maintenance = maintained
        self._asks = asks
        #: Nodes that our ledger knows from its own work.
        self._ours: set[str] = set()
        #: The event that proved it for each node at its newest write.
        self._proven: dict[str, int] = {}
        self._forced: set[str] = set()
        #: Who goes past a provisioner without its maintenance, by force.
        self._unmaintained_by_force: set[str] = set()

    def demand(self, ids: Mapping[str, str], what: str, *, destructive: bool, lasts: float = 0.0) -> Permit:
        """Reads alone, also inside a transaction of the caller's.

        :param ids: the ledger's id of each node of the write, by its name.
        :param lasts: seconds from now that the write may still come.
        :raises NotOurs: naming the first node that has no permit; then nothing of this write is to be recorded.
        """
        permit = Permit(EVIDENCE_SECONDS - lasts)
        if self._asks is not None and not self._force_reason:
            asks = [name for name in ids if not (destructive and name in self._ours) and self._asks(name)]
            self._demand_looked_at({name: ids[name] for name in asks}, what, permit, destructive=destructive)
        asked = {name: node_id for name, node_id in ids.items() if name not in self._unmaintained_by_force}
        if self._managed_by and asked:
            self._demand_maintenance(asked, what, permit)
        if destructive:
            self._demand_evidence({name: ids[name] for name in ids if name not in self._forced}, what, permit)
            self._demand_along(self._along(list(ids)), what, permit)
        return permit

    def keep(self, permit: Permit) -> None:
        self._proven.update(permit.proven)
        self._forced |= permit.forced
        self._unmaintained_by_force |= permit.unmaintained

    def told(self, name: str) -> str | None:
        """What permits a write to this node, as a result tells it."""
        if name in self._forced:
            return f"forced:{self._force_reason}"
        return f"event:{self._proven[name]}" if name in self._proven else None

    def _demand_looked_at(self, ids: Mapping[str, str], what: str, permit: Permit, *, destructive: bool) -> None:
        """What is at work, and known to the ledger from no work of ours, is somebody else's. And whoever holds a node,
        through us or without us, may have their hands inside: that is asked of each, also of who was admitted, but not
        before a destructive write, whose evidence says so.

        :raises NotAdopted: naming the first. :raises NotOurs: naming the first that is held. :raises EvidenceOld: where
            the scheduler is to be asked first: what nobody has seen for a while may be anybody's by now.
        """
        strangers = self._strangers(ids)
        looked = strangers if destructive else ids
        latest = self._open().latest(list(looked.values()), "evidence") if looked else {}
        now, old = self._open().now() if looked else 0.0, dict[str, str]()
        told_late: dict[str, str] = {}
        for name, node_id in looked.items():
            event = latest.get(node_id)
            problem = "nobody has looked at it there" if event is None else _too_old(event, now, permit.oldest)
            if event is None or problem:
                old[name] = problem
                continue
            theirs = name in strangers and _at_work(event)
            if not theirs and event["name"] != FOREIGN_HOLD:
                continue
            if not is_late(self._open(), event):
                raise not_adopted(name, _says(event), before=what) if theirs else _held(name, what, event)
            told_late[name] = _says(event)
        _ask_again(told_late, what)
        for name, problem in old.items():
            error = _evidence_missing(EvidenceOld, name, what, problem)
            error.nodes, error.kind_of_event, error.from_age = tuple(old), FIRST_LOOK, permit.oldest
            raise error

    def _strangers(self, ids: Mapping[str, str]) -> dict[str, str]:
        """Those that the ledger knows from no work of ours."""
        unsure = {name: node_id for name, node_id in ids.items() if name not in self._ours}
        known = ours(self._open(), list(unsure.values())) if unsure else set()
        self._ours.update(name for name, node_id in unsure.items() if node_id in known)
        return {name: node_id for name, node_id in unsure.items() if node_id not in known}

    def _demand_along(self, ids: Mapping[str, str], what: str, permit: Permit) -> None:
        """:raises EvidenceMissing: which says that no reason counts."""
        try:
            self._demand_evidence(ids, what, permit, reason="")
        except EvidenceMissing as exc:
            exc.do = _DRAIN
            raise

    def _demand_evidence(self, ids: Mapping[str, str], what: str, permit: Permit, *, reason: str | None = None) -> None:
        """Asked for anew at each write: what proved it before may have been taken back since.

        :param reason: why it is not needed, in place of the one that the task gives.
        :raises EvidenceOld: where each node has its proof, and some are to be renewed.
        """
        reason = self._force_reason if reason is None else reason
        latest = self._open().latest(list(ids.values()), "evidence") if ids else {}
        now, old = self._open().now() if ids else 0.0, dict[str, str]()
        told_late: dict[str, str] = {}
        for name, node_id in ids.items():
            event = latest.get(node_id)
            problem, late = self._void(event)
            too_old = "" if problem or event is None else _too_old(event, now, permit.oldest)
            if event is not None and not problem and not too_old:
                permit.proven[name] = event["id"]
            elif reason:
                permit.notes.append((node_id, self._forced_note(what)))
                permit.forced.add(name)
            elif problem and not late:
                raise _evidence_missing(EvidenceMissing, name, what, problem)
            else:
                (told_late if late else old)[name] = problem or too_old
        _ask_again(told_late, what)
        for name, problem in old.items():
            error = _evidence_missing(EvidenceOld, name, what, problem)
            error.nodes, error.from_age = tuple(old), permit.oldest
            raise error

    def _void(self, event: Mapping[str, Any] | None) -> tuple[str, bool]:
        """Why this event, a node's newest of its kind, permits nothing whatever its age, empty where it does; and may
        that have been told by a late look alone, so that the scheduler is to be asked again?"""
        if event is None:
            return "the ledger has no such event for this node", False
        if event["name"] not in PERMITS:
            return _says(event), is_late(self._open(), event) or self._overtaken(event)
        since = self._open().history(event["node_id"], since=seen_at(event).event, kinds=("evidence", "intent"))
        # Who announced a resume may have died before or after the write: nobody knows whether the node serves again.
        against = [one for one in since if _takes_back(one)]
        # Of a keep the scheduler tells whether it was written, and stands.
        again = all(_keeps(one) or is_late(self._open(), one) for one in against)
        return (_says(against[0]), again) if against else ("", False)

    def _overtaken(self, event: Mapping[str, Any]) -> bool:
        """Did a look that was told before this one begin after it? So it looked later, and the scheduler is asked."""
        began = seen_at(event)
        told = self._open().history(event["node_id"], since=began.event, kinds=("evidence",))
        return any(one["id"] < event["id"] and seen_at(one) > began for one in told)

    def _demand_maintenance(self, ids: Mapping[str, str], what: str, permit: Permit) -> None:
        """Provisioners revert outside power changes (Ironic within its sync interval), and boot what they like.

        :raises EvidenceOld: where each node was held, and whether some still are is to be asked.
        """
        latest = self._open().latest(list(ids.values()), MAINTENANCE)
        now, old = self._open().now(), {}
        for name, node_id in ids.items():
            event = latest.get(node_id)
            problem = self._unmaintained(event)
            too_old = "" if problem or event is None else _too_old(event, now, permit.oldest)
            if not problem and not too_old:
                continue
            if self._force_reason:
                permit.notes.append((node_id, self._forced_note(what)))
                permit.unmaintained.add(name)
            elif problem:
                raise self._not_in_maintenance(NotOurs, name, what, problem)
            else:
                old[name] = too_old
        for name, problem in old.items():
            error = self._not_in_maintenance(EvidenceOld, name, what, problem)
            error.nodes, error.kind_of_event, error.from_age = tuple(old), MAINTENANCE, permit.oldest
            raise error

    def _unmaintained(self, event: Mapping[str, Any] | None) -> str:
        """Why this event, a node's newest of its kind, holds it not, whatever its age; empty where it does."""
        if event is None or event["name"] != HELD:
            return "the ledger has no maintenance of ours for this node"
        there = event["data"].get(moves.PLACE) or {}
        if moves.apart(there, self._managed_at):
            return f"it is held at {moves.words(there)}, and the inventory names {moves.words(self._managed_at)}"
        since = self._open().history(event["node_id"], since=seen_at(event).event, kinds=(MAINTENANCE,))
        return next((f"event {one['id']} says {one['name']}" for one in since if one["name"] != HELD), "")

    def _forced_note(self, what: str) -> Event:
        return Event("note", "forced", {"verb": self._verb, "write": what, "reason": self._force_reason})

    def _not_in_maintenance(self, kind: type[Unheld], node: str, what: str, problem: str) -> Unheld:
        return kind(
            f"refused: power and boot of this node belong to its provisioner ({self._managed_by})",
            node=node,
            wanted=f"{_WANTED[self._has_maintenance]}, before: {what}",
            seen=problem,
            do=f"{_DO[self._has_maintenance]}, or give force_reason, which is recorded",
        )


def _ask_again(told_late: Mapping[str, str], what: str) -> None:
    """By node, what a late look says of it.

    :raises EvidenceOld: however young those looks are, the scheduler is to be asked.
    """
    for name, problem in told_late.items():
        error = _evidence_missing(EvidenceOld, name, what, problem)
        error.nodes, error.kind_of_event = tuple(told_late), FIRST_LOOK
        raise error


def _too_old(event: Mapping[str, Any], now: float, oldest: float) -> str:
    """In words; empty where it is fresh enough by itself.

    :param now: by the clock that dated it, the ledger's own.
    """
    age = now - seen_at(event).at
    if age < -CLOCK_SECONDS:
        return f"event {event['id']} ({event['name']}) is {-age:.0f} s ahead of the ledger's clock: that was set back"
    if age > oldest:
        young = f", and the write may come {EVIDENCE_SECONDS - oldest:.0f} s later" if oldest < EVIDENCE_SECONDS else ""
        return f"event {event['id']} ({event['name']}) is {age:.0f} s old{young}"
    return ""


def _at_work(event: Mapping[str, Any]) -> bool:
    """Did the scheduler have work for it, or on it, or somebody else's hold, when it was looked at? Whoever holds a
    node has plans for it, and may have their hands inside."""
    return event["name"] in (IN_SERVICE, FOREIGN_HOLD) or bool(event["data"].get(SERVES))


def _takes_back(event: Mapping[str, Any]) -> bool:
    """Does it say that the node may be in service again, or somebody else's?"""
    if event["kind"] == "evidence":
        return event["name"] not in PERMITS
    options = event["data"].get("options")
    if event["name"] != RESUMING or not isinstance(options, Mapping):
        return False
    return options.get("state") == RESUMED or _keeps(event)


def _keeps(event: Mapping[str, Any]) -> bool:
    """Who announced a keep may have died right after the write, and their hands be inside."""
    return event["kind"] == "intent" and (event["data"].get("options") or {}).get("kind") == KEEP


def _says(event: Mapping[str, Any]) -> str:
    if event["kind"] == "evidence":
        return f"the newest event of this kind says {event['name']}{_whose(event['data'])}"
    if _keeps(event):
        return f"a person has begun to keep it since (event {event['id']})"
    return f"run {event['run_id']} has begun to resume it since (event {event['id']})"


def _whose(data: Mapping[str, Any]) -> str:
    """Who stands in the way, as the scheduler told it."""
    jobs, reason, native = data.get("jobs"), data.get("reason"), data.get("native")
    state = f" ({data.get('scheduler')} has it as {data.get('scheduler_node')}: {native})" if native else ""
    return state + (f", jobs {jobs}" if jobs else "") + (f", reason {reason!r}" if reason else "")


def _held(node: str, what: str, event: Mapping[str, Any]) -> NotOurs:
    return NotOurs(
        "refused: somebody holds this node, and may have their hands inside",
        node=node,
        wanted=f"nobody's hold but a run's of ours, before: {what}",
        seen=_says(event),
        do="wait until they have given it back (of what is kept through us: the playbook maintenance, -e"
        " maintenance=off), or give force_reason, which is recorded",
    )


def _evidence_missing(kind: type[Missing], node: str, what: str, problem: str) -> Missing:
    return kind(
        "refused: this may hit running work",
        node=node,
        wanted=f"proof, at most {EVIDENCE_SECONDS:.0f} s old, that the node is drained or unknown to its scheduler,"
        f" before: {what}",
        seen=problem,
        do="run scheduler_wait (until drained) for this node right before this task,"
        " or give force_reason, which is recorded",
    )
