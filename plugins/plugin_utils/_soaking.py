# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes may still soak, by the ledger: a soak goes on for days without us. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.job import ANOTHER, NO_SOAK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import CUT_OFF, GONE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: The gate that goes on for days, and the tool that its own verdict names.
SOAK, SOAKED = "soak_gate", "soak"
_IMAGING = ("imaging",)


def soaking(ledger: Ledger, node_ids: Sequence[str]) -> frozenset[str]:
    """Those of these nodes that may soak: of none of the others a soak was begun since it was imaged."""
    begun, imaged = ledger.latest(node_ids, "intent", (SOAK,)), ledger.latest(node_ids, "state", _IMAGING)
    return frozenset(node for node in begun if soaks(ledger, node, imaged.get(node)))


def soaks(ledger: Ledger, node_id: str, imaged: Mapping[str, Any] | None) -> bool:
    """May it soak? What was imaged since does not soak any more."""
    return going_on(ledger, node_id, int(imaged["id"]) if imaged else 0) is not None


def begun_last(ledger: Ledger, node_id: str) -> Mapping[str, Any] | None:
    """The intent of the soak that may go on there; None where none does."""
    imaged = ledger.latest([node_id], "state", _IMAGING).get(node_id)
    return going_on(ledger, node_id, int(imaged["id"]) if imaged else 0)


def going_on(ledger: Ledger, node_id: str, since: int) -> Mapping[str, Any] | None:
    """The intent of the soak that was begun last, after the event ``since``, where its end is not known.

    The word of another job ends it only where that one was asked for later: a node begins, finds and ends none while
    another one goes on there.
    """
    begun: Mapping[str, Any] | None = None
    before, asked = begun, frozenset[str]()
    for event in ledger.history(node_id, since=since, kinds=("intent", "verdict", "note"), names=(SOAK,)):
        data, job = event["data"], str(event["data"].get("job") or "")
        if event["kind"] == "intent":
            asked |= {job}
            if not _stops(data):
                before, begun, asked = begun, event, frozenset({job})
        elif data.get(ANOTHER):  # not begun, since the one before it goes on there
            begun = before or begun
            asked |= {str(begun["data"].get("job") or "")} if begun else set()
        elif data.get(NO_SOAK) or (job in asked and _ends_it(data)):
            begun = None
    return begun


def cut_off(ledger: Ledger, node_id: str, job: str) -> int:
    """How often this soak was found killed, or its node rebooted, since it has last told anything itself: once each
    time that it was begun, however often somebody looked."""
    count, begun = 0, False
    for event in ledger.history(node_id, kinds=("intent", "verdict"), names=(SOAK,)):
        data = event["data"]
        if data.get("job") != job:
            continue
        if event["kind"] == "intent":
            begun = begun or not _stops(data)
        elif _tells(data):
            count, begun = 0, False
        elif begun and _found(data, CUT_OFF):
            count, begun = count + 1, False
    return count


def _stops(intent: Mapping[str, Any]) -> bool:
    """Who only ends a soak begins none."""
    return bool((intent.get("options") or {}).get("stop"))


def _ends_it(data: Mapping[str, Any]) -> bool:
    """Does this verdict show that the soak is over? Its own does, and a process or a boot that is gone; a node that did
    not answer may soak on, and so may one whose soak was asked for in other words."""
    return _tells(data) or _found(data, GONE)


def _tells(data: Mapping[str, Any]) -> bool:
    """Is it the soak's own word?"""
    return bool((data.get("tool") or {}).get("name") == SOAKED)


def _found(data: Mapping[str, Any], ids: Sequence[str]) -> bool:
    return any(one.get("id") in ids for one in data.get("findings") or [])
