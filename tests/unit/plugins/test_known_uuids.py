# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which UUIDs a machine is held against the one that its scheduler's node runs on: the ledger's, else its row's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import holds, known_uuids

OURS, OTHER = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"


def unset(_name: str, _host: str) -> None:
    """Of a host whose row says nothing."""


def test_the_ledgers_count_and_else_the_rows(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
        first = ledger.identify("gpu001", aliases=[("serial", "S1"), ("system_uuid", OURS)])
        second = ledger.identify("gpu002", aliases=[("serial", "S2")])
        taken = {"hold_token": "gpufleet:run1:x", "scheduler_node": "gpu001", "incarnation": "uid-1"}
        ledger.append("run1", [(first, Event("hold", "taken", taken))])
        known = holds(ledger, {"gpu001": first, "gpu002": second}, unset)
    assert known["gpu001"]["known_incarnation"] == "uid-1" and known["gpu002"]["known_incarnation"] == ""

    def row(name: str, host: str) -> Any:
        return OTHER if name == "gpufleet_system_uuid" else None

    # A row of the neighbour's, with its scheduler_node as well, would make its node this machine's.
    assert known_uuids(row, "gpu001", known["gpu001"]) == [OURS]
    assert known_uuids(row, "gpu002", known["gpu002"]) == [OTHER] == known_uuids(row, "gpu002", {})
