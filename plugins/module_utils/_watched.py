# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the watchers of a batch tell whose failure it is that a host did not get there. PRIVATE to the collection.

Each verdict of a watcher has a ``kind``: that of the error behind it, empty where the verdict is the node's own. What
the kinds mean stands in _quarantine.py. A host that is none of a call is told by the key ``refused`` of its entry in
the list of nodes, and by its kind beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    NOT_TAKEN,
    FleetError,
    NotOurs,
    Refused,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

_WHY, _KIND = "refused", "refused_kind"


def refusal(why: str, kind: str) -> dict[str, str]:
    """What the entry of a host says that is none of this call."""
    return {_WHY: why, _KIND: kind} if why else {}


def refused(node: Mapping[str, Any]) -> tuple[str, str]:
    """Why this host is none of this call, and of what kind that is; empty where nothing stands against it.

    Where nobody says of what kind, it is somebody else's: then no node is blamed.
    """
    why = str(node.get(_WHY) or "")
    return why, str(node.get(_KIND) or NotOurs.kind) if why else ""


def untaken(ordered: dict[str, str], host: str, exc: FleetError) -> None:
    """An order counts no more of which it is said that it was not taken."""
    if NOT_TAKEN.get(exc.kind):
        ordered.pop(host, None)


def not_taken(verb: str, host: str, exc: FleetError, *, announced: bool = False) -> list[Event]:
    """Where the peer said no, or an order was not taken that was announced for this host: its ledger is told beside the
    verdict."""
    said_no = isinstance(exc, Refused) or (announced and NOT_TAKEN.get(exc.kind))
    begun = {"begun": exc.details["begun"]} if exc.details.get("begun") else {}
    told = {"error": str(exc), "kind": exc.kind, **begun}
    return [Event("outcome", verb, told, host)] if said_no else []
