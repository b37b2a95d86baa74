# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's record at its provisioner made right, and then known to the services beside it. PRIVATE to the collection.

In two turns: what tells a service of one node tells it of all whose records stand by then, so the hosts of one task
write their records first.
"""

from __future__ import annotations

import time
from dataclasses import replace

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    Changes,
    Driver,
    NodeState,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import recording, writing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.one_bmc import bmc_place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted


def recorded(driver: Driver, there: NodeState | None, wanted: Wanted) -> tuple[NodeState | None, NodeState, Changes]:
    """The node before, and as its record is then."""
    with recording(driver, there, wanted) as before:
        asked = _with_its_bmc(driver, before, wanted)
        after, changes = driver.enrol(asked, before)
        if before is not None and asked.bmc_stays and driver.bmc_at_hand:
            changes = _with_what_stays(driver, before, wanted, changes)
    stands = time.monotonic()
    lacking = driver.unserved(after, wanted)
    if not lacking:
        return before, after, changes
    with writing(driver, after, wanted) as now:
        told = driver.serve(now, wanted, lacking, stands)
    return before, after, both(changes, told)


def _with_its_bmc(driver: Driver, node: NodeState | None, wanted: Wanted) -> Wanted:
    """What serves somebody, or is just being deployed, is switched at the BMC of its record: with the BMC of another
    machine that one is switched in its place, by a release of ours or by anybody. It is written where a person insists.
    """
    if node is None or wanted.update_password or not driver.has_deployment(node):
        return wanted
    return replace(wanted, bmc=dict.fromkeys(wanted.bmc), bmc_stays=True)


def _with_what_stays(driver: Driver, node: NodeState, wanted: Wanted, changes: Changes) -> Changes:
    """Told as wanted, and not written now."""
    told, ours = bmc_place(driver.bmc(node)[0]), bmc_place(str(wanted.bmc.get("bmc_address") or ""))
    if not told or ours in ("", told):
        return changes
    return replace(changes, deferred=(*changes.deferred, "bmc_address"))


def both(one: Changes, later: Changes) -> Changes:
    return Changes({**one.before, **later.before}, {**one.after, **later.after}, one.deferred)
