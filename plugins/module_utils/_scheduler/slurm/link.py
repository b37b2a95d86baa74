# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How Slurm is asked and told: the seam between the driver's rules and a transport. PRIVATE to the collection.

A transport brings records and sends a write once. What a record means, whose a hold is and whether a write may go out
is judged above this seam, in the same words for each of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Unplaced, Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.place import Place
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import Reservation
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import Record


class Link(ABC):
    #: Where Slurm is asked, for errors.
    address: str

    @abstractmethod
    def records(self, names: Sequence[str], spoilt: dict[str, BadAnswer]) -> dict[str, Record]:
        """Those of these nodes that Slurm knows; a name that is in neither is certainly not shown to us.

        :param spoilt: given the names of nodes whose own record cannot be read, and why.
        """

    @abstractmethod
    def jobs(self, names: Sequence[str]) -> Mapping[str, Sequence[Work]]:
        """By node, all that is not over and has been given nodes."""

    @abstractmethod
    def reservations(self) -> Mapping[str, Sequence[Reservation]]:
        """Those for maintenance that have begun, by node."""

    @abstractmethod
    def known(self) -> dict[str, tuple[str, ...]]:
        """As :meth:`.Scheduler.known`."""

    @abstractmethod
    def unplaced(self) -> Unplaced:
        """As :meth:`.Scheduler.unplaced`; a transport that cannot ask for the topology says that as ``unread``."""

    @abstractmethod
    def clock(self) -> str:
        """As :meth:`.Scheduler.clock`."""

    @abstractmethod
    def place(self) -> Place:
        """Which cluster it is, asked after the records: a file that leads to another one meanwhile is not to vouch for
        it. Its cluster is called ``slurm`` and its name."""

    @abstractmethod
    def slurm_user(self) -> tuple[str, ...]:
        """The user that slurmctld writes as, in all forms in which a reason may show it; empty where nobody tells."""

    @abstractmethod
    def hides(self, what: str) -> FleetError | None:
        """What keeps us from knowing that we are shown all ``nodes``, or all ``jobs``; None where we are."""

    @abstractmethod
    def prerequisites(self) -> Sequence[FleetError]:
        """As :meth:`.Scheduler.prerequisites`."""

    @abstractmethod
    def update_request(self, name: str, state: str, reason: str | None = None) -> str:
        """The write that :meth:`update` sends, in words."""

    @abstractmethod
    def update(self, name: str, state: str, reason: str | None = None) -> None:
        """Once, of one node."""

    @abstractmethod
    def update_each(self, names: Sequence[str], state: str, reason: str | None = None) -> dict[str, FleetError]:
        """Of several, each of which Slurm has shown just now, in as few writes as hold their names; by node, why not.

        One of several that fails may have been done for some of them: it is told of all.
        """
