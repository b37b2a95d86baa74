# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each verb of a provisioner tells of a node's record. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import ABSENT, NodeState


def seen(node: NodeState | None) -> dict[str, Any]:
    """Of before and after."""
    if node is None or node.state == ABSENT:
        return {"state": ABSENT}
    return {"state": node.state, "provision_state": node.native, "maintenance": node.hold if node.maintenance else ""}


def record(node: NodeState, deferred: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "provisioner_id": node.id,
        "name": node.name,
        "provision_state": node.native,
        "state": node.state,
        "maintenance": node.maintenance,
        "hold": node.hold,
        "owner": node.owner,
        "deferred": list(deferred),
    }
