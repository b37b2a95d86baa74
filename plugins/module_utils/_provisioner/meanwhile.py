# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a node still as it was judged, right before a write to it? PRIVATE to the collection.

Leave to write may be waited for, and so may a node that its provisioner has locked. Meanwhile a person may take it, and
another controller deploy it: what we note then would be told of that deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.unread import trouble_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

STATE, OWNER, HOLD, MAC = ALL = ("state", "owner", "hold", "mac")
WHOSE = (OWNER, HOLD)
Nodes = Sequence[tuple[NodeState, Wanted]]
#: What a driver reads of a record that says whose its node is.
Whose = Callable[[NodeState], Mapping[str, str]]


def marks(driver: Driver, node: NodeState, keys: tuple[str, ...] = ALL) -> dict[str, str]:
    """What says whose a node is, which machine it is, and where it stands."""
    told = {
        STATE: f"{node.native} since {node.stamp}" if node.stamp else node.native,
        OWNER: node.foreign or node.owner,
        HOLD: node.hold,
    }
    if MAC in keys:  # some have to be asked for it
        told[MAC] = ", ".join(sorted(driver.network(node, ask=True).macs))
    return {key: told[key] for key in keys}


def difference(before: Mapping[str, str], after: Mapping[str, str], wanted: Wanted, address: str) -> Changed | None:
    """What says that somebody has been at it since; None where nothing does."""
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


def gone(peer: str, name: str, wanted: Wanted, address: str) -> Changed:
    return Changed(
        f"{peer} does not know the node any more",
        node=wanted.host,
        address=address,
        wanted=f"the node {name}",
        seen="no such node",
        do="find out who removed it, and run again",
    )


def since(
    peer: str, judged: NodeState, now: NodeState | None, wanted: Wanted, address: str, whose: Whose, **written: str
) -> FleetError | None:
    """What says that a node is another one than was judged, or cannot be read any more; None where nothing does.

    :param peer: what the provisioner is called. :param written: what of it we have written since.
    """
    if now is None:
        return gone(peer, judged.id, wanted, address)
    return trouble_of(now) or difference({**whose(judged), **written}, whose(now), wanted, address)


def as_judged(
    nodes: Nodes,
    now: Mapping[str, NodeState],
    moved_by: Callable[[NodeState, NodeState | None, Wanted], FleetError | None],
) -> tuple[Nodes, dict[str, FleetError]]:
    """Those that are still as they were judged, as they stand now; and why not, by host, for the others."""
    fresh: list[tuple[NodeState, Wanted]] = []
    moved: dict[str, FleetError] = {}
    for node, wanted in nodes:
        there = now.get(node.id)
        why = moved_by(node, there, wanted)
        if why is not None:
            moved[wanted.host] = why
        elif there is not None:
            fresh.append((there, wanted))
    return fresh, moved


class Judged:
    """One node as it was judged, with what we have changed of it since."""

    def __init__(self, driver: Driver, node: NodeState, wanted: Wanted, keys: tuple[str, ...] = ALL) -> None:
        """:param keys: what is held against it."""
        self._driver, self._node, self._wanted = driver, node, wanted
        self._marks = marks(driver, node, keys)

    def is_now(self, **told: str) -> None:
        """We have written that ourselves."""
        self._marks.update(told)

    def goes_on(self) -> None:
        """By an order of ours it changes its state from here on."""
        self._marks.pop(STATE, None)

    def demand(self) -> None:
        """Right before a write.

        :raises Changed: where it is another one by now.
        """
        driver = self._driver
        now = marks(driver, driver.reread(self._node, self._wanted), tuple(self._marks))
        changed = difference(self._marks, now, self._wanted, driver.address)
        if changed is not None:
            raise changed


def _told(told: Mapping[str, str], keys: Sequence[str]) -> str:
    return cut(", ".join(f"{key}: {told[key] or 'none'}" for key in keys), 400)
