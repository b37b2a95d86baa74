# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a play has told its ledger."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event

#: The run of :func:`known`, whose events are none of the test's.
BEFORE = "before the test"


def known(ledger: Path, name: str, serial: str, **data: Any) -> None:
    """An earlier run has admitted this node, no stranger then. data: what it noted of it."""
    with Ledger(f"sqlite:///{ledger}") as opened:
        node = opened.identify(name, aliases=[("serial", serial)])
        opened.append(BEFORE, [(node, Event("state", "admitted", data=data))])


def of_kind(ledger: Path, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The events of a kind, oldest first: node, name and data. A ledger that is not there has none."""
    if not ledger.exists():
        return []  # check mode makes none
    with sqlite3.connect(ledger) as connection:
        rows = connection.execute(
            "SELECT nodes.name, events.name, events.data FROM events JOIN nodes USING (node_id)"
            " WHERE kind = ? AND run_id != ? ORDER BY id",
            (kind, BEFORE),
        )
        return [(node, name, json.loads(data)) for node, name, data in rows]
