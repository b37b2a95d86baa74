# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose record cannot be read, among others whose can. PRIVATE to the collection.

People write in records, by hand or past us. What none of ours can read is that node's own trouble, and stops no other.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import OTHER, Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

UNREADABLE = "unreadable"


class EachApart(Driver):
    """Who cannot be read is told by :meth:`states` as well, with its error, and has a verdict of its own."""

    def next_step(self, node: NodeState, goal: str, wanted: Wanted) -> str:
        """:raises FleetError: where its record cannot be read."""
        demand_read(node)
        return super().next_step(node, goal, wanted)


def unreadable(name: str, why: FleetError) -> NodeState:
    return NodeState(name, name, UNREADABLE, OTHER, last_error=str(why), raw={UNREADABLE: why})


def trouble_of(node: NodeState) -> FleetError | None:
    """Why its record cannot be read."""
    return node.raw.get(UNREADABLE)


def demand_read(node: NodeState | None) -> None:
    """:raises FleetError: of a node that is there, where its record cannot be read."""
    why = trouble_of(node) if node is not None else None
    if why is not None:
        raise why
