# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is due where a finding came back after its remedy. PRIVATE to the collection.

A recycle restarts the machine, which resets its GPUs: whoever has the same finding of the same part after it needs more
than that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

Finding = tuple[str, str]
_SOURCE = "leptonai/gpud 4a8de33a: the same error after two reboots is a matter of the hardware"
#: By remedy what is due when the same finding came back once, and when it did so twice; and by whose word.
CLIMBS: Mapping[str, tuple[str, str, str]] = {
    "reset_gpu": ("reboot", "rma", _SOURCE),
    "reboot": ("reboot", "rma", _SOURCE),
    "power_cycle": ("power_cycle", "rma", _SOURCE),
}
_LIFE = (
    "SELECT node_id, kind, name, at, data FROM events WHERE node_id IN :nodes AND (kind = 'verdict' OR kind = 'state'"
    " AND name = 'quarantined') AND id > coalesce((SELECT max(turn.id) FROM events turn WHERE turn.node_id ="
    " events.node_id AND (turn.kind = 'state' AND turn.name = 'admitted' OR turn.kind = 'identity'"
    " AND turn.name IN ('replaced', 'moved'))), 0) ORDER BY id"
)
_RECYCLES = "SELECT node_id, at FROM attempts WHERE node_id IN :nodes ORDER BY id"


def climbed(
    ledger: Ledger, tried: Iterable[str], states: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[str, str]]:
    """By node id the remedy that is due instead, and which finding came back; a node without one is left out.

    :param tried: the nodes of which a recycle was tried.
    :param states: by node id the newest state in the ledger. Of those that are quarantined alone anything is due.
    """
    node_ids = [one for one in tried if one in states and states[one]["name"] == "quarantined"]
    lives, recycles = (_by_node(ledger, sql, node_ids) for sql in (_LIFE, _RECYCLES))
    found = {node_id: _boots(rows, [one["at"] for one in recycles.get(node_id, ())]) for node_id, rows in lives.items()}
    return {node_id: due for node_id, boots in found.items() if (due := _due(boots))}


def _by_node(ledger: Ledger, sql: str, node_ids: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in ledger._many(sql, "nodes", list(node_ids), {}) if node_ids else ():
        found.setdefault(row["node_id"], []).append(row)
    return found


def _boots(rows: Iterable[Mapping[str, Any]], recycles: Sequence[float]) -> list[dict[Finding, str]]:
    """Between recycles the findings that led to quarantines, with their remedies.

    Who measures a quarantined node again without a recycle finds what it found. One that nobody could measure says
    nothing of what was found before.
    """
    found: list[dict[Finding, str]] = []
    since: dict[Finding, str] = {}
    ended = 0.0
    for row in rows:
        if row["kind"] != "state":
            since.update(_failed(json.loads(row["data"])))
        elif since:
            if not found or any(ended <= at <= row["at"] for at in recycles):
                found.append({})
            found[-1].update(since)
            since, ended = {}, row["at"]
    return found


def _failed(data: Mapping[str, Any]) -> dict[Finding, str]:
    if data.get("verdict") != "fail":
        return {}
    told = [one for one in data.get("findings") or [] if one.get("remedy") in CLIMBS]
    return {(str(one.get("id")), str(one.get("entity"))): str(one["remedy"]) for one in told}


def _due(boots: Sequence[Mapping[Finding, str]]) -> tuple[str, str] | None:
    """By the finding that came back most often; of those the heaviest remedy, which is the last of CLIMBS."""
    if not boots:
        return None
    *before, newest = boots
    times = {finding: sum(finding in one for one in before) for finding in newest}
    again = max(times.values(), default=0)
    if not again:
        return None
    ladder = list(CLIMBS)
    finding = max((one for one in times if times[one] == again), key=lambda one: ladder.index(newest[one]))
    once, twice, _source = CLIMBS[newest[finding]]
    text = f"{finding[0]} of {finding[1]} came back after {again} recycle{'s' if again > 1 else ''}"
    return (once if again == 1 else twice), text
