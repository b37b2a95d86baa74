# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases that end before their run does. PRIVATE to the collection.

What goes on in a job that gives way to everybody is no reason for which another run would have to wait: its lease is
taken for the write that starts it, and let go right behind that.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.lifeline import LedgerLifeline
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger


def let_go(line: LedgerLifeline, names: Sequence[str]) -> None:
    """From now on these nodes are anybody's. Of those that this run does not hold nothing is done."""
    with line._lock:
        held = [line._leases.pop(name) for name in names if name in line._leases]
    if held:
        lease.end(line._open(), held, line._holder)


def dead(ledger: Ledger, node_ids: Sequence[str], asker: Holder) -> dict[str, str]:
    """By node, the run that held it last, where this host can know that it is over; other nodes are left out."""
    held = {node: lease._holder(row) for node, row in lease.holders(ledger, node_ids).items()}
    return {node: one.run_id for node, one in held.items() if one.provably_dead_here(asker)}
