# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which runs may have held a node: they announced it, and may have written to it. PRIVATE to the collection."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    NotAdopted,
    NotOurs,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import is_look
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import KEEP

_VERB = "scheduler_node"
#: In an intent, the tokens of which its call may write one, and the scheduler's node that it is about.
TOKENS, ABOUT = "announces", "scheduler_node"
#: A call that ended with one of these has judged the node, and held it not. With any other kind, also of those by which
#: an order of a provisioner was not taken, it may have ended after its write: its lease was lost then, for instance.
_BEFORE_ITS_WRITE = frozenset(one.kind for one in (Changed, NotAdopted, NotOurs, WrongMachine))

#: After so many seconds no call writes any more, whatever became of it: a hold is written as soon as it is announced,
#: and elsewhere under leave that ends.
_OVER_SECONDS = 600.0

_CALLS = (
    "SELECT id, at, node_id, run_id, kind, data FROM events WHERE node_id IN :nodes AND id > :since AND name = :verb"
    " AND kind IN ('intent', 'outcome') ORDER BY id"
)
_OF_RUNS = (
    "SELECT node_id, run_id, data FROM events WHERE node_id IN (SELECT node_id FROM nodes) AND kind = 'intent'"
    " AND name = :verb AND run_id IN :runs"
)
#: Since the newest event of a hold, whoever told it.
_SINCE = "coalesce((SELECT max(h.id) FROM events h WHERE h.node_id = events.node_id AND h.kind = 'hold'), 0)"


@dataclass(frozen=True)
class Call:
    """One that announced what it would write, and may have written it. run: whose it is. number, at: of its event."""

    run: str
    number: int
    at: float
    data: Mapping[str, Any]

    @property
    def options(self) -> Mapping[str, Any]:
        return self.data.get("options") or {}

    @property
    def about(self) -> str:
        """The scheduler's node; empty where nobody has told it, which is the one that is called like the host."""
        return str(self.data.get(ABOUT) or self.options.get(ABOUT) or self.options.get("name") or "")

    @property
    def tokens(self) -> Sequence[str] | None:
        """None where that was not told."""
        found: Sequence[str] | None = self.data.get(TOKENS)
        return found


def holders(ledger: Ledger, node_ids: Collection[str]) -> dict[str, list[Call]]:
    """By node, the calls that may have held it since the newest hold of ours: what they announced is ours, though
    nobody noted it, as long as it reads so.

    What is announced stands in the ledger before the write, and through another machine before the node is looked at:
    of each call there is one intent, and one outcome unless it was killed. A run whose calls were all refused, or found
    nothing to write, holds the node for another host, where it does. Of what was held before that event the ledger has
    the token: who writes another one's words there, such as a hold's that was lifted, has them from the scheduler.
    """
    asked = [node_id for node_id in dict.fromkeys(node_ids) if node_id] or [""]
    raw = ledger.latest(asked, "hold")
    looked = {node: event for node, event in raw.items() if is_look(event)}
    # Whoever looked, and found no hold, may have come between an announcement and its write.
    taken = ledger.latest(list(looked), "hold", ("taken",)) if looked else {}
    found = _since(ledger, [node for node in asked if node not in looked], _SINCE, {})
    for node, look in looked.items():
        calls = _since(ledger, [node], ":number", {"number": int(taken[node]["id"]) if node in taken else 0})
        found[node] = [call for call in calls.get(node, ()) if not _is_given_back(call, look)]
    return found


def _is_given_back(call: Call, look: Mapping[str, Any]) -> bool:
    """Was it a keep, of which a look found nothing when it could be written no more?"""
    seen = Moment.of(look["data"])
    return call.options.get("kind") == KEEP and call.number <= seen.event and seen.at - call.at > _OVER_SECONDS


def _since(ledger: Ledger, nodes: Collection[str], since: str, more: Mapping[str, Any]) -> dict[str, list[Call]]:
    """What was announced after that event, and what came of it, in their order: of each call its own outcome counts,
    and an earlier one speaks for no later one."""
    found: dict[str, dict[str, list[Call]]] = {}
    under_way: Counter[tuple[str, str]] = Counter()
    for row in ledger._many(_CALLS.replace(":since", since), "nodes", nodes, {"verb": _VERB, **more}):
        node, run, data = str(row["node_id"]), str(row["run_id"]), json.loads(row["data"])
        calls = found.setdefault(node, {}).setdefault(run, [])
        if row["kind"] == "intent":
            calls.append(Call(run, int(row["id"]), float(row["at"]), data))
            under_way[node, run] += 1
        elif under_way[node, run]:
            under_way[node, run] -= 1
            if _wrote_nothing(data):
                calls.pop()
    return {node: [call for calls in runs.values() for call in calls] for node, runs in found.items()}


def of_whom(ledger: Ledger, runs: Collection[str]) -> dict[tuple[str, str], set[str]]:
    """By run and scheduler's node, the machines for which the run announced a hold of it. Where they are two, nobody
    knows for which one the run holds it."""
    found: dict[tuple[str, str], set[str]] = {}
    for row in ledger._many(_OF_RUNS, "runs", list(runs), {"verb": _VERB}) if runs else ():
        node, run = str(row["node_id"]), str(row["run_id"])
        about = Call(run, 0, 0.0, json.loads(row["data"])).about or ledger.name(node)
        found.setdefault((run, about), set()).add(node)
    return found


def _wrote_nothing(outcome: Mapping[str, Any]) -> bool:
    """begun: what the call, or an earlier part of it, has written; another scheduler may answer its next look."""
    if "error" in outcome:
        return outcome.get("kind") in _BEFORE_ITS_WRITE and not outcome.get("begun")
    return outcome.get("asked") == []
