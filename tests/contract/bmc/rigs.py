# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the contract suite needs of a BMC: one rig each, and what happens to the machine behind the driver's back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Optional

from contract.faults import Faults
from suite.skips import not_applicable


class Rig(ABC):
    """A BMC of the suite, whose machine is off. ``blind``: it is known not to show a one-time override."""

    blind = False
    #: Starts other people's programs.
    real: ClassVar[bool] = False
    #: The options by which it is reached, and ``system_uuid`` or ``serial`` as this BMC tells it.
    params: dict[str, Any]
    _faults: Optional[Faults] = None

    @property
    def faults(self) -> Faults:
        """The network before this BMC; from the first look at it on the way to the BMC leads through it."""
        if self._faults is None:
            self._faults, self.params["bmc_address"] = self.network()
        return self._faults

    @abstractmethod
    def network(self) -> tuple[Faults, str]:
        """Faults to be injected on the way to this BMC, and the address before which they stand."""

    @abstractmethod
    def refused(self) -> int:
        """How many logins with a wrong password this BMC, or the network before it, has seen."""

    @abstractmethod
    def power(self) -> str:
        """On or Off, as the machine itself knows."""

    @abstractmethod
    def force(self, power: str) -> None:
        """Change the machine behind the BMC's back, and forget all writes."""

    @abstractmethod
    def writes(self) -> int:
        """How many writes reached the BMC."""

    @abstractmethod
    def probe(self) -> Optional[dict[str, str]]:
        """What the node says of its boot: boot_id, cmdline and uptime; None while it is off."""

    def hang_shutdown(self) -> None:
        """The operating system does not obey when it is asked to shut down."""
        not_applicable("this one always shuts down")

    def lie(self) -> None:
        """The BMC says yes to a change of power, and does nothing."""
        not_applicable("this one always obeys")

    def close(self) -> None:
        """Take down what :meth:`network` has put up."""
        return
