# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of which scheduler is a machine the node? PRIVATE to the collection.

A site with two clusters has nodes of one name in both, and a row may lead to the other one. What that one says of its
node, that it is drained or that nobody knows it, concerns another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Keys of the data of an event, and with ``known_`` before them of the options that the ledger fills in.
_CLUSTER, _AT = "cluster", "scheduler_at"


@dataclass(frozen=True)
class Place:
    """Which scheduler it is. cluster: kind and what it calls itself, as in ``slurm alpha``; empty where it does not
    tell. at: its address, of one that is reached by one, which stands for a name that is not told."""

    cluster: str = ""
    at: str = ""

    @classmethod
    def told(cls, data: Mapping[str, Any], before: str = "") -> Place:
        """As the data of an event, or the options that were filled from one, have it."""
        return cls(*(str(data.get(f"{before}{key}") or "") for key in (_CLUSTER, _AT)))

    def data(self, before: str = "") -> dict[str, str]:
        told = {_CLUSTER: self.cluster, _AT: self.at}
        return {f"{before}{key}": value for key, value in told.items() if value or before}

    def is_other(self, known: Place) -> bool:
        """Is it another one than our ledger knows? Where neither names nor addresses can be compared, nobody can say
        that it is the same."""
        if known == Place():
            return False
        if self.cluster and known.cluster:
            return self.cluster.casefold() != known.cluster.casefold()
        return not (self.at and self.at == known.at)

    def __str__(self) -> str:
        return self.cluster or self.at or "a scheduler that does not tell which it is"
