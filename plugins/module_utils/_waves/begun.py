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
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import BEGUN, RESET, WITHDRAWN

_COLUMNS = "SELECT id, node_id, run_id, at, kind, name, data FROM events WHERE node_id IN :nodes AND kind = 'wave'"
_RECENT = f"{_COLUMNS} AND name IN ('{BEGUN}', '{WITHDRAWN}') AND (at >= :since OR run_id = :run) ORDER BY id"
RESETS = f"{_COLUMNS} AND name = '{RESET}' ORDER BY id"
_BEGUN = f"{_COLUMNS} AND name = '{BEGUN}' ORDER BY id"

Event = Mapping[str, Any]


def recent(ledger: Ledger, node_ids: Collection[str], *, run: str, since: float) -> list[Event]:
    """What this run has begun and given back, whenever, and others since then; oldest first."""
    return read(ledger, _RECENT, node_ids, since=since, run=run)


def stand(events: Iterable[Event], *, before: int | None = None) -> list[Event]:
    """Those that their own run has not given back; of each node and run the newest one.

    :param before: an event: what came after it is left out.
    """
    newest = {(one["node_id"], one["run_id"]): one for one in events if before is None or int(one["id"]) < before}
    return [one for one in newest.values() if one["name"] == BEGUN]


def waited_for(ledger: Ledger, waves: Iterable[Event], known: Collection[str]) -> list[Event]:
    """Without those after which a person said that what was found out of their image is mended: whoever had begun them
    and has taken nothing yet may be gone, and no canary of his is waited for.

    :param known: nodes of the inventory; of any other one, which nobody can name in a run, each such word counts.
    """
    resets = read(ledger, RESETS, known)
    return [one for one in waves if not any(_mends(reset, one, known) for reset in resets)]


def _mends(reset: Event, wave: Event, known: Collection[str]) -> bool:
    here = reset["node_id"] == wave["node_id"] or wave["node_id"] not in known
    later = int(reset["id"]) > int(wave["id"])
    return here and later and is_of(reset, wave["data"].get("image"))


def is_of(reset: Event, image: Any) -> bool:
    """Did a person say of this image that what was found out is mended?"""
    return image in (reset["data"].get("images") or ())


def append(ledger: Ledger, run: str, events: Sequence[tuple[str, Told]], secrets: frozenset[str]) -> list[int]:
    """Write that waves begin, one run after the other: what has a lower number is there to be read then. PostgreSQL
    gives numbers before others see what they are of."""
    with ledger.transaction() as conn:
        ledger.alone_with_waves(conn)
        return ledger.append_in(conn, run, events, secrets=secrets)


def took(ledger: Ledger, node_ids: Collection[str], image: str) -> list[Event]:
    """The waves, of whichever run, that took one of these nodes for the image; oldest first."""
    return [one for one in read(ledger, _BEGUN, node_ids) if one["data"].get("image") == image]


def read(ledger: Ledger, sql: str, node_ids: Collection[str], **more: Any) -> list[Event]:
    """The events of these nodes that a query asks for, each with its data."""
    rows = ledger._many(sql, "nodes", list(node_ids) or [""], more)
    return [{**row, "data": json.loads(row["data"])} for row in rows]
