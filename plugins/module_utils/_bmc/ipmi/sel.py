# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system event log over IPMI: reads it, and never clears it. PRIVATE to the collection.

Numbers are those of the IPMI 2.0 specification, section in brackets. A log is a chain that leads from the oldest record
to the newest, and each record takes a request. Of a long one the end alone is wanted: it is entered there where ids and
number of records show that none is left out, and walked from its beginning else.
"""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import contract as c
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.clock import Clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import sel_record as record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.machine import Machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import SEL, Log, LogName
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, FleetError, MissingLibrary

_STORAGE = 0x0A
_GET_SEL_INFO = 0x40  # [31.2]
_GET_SEL_ENTRY = 0x43  # [31.5]
_GET_SEL_TIME = 0x48  # [31.10]
#: Stands for the first record, or the last one; as the next record, for none.
_FIRST, _LAST = 0x0000, 0xFFFF
_WHOLE = 0xFF
#: In Get SEL Info: events were dropped since there was no room.
_OVERFLOW = 0x80
#: So many records of one log are asked for at most. Those of real ones have at most some thousand.
_MOST_RECORDS = 10000
#: Of an id that is gone the next ones are tried.
_NEIGHBOURS = 8


class Info(NamedTuple):
    """How many records there are, and whether some were dropped."""

    total: int
    overflow: bool


class IpmiEvents(c.Events):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.address = machine.address

    def newest(self, most: int, since: float | None = None) -> Log:
        data = self._machine.ask(_STORAGE, _GET_SEL_INFO, least=14, what="Get SEL Info")
        info = Info(int.from_bytes(data[1:3], "little"), bool(data[13] & _OVERFLOW))
        chain = _Chain(self._machine, info, most)
        records = chain.newest() if info.total else []
        if info.overflow:
            chain.unread.append("the BMC dropped events, since its log was full")
        found = [record.parsed(raw) for raw in reversed(records)]
        wanted = [one for one in found if since is None or one.at is None or one.at >= since]
        name = LogName("SEL", SEL, "IPMI system event log")
        return Log(name, tuple(wanted), info.total, tuple(chain.unread), self._clock())

    def _clock(self) -> Clock:
        """It counts as UTC: the protocol says local time, and most BMCs keep UTC."""
        began = time.time()
        try:
            data = self._machine.ask(_STORAGE, _GET_SEL_TIME, least=4, what="Get SEL Time")
        except (AuthFailed, MissingLibrary):
            raise
        except FleetError:
            return Clock()
        seconds = int.from_bytes(data[:4], "little")
        return clock.seen(clock.known(seconds), f"0x{seconds:08x}", (began + time.time()) / 2)


class _Chain:
    """``unread``: what is missing of what was asked for, and why."""

    def __init__(self, machine: Machine, info: Info, most: int) -> None:
        self._machine = machine
        self._info = info
        self._most = most
        self._jumped = False
        self.unread: list[str] = []

    def newest(self) -> list[bytes]:
        """Oldest first.

        :raises FleetError: where not even the first one could be read.
        """
        last = self._or_none(_LAST) if self._info.total > self._most else None
        found = self._from(self._entrance(last) if last else _FIRST)
        if len(found) < self._most < self._info.total and self._jumped and not self.unread:
            found = self._from(_FIRST)
        if self.unread and last and last[1] not in found:
            # Where the walk ended before the end, this one at least is known to be the newest.
            found = [*found, last[1]][-self._most :]
        return found

    # -- where to begin ------------------------------------------------------------------------------------------------

    def _entrance(self, last: tuple[int, bytes]) -> int:
        """The id of a record from which on there are at least as many as are wanted, as far as ids can tell."""
        first = self._or_none(_FIRST)
        if first is None:
            return _FIRST
        lowest, highest = record.record_id(first[1]), record.record_id(last[1])
        gaps = highest - lowest + 1 - self._info.total
        guess = highest - self._most + 1 - gaps
        if gaps < 0 or guess <= lowest:
            return _FIRST
        tried = range(guess, max(lowest, guess - _NEIGHBOURS), -1)
        return next((one for one in tried if self._or_none(one)), _FIRST)

    # -- walking -------------------------------------------------------------------------------------------------------

    def _from(self, start: int) -> list[bytes]:
        self._jumped = start != _FIRST
        found: deque[bytes] = deque(maxlen=self._most)
        seen: set[int] = set()
        following = start
        walked = 0
        while following != _LAST and self._may_go_on(following, seen, walked):
            got = self._next(following, begun=walked > 0)
            if got is None:
                break
            seen |= {following, record.record_id(got[1])} if following == _FIRST else {following}
            following, walked = got[0], walked + 1
            found.append(got[1])
        return list(found)

    def _may_go_on(self, following: int, seen: set[int], walked: int) -> bool:
        problem = ""
        if following in seen or (following == _FIRST and seen):
            problem = f"the chain of records leads back to {following}"
        elif walked >= _MOST_RECORDS:
            problem = f"after {walked} records, the most that are asked for, the newest are not reached"
        elif self._machine.late:
            problem = f"after {walked} of {self._info.total} records the time of this task was over"
        self.unread += [problem] if problem else []
        return not problem

    def _next(self, which: int, *, begun: bool) -> Optional[tuple[int, bytes]]:
        """:raises FleetError: where nothing was read so far."""
        try:
            return self._get(which)
        except (AuthFailed, MissingLibrary):
            raise
        except FleetError as exc:
            if not begun:
                raise
            self.unread.append(f"record {which} and what comes after it: {exc.what}")
            return None

    def _or_none(self, which: int) -> Optional[tuple[int, bytes]]:
        """The same where it may be missing."""
        try:
            return self._get(which)
        except (AuthFailed, MissingLibrary):
            raise
        except FleetError:
            return None

    def _get(self, which: int) -> tuple[int, bytes]:
        """The id of the next one, and the record. Without a reservation, which whole records do not need [31.4.1]."""
        asked = (0, 0, which & 0xFF, which >> 8, 0, _WHOLE)
        data = self._machine.ask(_STORAGE, _GET_SEL_ENTRY, asked, least=2 + record.SIZE, what="Get SEL Entry")
        return int.from_bytes(data[:2], "little"), data[2 : 2 + record.SIZE]
