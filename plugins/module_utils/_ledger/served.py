# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a node stands by what ledger and scheduler say together. PRIVATE to the collection.

The hold comes first and the record of it after: who reads the ledger alone calls a node admitted that a killed run, a
person or the scheduler itself has taken out of service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import KEEP, why_of

#: Whose the node is: the words of the scheduler's port, which nothing of the ledger imports.
OURS, FOREIGN = "ours", "foreign"
#: States that no event records: in service by the ledger, and not by the scheduler; or nobody can tell.
UNSERVED, UNKNOWN = "unserved", "unknown"
_LOOK = "ansible-playbook gpufleet.baremetal.status -i INVENTORY --limit {host}"
#: A node in one of these was never to serve: of it its scheduler is believed alone that it does.
NEVER_SERVED = frozenset({"discovered", "enrolled", "retired"})


@dataclass(frozen=True)
class Seen:
    """What its scheduler says of a node, or why it does not.

    serves: it takes work, and its agent answers. owner: whose its holds are. holds: each as ``scheduler_node`` tells
    it. native, reason: the scheduler's own words. stranger: it is at work, and the ledger knows it from none of ours.
    runs: of each job on it, for how many seconds it has run; None where that is not told.
    """

    serves: bool = False
    owner: str = ""
    native: str = ""
    reason: str = ""
    holds: Sequence[Mapping[str, str]] = ()
    problem: str = ""
    stranger: bool = False
    runs: Sequence[float | None] = ()


def together(one: Mapping[str, Any], seen: Seen | None, run_id: str = "") -> dict[str, Any]:
    """What the scheduler's word changes of what the ledger says of a node; nothing where it was not asked.

    :param one: as ``report.status`` tells it by the ledger alone.
    :param run_id: the run that asks. What it has admitted itself is done with: run again, it would begin anew.
    """
    if seen is None:
        return {}
    admitted = one["state"] == "admitted"
    if seen.problem:
        told = seen.problem if seen.problem.endswith("run again") else f"{seen.problem}; then run again"
        lost = {"state": UNKNOWN, "stopped": f"unknown to the scheduler: {told}", "next": ""}
        if run_id and one["run"] == run_id:
            why = f"this run has admitted it, and it is unknown to the scheduler now: {seen.problem}"
            lost = {**lost, "stopped": why, "next": _LOOK}
        # Of one that never was to serve its scheduler need not tell anything.
        unheard = {} if one["state"] in NEVER_SERVED else {"unheard": told}
        return {"served": UNKNOWN, **(lost if admitted else unheard)}
    found = {"served": "yes" if seen.serves else "no", "held_by": seen.owner, "kept": _kept(one, seen)}
    return {**found, **(_unserved(one, seen) if admitted and not seen.serves else {})}


def _kept(one: Mapping[str, Any], seen: Seen) -> str:
    """Who has lifted such a hold in the scheduler itself has told nobody; who wrote another reason keeps the node."""
    text = next((str(hold["text"]) for hold in seen.holds if hold.get("kind") == KEEP), "")
    # A keep whose text is none of ours is one that the scheduler wrote over: who keeps the node the ledger knows.
    return why_of(text) or str(one["kept"] or text if text or seen.owner == FOREIGN else "")


def _unserved(one: Mapping[str, Any], seen: Seen) -> dict[str, str]:
    if seen.owner == OURS:
        texts = [str(hold["text"]) for hold in seen.holds]
        told = "a run took it out of service, and ended before that was recorded"
        if one["busy"]:
            told = f"the run {one['lease']} takes it out of service"
        ours = next(filter(None, map(why_of, texts)), "")
        return {"state": "draining", "reason": f"{told}: {ours or ''.join(texts[:1])}", "hold_why": ours}
    if seen.owner == FOREIGN:
        return {"state": UNSERVED, "reason": f"held by somebody else: {'; '.join(map(_told, seen.holds))}", "next": ""}
    words = ", ".join(filter(None, (seen.native, seen.reason)))
    return {"state": UNSERVED, "reason": f"its scheduler does not have it in service: {words}"}


def _told(hold: Mapping[str, str]) -> str:
    form = f"{hold['form']}, " if hold.get("form") else ""
    return f"{form}reason {hold['text']!r}" + (f" set by {hold['author']}" if hold.get("author") else "")
