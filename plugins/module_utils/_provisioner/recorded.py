# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's record at its provisioner made right, and then known to the services beside it. PRIVATE to the collection.

In two turns: what tells a service of one node tells it of all whose records stand by then, so the hosts of one task
write their records first.
"""

from __future__ import annotations

import time

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    Changes,
    Driver,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import recording, writing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


def recorded(driver: Driver, there: NodeState | None, wanted: Wanted) -> tuple[NodeState | None, NodeState, Changes]:
    """The node before, and as its record is then."""
    with recording(driver, there, wanted) as before:
        after, changes = driver.enrol(wanted, before)
    stands = time.monotonic()
    lacking = driver.unserved(after, wanted)
    if not lacking:
        return before, after, changes
    with writing(driver, after, wanted) as now:
        told = driver.serve(now, wanted, lacking, stands)
    return before, after, both(changes, told)


def both(one: Changes, later: Changes) -> Changes:
    return Changes({**one.before, **later.before}, {**one.after, **later.after}, one.deferred)
