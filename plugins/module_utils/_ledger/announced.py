# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which runs may have held a node: they announced it, and may have written to it. PRIVATE to the collection."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    Changed,
    NotAdopted,
    NotOurs,
    WrongMachine,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import is_look
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

_VERB = "scheduler_node"
#: In an intent, the tokens of which its call may write one, and the scheduler's node that it is about.
TOKENS, ABOUT = "announces", "scheduler_node"
#: A call that ended with one of these has judged the node, and held it not. With any other kind, also of those by which
#: an order of a provisioner was not taken, it may have ended after its write: its lease was lost then, for instance.
_BEFORE_ITS_WRITE = frozenset(one.kind for one in (Changed, NotAdopted, NotOurs, WrongMachine))

_CALLS = (
    "SELECT node_id, run_id, kind, data FROM events WHERE node_id IN :nodes AND id > :since AND name = :verb"
    " AND kind IN ('intent', 'outcome') ORDER BY id"
)
_OF_OTHERS = (
    "SELECT node_id, run_id, data FROM events WHERE node_id IN (SELECT node_id FROM nodes) AND node_id <> :node"
    " AND kind = 'intent' AND name = :verb AND run_id IN :runs"
)
#: Since the newest event of a hold, whoever told it.
_SINCE = "coalesce((SELECT max(h.id) FROM events h WHERE h.node_id = events.node_id AND h.kind = 'hold'), 0)"


#: By node, and by run, the tokens that the run's calls have announced.
Announced = Mapping[str, Mapping[str, "set[str]"]]


def holders(ledger: Ledger, node_ids: Collection[str]) -> Announced:
    """The runs that may have held a node since the newest hold of ours: theirs is ours, though nobody noted it, as long
    as it reads as they announced it.

    What is announced stands in the ledger before the write, and through another machine before the node is looked at:
    of each call there is one intent, and one outcome unless it was killed. A run whose calls were all refused, or found
    nothing to write, holds the node for another host, where it does. Of what was held before that event the ledger has
    the token: who writes another one's words there, such as a hold's that was lifted, has them from the scheduler.
    """
    asked = [node_id for node_id in dict.fromkeys(node_ids) if node_id] or [""]
    raw = ledger.latest(asked, "hold")
    looked = [node for node, event in raw.items() if is_look(event)]
    # Whoever looked, and found no hold, may have come between an announcement and its write.
    taken = ledger.latest(looked, "hold", ("taken",)) if looked else {}
    found = _since(ledger, [node for node in asked if node not in looked], _SINCE, {})
    for node in looked:
        found.update(_since(ledger, [node], ":number", {"number": int(taken[node]["id"]) if node in taken else 0}))
    return found


def _since(
    ledger: Ledger, nodes: Collection[str], since: str, more: Mapping[str, Any]
) -> dict[str, dict[str, set[str]]]:
    """What was announced after that event, and what came of it, in their order: of each call its own outcome counts,
    and an earlier one speaks for no later one."""
    open_calls: dict[tuple[str, str], list[set[str]]] = {}
    under_way: Counter[tuple[str, str]] = Counter()
    for row in ledger._many(_CALLS.replace(":since", since), "nodes", nodes, {"verb": _VERB, **more}):
        of, data = (str(row["node_id"]), str(row["run_id"])), json.loads(row["data"])
        calls = open_calls.setdefault(of, [])
        if row["kind"] == "intent":
            calls.append(set(data.get(TOKENS) or ()))
            under_way[of] += 1
        elif under_way[of]:
            under_way[of] -= 1
            if _wrote_nothing(data):
                calls.pop()
    found: dict[str, dict[str, set[str]]] = {}
    for (node, run), calls in open_calls.items():
        if calls:
            found.setdefault(node, {})[run] = set().union(*calls)
    return found


def elsewhere(ledger: Ledger, node_id: str, name: str, runs: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without the runs that announced a hold of the scheduler's node of this name for another machine, too: for which
    of the two they hold it nobody knows."""
    rows = ledger._many(_OF_OTHERS, "runs", list(runs), {"node": node_id, "verb": _VERB}) if runs else ()
    theirs = {str(row["run_id"]) for row in rows if json.loads(row["data"]).get(ABOUT) == name}
    return {run: tokens for run, tokens in runs.items() if run not in theirs}


def _wrote_nothing(outcome: Mapping[str, Any]) -> bool:
    """begun: what the call, or an earlier part of it, has written; another scheduler may answer its next look."""
    if "error" in outcome:
        return outcome.get("kind") in _BEFORE_ITS_WRITE and not outcome.get("begun")
    return outcome.get("asked") == []
