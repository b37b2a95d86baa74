# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a passport rests on: a node's verdicts since it was last imaged. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.aliases import IDENTITY, REPLACED, SWAPS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.identity import BOARD
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import waives
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment

#: States with which another image may begin to run.
_IMAGING = ("imaging", "wiping")
#: What speaks for or against a node, and what a person has lifted.
_JUDGES = ("verdict", "lift")
#: The verbs that send a provisioner its steps, and the option in which each is told where the node shall come to.
_SENDS = {"provisioner_node": "state", "provisioner_wait": "until"}
#: A provisioner told to do one of these writes or removes an image.
_REPLACES_IMAGE = frozenset({"deployed", "released"})
#: In place of an event that there is not.
_NOTHING: Mapping[str, Any] = {"data": {}}


def evidence(ledger: Ledger, node_id: str) -> dict[str, Any]:
    """Of a node ``verdicts``, ``history``, ``imaged``, ``deploy_id``, ``quarantined``, ``stored``, ``last_event`` and
    ``now``."""
    begun = ledger.latest([node_id], "state", _IMAGING).get(node_id)
    first = begun["id"] - 1 if begun else 0
    rows = ledger.history(node_id, since=min(first, _admitted(ledger, node_id)))
    events = [event for event in rows if event["id"] > first]
    imaged = _last(events, _images)
    since = imaged["id"] if imaged else 0
    board = int((_last(rows, _is_another_board) or _NOTHING).get("id", 0))
    newest: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event["kind"] == "verdict" and event["id"] > since and _counts(event, since):
            newest[event["name"]] = event
    return {
        "verdicts": list(newest.values()),
        "history": [one for one in rows if one["id"] > board and one["kind"] in _JUDGES and _stays(one, since)],
        "now": ledger.now(),
        "imaged": imaged,
        "deploy_id": str((_last(events, _begins) or _NOTHING)["data"].get("deploy_id") or ""),
        "quarantined": _last(events, lambda event: event["kind"] == "state" and event["name"] == "quarantined"),
        "stored": ledger.passport(node_id),
        "last_event": max((event["id"] for event in events), default=0),
    }


def _counts(event: Mapping[str, Any], imaged: int) -> bool:
    """A pass counts whose look began after the imaging: what was measured before it, and written down after it, was
    measured on another system. Whatever does not pass stands until it is asked again."""
    after = Moment.of(event["data"]).event
    return not imaged or event["data"].get("verdict") != "pass" or after >= imaged


def _stays(event: Mapping[str, Any], imaged: int) -> bool:
    """Of before the imaging all is told: a failure may stand."""
    return event["id"] <= imaged or _counts(event, imaged)


def _admitted(ledger: Ledger, node_id: str) -> int:
    """The event with which this node was last admitted on a passport, which let no failure of before stand; or 0.

    To say once more that it is admitted proves nothing: what counts is the way into that state.
    """
    if node_id not in ledger.latest([node_id], "state", ["admitted"]):
        return 0
    event = _last(ledger.history(node_id, kinds=("state",), names=("admitted",)), enters_service)
    return 0 if event is None or waives(event["data"]) else int(event["id"])


def enters_service(event: Mapping[str, Any]) -> bool:
    """Is this the way into service? To say it once more is none."""
    return (event["kind"], event["name"]) == ("state", "admitted") and event["data"].get("from") != "admitted"


def _images(event: Mapping[str, Any]) -> bool:
    if event["kind"] == "state":
        return event["name"] in _IMAGING
    if _swaps(event):
        return True
    options = event["data"].get("options") or {}
    return event["kind"] == "intent" and options.get(_SENDS.get(event["name"])) in _REPLACES_IMAGE


def _begins(event: Mapping[str, Any]) -> bool:
    """Does a deployment begin with it, or end because the machine is another one since?"""
    return (event["kind"], event["name"]) == ("state", "imaging") or _swaps(event)


def _swaps(event: Mapping[str, Any]) -> bool:
    return event["kind"] == IDENTITY and event["name"] in SWAPS


def _is_another_board(event: Mapping[str, Any]) -> bool:
    """What the old one failed, or passed, went with it: a person has said so, and the node is judged anew."""
    return (event["kind"], event["name"], event["data"].get("part")) == (IDENTITY, REPLACED, BOARD)


def _last(events: Sequence[Mapping[str, Any]], fits: Any) -> Mapping[str, Any] | None:
    return next((event for event in reversed(events) if fits(event)), None)
