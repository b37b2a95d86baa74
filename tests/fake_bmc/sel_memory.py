# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system event log of an IPMI BMC, behind an open session: a chain of records, and what may be wrong with it."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Optional

from .ipmi_memory import Session

INFO, ENTRY, CLOCK = (0x0A, 0x40), (0x0A, 0x43), (0x0A, 0x48)
BEGAN = 1780000000
_NOT_PRESENT, _UNKNOWN_COMMAND = 0xCB, 0xC1


def event(number: int, seconds: int, sensor: int, what: bytes) -> bytes:
    """A record of type 02: ``what`` is the kind of sensor, the event's type with its direction, and its data."""
    head = struct.pack("<HBIHB", number, 0x02, seconds, 0x0020, 0x04)
    return head + bytes([what[0], sensor, what[1]]) + what[2:5]


def events(numbers: Sequence[int]) -> list[bytes]:
    """Of these ids: uncorrectable ECC at memory, a minute apart."""
    return [event(one, BEGAN + 60 * at, 12, b"\x0c\x6f\xa1\xff\xff") for at, one in enumerate(numbers)]


class Sel:
    """``leads``: where a record leads to against the order; ``gone``: ids that answer "not present"; ``codes``:
    completion codes by command; ``says``: how many there are, against the truth; ``answers``: raw ones by id."""

    def __init__(self, records: Sequence[bytes]) -> None:
        self.records = list(records)
        self.leads: dict[int, int] = {}
        self.gone: set[int] = set()
        self.codes: dict[tuple[int, int], int] = {}
        self.answers: dict[int, bytes] = {}
        self.says: Optional[int] = None
        self.overflow = False
        self.clock: Optional[int] = None
        self.asked: list[int] = []
        self.session = Session({INFO: self.info, ENTRY: self.entry, CLOCK: self.time})

    def info(self, _data: tuple[int, ...]) -> tuple[int, bytes]:
        count = len(self.records) if self.says is None else self.says
        tail = bytes([0x80 if self.overflow else 0x02])
        return self.codes.get(INFO, 0), b"\x51" + struct.pack("<HHII", count, 0xFFFF, 0, 0) + tail

    def time(self, _data: tuple[int, ...]) -> tuple[int, bytes]:
        return self.codes.get(CLOCK, 0), struct.pack("<I", int(time.time()) if self.clock is None else self.clock)

    def entry(self, data: tuple[int, ...]) -> tuple[int, bytes]:
        assert (data[0], data[1], data[4], data[5]) == (0, 0, 0, 0xFF), "whole records, without a reservation"
        asked = data[2] | data[3] << 8
        self.asked.append(asked)
        if asked in self.answers:
            return 0, self.answers[asked]
        ids = [int.from_bytes(one[:2], "little") for one in self.records]
        place = {0x0000: 0, 0xFFFF: len(ids) - 1}.get(asked, ids.index(asked) if asked in ids else -1)
        if asked in self.gone or place < 0:
            return _NOT_PRESENT, b""
        following = ids[place + 1] if place + 1 < len(ids) else 0xFFFF
        return 0, struct.pack("<H", self.leads.get(ids[place], following)) + self.records[place]

    def heard(self) -> set[tuple[int, int]]:
        """Which commands came."""
        return {(netfn, command) for netfn, command, _data in self.session.heard}
