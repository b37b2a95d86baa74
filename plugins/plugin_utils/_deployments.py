# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger knows of deployments, for all that ask a provisioner whose a node is. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import Noted, former_serials, noted
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._holds import writers

#: Of a host that the ledger has never seen: nothing of it is ours.
NOTHING: Mapping[str, Any] = {
    "known_runs": [],
    "known_deployed": False,
    "known_deploy_ids": [],
    "known_stamps": [],
    "known_works": [],
    "known_former_serials": [],
    "known_at": {},
}


def deployments(ledger: Ledger, ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The options of NOTHING by host; ids: node id by host, empty where the ledger has none.

    known_runs: that ever announced a write to the provisioner for this node. known_deployed: it was deployed by us, or
    adopted, and not given back since; by which ids and stamps that is known. known_works: what we have had done on it
    since. known_former_serials: of boards that were
    swapped out of it, by one of which its record may know it until the next deployment. known_at: at which provisioner.
    """
    there = {host: node_id for host, node_id in ids.items() if node_id}
    runs, notes = writers(ledger, there), noted(ledger, list(there.values()))
    known = {host: _of(notes[node_id], runs[host]) for host, node_id in there.items()}
    for host, node_id in there.items():
        known[host]["known_former_serials"] = former_serials(ledger, node_id, notes[node_id])
    return {host: known.get(host) or dict(NOTHING) for host in ids}


def _of(notes: Noted, runs: list[str]) -> dict[str, Any]:
    return {
        "known_runs": runs,
        "known_deployed": notes.stands,
        "known_deploy_ids": notes.known_ids,
        "known_stamps": notes.stamps,
        "known_works": sorted(notes.works),
        "known_at": dict(notes.place),
    }
