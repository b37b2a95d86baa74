# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cell that a gate must fill before it can pass, as both ends of it know it. PRIVATE to the collection.

The node judges by these rows, and the controller holds against them what a node claims.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet


class Required(NamedTuple):
    """One cell that must be there. known: what is measured in it, where a pass leaves no choice."""

    id: str
    entity: str
    wanted: Any
    unit: str
    source: str
    known: Any = None


def demand(sheet: Sheet, rows: Iterable[Required]) -> None:
    """Each of them must be recorded, or the gate is inconclusive."""
    for row in rows:
        sheet.require(row.id, row.entity, wanted=row.wanted, unit=row.unit, source=row.source)
