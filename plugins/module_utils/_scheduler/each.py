# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done for each of many nodes, some at once: one node's trouble is its own. PRIVATE to the collection."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError

#: Called with a node's name right before each write to it, and raises where that may not be sent any more.
Still = Callable[[str], None]


def each(calls: Mapping[str, Callable[[], Any]], still: Still, at_once: int = 1) -> dict[str, Union[Any, FleetError]]:
    """By node, what came of its call, or what was in its way. Whether a write may be sent is asked by one at a time,
    right before that write, whoever sends others meanwhile."""
    turn = threading.Lock()

    def one(name: str) -> Any:
        try:
            with turn:
                still(name)
            return calls[name]()
        except FleetError as exc:
            return exc

    if at_once < 2 or len(calls) < 2:
        return {name: one(name) for name in calls}
    with ThreadPoolExecutor(max_workers=min(at_once, len(calls))) as pool:
        return dict(zip(calls, pool.map(one, calls)))


def failed(told: Mapping[str, Any]) -> dict[str, FleetError]:
    return {name: one for name, one in told.items() if isinstance(one, FleetError)}
