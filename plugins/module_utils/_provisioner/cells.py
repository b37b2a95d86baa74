# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of a driver's step tables: what they say, and which are refused. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported

# Steps that are no request to the provisioner: the goal is reached; it is at work; only a person can go on from here;
# the record is right and the machine must now boot from the network, which whoever drives its BMC brings about.
DONE, WAIT, STOP, BOOT = "done", "wait", "stop", "boot"
NO_REQUEST = frozenset({DONE, WAIT, STOP, BOOT})

#: A cell of a step table: a step, or (fact, cell if it holds, cell if not).
Cell = Union[str, tuple]
StepTable = Mapping[str, Mapping[str, Cell]]


def resolve_cell(cell: Cell, facts: Any) -> str:
    """Follow a cell's forks; ``facts`` is called once, and only where a fork asks."""
    known: Mapping[str, bool] | None = None
    while not isinstance(cell, str):
        if known is None:
            known = facts()
        fact, yes, no = cell
        cell = yes if known[fact] else no
    return cell


#: The goal on whose way the roles ask a machine's BMC to boot it.
_BOOTED_FOR = "deployed"


def boots_are_asked_for(driver: type[Any]) -> None:
    """:raises Unsupported: where a step table says BOOT and nobody would boot the machine."""
    steps = getattr(driver, "steps", None)
    for goal, row in steps.items() if isinstance(steps, Mapping) else ():
        states = [native for native, cell in row.items() if BOOT in _steps_of(cell)]
        if states and driver.owns_power:
            raise Unsupported(
                f"the step table of {driver.__name__} says {BOOT}, and its power belongs to the provisioner, past which"
                " no BMC is asked to boot it",
                wanted="owns_power = False beside it, and its name in POWERLESS of names.py",
                seen=f"{goal}: {', '.join(states)}",
                do="say owns_power = False, or let the provisioner boot the machine",
            )
        if goal != _BOOTED_FOR and states:
            raise Unsupported(
                f"the step table of {driver.__name__} says {BOOT} on the way to {goal}, where nobody boots it",
                wanted=f"{BOOT} on the way to {_BOOTED_FOR} alone",
                seen=f"{goal}: {', '.join(states)}",
                do=f"let the way to {goal} end before that boot, and say {BOOT} on the way to {_BOOTED_FOR}",
            )


def _steps_of(cell: Cell) -> set[str]:
    """All steps that a cell can lead to."""
    return {cell} if isinstance(cell, str) else _steps_of(cell[1]) | _steps_of(cell[2])
