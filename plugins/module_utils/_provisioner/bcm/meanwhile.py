# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a node of BCM now, against who had it when it was judged. PRIVATE to the collection.

Nobody keeps a record for us between the judgement and the write: leave to write may be waited for, and people work in
cmsh and in Base View meanwhile. So who has the nodes is looked up after leave was given, right before each session that
writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import trouble_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

Nodes = Sequence[tuple[NodeState, Wanted]]


def as_judged(nodes: Nodes, now: Mapping[str, NodeState], address: str) -> tuple[Nodes, dict[str, FleetError]]:
    """Those that are still as they were judged, as they stand now; and why not, by host, for the others."""
    fresh: list[tuple[NodeState, Wanted]] = []
    moved: dict[str, FleetError] = {}
    for node, wanted in nodes:
        there = now.get(node.id)
        if there is None:
            moved[wanted.host] = _gone(node, wanted, address)
            continue
        unread = trouble_of(there)
        if unread is not None:
            moved[wanted.host] = unread
            continue
        before, after = _whose(node), _whose(there)
        keys = [key for key in before if before[key] != after[key]]
        if not keys:
            fresh.append((there, wanted))
            continue
        moved[wanted.host] = Changed(
            "somebody has taken, held or given back the node since it was judged",
            node=wanted.host,
            address=address,
            wanted=_told(before, keys),
            seen=_told(after, keys),
            do="ask who did, and run again: it is judged anew",
        )
    return fresh, moved


def _gone(node: NodeState, wanted: Wanted, address: str) -> Changed:
    return Changed(
        "BCM does not know the node any more",
        node=wanted.host,
        address=address,
        wanted=f"the node {node.id}",
        seen="no such node",
        do="find out who removed it, and run again",
    )


def _whose(node: NodeState) -> dict[str, str]:
    """An installer that has begun since is at work for somebody, too."""
    note = record.words(node.raw).note
    return {
        "owner": node.foreign,
        "hold": node.hold,
        "mac": node.raw.get("mac", ""),
        "softwareimage": node.raw.get("softwareimage", ""),
        "nextinstallmode": node.raw.get("nextinstallmode", ""),
        "order": f"{note.get('order', '')} {note.get('deploy_id', '')}".strip(),
        "installer": node.raw.get("status", "") if node.raw.get("status") in tables.UNDER_WAY else "",
    }


def _told(marks: Mapping[str, str], keys: Sequence[str]) -> str:
    return cut(", ".join(f"{key}: {marks[key] or 'none'}" for key in keys), 400)
