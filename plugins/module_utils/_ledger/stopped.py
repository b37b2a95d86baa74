# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why the newest run went no further with a node, out of what runs have noted. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import ALL_GATES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

#: The note of a look that could not be made, which every run tells until one could; and whose verdicts are of the node.
UNSEEN = "unseen"
_LOOKS = ("image_verify", "hardware_verify", *ALL_GATES)

Event = Mapping[str, Any]


def judged(verdict: Event | None) -> str:
    """What a look said; empty where there was none."""
    return str(verdict["data"].get("verdict") or "") if verdict else ""


def newest_of(*told: Mapping[str, Event]) -> dict[str, int]:
    """By node, the id of the newest of these events."""
    return {one: max(of[one]["id"] for of in told if one in of) for one in {*chain(*told)}}


def not_seen(ledger: Ledger, ids: Sequence[str]) -> dict[str, Event]:
    """By node, the newest look that could not be made, where none has been made since. What was looked at on the
    controller alone is none, nor is one that came to nothing."""
    newest, notes = ledger.latest(ids, "verdict", _LOOKS), ledger.latest(ids, "note", [UNSEEN])
    looked = newest_of({one: event for one, event in newest.items() if judged(event) != "inconclusive"})
    return {one: note for one, note in notes.items() if looked.get(one, 0) < note["id"]}


def telling(newest: Mapping[str, Event | None], run_id: str, turned: int) -> Event | None:
    """The newest note that still tells why a run went no further.

    :param newest: of the node, ``state``, and by name the notes. :param turned: the id of what has become of it beside
        its state: it was held, or said to be another one.
    """
    state, notes = newest["state"], (newest.get("stopped"), newest.get(UNSEEN))
    standing = [note for note in notes if note is not None and turned <= note["id"] and _tells(state, note, run_id)]
    return max(standing, key=lambda note: int(note["id"]), default=None)


def _tells(state: Event | None, note: Event, run_id: str) -> bool:
    """Has nothing come of the node since?

    Of a node in service a note is its own run's business alone, but for a look that could not be made: nothing but a
    later look of its gates says that it is healthy.
    """
    if not note["data"].get("reason") or (state is not None and state["id"] > note["id"]):
        return False
    serves = state is not None and state["name"] == "admitted"
    return not serves or note["run_id"] == run_id or note["name"] == UNSEEN
