# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of a BMC's logs is the system event log. PRIVATE to the collection.

Some call it SEL, some by a number, some keep no such log over Redfish and write what belongs there into another one.
A journal is never taken for one: recorded ones have 90,000 entries, and are of the BMC's own programs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.clock import Clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.machine import Machine, Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish.reading import Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import PLATFORM, SEL, LogName
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

SYSTEM, MANAGER = "system", "manager"
#: Of either.
_ANY = ""
#: Stands in a row for whatever log says that its entries are those of a SEL (DMTF LogService, LogEntryType).
_BY_TYPE = "*"


class Row(NamedTuple):
    """A log that may be it: below what it lies, its id in lower case, what it then is, and where that was seen."""

    below: str
    id: str
    kind: str
    source: str


#: The first that is there, and has entries to be read.
ROWS: tuple[Row, ...] = (
    Row(_ANY, "sel", SEL, "iDRAC9 (Sel), AMI MegaRAC, OpenBMC, Intel, HPE Cray; recorded trees"),
    Row(SYSTEM, "log1", SEL, "Supermicro X10SDV and X13 (Health Event Log), DMTF DSP2043 mockups; recorded trees"),
    # XCC 2.83 has a SEL without entries, there to be cleared; this one has its records by number and words.
    Row(SYSTEM, "platformlog", PLATFORM, "Lenovo XCC 2.83 (SR670 V2); recorded tree"),
    Row(SYSTEM, "iml", PLATFORM, "HPE iLO 5 to 7, which shows no SEL over Redfish; recorded trees"),
    Row(_ANY, _BY_TYPE, SEL, "DMTF LogService 1.1, LogEntryType SEL"),
    Row(SYSTEM, "eventlog", PLATFORM, "OpenBMC 2.15 without an IPMI host; recorded tree"),
    Row(MANAGER, "eventlog", PLATFORM, "AMI MegaRAC and HPE Cray, beside a SEL; recorded trees"),
    Row(MANAGER, "log", PLATFORM, "DMTF DSP2043 mockups, bladed; recorded tree"),
)
#: Never read, whatever they say of themselves: what a log's id is, and why.
NEVER: tuple[tuple[str, str], ...] = (
    ("journal", "the BMC's own programs, 90,000 entries (BlueField-3 24.10); OpenBMC"),
    ("hostlogger", "the host's console; OpenBMC"),
    ("dump", "files; OpenBMC"),
    ("fdr", "files; GB200 NVL 24.12"),
    ("postcodes", "each step of each boot; OpenBMC"),
    ("bios", "says that it is a SEL, and holds the codes of POST (AMI MegaRAC, DGX H100 and Gigabyte)"),
    ("faultlist", "says that it is a SEL, and is what is wrong at present (iDRAC9)"),
)
_NEVER = frozenset(name for name, _why in NEVER)
#: More logs than any recorded BMC has.
_MOST_LOGS = 32
_MOST_MANAGERS = 8
_LONGEST_URI = 300
_BASEBOARD = "HGX_"
#: What was read since this task began will do: a manager may take six seconds to tell of itself (Supermicro X13).
_SAME_TASK = 60.0
_NOTHING = Seen(0.0, {}, "")


class Place(NamedTuple):
    """One log: below what it lies, and its URI."""

    below: str
    uri: str

    @property
    def id(self) -> str:
        return select.last_part(self.uri).casefold()


class Found(NamedTuple):
    """The log, and where its entries are."""

    name: LogName
    doc: dict[str, Any]
    entries: str
    clock: Clock


