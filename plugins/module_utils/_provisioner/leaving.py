# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a driver tells of a node that leaves its provisioner for another one. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Our states in which a provisioner has nothing on the machine, and is about nothing there.
_AT_REST = ("enrolled", "ready")


class OfLeaving:
    """A part of :class:`Driver`. Both read the record at hand, and send nothing."""

    #: Has the record at hand the BMC that :meth:`Driver.bmc` tells? Else that is asked for where nothing else will do.
    bmc_at_hand: bool = True

    def boots(self, node: Any) -> str:
        """What the provisioner may still do to the machine without another order: boot it, install it, or wipe it. In
        words that end with what a person does there; empty where nothing. That the state says so is not enough where a
        record alone makes a machine boot."""
        return "" if node.state in _AT_REST else f"it has the node as {node.native}"

    def marks(self, node: Any) -> Mapping[str, str]:
        """The marks that ``annotate`` writes, as they stand; none of this collection's own words."""
        return {}
