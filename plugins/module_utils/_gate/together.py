# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured between nodes: the words that who asks, who measures and who judges share. PRIVATE.

PRIVATE to the collection. Nothing is run here. A test says which commands run on which of its members at the same time,
and makes figures of what they printed and of what the kernels counted meanwhile.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple, Optional

#: Id and entity.
Cell = tuple[str, str]
#: Of a command that found another gate at work on its node (``flock -E``).
BUSY_STATUS = 75
#: How ``timeout`` of coreutils ends where it had to end its command.
_CUT_OFF = (124, 137)
#: Words of four bytes (InfiniBand Architecture Specification 1.3, PortXmitData), and bytes.
_WORD, _BYTE = 4, 1


class Wants(NamedTuple):
    """What a cell of a test wants."""

    wanted: Any
    unit: str
    source: str


class Figure(NamedTuple):
    """What one run shows of one cell. good: None where nothing was measured, and why then."""

    value: Optional[float] = None
    good: Optional[bool] = None
    why: str = ""


@dataclass(frozen=True)
class Member:
    """A node that takes part. ports: by name of a port the address that it has there."""

    host: str
    address: str
    ports: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One command on one member. seconds: after which it is ended. retried: until whom it calls is heard. alone: it
    keeps other gates off its node by itself; else what it starts does."""

    host: str
    argv: Sequence[str]
    seconds: float
    retried: bool = False
    alone: bool = True


@dataclass(frozen=True)
class Heard:
    """What came of a call. rc: None where nobody knows. problem: what was in the way."""

    text: str = ""
    rc: Optional[int] = None
    problem: str = ""

    @property
    def ended_badly(self) -> str:
        """Why nothing that it printed counts; empty where it ended by itself, and well."""
        if self.problem or self.rc is None:
            return self.problem or "how it ended is not known"
        if self.rc == BUSY_STATUS:
            return "another gate loads that node"
        if self.rc in _CUT_OFF:
            return "it did not end in its time"
        return f"it ended with exit status {self.rc}" if self.rc else ""


class Moved(NamedTuple):
    """Bytes that the kernel of a member saw leave and come in by a port meanwhile; None where it does not tell."""

    sent: Optional[int] = None
    received: Optional[int] = None


Told = Mapping[str, Heard]
#: By host and port.
Counted = Mapping[tuple[str, str], Moved]
#: By host and cell.
Figures = Mapping[tuple[str, Cell], Figure]


@dataclass(frozen=True)
class Leg:
    """What runs at the same time on the members of one group, and what that proves. Who waits is called first."""

    calls: Sequence[Call]
    read: Callable[[Told, Counted], Figures]


@dataclass(frozen=True)
class Test:
    """tool: what measures. cells: of each member. ports: whose counters tell. addressed: those of them over whose own
    address it goes. least: how many nodes must take part together; 0 for pairs. legs: of one group, which is one of
    several at the same time."""

    __test__ = False

    name: str
    tool: str
    cells: Mapping[Cell, Wants]
    ports: Sequence[str]
    legs: Callable[[Sequence[Member], int], Sequence[Leg]]
    addressed: Sequence[str] = ()
    least: int = 0


def counters(port: str) -> tuple[str, str, int]:
    """Below /sys the counters of what leaves and comes in by a port, and how many bytes each counts."""
    device, slash, which = port.partition("/")
    if slash:
        folder = f"class/infiniband/{device}/ports/{which}/counters"
        return f"{folder}/port_xmit_data", f"{folder}/port_rcv_data", _WORD
    return f"class/net/{device}/statistics/tx_bytes", f"class/net/{device}/statistics/rx_bytes", _BYTE
