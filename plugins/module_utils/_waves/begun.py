# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waves that runs have begun, as the ledger has them. PRIVATE to the collection.

Two runs may have begun one with the same node: each is told of by its own run alone, whatever the other wrote later.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event as Told
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import BEGUN, RESET, WITHDRAWN, stops

_COLUMNS = "SELECT id, node_id, run_id, at, kind, name, data FROM events WHERE node_id IN :nodes AND kind = 'wave'"
_UNTAKEN = (
    "NOT EXISTS (SELECT 1 FROM events later WHERE later.node_id = events.node_id AND later.kind = 'state'"
    " AND later.id > events.id) AND NOT EXISTS (SELECT 1 FROM events later WHERE later.node_id = events.node_id"
    " AND later.kind = 'note' AND later.name = 'stopped' AND later.run_id = events.run_id AND later.id > events.id)"
)
_RECENT = (
    f"{_COLUMNS} AND name IN ('{BEGUN}', '{WITHDRAWN}') AND (at >= :since OR run_id = :run OR {_UNTAKEN}) ORDER BY id"
)
_RESETS = f"{_COLUMNS} AND name = '{RESET}' ORDER BY id"
_STOPPED = "SELECT id, node_id, run_id, data FROM events WHERE node_id IN :nodes AND kind = 'note' AND name = 'stopped'"
_BEGUN = f"{_COLUMNS} AND name = '{BEGUN}' ORDER BY id"

Event = Mapping[str, Any]


def recent(ledger: Ledger, node_ids: Collection[str], *, run: str, since: float) -> list[Event]:
    """What this run has begun and given back, whenever, and others since then; with what others began before, and the
    node has been in no other state since: a run that lives may be slow. Oldest first."""
    return read(ledger, _RECENT, node_ids, since=since, run=run)


def stand(events: Iterable[Event], *, before: int | None = None) -> list[Event]:
    """Those that their own run has not given back; of each node and run the newest one.

    :param before: an event: what came after it is left out.
    """
    newest = {(one["node_id"], one["run_id"]): one for one in events if before is None or int(one["id"]) < before}
    return [one for one in newest.values() if one["name"] == BEGUN]


class Mended:
    """What people said of images: that what was found out of one is mended. For whom such a word counts is judged here
    alone."""

    def __init__(self, resets: Iterable[Event], known: Collection[str]) -> None:
        """:param known: nodes of the inventory."""
        self._known = frozenset(known)
        self._of_node: dict[tuple[str, str], int] = {}
        self._of_any: dict[str, int] = {}
        for reset in sorted(resets, key=lambda one: int(one["id"])):
            # It is one about what a wave brought that was of no image, too.
            for image in ("", *map(str, reset["data"].get("images") or ())):
                self._of_node[str(reset["node_id"]), image] = int(reset["id"])
                if reset["node_id"] in self._known:
                    self._of_any[image] = int(reset["id"])

    def last(self, node_id: str, image: str) -> int:
        """The number of the last word that counts for this node and image; 0 where there is none. For a node that the
        inventory does not have, which nobody can name in a run, each word about the image does."""
        own = self._of_node.get((node_id, image), 0)
        return own if node_id in self._known else max(own, self._of_any.get(image, 0))


def mended(ledger: Ledger, known: Collection[str]) -> Mended:
    """:param known: nodes of the inventory."""
    return Mended(read(ledger, _RESETS, ledger.everybody()), known)


def waited_for(waves: Iterable[Event], said: Mended) -> list[Event]:
    """Without those after which a person said that what was found out of their image is mended: whoever had begun them
    and has taken nothing yet may be gone, and no canary of his is waited for."""
    return [
        one for one in waves if int(one["id"]) > said.last(str(one["node_id"]), str(one["data"].get("image") or ""))
    ]


def append(ledger: Ledger, run: str, events: Sequence[tuple[str, Told]], secrets: frozenset[str]) -> list[int]:
    """Write that waves begin, one run after the other: what has a lower number is there to be read then. PostgreSQL
    gives numbers before others see what they are of."""
    with ledger.transaction() as conn:
        ledger.alone_with_waves(conn)
        return ledger.append_in(conn, run, events, secrets=secrets)


def stopped(ledger: Ledger, waves: Mapping[str, Event]) -> list[str]:
    """The hosts at which the run that began their wave was stopped since, by what is no matter of somebody else's.

    :param waves: by host, the event by which it began.
    """
    hosts = {str(wave["node_id"]): host for host, wave in waves.items()}
    notes = read(ledger, _STOPPED, hosts) if hosts else []
    return [
        host
        for note in notes
        for host in [hosts[str(note["node_id"])]]
        if note["run_id"] == waves[host]["run_id"] and int(note["id"]) > int(waves[host]["id"]) and stops(note)
    ]


def took(ledger: Ledger, node_ids: Collection[str], image: str) -> list[Event]:
    """The waves, of whichever run, that took one of these nodes for the image; oldest first."""
    return [one for one in read(ledger, _BEGUN, node_ids) if one["data"].get("image") == image]


def read(ledger: Ledger, sql: str, node_ids: Collection[str], **more: Any) -> list[Event]:
    """The events of these nodes that a query asks for, each with its data."""
    rows = ledger._many(sql, "nodes", list(node_ids) or [""], more)
    return [{**row, "data": json.loads(row["data"])} for row in rows]
