# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger knows of holds, for the actions of scheduler and provisioner. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import ours, since_retired

_VERB = "scheduler_node"
#: A wait sends a node on, too, and may have to hold it for a moment.
_PROVISIONER_VERBS = ("provisioner_node", "provisioner_wait")


def holds(ledger: Ledger, ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The options known_token, known_author, known_runs, known_admitted, known_here and known_scheduler_node by host,
    in five queries for all; ids: node id by host.

    A run is ours when it announced a write on this very node: the intent stands in the ledger before the write, so
    a run that was killed right after it is known as well.
    """
    newest = ledger.latest(list(ids.values()), "hold")
    runs = ledger.runs(list(ids.values()), _VERB)
    admitted = since_retired(ledger, list(ids.values()), "admitted")
    known = ours(ledger, list(ids.values()))
    named = ledger.latest(list(ids.values()), "named")
    found = {}
    for host, node_id in ids.items():
        event = newest.get(node_id)
        taken = event["data"] if event is not None and event["name"] == "taken" else {}
        found[host] = {
            "known_token": str(taken.get("hold_token", "")),
            "known_author": str(taken.get("hold_author", "")),
            "known_runs": sorted(runs.get(node_id, ())),
            "known_admitted": node_id in admitted,
            "known_here": node_id in known,
            # Of one that never served as ours, a hold may have been the inventory's slip.
            "known_scheduler_node": _name(admitted.get(node_id), event, named.get(node_id)) if node_id in known else "",
        }
    return found


def _name(*events: Mapping[str, Any] | None) -> str:
    """The scheduler's node that the newest of these has for the machine: it was adopted as that, held, or named so."""
    told = [event for event in events if event is not None and event["data"].get("scheduler_node")]
    return str(max(told, key=lambda event: int(event["id"]))["data"]["scheduler_node"]) if told else ""


def known_as(variable: Callable[[str, str], Any], host: str) -> list[str]:
    """What else a host is called or reached by in the inventory: a scheduler may have it under one of these."""
    return [host, *filter(None, [str(variable("ansible_host", host) or "")])]


def writers(ledger: Ledger, ids: Mapping[str, str]) -> dict[str, list[str]]:
    """By host, the runs that ever announced a write to the provisioner for this node; ids: node id by host."""
    found = {host: set[str]() for host in ids}
    for verb in _PROVISIONER_VERBS:
        runs = ledger.runs([node_id for node_id in ids.values() if node_id], verb)
        for host, node_id in ids.items():
            found[host] |= runs.get(node_id, set())
    return {host: sorted(runs) for host, runs in found.items()}
