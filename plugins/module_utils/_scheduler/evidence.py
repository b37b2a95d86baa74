# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger is told of a node's place in its scheduler. PRIVATE to the collection.

The newest such event decides whether a destructive verb may act. So every look at a node is told, also one that
takes an older permission back; and a node that somebody else drained, or that is in quarantine, is never evidence
that we may touch it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Hold, NodeView
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import FOREIGN, OURS, Claim
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import (
    ABSENT,
    DRAINED,
    FOREIGN_HOLD,
    IN_SERVICE,
    NOT_DRAINED,
    PERMITS,
    SERVES,
    VOIDS,
    Event,
)

EVIDENCE = PERMITS + VOIDS


def name_of(view: NodeView, claim: Claim) -> str:
    """Whoever asks: a keep hold is no evidence."""
    if view.absent:
        return ABSENT
    claim = replace(claim, over_keep=False)
    owner = claim.owner(view)
    if owner == FOREIGN:
        return FOREIGN_HOLD
    if owner == OURS and view.state == "drained" and not view.work and not claim.quarantine(view):
        return DRAINED
    return IN_SERVICE if view.in_service else NOT_DRAINED


def place(view: NodeView, claim: Claim) -> dict[str, str]:
    """Which scheduler tells this, with what our ledger knows of the same one beside what it tells now."""
    same = not view.place.is_other(claim.place)
    return (view.place.filled(claim.place) if same else view.place).data()


def taken(hold: Hold, view: NodeView, claim: Claim, host: str = "") -> Event:
    """A hold of ours, who set it, and in which record of the node; ``host`` as in :func:`evidence`."""
    more = {"hold_author": hold.author, "incarnation": view.incarnation}
    told = {"hold_token": hold.token, **{key: value for key, value in more.items() if value}}
    return Event("hold", "taken", {**told, "scheduler_node": view.name, **place(view, claim)}, host)


def released(token: str, view: NodeView, claim: Claim) -> list[Event]:
    """Also where we find it resumed already: a run that was killed right after the write told nobody."""
    told = {"hold_token": token, "scheduler_node": view.name, **place(view, claim)}
    return [Event("hold", "released", told)] if token else []


def lifted(view: NodeView, claim: Claim) -> list[Event]:
    """Of all our holds that are not there any more."""
    return [*released(claim.token, view, claim), *_given_back(view, claim)]


def _given_back(view: NodeView, claim: Claim) -> list[Event]:
    """Of keeps that were announced, and are not there. Of a machine that is no node by the ledger it names none: what
    its row names may be another machine's."""
    if claim.bound not in ("", view.name):
        return []
    told = [event for token in claim.unnoted_keeps for event in released(token, view, claim)]
    unnamed = [{key: value for key, value in one.data.items() if key != "scheduler_node"} for one in told]
    return told if claim.bound else [replace(one, data=data) for one, data in zip(told, unnamed)]


def evidence(
    view: NodeView, claim: Claim, *, scheduler: str, host: str = "", moment: Mapping[str, Any] | None = None
) -> Event:
    """One event; ``host`` names the play's host where the task watches a batch. moment: of the ledger, when the look
    began."""
    data = {"scheduler": scheduler, "scheduler_node": view.name, "native": view.native, "reason": view.reason}
    if name_of(view, claim) != IN_SERVICE and claim.serves(view):
        data[SERVES] = "true"
    if view.work:
        data["jobs"] = ", ".join(view.jobs[:20])
    told = {key: value for key, value in data.items() if value}
    return Event("evidence", name_of(view, claim), {**told, **place(view, claim), **(moment or {})}, host)
