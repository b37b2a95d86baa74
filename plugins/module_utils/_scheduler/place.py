# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of which scheduler is a machine the node? PRIVATE to the collection.

A site with two clusters has nodes of one name in both, and a row may lead to the other one. What that one says of its
node, that it is drained or that nobody knows it, concerns another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """Which scheduler it is. Of the data of an event, and of a result, the fields are keys, and with ``known_`` before
    them options that the ledger fills in.

    cluster: kind and what it calls itself, as in ``slurm alpha``; empty where it does not tell. cluster_host: the
    machine that the site has named for its controller, since two clusters may be called alike. scheduler_at: what else
    tells it from others where it has no name: its authority, else its address.
    """

    cluster: str = ""
    cluster_host: str = ""
    scheduler_at: str = ""

    @classmethod
    def told(cls, data: Mapping[str, Any], before: str = "") -> Place:
        """As the data of an event, or the options that were filled from one, have it."""
        return cls(**{name: str(data.get(f"{before}{name}") or "") for name in asdict(cls())})

    def data(self, before: str = "") -> dict[str, str]:
        return {f"{before}{name}": value for name, value in asdict(self).items() if value or before}

    def is_other(self, known: Place) -> bool:
        """Is it another one than our ledger knows? Where nothing can be compared, nobody can say that it is the
        same; nor where one that is known by its name tells none: behind one address another may stand by now."""
        if known == Place():
            return False
        if known.cluster and not self.cluster:
            return True
        if self.cluster and known.cluster:
            hosts = {self.cluster_host.casefold(), known.cluster_host.casefold()} - {""}
            return self.cluster.casefold() != known.cluster.casefold() or len(hosts) > 1
        return not (self.scheduler_at and self.scheduler_at == known.scheduler_at)

    def filled(self, known: Place) -> Place:
        """With what is known of the same one beside it: not every way to ask tells all of it."""
        return Place(**{name: value or asdict(known)[name] for name, value in asdict(self).items()})

    def is_called(self, words: str) -> bool:
        """Does a person name this one?"""
        return words.strip().casefold() == str(self).casefold()

    def __str__(self) -> str:
        host = f" of {self.cluster_host}" if self.cluster and self.cluster_host else ""
        return f"{self.cluster}{host}" or self.scheduler_at or "a scheduler that does not tell which it is"
