# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One record of IPMI's system event log, as its 16 bytes tell it. PRIVATE to the collection.

Numbers are those of the IPMI 2.0 specification, section or table in brackets. What the tables do not know is told as
the numbers that it is, and its severity as unknown: nothing is guessed, and no bytes are an error.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import sel_words as words
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import OK, UNTOLD, LogEntry

SIZE = 16
#: Types of records [32.1 to 32.3]: an event, and OEM's own with a time and without one.
EVENT = 0x02
_OEM_WITH_TIME = range(0xC0, 0xE0)
_OEM = range(0xE0, 0x100)
#: In an event: whether it ends what another one began, and the kind of event [table 32-1].
_ENDS, _KIND = 0x80, 0x7F
#: In the first byte of its data: which offset it is, and whether the other two are reading and threshold [table 29-6].
_OFFSET, _READING, _TRIGGER = 0x0F, (0xC0, 0x40), (0x30, 0x10)


def record_id(raw: bytes) -> int:
    return int.from_bytes(raw[0:2], "little")


def parsed(raw: bytes) -> LogEntry:
    """:param raw: the 16 bytes; more are left out, and missing ones count as zero."""
    raw = raw[:SIZE].ljust(SIZE, b"\0")
    if raw[2] == EVENT:
        return _event(raw)
    oem = raw[2] in _OEM_WITH_TIME or raw[2] in _OEM
    timed = raw[2] in _OEM_WITH_TIME
    maker = f" of the maker {int.from_bytes(raw[7:10], 'little')}" if timed else ""
    what = f"OEM record{maker}" if oem else "record of a type that IPMI does not know"
    data = raw[10:] if timed else raw[3:]
    said = f"{what}, type 0x{raw[2]:02x}, data {data.hex()}"
    return _entry(raw, UNTOLD, said, code=f"{raw[2]:02x}{data.hex()}", timed=timed)


def _event(raw: bytes) -> LogEntry:
    kind, ends, offset = raw[12] & _KIND, bool(raw[12] & _ENDS), raw[13] & _OFFSET
    name = words.SENSOR_TYPES.get(raw[10]) or f"sensor of type 0x{raw[10]:02x}"
    table = words.SPECIFIC.get(raw[10], {}) if kind == words.OF_ITS_TYPE else words.GENERIC.get(kind, {})
    what, severity = table.get(offset, (f"event 0x{kind:02x}, offset 0x{offset:x}", UNTOLD))
    sensor = f"{name} #{raw[11]}"
    said = f"{sensor}: {what}{_readings(raw) if kind == words.THRESHOLD else ''}{', ended' if ends else ''}"
    # That something bad is over is good; of what is not known, the end is not either.
    severity = OK if ends and severity != UNTOLD else severity
    return _entry(raw, severity, said, sensor=sensor, code=f"{kind:02x}{raw[13:16].hex()}", timed=True)


def _readings(raw: bytes) -> str:
    """As the sensor counts, which only its own record of data turns into volts or degrees."""
    told = [
        f"{name} 0x{raw[place]:02x}"
        for name, place, (mask, says) in (("reading", 14, _READING), ("threshold", 15, _TRIGGER))
        if raw[13] & mask == says
    ]
    return f" (raw {', '.join(told)})" if told else ""


def _entry(raw: bytes, severity: str, said: str, *, sensor: str = "", code: str, timed: bool) -> LogEntry:
    seconds = int.from_bytes(raw[3:7], "little")
    return LogEntry(
        id=str(record_id(raw)),
        at=clock.known(seconds) if timed else None,
        severity=severity,
        message=said,
        sensor=sensor,
        code=code,
        native={"at": f"0x{seconds:08x}" if timed else "", "record": raw.hex()},
    )
