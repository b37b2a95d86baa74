# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger knows of holds, for the actions of scheduler and provisioner. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.announced import holders
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import announced
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._bound import Bound, bindings

#: Reads a variable of a host; None where it is not set.
Variable = Callable[[str, str], Any]
#: A wait sends a node on, too, and may have to hold it for a moment.
_PROVISIONER_VERBS = ("provisioner_node", "provisioner_wait")


def holds(
    ledger: Ledger, ids: Mapping[str, str], variable: Variable, failed: dict[str, FleetError] | None = None
) -> dict[str, dict[str, Any]]:
    """The options of a scheduler's verbs that the ledger and the row fill in, ``known_token`` and so on, by host, in a
    few queries for all. Whoever asks a scheduler asks with all of them, so that no two of us see another machine.

    :param ids: node id by host; empty for one that the ledger does not know.
    :param failed: gets what is wrong with the row of a host, which is left out then; without it that is raised.

    A run is ours when it announced a write on this very node, and was not refused: the intent stands in the ledger
    before the write, so a run that was killed right after it is known as well.
    """
    nodes = [node_id for node_id in ids.values() if node_id]
    found, runs, uuids = bindings(ledger, nodes), holders(ledger, nodes), ledger.values("system_uuid", nodes)
    told = {}
    for host, node_id in ids.items():
        of_ledger = _known(found.get(node_id) or Bound(), runs.get(node_id, {}), uuids.get(node_id, []))
        try:
            told[host] = {**of_ledger, **of_the_row(variable, host, of_ledger)}
        except FleetError as exc:
            if failed is None:
                raise
            failed[host] = exc
    return told


def of_the_row(variable: Variable, host: str, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The same by its row alone, where no ledger can be asked. :param known: what the ledger tells."""
    return {"known_as": known_as(variable, host), "known_uuids": known_uuids(variable, host, known or {})}


def _known(one: Bound, runs: Mapping[str, Sequence[Mapping[str, Any]]], uuids: list[str]) -> dict[str, Any]:
    taken = one.hold["data"] if one.hold is not None and one.hold["name"] == "taken" else {}
    said = {token for run, calls in runs.items() for options in calls for token in announced(run, options)}
    return {
        "known_left": bool(taken) and one.left,
        "known_standing": [{"token": token, "author": author} for token, author in one.standing],
        "known_token": str(taken.get("hold_token", "")),
        "known_author": str(taken.get("hold_author", "")),
        "known_runs": sorted(runs),
        "known_announced": sorted(said),
        "known_admitted": one.admitted,
        "known_here": one.here,
        "known_scheduler_node": one.name,
        **one.place.data("known_"),
        "known_incarnation": str(taken.get("incarnation", "")),
        "known_uuids": uuids,
    }


def belongs(ledger: Ledger, node_id: str) -> bool:
    """Is the machine a node of some scheduler by our ledger, whatever its row says?"""
    one = bindings(ledger, [node_id])[node_id] if node_id else Bound()
    return bool(one.name) or one.place != Place()


def known_as(variable: Variable, host: str) -> list[str]:
    """What else a host is called or reached by in the inventory: a scheduler may have it under one of these."""
    return [host, *filter(None, [str(variable("ansible_host", host) or "")])]


def known_uuids(variable: Variable, host: str, known: Mapping[str, Any]) -> list[str]:
    """System UUIDs of the machine by the ledger, and by its row where the ledger has none: a scheduler may tell on
    which one its node runs. A row that was mixed up with its neighbour's would vouch for the neighbour's node."""
    told = list(known.get("known_uuids") or ())
    return told or [*filter(None, [str(variable("gpufleet_system_uuid", host) or "")])]


def writers(ledger: Ledger, ids: Mapping[str, str]) -> dict[str, list[str]]:
    """By host, the runs that ever announced a write to the provisioner for this node; ids: node id by host."""
    found = {host: set[str]() for host in ids}
    for verb in _PROVISIONER_VERBS:
        runs = ledger.runs([node_id for node_id in ids.values() if node_id], verb)
        for host, node_id in ids.items():
            found[host] |= runs.get(node_id, set())
    return {host: sorted(runs) for host, runs in found.items()}