class Services(Reading):
    """The logs of a machine's system and of its manager. ``unread``: those that could not be looked at."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._machine = machine
        self._manager_uri = ""
        #: By URI, what was read and when by our own clock.
        self._told: dict[str, tuple[dict[str, Any], float]] = {}

    def event_log(self) -> Found:
        """:raises Unsupported: where none of them is one."""
        places = self._places()
        for row in ROWS:
            for place in places:
                if row.below in (_ANY, place.below) and row.id in (_BY_TYPE, place.id) and place.id not in _NEVER:
                    doc = self._doc(place.uri)
                    entries = self._entries(place, doc)
                    if entries and (row.id != _BY_TYPE or doc.get("LogEntryType") == "SEL"):
                        return self._found(row, place, doc, entries, places)
        raise Unsupported(
            "this BMC shows no system event log",
            address=self._machine.address,
            wanted="a log of events of the system or of its manager",
            seen=short("; ".join([*(place.uri for place in places), *self.unread]) or "no logs at all"),
            do="read it over IPMI (gpufleet_bmc_protocol: ipmi), where the BMC speaks that",
        )

    def _places(self) -> list[Place]:
        self._manager_uri = self._machine.manager_uri() or self._serving_manager()
        unique: dict[str, Place] = {}  # XCC's manager lists the logs of the system
        for one in (*self._below(SYSTEM, self._machine.uri), *self._below(MANAGER, self._manager_uri)):
            unique.setdefault(one.uri.rstrip("/").casefold(), one)
        found = list(unique.values())
        if len(found) > _MOST_LOGS:
            self.unread.append(f"{len(found) - _MOST_LOGS} of {len(found)} logs were not looked at")
        return found[:_MOST_LOGS]

    def _entries(self, place: Place, doc: dict[str, Any]) -> str:
        entries = select.link(doc, "Entries")
        if not entries or self._is_ours(entries):
            return entries
        self.unread.append(f"{place.uri}: its entries are no part of the machine")
        return ""

    def _serving_manager(self) -> str:
        """HPE Cray EX235a: its node names no manager, and one of them names the node."""
        found = self._uris(select.link(self._machine.root, "Managers"))[:_MOST_MANAGERS]
        own = select.last_part(self._machine.uri)
        return next((uri for uri in found if own in self._served(uri)), "")

    def _served(self, manager: str) -> list[str]:
        """The ids of the systems that a manager says to manage."""
        served = select.section(self._doc(manager), "Links").get("ManagerForServers")
        return [select.last_part(select.link(item)) for item in served] if isinstance(served, list) else []

    def _is_ours(self, uri: str) -> bool:
        return any(owner and select.within(uri, owner) for owner in (self._machine.uri, self._manager_uri))

    def _below(self, below: str, owner: str) -> Iterator[Place]:
        for uri in self._uris(select.link(self._doc(owner), "LogServices")):
            if self._is_ours(uri) and len(uri) <= _LONGEST_URI:
                yield Place(below, uri)
            else:
                self.unread.append(f"{short(uri, 200)}: it is no part of the machine")

    def _doc(self, uri: str) -> dict[str, Any]:
        """Each is asked once, also one that does not answer."""
        if uri not in self._told:
            seen = self._or_unread(uri, lambda: self._machine.look(uri, max_age=_SAME_TASK), _NOTHING)
            self._told[uri] = seen.doc, time.time() - (time.monotonic() - seen.at)
        return self._told[uri][0]

    def _found(self, row: Row, place: Place, doc: dict[str, Any], entries: str, places: list[Place]) -> Found:
        name = LogName(
            id=short(doc.get("Id") or select.last_part(place.uri), 100),
            kind=row.kind,
            name=short(doc.get("Name") or "", 100),
            uri=place.uri,
            shared=self._shared() if place.below == MANAGER else False,
            others=tuple(one.uri for one in places if one != place),
        )
        return Found(name, doc, entries, self._clock(place.uri))

    def _shared(self) -> bool | None:
        """Does its manager serve other machines as well? A baseboard of GPUs is a part of this one."""
        served = [name for name in self._served(self._manager_uri) if not name.startswith(_BASEBOARD)]
        own = select.last_part(self._machine.uri)
        return any(name != own for name in served) if own in served else None

    def _clock(self, log: str) -> Clock:
        """That of the log, else of its manager."""
        for uri in (log, self._manager_uri):
            doc, asked_at = self._told.get(uri, ({}, 0.0))
            if doc.get("DateTime"):
                return clock.seen(clock.of_iso(doc["DateTime"]), short(doc["DateTime"], 64), asked_at)
        return Clock()
