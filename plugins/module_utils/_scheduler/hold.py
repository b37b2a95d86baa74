# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose hold is it? PRIVATE to the collection.

By its token (:mod:`.._token`), and by what our own ledger knows of the run in it. A scheduler that overwrites the
text with a finding of its own takes the token away; then the ledger's record that we took the hold stands for it.
Each hold of a node is judged by itself, and one that is somebody else's makes the node theirs. A person's keep hold
is the person's, whichever run of ours wrote it for them: no run lifts it, and it is no evidence. A quarantine hold
is ours and stays: no run takes it for its own work, nor lifts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import (
    AT_WORK,
    KEEP,
    QUARANTINE,
    WORK,
    Hold,
    NodeView,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.names import NEVER
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import (
    has_form,
    kind_of,
    make_token,
    run_of,
    runs_of,
    why_of,
)

FREE, OURS, SCHEDULER, FOREIGN = "free", "ours", "scheduler", "foreign"
#: Whose the node is when its holds are of several: the first of these that is among them.
_WEIGHT = (FOREIGN, OURS, SCHEDULER)

#: What a hold is of which the scheduler, its text and our ledger say more than one thing.
_FIRST = (KEEP, QUARANTINE, WORK)

#: Why a node is held again that was resumed, and booted meanwhile.
BOOTED = "booted since the last look"

#: Why a node is held again that a job of ours has tried.
FAILED, HUNG = "its trial job failed", "its trial job did not end in time"
ELSEWHERE, UNSEEN = "its trial job ran elsewhere", "its trial job's output was not seen"
LEFT = "its trial was broken off"
TRIALS = (FAILED, HUNG, ELSEWHERE, UNSEEN, LEFT)

#: Those in which the scheduler itself has a node of which it has not heard.
_OUT_OF_SIGHT = ("unknown", "down")

#: Whose a hold is that is not ours, and what to do about it.
_A_PERSONS_KEEP = (
    "held by a person: a keep hold that was made through us, and that no run lifts",
    "ask the person who keeps it, whom its text names unless the scheduler wrote over that; the playbook maintenance"
    " with -e maintenance=off gives the node back",
)
_OTHER_SITES = (
    "held by another controller of this kind",
    "if that was this site's own controller, use the ledger that it used (gpufleet_ledger_url)",
)
_SOMEBODY_ELSES = ("held by somebody else", "ask whoever set it; when they have resumed the node, run again")


@dataclass(frozen=True)
class Claim:
    """What our ledger knows of this node: token and author of a hold that stands by it, and all runs of ours here.

    author: as the scheduler told it when the hold was taken; empty where it did not, or the ledger does not say.
    over_keep: a person asks, for whom a keep hold that was made through us is ours; never for a run of its own accord.
    names: what else the node is called or reached by here. heard: what a machine that is not proven to be it calls
    itself, which only counts against a node of the scheduler. admitted: was it ever admitted, and not retired since?
    stranger: the ledger knows it from no work of ours; false where no ledger was there to tell. bound: the scheduler's
    node that this machine is by the ledger. renamed: what shows that it is another one now; empty where nothing does.
    unnamed: is it ours, and has never been any of the scheduler's nodes? rather: another node of the scheduler that
    bears the machine's own name as a whole. uuids: system UUIDs of the machine. incarnation: of the scheduler's record
    when the hold was taken. place: of which scheduler the machine is a node by the ledger. moved_to: which one a
    person says that it is a node of now; empty where nobody does. left: was the hold taken in a scheduler, or a time in
    the fleet, that the machine has left since? Its words are compared still, but nothing stands for them. standing: the
    tokens, each with its author, of holds of ours that nobody has lifted in such others, by the ledger. rivals: where
    this machine is about to become the node, the other machines that are one of that name by the ledger, with where.
    trial: the token of the one that this very call makes, of which no ledger knows yet.
    """

    token: str = ""
    runs: frozenset[str] = frozenset()
    author: str = ""
    over_keep: bool = False
    names: tuple[str, ...] = ()
    admitted: bool = False
    stranger: bool = False
    bound: str = ""
    renamed: str = ""
    unnamed: bool = False
    heard: tuple[str, ...] = ()
    rather: str = ""
    uuids: tuple[str, ...] = ()
    incarnation: str = ""
    place: Place = Place()
    moved_to: str = ""
    left: bool = False
    standing: tuple[tuple[str, str], ...] = ()
    rivals: tuple[tuple[str, Place], ...] = ()
    announced: tuple[str, ...] = ()
    trial: str = ""

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Claim:
        token = str(params.get("known_token") or "")
        bound, renamed = (str(params.get(key) or "") for key in ("known_scheduler_node", "known_renamed"))
        left, others = bool(params.get("known_left")), params.get("known_standing") or ()
        standing = tuple((str(one.get("token") or ""), str(one.get("author") or "")) for one in others)
        noted = [run_of(one) for one in (token, *(one for one, _author in standing))]
        runs = runs_of(params.get("known_runs"), [*noted, *_of_this_run(params)])
        asked = bool(params.get("over_keep")) or params.get("kind") == KEEP
        names, heard = (tuple(map(str, params.get(key) or ())) for key in ("known_as", "known_heard"))
        author, admitted = str(params.get("known_author") or ""), bool(params.get("known_admitted"))
        stranger, unnamed = params.get("known_here") is False, is_unnamed(params)
        rather = str(params.get("known_rather") or "")
        uuids = tuple(map(str, params.get("known_uuids") or ()))
        made = str(params.get("known_incarnation") or "")
        found = cls(token, runs, author, asked, names, admitted, stranger, bound, renamed, unnamed, heard, rather)
        place, moved_to = Place.told(params, "known_"), str(params.get("moved_to") or "")
        rivals = tuple((str(one.get("host") or ""), Place.told(one)) for one in params.get("known_others") or ())
        said = tuple(map(str, params.get("known_announced") or ()))
        found = replace(found, uuids=uuids, incarnation=made, place=place, rivals=rivals, announced=said)
        return replace(found, moved_to=moved_to, left=left, standing=standing)

    @property
    def belongs(self) -> bool:
        """Is it a node of some scheduler by our ledger?"""
        return bool(self.bound) or self.place != Place()

    def moves_to(self, view: NodeView) -> bool:
        """Does a person say that the machine is this node now? Of one that is not there nobody can."""
        return bool(self.moved_to) and not view.absent and view.place.is_called(self.moved_to)

    def owner_of(self, hold: Hold) -> str:
        """``ours``, ``scheduler`` (its own mark, no person's), or ``foreign``: also where nobody can be named."""
        if hold.trial and hold.text == self.trial:
            return OURS
        if KEEP in self._kinds(hold) and not self.over_keep:
            return FOREIGN
        run = run_of(hold.text)
        if run:
            return OURS if run in self.runs and self.untouched(hold) else FOREIGN
        if has_form(hold.text) or not hold.by_scheduler:
            return FOREIGN
        # These two are kept, whatever the machine has left since: it is given no work for that.
        stands = (self.token and not self.left) or self._kinds(hold) & {KEEP, QUARANTINE}
        return OURS if hold.overwrites and stands else SCHEDULER

    def untouched(self, hold: Hold) -> bool:
        """Still as the ledger knows it: a person who adds words to our hold, or writes it anew, has made it theirs.

        One that the ledger does not know, because its run ended right after the write, is the one that the run has
        announced, word for word, set by whoever set the others of that run. Without a ledger nothing can be told.
        """
        if hold.trial:  # its name is all that it says, and nobody can change that
            return True
        ours, run = [(self.token, self.author), *self.standing], run_of(hold.text)
        known = [one for one in ours if one[0] and run_of(one[0]) == run]
        said = {token for token in self.announced if run_of(token) == run}.difference(token for token, _by in known)
        known += [(token, author) for token in said for author in [by for _token, by in known] or [""]]
        return not known or any(_is_of(*one, hold) for one in known)

    def has(self, hold: Hold) -> bool:
        """Is it the hold that the ledger knows: its token, behind which only the scheduler wrote, by its author?"""
        return _is_of(self.token, self.author, hold)

    def with_token(self, token: str) -> Claim:
        """As it is once this hold was written; who the scheduler says wrote it is to be seen."""
        return replace(self, token=token, author="", left=False, runs=self.runs | {run_of(token)})

    def owner(self, view: NodeView) -> str:
        """Of the node as a whole; ``free`` where nothing has to be lifted."""
        if not view.held:
            return FREE
        owners = {self.owner_of(hold) for hold in view.holds}
        return next(owner for owner in _WEIGHT if owner in owners)

    def lost(self, view: NodeView) -> bool:
        """Has the hold that the ledger knows gone with the scheduler's record of the node, which was made anew since?
        So nobody has lifted it: a person who gives a node back leaves the record."""
        other = bool(self.incarnation and view.incarnation) and self.incarnation != view.incarnation
        return bool(self.token) and not self.left and other and not view.held

    def serves(self, view: NodeView) -> bool:
        """Is it at work, or out of sight for now, and not held by us?

        One that the scheduler waits for since it knows it has never served: it knows of no boot. Of one that has served
        nobody sees right after a start of the scheduler, or while a switch is away, what still runs there.
        """
        if view.absent or self.owner(view) == OURS:
            return False
        if view.work:
            return True
        here = view.state in AT_WORK or view.state in _OUT_OF_SIGHT
        return here and (bool(view.booted) or (view.answers and view.state in AT_WORK))

    def holds_of(self, view: NodeView, owner: str) -> list[Hold]:
        return [hold for hold in view.holds if self.owner_of(hold) == owner]

    def _kinds(self, hold: Hold) -> set[str]:
        """By what the scheduler keeps of its kind, by its token, or by the one that it overwrote: any is enough."""
        over = (
            (self.token, *(token for token, _author in self.standing), *self.unnoted_keeps) if hold.overwrites else ()
        )
        return {hold.kind, kind_of(hold.text), *map(kind_of, over)}

    @property
    def unnoted_keeps(self) -> tuple[str, ...]:
        """Of holds that were announced: whoever keeps a node does so from the write on, though its run was killed right
        after that. That a run may leave a quarantine what it is, says nothing here."""
        return tuple(token for token in self.announced if kind_of(token) == KEEP)

    def keep(self, view: NodeView) -> Hold | None:
        """The keep hold of ours that stands, if one does, for whom a person asks."""
        return next((hold for hold in self.holds_of(view, OURS) if KEEP in self._kinds(hold)), None)

    def demand_unkept(self, view: NodeView, host: str, why: str) -> None:
        """Two people want to keep a node, and whoever comes second is to know: his words would replace the first one's.

        :raises NotOurs: with those.
        """
        stands = self.keep(view)
        if stands is None:
            return
        # Where the scheduler has written over theirs, the ledger knows them, noted or announced.
        # An announced one is the newer one: with its own note it would be announced no more.
        over = (*self.unnoted_keeps, self.token) if stands.overwrites else ()
        said = [why_of(one) for one in over if kind_of(one) == KEEP]
        words = next(iter(said), why_of(stands.text) or stands.text)
        if why_of(make_token("r", why)) not in said:
            raise NotOurs(
                "a person keeps this node already, for another reason",
                node=host,
                wanted=why,
                seen=words if not stands.overwrites else f"{words} (the scheduler has written over it: {stands.text})",
                do="talk to them, or wait until they have given it back. over_keep (of the playbook maintenance: -e"
                " maintenance_replaces=true) puts your words in the place of theirs; nothing was changed",
                details={"holds": self.told(view)},
            )

    def quarantine(self, view: NodeView) -> Hold | None:
        """The quarantine of ours that stands, if one does."""
        return next((hold for hold in self.holds_of(view, OURS) if QUARANTINE in self._kinds(hold)), None)

    def told(self, view: NodeView) -> list[dict[str, str]]:
        """The holds as a result shows them."""
        return [
            {
                "text": hold.text,
                "author": hold.author,
                "since": hold.since,
                "kind": next((kind for kind in _FIRST if kind in self._kinds(hold)), ""),
                "form": hold.form,
                "owner": self.owner_of(hold),
            }
            for hold in view.holds
        ]

    def not_ours(self, view: NodeView, *, wanted: str) -> NotOurs:
        foreign = self.holds_of(view, FOREIGN)
        first = foreign[0] if foreign else Hold(view.reason, view.set_by)
        what, do = self._whose(foreign)
        return NotOurs(
            what,
            node=view.name,
            wanted=wanted,
            seen="; ".join([view.native, *map(str, foreign)]),
            do=do,
            details={"reason": first.text, "set_by": first.author, "native": view.native, "holds": self.told(view)},
        )

    def _whose(self, foreign: Sequence[Hold]) -> tuple[str, str]:
        """Whose they are in words, and what to do; no holds at all are somebody else's."""
        ours = [run_of(hold.text) in self.runs or hold.overwrites for hold in foreign if KEEP in self._kinds(hold)]
        if foreign and len(ours) == len(foreign) and all(ours):
            return _A_PERSONS_KEEP
        others = [has_form(hold.text) and run_of(hold.text) not in self.runs for hold in foreign]
        return _OTHER_SITES if others and all(others) else _SOMEBODY_ELSES


def _is(token: str, hold: Hold) -> bool:
    """Is it the hold of this token, behind which only the scheduler wrote?"""
    rest = hold.text[len(token) :]
    return bool(token) and hold.text.startswith(token) and hold.appended.endswith(rest)


def _is_of(token: str, author: str, hold: Hold) -> bool:
    """The same, and by who set it, where both the ledger and the scheduler tell that."""
    return _is(token, hold) and (not author or not hold.author or hold.author == author)


def _of_this_run(params: Mapping[str, Any]) -> list[str]:
    """A hold of the run that asks is this machine's where it announced one for it, which the ledger tells; it may hold
    the node for the neighbour. Without a ledger, or where it was shown that the node is this machine, it is ours."""
    told = params.get("known_runs") is not None and not params.get("known_renamed")
    return [] if told else [str(params.get("run_id") or "")]


def announced(run: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The tokens of which a call of ``scheduler_node`` with these options may have written one."""
    of_state = {"held": (str(options.get("why") or ""),), "resumed": (BOOTED, *(TRIALS if _tries(options) else ()))}
    whys, asked = of_state.get(str(options.get("state") or ""), ()), str(options.get("kind") or WORK)
    kinds = (WORK, QUARANTINE) if asked == WORK or options.get("state") == "resumed" else (asked,)
    return tuple(make_token(run, why, kind) for why in whys if why for kind in kinds)


def _tries(options: Mapping[str, Any]) -> bool:
    return str(options.get("trial") or NEVER) != NEVER


def is_unnamed(known: Mapping[str, Any]) -> bool:
    """Does the ledger know this machine from work of ours, and as no node of a scheduler: by no hold, nor admission?"""
    return known.get("known_here") is True and not known.get("known_scheduler_node")
