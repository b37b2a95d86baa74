# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads lines of a kernel log, whatever carried them, and finds NVIDIA's errors in them. PRIVATE to the collection.

Carriers: /dev/kmsg records, ``dmesg`` with seconds, ``dmesg -T``, ISO times, ``journalctl -o short`` and ``-o json``,
syslog without a year, and bare text. Standard library only.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Optional

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES, start=1)}
_DAY = 86400.0


@dataclass(frozen=True)
class Line:
    """One message. mono: seconds since boot. wall: seconds since the epoch. seq: the kernel's own number."""

    text: str
    mono: Optional[float] = None
    wall: Optional[float] = None
    seq: Optional[int] = None


_KMSG = re.compile(r"\d+,(\d+),(\d+),[^;]*;(.*)", re.S)
_PRIORITY = re.compile(r"<\d+>\s?")
_SECONDS = re.compile(r"\[\s*(\d+\.\d+)\](?:\[\s*[TC]\d+\])?\s?(.*)", re.S)
_CTIME = re.compile(r"\[\w{3} (\w{3})\s+(\d+) (\d\d):(\d\d):(\d\d) (\d{4})\]\s?(.*)", re.S)
_ISO = re.compile(r"\[?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?\s+(.*)", re.S)
_SYSLOG = re.compile(r"(\w{3})\s+(\d+) (\d\d):(\d\d):(\d\d)(?:\.\d+)?\s+(.*)", re.S)
_ORIGIN = re.compile(r"\S+ kernel(?:\[\d+\])?: ?(.*)", re.S)


def parse(raw: str, now: float) -> Line:
    """One line of any carrier; what has no time in it is bare text."""
    for pattern, make in _CARRIERS:
        match = pattern.match(raw)
        if match:
            return make(match, now)
    return Line(raw)


def _kmsg(match: re.Match[str], now: float) -> Line:
    return Line(match.group(3), mono=int(match.group(2)) / 1e6, seq=int(match.group(1)))


def _seconds(match: re.Match[str], now: float) -> Line:
    return Line(match.group(2), mono=float(match.group(1)))


def _inner(text: str, wall: Optional[float]) -> Line:
    """What is behind a carrier's time: host and program, and often the kernel's own seconds."""
    origin = _ORIGIN.match(text)
    text = origin.group(1) if origin else text
    seconds = _SECONDS.match(text)
    if seconds:
        return Line(seconds.group(2), mono=float(seconds.group(1)), wall=wall)
    return Line(text, wall=wall)


def _ctime(match: re.Match[str], now: float) -> Line:
    month, day, hour, minute, second, year, text = match.groups()
    return _inner(text, _local(int(year), month, int(day), int(hour), int(minute), int(second)))


def _iso(match: re.Match[str], now: float) -> Line:
    return _inner(match.group(2), iso_time(match.group(1)))


def _syslog(match: re.Match[str], now: float) -> Line:
    """No year: the last one in which this line is not of the future."""
    month, day, hour, minute, second, text = match.groups()
    year = time.localtime(now).tm_year
    wall = _local(year, month, int(day), int(hour), int(minute), int(second))
    if wall is not None and wall > now + _DAY:
        wall = _local(year - 1, month, int(day), int(hour), int(minute), int(second))
    return _inner(text, wall)


def _local(year: int, month: str, day: int, hour: int, minute: int, second: int) -> Optional[float]:
    if month not in _MONTHS:
        return None
    try:
        return time.mktime((year, _MONTHS[month], day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None


def iso_time(text: str) -> Optional[float]:
    """Seconds since the epoch of an ISO 8601 time; without a zone it is UTC."""
    match = re.fullmatch(
        r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?", text.strip()
    )
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)  # a 13th month is no time
    except ValueError:
        return None
    zone = match.group(8) or "Z"
    offset = 0
    if zone != "Z":
        digits = zone[1:].replace(":", "")
        offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if zone[0] == "+" else -1)
    return moment.timestamp() + float(f"0.{match.group(7) or 0}") - offset


_CARRIERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], float], Line]], ...] = (
    (_KMSG, _kmsg),
    (re.compile(r"(?:<\d+>\s?)?" + _SECONDS.pattern, re.S), _seconds),
    (_CTIME, _ctime),
    (_ISO, _iso),
    (_SYSLOG, _syslog),
)


def journal_line(raw: str) -> tuple[Line, str]:
    """One entry of ``journalctl -o json``, and the boot it belongs to.

    :raises ValueError: where it is none.
    """
    entry: Any = json.loads(raw)
    if not isinstance(entry, dict):
        raise ValueError("a journal entry is an object")
    message = entry.get("MESSAGE")
    if isinstance(message, list):  # journald's way with bytes that are no UTF-8
        message = bytes(message).decode("utf-8", "replace")
    mono = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP")
    wall = entry.get("__REALTIME_TIMESTAMP")
    line = Line(
        str(message or ""),
        mono=int(mono) / 1e6 if mono is not None else None,
        wall=int(wall) / 1e6 if wall is not None else None,
    )
    return line, str(entry.get("_BOOT_ID", ""))


# -- NVIDIA's messages ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Incident:
    """One error in the log.

    kind: xid | sxid | off_bus | message. number: of the Xid or SXid. where: PCI address, empty where none is known.
    at: seconds since boot or since the epoch, whatever the line had. fatal: what the line itself says. link: NVLink
    number. after: True where the driver says that it only follows from another.
    """

    kind: str
    number: int
    where: str
    text: str
    at: Optional[float] = None
    fatal: Optional[bool] = None
    link: Optional[int] = None
    unit: str = ""
    after: bool = False
    switch: str = ""


