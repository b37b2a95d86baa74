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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.newest_hold import as_seen, is_look, seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

_VERB = "scheduler_node"
#: A call that ended with one of these has judged the node, and held it not. With any other kind, also of those by which
#: an order of a provisioner was not taken, it may have ended after its write: its lease was lost then, for instance.
_BEFORE_ITS_WRITE = frozenset(one.kind for one in (Changed, NotAdopted, NotOurs, WrongMachine))

_OF_VERB = " FROM events WHERE node_id IN :nodes AND id > :since AND name = :verb AND kind = "
_INTENTS = f"SELECT node_id, run_id, data{_OF_VERB}'intent' ORDER BY id"
_ENDED = f"SELECT node_id, run_id, data{_OF_VERB}'outcome' AND (data LIKE :failed OR data LIKE :idle)"
#: Since the newest event of a hold, whoever told it.
_SINCE = "coalesce((SELECT max(h.id) FROM events h WHERE h.node_id = events.node_id AND h.kind = 'hold'), 0)"


def holders(ledger: Ledger, node_ids: Collection[str]) -> dict[str, dict[str, list[Mapping[str, Any]]]]:
    """By node, the runs that may have held it since the newest event of a hold, each with the options of its calls that
    announced that: theirs is ours, though nobody noted it.

    What is announced stands in the ledger before the write, and through another machine before the node is looked at:
    of each call there is one intent, and one outcome unless it was killed. A run whose calls were all refused, or found
    nothing to write, holds the node for another host, where it does. Of what was held before that event the ledger has
    the token: who writes another one's words there, such as a hold's that was lifted, has them from the scheduler.
    """
    asked = [node_id for node_id in dict.fromkeys(node_ids) if node_id] or [""]
    raw = ledger.latest(asked, "hold")
    newest = as_seen(ledger, raw)
    # Of a few a look tells, who may not have seen what was announced before it told.
    late = {node: seen(newest[node]) for node, event in raw.items() if is_look(event)}
    found = _since(ledger, [node for node in asked if node not in late], _SINCE, {})
    for node, since in late.items():
        found.update(_since(ledger, [node], ":number", {"number": since}))
    return found


def _since(
    ledger: Ledger, nodes: Collection[str], since: str, more: Mapping[str, Any]
) -> dict[str, dict[str, list[Mapping[str, Any]]]]:
    """What was announced, and what came of it, after that event alone: an earlier call speaks for no later one."""
    ways = {"failed": '%"error"%', "idle": '%"asked": []%'}
    ended = ledger._many(_ENDED.replace(":since", since), "nodes", nodes, {"verb": _VERB, **ways, **more})
    idle = Counter(_of(row) for row in ended if _wrote_nothing(json.loads(row["data"])))
    announced: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in ledger._many(_INTENTS.replace(":since", since), "nodes", nodes, {"verb": _VERB, **more}):
        announced.setdefault(_of(row), []).append(json.loads(row["data"]).get("options") or {})
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for (node, run), calls in announced.items():
        if len(calls) > idle[node, run]:
            found.setdefault(node, {})[run] = calls
    return found


def _wrote_nothing(outcome: Mapping[str, Any]) -> bool:
    """begun: what the call, or an earlier part of it, has written; another scheduler may answer its next look."""
    if "error" in outcome:
        return outcome.get("kind") in _BEFORE_ITS_WRITE and not outcome.get("begun")
    return outcome.get("asked") == []


def _of(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["node_id"]), str(row["run_id"])
