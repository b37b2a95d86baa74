# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger knows of holds, for the actions of scheduler and provisioner. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.announced import Call, holders, of_whom
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.hold import announced
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._bound import Bound, bindings

#: Reads a variable of a host; None where it is not set.
Variable = Callable[[str, str], Any]
#: A wait sends a node on, too, and may have to hold it for a moment.
_PROVISIONER_VERBS = ("provisioner_node", "provisioner_wait")


def holds(
    ledger: Ledger,
    ids: Mapping[str, str],
    variable: Variable,
    failed: dict[str, FleetError] | None = None,
    names: Mapping[str, str] | None = None,
) -> dict[str, dict[str, Any]]:
    """The options of a scheduler's verbs that the ledger and the row fill in, ``known_token`` and so on, by host, in a
    few queries for all. Whoever asks a scheduler asks with all of them, so that no two of us see another machine.

    :param ids: node id by host; empty for one that the ledger does not know.
    :param failed: gets what is wrong with the row of a host, which is left out then; without it that is raised.
    :param names: as which node of its scheduler a host is asked for, where its row does not say that.

    A run is ours when it announced a write on this very node, and was not refused: the intent stands in the ledger
    before the write, so a run that was killed right after it is known as well.
    """
    nodes = [node_id for node_id in ids.values() if node_id]
    found, uuids = bindings(ledger, nodes), ledger.values("system_uuid", nodes)
    unnoted = _Unnoted(ledger, holders(ledger, nodes))
    told = {}
    for host, node_id in ids.items():
        one = found.get(node_id) or Bound()
        try:
            name = (names or {}).get(host) or str(variable("gpufleet_scheduler_node", host) or host)
            of_ledger = _known(one, unnoted.of(node_id, one, name, host), uuids.get(node_id, []))
            told[host] = {**of_ledger, **of_the_row(variable, host, of_ledger)}
        except FleetError as exc:
            if failed is None:
                raise
            failed[host] = exc
    return told


class _Unnoted:
    """Calls that may have held a node, and whose words nobody noted: for which machine they did, those do not tell."""

    def __init__(self, ledger: Ledger, calls: Mapping[str, Sequence[Call]]) -> None:
        self._ledger = ledger
        self._calls = calls

    def of(self, node_id: str, one: Bound, name: str, host: str) -> list[Call]:
        """Those that held the scheduler's node of this name, and for no other machine. Two rows may name one node."""
        calls = [call for call in self._calls.get(node_id, ()) if (call.about or host) == name]
        if not calls or one.name == name:
            return calls
        if self._bound.get(name, set()) - {node_id}:
            return []
        return [call for call in calls if not self._machines.get((call.run, name), set()) - {node_id}]

    @cached_property
    def _bound(self) -> dict[str, set[str]]:
        """By name of a scheduler's node, the machines that are it by the ledger."""
        found: dict[str, set[str]] = {}
        for node_id, one in bindings(self._ledger, self._ledger.everybody()).items():
            found.setdefault(one.name, set()).add(node_id)
        return found

    @cached_property
    def _machines(self) -> Mapping[tuple[str, str], set[str]]:
        return of_whom(self._ledger, {call.run for calls in self._calls.values() for call in calls})


def of_the_row(variable: Variable, host: str, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The same by its row alone, where no ledger can be asked. :param known: what the ledger tells."""
    return {"known_as": known_as(variable, host), "known_uuids": known_uuids(variable, host, known or {})}


def _known(one: Bound, calls: Sequence[Call], uuids: list[str]) -> dict[str, Any]:
    """One of a release before it told its tokens has them from its options."""
    taken = one.hold["data"] if one.hold is not None and one.hold["name"] == "taken" else {}
    said = [call.tokens if call.tokens is not None else announced(call.run, call.options) for call in calls]
    return {
        "known_left": bool(taken) and one.left,
        "known_standing": [{"token": token, "author": author} for token, author in one.standing],
        "known_token": str(taken.get("hold_token", "")),
        "known_author": str(taken.get("hold_author", "")),
        "known_runs": sorted({call.run for call in calls}),
        "known_announced": sorted({token for tokens in said for token in tokens}),
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
