# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which nodes another run tries an image now, or is about to. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.ended import UNTOUCHED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.rollout import UNFINISHED, Gone


def here(
    earlier: Iterable[str], through: Iterable[str], nodes: Mapping[str, Mapping[str, Any]], awaited: Collection[str]
) -> list[str]:
    """Hosts of the inventory.

    :param earlier: those that other runs took for the image. :param through: those on which it came through.
    :param nodes: where each stands. :param awaited: ids of nodes that another run is about to take.
    """
    shown = frozenset(through)
    return [
        host for host in earlier if host not in shown and (nodes[host]["busy"] or nodes[host]["node_id"] in awaited)
    ]


def away(gone: Gone, busy: Collection[str], awaited: Collection[str]) -> list[str]:
    """Those of another inventory, as people call them.

    :param busy: ids of nodes that a run has now.
    """
    tried_by = {UNFINISHED: busy, UNTOUCHED: awaited}
    return [name for node, (name, past) in gone.items() if node in tried_by.get(past.came_out(), ())]
