# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a node of BCM now, against who had it when it was judged. PRIVATE to the collection.

Nobody keeps a record for us between the judgement and the write: leave to write may be waited for, and people work in
cmsh and in Base View meanwhile. So who has the nodes is looked up after leave was given, right before each session that
writes.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import meanwhile
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.meanwhile import Nodes


def as_judged(nodes: Nodes, now: Mapping[str, NodeState], address: str) -> tuple[Nodes, dict[str, FleetError]]:
    """Those that are still as they were judged, as they stand now; and why not, by host, for the others."""
    return meanwhile.as_judged(
        nodes, now, lambda judged, there, wanted: meanwhile.since("BCM", judged, there, wanted, address, _whose)
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
