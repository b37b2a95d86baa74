# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""May a node be given work? PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifecycle import bar_to_service
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence


def lacks(ledger: Ledger, node_id: str) -> str:
    """What the node lacks by the ledger to be given work, in words; empty where nothing is missing.

    A deploy that was sent counts as an imaging, whether or not the state says so.
    """
    found = evidence(ledger, node_id)
    state = ledger.latest([node_id], "state").get(node_id)
    known = {"passport": found["stored"], "imaging": found["imaged"], "quarantined": found["quarantined"]}
    return bar_to_service(state["name"] if state else "discovered", known, ledger.now())
