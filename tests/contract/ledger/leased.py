# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of leases do to the ledger behind a run's back."""

from __future__ import annotations

import sqlalchemy as sa
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

HOSTS = ("gpu001", "gpu002", "gpu003")


def take(ledger: Ledger, node_id: str, holder: Holder) -> lease.Lease:
    with ledger.transaction() as conn:
        return lease.take_in(conn, ledger, node_id, holder)


def steal(ledger: Ledger, node_id: str, thief: Holder) -> None:
    """As a run does whose patience outlasted the lease."""
    with ledger.transaction() as conn:
        conn.execute(sa.text("UPDATE leases SET expires = 1 WHERE node_id = :node"), {"node": node_id})
    take(ledger, node_id, thief)
