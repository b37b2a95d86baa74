# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways of a node at its provisioner: towards a state, and the work that is done on it there. PRIVATE.

A state lasts and is recognised; work is begun each time that it is asked for, unless it is just being done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import (
    DONE,
    STOP,
    WAIT,
    StepTable,
    resolve_cell,
)

_OTHER = "other"
_DEPLOYMENT = ("deployed", "deploying")


class OfWork:
    """A part of :class:`Driver`."""

    name: str
    address: Any
    #: Native state to ours.
    states_map: Mapping[str, str]
    #: goal -> native state -> cell.
    steps: StepTable
    #: step -> native state that it leads to at once, for predictions.
    leads_to: Mapping[str, str]
    #: Work that it does with a machine, of ``names.WORKS``: work -> native state -> cell, with DONE where that is how
    #: the node stands already. Each write of it is told as one that can hit running work (``Wanted.work``), also one
    #: that goes before the work itself. Without any: no table.
    works: StepTable = {}
    #: Native states in which it is at work, and those in which it rests with nothing amiss. Both are owed by a driver
    #: with ``works`` alone. Any other one, also one that no table knows, needs a person.
    busy: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    #: Those in which its work waits for the person who stopped it to let it go on.
    paused: frozenset[str] = frozenset()
    #: Native states of work, or of its failure, in which a machine still has the deployment that it had before.
    carrying: frozenset[str] = frozenset()
    #: Of these states the stamp says nothing, since such work changes it as another deployment does: the work that
    #: leads there, of which our ledger tells whether it is ours. Empty where it changes with deployments alone.
    led_to_by: Mapping[str, str] = {}

    def next_step(self, node: Any, goal: str, wanted: Any) -> str:
        """The next step of this node towards a goal, by the table."""
        if goal == names.SETTLED:
            return self._settled(node)
        row = self.works[goal] if goal in self.works else self.steps[goal]
        return resolve_cell(row.get(node.native, STOP), lambda: self.facts(node, wanted))

    def _settled(self, node: Any) -> str:
        if node.native in self.busy:
            return WAIT
        return DONE if node.native in self.settled else STOP

    def carries(self, node: Any) -> bool:
        """Has it, amid work, a deployment that comes back when that ends?"""
        return node.native in self.carrying

    def has_deployment(self, node: Any) -> bool:
        """Is it deployed, or just being, whatever else is done with it meanwhile?"""
        return node.state in _DEPLOYMENT or self.carries(node)

    def facts(self, node: Any, wanted: Any) -> Mapping[str, bool]:
        """What the step tables' cells ask."""
        raise NotImplementedError

    def predicted(self, step: str, node: Any) -> Any:
        """Where a step leads, for check mode."""
        native = self.leads_to.get(step)
        return node if native is None else node.moved(native, self.states_map.get(native, _OTHER))

    def begun(self, node: Any) -> str:
        """What changes when work is begun, and stays changed once that has ended: what is not told as begun was not."""
        return f"{node.native}/{node.stamp}"

    def demand_works(self, work: str) -> None:
        """:raises Unsupported: before anything is asked of the provisioner."""
        if work not in self.works:
            raise Unsupported(
                f"{self.name} cannot do what is asked for: state {work}",
                address=self.address,
                wanted=", ".join(self.works) or "none of this kind of work, by this driver",
                do="leave it out; nothing was changed",
            )
