# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch a machine's power through its provisioner, and see it switched. PRIVATE to the collection.

A restart is off, which is seen, then on, which is seen: no provisioner tells a reset from a machine that ran on.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.guard import writing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.switching import OFF, ON
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: Seconds for a machine to go on or off, by way of its provisioner.
TIMEOUT = 300.0
INTERVAL = 2.0
#: The states of the verb: what is to be seen, one after the other.
WAYS: Mapping[str, tuple[str, ...]] = {"powered_on": (ON,), "powered_off": (OFF,), "restarted": (OFF, ON)}


def switched(driver: Driver, node: NodeState, wanted: Wanted, state: str, ctx: Context) -> tuple[str, str]:
    """The power before and after. What an earlier part of this call has sent is not sent again.

    :raises Refused: while the provisioner is at work with the machine.
    :raises DeadlineExceeded: where it took the request, and nothing came of it.
    """
    _demand_rest(driver, node, wanted)
    before = seen = driver.power_of(node)
    way = WAYS[state]
    if not ctx.begun and way != (seen,):
        driver.demand_switchable(way, node, wanted)
    for goal in way[way.index(ctx.begun) :] if ctx.begun in way else way:
        if seen != goal and ctx.begun != goal:
            with writing(driver, node, wanted, hits=not ctx.check_mode) as now:
                driver.switch(goal, now, wanted)
            ctx.begun = goal
        if seen != goal:
            seen = goal if ctx.check_mode else _comes(driver, node, goal, ctx)
    return before, seen


def _demand_rest(driver: Driver, node: NodeState, wanted: Wanted) -> None:
    if driver.is_at_work(node) and not wanted.forced:
        raise Refused(
            f"{driver.name} is at work with this machine, and its power is a part of that",
            node=wanted.host,
            address=driver.address,
            wanted="a node that it is not at work with",
            seen=node.native,
            do="wait for the end of it (provisioner_wait), or give force_reason, which is recorded;"
            " nothing was changed",
        )


def _comes(driver: Driver, node: NodeState, goal: str, ctx: Context) -> str:
    return ctx.wait(
        lambda: driver.power_of(node),
        lambda seen: seen == goal,
        timeout=TIMEOUT,
        interval=INTERVAL,
        wanted=f"power {goal}, as {driver.name} is told of the BMC",
        seen=lambda seen: f"power {seen}",
        do=f"see what {driver.name} says of the machine's BMC, and ask that itself (redfish_power)",
    )
