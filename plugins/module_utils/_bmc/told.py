# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC tells beside power and boot, in words of no protocol. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.clock import Clock, iso
from ansible_collections.gpufleet.baremetal.plugins.module_utils._hardware import Hardware

# How bad an event is. What a BMC does not say, or says in words of its own, is the last.
OK = "ok"
WARNING = "warning"
CRITICAL = "critical"
UNTOLD = "unknown"

# What kind of log it is: of IPMI's records, or another one in which the BMC keeps its events where it shows none such.
SEL = "sel"
PLATFORM = "platform"


@dataclass(frozen=True)
class Mac:
    """A MAC address of the machine, and each place where its BMC tells it."""

    mac: str
    sources: tuple[str, ...]
    #: Whoever administers it gave it out, and it may stand in several machines: often that of the BMC's own USB NIC.
    locally_administered: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sources": list(self.sources)}


@dataclass(frozen=True)
class Macs:
    """The union of what the BMC tells, and what of it could not be read: a hole is no proof that there is no more."""

    found: tuple[Mac, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parts:
    """What the BMC tells of the machine's parts, and what of it could not be read."""

    hardware: Hardware
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogEntry:
    """One event. at: seconds since the epoch by the BMC's clock, None where that was not set or not told."""

    id: str
    at: float | None
    severity: str
    message: str
    #: Kind and number of the sensor, else what the event is about; empty where neither is told.
    sensor: str = ""
    #: What kind of event it is: the id of its message, or IPMI's type and data in hexadecimal digits.
    code: str = ""
    #: What the BMC itself said of all that, as far as it was put into other words.
    native: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "at": iso(self.at), "native": dict(self.native)}


@dataclass(frozen=True)
class LogName:
    """Which log it is. others: those that the BMC shows beside it, each by its URI."""

    id: str
    kind: str
    name: str = ""
    uri: str = ""
    #: Whether other machines' events stand in it as well; None where the BMC does not say.
    shared: bool | None = None
    others: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "others": list(self.others)}


@dataclass(frozen=True)
class Log:
    """The newest entries of a log, newest first. total: how many there are, None where the BMC does not say."""

    name: LogName
    entries: tuple[LogEntry, ...] = ()
    total: int | None = None
    #: What is missing from it, and why. A log with holes is no proof that there was nothing else.
    unread: tuple[str, ...] = ()
    clock: Clock = Clock()