_ADDRESS = r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
_XID = re.compile(r"NVRM: Xid \(" + _ADDRESS + r"\):\s*(\d+)\b,?\s*(.*)", re.S)
_XID_ODD = re.compile(r"NVRM: Xid \(([^)]*)\):\s*(\d+)?")
_SXID = re.compile(r"nvidia-nvswitch(\d+): SXid \(" + _ADDRESS + r"\):\s*(\d+)\b,?\s*(.*)", re.S)
_SXID_ODD = re.compile(r"SXid \(([^)]*)\):\s*(\d+)?")
_OFF_BUS = re.compile(r"fallen off the bus", re.I)
_GPU_NAMED = re.compile(r"NVRM: (?:The NVIDIA )?GPU(?: at)? " + _ADDRESS)
_UUID = re.compile(r"NVRM: GPU at " + _ADDRESS + r": (GPU-[0-9a-fA-F-]{8,})")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (\S+)")
_LINK5 = re.compile(r"\b([A-Z][A-Z0-9_]+)\s+(?:Link )?(Fatal|Nonfatal|Non-fatal)\s+XC", re.I)
_LINK = re.compile(r"\bLink (-?\d+)\b")
_AFTER = re.compile(r"caused by previous Xid \d+")

#: Messages without a number: pattern, name, words, remedy, source.
MESSAGES: tuple[tuple[re.Pattern[str], str, str, str, str], ...] = (
    (
        re.compile(r"NV_ERR_RESET_REQUIRED"),
        "reset_required",
        "the driver says that the GPU must be reset",
        "reset_gpu",
        "NVIDIA driver, NV_ERR_RESET_REQUIRED",
    ),
    (
        re.compile(r"RmInitAdapter failed"),
        "init_failed",
        "the driver could not initialise the GPU",
        "power_cycle",
        "NVIDIA driver, RmInitAdapter",
    ),
    (
        re.compile(r"NVRM: .*mem_multicast_fabric\.c"),
        "multicast",
        "multicast memory of the NVLink fabric was not found",
        "retest",
        "scitix/sichek dmesg rules: set-up noise, or a fault of the fabric's state",
    ),
    (
        re.compile(r"Kernel panic - not syncing|\bOops: [0-9a-f]{4}|BUG: unable to handle|general protection fault"),
        "kernel_crash",
        "the kernel crashed",
        "reboot",
        "own rule: a kernel that crashed in the window proves nothing about the node",
    ),
)


def address(text: str) -> str:
    """One spelling a PCI address: lower case, four digits of domain, no function."""
    domain, bus, device = text.lower().split(":")
    return f"{domain[-4:]}:{bus}:{device.split('.')[0]}"


@dataclass
class Names:
    """What the log says about who is who."""

    uuids: dict[str, str]
    serials: dict[str, str]


def incidents(lines: Iterable[Line], names: Names) -> Iterator[tuple[Line, Incident]]:
    """NVIDIA's errors, in the order of the log; fills in the names on the way.

    The driver spreads some messages over lines: the GPU is named in one, and what happened to it in the next.
    """
    spoken_of, uuid_of = "", ""
    for line in lines:
        mapped = _UUID.search(line.text)
        serial = _SERIAL.search(line.text)
        if mapped:
            uuid_of = address(mapped.group(1))
            names.uuids[uuid_of] = mapped.group(2)
        elif serial and uuid_of:
            names.serials[uuid_of] = serial.group(1)
        named = _GPU_NAMED.search(line.text)
        if named:
            spoken_of = address(named.group(1))
        found = _incident(line, spoken_of)
        if found is not None:
            yield line, found


def _incident(line: Line, spoken_of: str) -> Optional[Incident]:
    at, text = line.mono if line.mono is not None else line.wall, line.text
    match = _XID.search(text)
    if match:
        return _xid(int(match.group(2)), address(match.group(1)), match.group(3), at)
    match = _SXID.search(text)
    if match:
        return _sxid(match, at)
    odd = _XID_ODD.search(text)
    if odd:  # an Xid in a form that nobody has seen is an Xid all the same
        return Incident("xid", int(odd.group(2) or 0), "", text, at)
    odd = _SXID_ODD.search(text)
    if odd:
        return Incident("sxid", int(odd.group(2) or 0), "", text, at)
    if _OFF_BUS.search(text):
        return Incident("off_bus", 79, spoken_of, text, at)
    for pattern, name, _words, _remedy, _source in MESSAGES:
        if pattern.search(text):
            named = _GPU_NAMED.search(text)
            return Incident("message", 0, address(named.group(1)) if named else "", text, at, unit=name)
    return None


def _xid(number: int, where: str, detail: str, at: Optional[float]) -> Incident:
    word, link = _LINK5.search(detail), _LINK.search(detail)
    return Incident(
        "xid",
        number,
        where,
        detail,
        at,
        fatal=word.group(2).lower() == "fatal" if word else None,
        link=int(link.group(1)) if link and int(link.group(1)) >= 0 else None,
        unit=word.group(1) if word else "",
        after=bool(_AFTER.search(detail)),
    )


def _sxid(match: re.Match[str], at: Optional[float]) -> Optional[Incident]:
    switch, where, number, detail = match.groups()
    if detail.startswith("Data {"):  # the second half of the line before
        return None
    word = re.match(r"(Non-fatal|Nonfatal|Fatal)\b", detail, re.I)
    link = _LINK.search(detail)
    return Incident(
        "sxid",
        int(number),
        address(where),
        detail,
        at,
        fatal=word.group(1).lower() == "fatal" if word else None,
        link=int(link.group(1)) if link else None,
        switch=switch,
    )
