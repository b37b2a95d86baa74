# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps new pods away from a node of Kubernetes, and who put it there. PRIVATE to the collection.

A cordon says nothing of whoever made it, a second one leaves no trace, and the GPU Operator lifts any. So ours is a
taint with the run, an annotation with the token, and the cordon beside them as a courtesy to those who look at nothing
else.

* Our annotation without our taint keeps nothing away: who sets the list of taints as a whole wipes ours. It is shown,
  so that its owner can be judged, and the node is at work.
* Our taint without the annotation, or with another run's, is somebody's: nobody can tell whose.
* The cordon is ours where the API server's book has it by who wrote the annotation, and by nobody else.
* What others who live in a cluster leave on a node while they are at work there is theirs, also without a cordon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Block, Hold
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.fields import (
    Writer,
    mapping,
    rows,
    word,
    writer,
    writers,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.tables import (
    CONTROLLER,
    CORDON_REASON,
    CORDONED,
    HOLD,
    KEEPS_AWAY,
    LABEL,
    MARKS,
    REASON,
    SILENT,
    STANDING,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form, kind_of, run_of

Taint = Mapping[str, Any]


def taint_of(token: str) -> dict[str, str]:
    """The run in a token, as far as a taint may hold it; the annotation has it whole."""
    value = re.sub(r"\A[^A-Za-z0-9]+|[^A-Za-z0-9]+\Z", "", run_of(token)[:LABEL])
    return {"key": HOLD, "value": value, "effect": KEEPS_AWAY[0]}


def is_ours(taint: Taint) -> bool:
    return bool(taint.get("key") == HOLD and taint.get("effect") == KEEPS_AWAY[0])


def spelled(taint: Taint) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


@dataclass(frozen=True)
class Standing:
    """The taints that nodes of a site carry for good: ``key``, ``key=value`` or ``key=value:effect`` each."""

    names: tuple[str, ...] = STANDING

    def has(self, taint: Taint) -> bool:
        key, value = str(taint.get("key")), str(taint.get("value") or "")
        return any(
            name in self.names for name in (key, f"{key}={value}", f"{key}:{taint.get('effect')}", spelled(taint))
        )


@dataclass(frozen=True)
class Marks:
    """What of a node its holds are read from."""

    node: Mapping[str, Any]
    standing: Standing

    @property
    def taints(self) -> list[dict[str, Any]]:
        return [one for one in rows(self.node, "spec", "taints") if one.get("effect") in KEEPS_AWAY]

    @property
    def cordoned(self) -> bool:
        return mapping(self.node, "spec").get("unschedulable") is True

    @property
    def token(self) -> str:
        return word(self.node, "metadata", "annotations", HOLD)

    @property
    def tainted(self) -> bool:
        """Does a taint that goes with the annotation keep new pods away?"""
        return bool(self.token) and any(
            is_ours(one) and (one.get("value") or "") == taint_of(self.token)["value"] for one in self.taints
        )

    @property
    def cordon_is_its(self) -> bool:
        """Was the cordon put on by who wrote the annotation, and by nobody else?"""
        author, those = self._author.name, writers(self.node, "spec", "unschedulable")
        return bool(self.token and author) and bool(those) and all(one.name == author for one in those)

    @property
    def _author(self) -> Writer:
        return writer(self.node, "metadata", "annotations", HOLD)

    @property
    def since(self) -> str:
        """When the hold with a token was written, by the API server's book."""
        return self._author.since

    def for_slinky(self, token: str, slurmd: bool) -> dict[str, Optional[str]]:
        """What is written beside a hold with this token, or beside the end of one, for Slinky to give to Slurm as the
        reason; a word of somebody else's stays there. So does that of a hold which this one takes the place of under
        the same cordon: Slinky keeps to the reason with which a drain began.

        slurmd: is one of its pods on the node?
        """
        stands = word(self.node, "metadata", "annotations", CORDON_REASON)
        ours = bool(stands) and stands == self._word
        if token and ours and self.cordoned:
            return {}
        return {CORDON_REASON: token or None} if ours or (token and slurmd and not stands) else {}

    @property
    def _word(self) -> str:
        """What stands there for Slinky, if it is of this hold, or of one of ours that this took the place of; by the
        API server's book, who wrote the hold wrote that."""
        stands, author = word(self.node, "metadata", "annotations", CORDON_REASON), self._author.name
        by = writer(self.node, "metadata", "annotations", CORDON_REASON).name
        taken_over = bool(self.token and author) and has_form(stands) and by == author
        return stands if stands == self.token or taken_over else ""

    def drains_as(self) -> tuple[str, ...]:
        """The reasons of a drain in Slurm that was made for this hold, its own token first; none where no cordon stands
        beside it, by which Slinky drains."""
        return tuple(filter(None, (self.token, self._word))) if self.tainted and self.cordoned else ()

    def keeps_away(self) -> bool:
        """By whatever stays until somebody acts."""
        return self.cordoned or any(self._lasts(taint) for taint in self.taints)

    def _lasts(self, taint: Taint) -> bool:
        key = str(taint.get("key"))
        passing = CONTROLLER.get(key, ("", False))[1] and not taint.get("value")
        return not (passing or key == CORDONED or self.standing.has(taint))

    def holds(self) -> tuple[Hold, ...]:
        return (*self._with_a_token(), *self._cordon(), *self._by_taints(), *self._others())

    def _with_a_token(self) -> Iterator[Hold]:
        if self.token:
            author = self._author
            form = f"taint {spelled(taint_of(self.token))}" if self.tainted else f"annotation {HOLD} without its taint"
            yield Hold(self.token, author.name, author.since, kind=kind_of(self.token), form=form)

    def _cordon(self) -> Iterator[Hold]:
        """One that is not part of the hold above, and one that somebody gave a reason for since."""
        reasons = self._reasons()
        if not self.cordoned:
            return
        if self.cordon_is_its:
            since = self._author.since
            yield from (hold for hold in reasons if hold.since >= since and hold.author != self._author.name)
        elif reasons:
            yield from reasons
        else:
            those = writers(self.node, "spec", "unschedulable") or [Writer()]
            yield Hold("", those[-1].name, those[-1].since, form="cordon")

    def _reasons(self) -> list[Hold]:
        found = []
        for kind in ("annotations", "labels"):
            for key, value in mapping(self.node, "metadata", kind).items():
                if REASON.search(key) and not (key == CORDON_REASON and value == self._word):
                    by = writer(self.node, "metadata", kind, key)
                    found.append(Hold(str(value), by.name, by.since, form=f"cordon with {key}"))
        return found

    def _by_taints(self) -> Iterator[Hold]:
        """Nobody can tell who put on which: each writer replaces the list, and is in the book for all of it."""
        by = writer(self.node, "spec", "taints")
        for taint in self.taints:
            key = str(taint.get("key"))
            if self.standing.has(taint) or (is_ours(taint) and self.tainted) or (key == CORDONED and self.cordoned):
                continue
            if (key in CONTROLLER or key == CORDONED) and not taint.get("value"):
                says, passes = CONTROLLER.get(key, ("its cordon is being lifted", True))
                yield Hold(
                    f"{spelled(taint)} ({says})",
                    since=str(taint.get("timeAdded") or ""),
                    form="taint of the node controller",
                    by_scheduler=True,
                    passing=passes,
                    silence=key in SILENT,
                )
            else:
                form = f"taint {HOLD} without its annotation" if key == HOLD else "taint"
                yield Hold(spelled(taint), by.name, str(taint.get("timeAdded") or by.since), form=form)

    def _others(self) -> Iterator[Hold]:
        labels = mapping(self.node, "metadata", "labels")
        for key, (who, values) in MARKS.items():
            value = str(labels.get(key) or "")
            if value and (value in values or not values):
                by = writer(self.node, "metadata", "labels", key)
                yield Hold(f"{key}={value}", by.name or who, by.since, form=f"mark of {who}")


def blocks(holds: Iterable[Hold]) -> Iterator[Block]:
    """A mark of the controller that does not go by itself would stay when ours is lifted."""
    for hold in holds:
        if hold.by_scheduler and not hold.passing:
            yield Block("the node controller keeps pods away from it as well", hold.text, "mend what its taint says")


def without_ours(taints: Sequence[Taint]) -> list[Taint]:
    """As they were read: the list is replaced as a whole, and who leaves one out has lifted it."""
    return [one for one in taints if not is_ours(one)]
