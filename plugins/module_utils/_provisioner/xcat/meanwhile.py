# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a node of xCAT now, against who had it when it was judged. PRIVATE to the collection.

Nobody keeps a record for us between the judgement and the write: leave to write may be waited for, and a command for
many nodes takes minutes. So who has them is looked up after leave was given, right before each command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import trouble_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record

Nodes = Sequence[tuple[NodeState, Wanted]]


def as_judged(
    nodes: Nodes, now: Mapping[str, NodeState], address: str, method: str | None = None
) -> tuple[Nodes, dict[str, FleetError]]:
    """Those that are still as they were judged, as they stand now; and why not, by host, for the others.

    :param method: the ``provmethod`` that each is to have by now, where we have written it since.
    """
    fresh: list[tuple[NodeState, Wanted]] = []
    moved: dict[str, FleetError] = {}
    for node, wanted in nodes:
        there = now.get(node.id)
        why = difference(node, there, wanted, address, method)
        if why is not None:
            moved[wanted.host] = why
        elif there is not None:
            fresh.append((there, wanted))
    return fresh, moved


def difference(
    judged: NodeState, now: NodeState | None, wanted: Wanted, address: str, method: str | None = None
) -> FleetError | None:
    """What says that somebody else has it since; None where nothing does."""
    if now is None:
        return Changed(
            "xCAT does not know the node any more",
            node=wanted.host,
            address=address,
            wanted=f"the node {judged.id}",
            seen="no such node",
            do="find out who removed it, and run again",
        )
    unread = trouble_of(now)
    if unread is not None:
        return unread
    before, after = _whose(judged), _whose(now)
    if method is not None:
        before["provmethod"] = method
    keys = [key for key in before if before[key] != after[key]]
    if not keys:
        return None
    return Changed(
        "somebody has taken, held or given back the node since it was judged",
        node=wanted.host,
        address=address,
        wanted=_told(before, keys),
        seen=_told(after, keys),
        do="ask who did, and run again: it is judged anew",
    )


def _whose(node: NodeState) -> dict[str, str]:
    """With another card or BMC it is another machine that is booted, or switched off."""
    return {
        "owner": node.foreign,
        "hold": node.hold,
        "mac": ", ".join(sorted(record.macs(node.raw))),
        "bmc": node.raw.get("bmc", ""),
        "provmethod": node.raw.get("provmethod", ""),
    }


def _told(marks: Mapping[str, str], keys: Sequence[str]) -> str:
    return cut(", ".join(f"{key}: {marks[key] or 'none'}" for key in keys), 400)
