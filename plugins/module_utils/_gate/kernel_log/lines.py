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
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import machine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.near import Times
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.signs import worth
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.users import kernels_own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES, start=1)}
_DAY = 86400.0


class Line(NamedTuple):
    """One message. mono: seconds since boot. wall: seconds since the epoch. seq: the kernel's own number."""

    text: str
    mono: Optional[float] = None
    wall: Optional[float] = None
    seq: Optional[int] = None


# No number is longer than the kernel writes it: Python refuses to read thousands of digits.
_KMSG = re.compile(r"\d{1,10},(\d{1,20}),(\d{1,20}),[^;]*;(.*)", re.S)
_SECONDS = re.compile(r"\[\s*(\d{1,12}\.\d{1,9})\](?:\[\s*[TC]\d+\])?\s?(.*)", re.S)
_CTIME = re.compile(r"\[\w{3} (\w{3})\s+(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})\]\s?(.*)", re.S)
_ISO = re.compile(r"\[?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?\s+(.*)", re.S)
_SYSLOG = re.compile(r"(\w{3})\s+(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.\d+)?\s+(.*)", re.S)
_ORIGIN = re.compile(r"\S+ kernel(?:\[\d+\])?: ?(.*)", re.S)


def parse(raw: str, now: float) -> Line:
    """One line of any carrier; what has no time in it is bare text."""
    for pattern, make in _CARRIERS:
        match = pattern.match(raw)
        if match:
            return make(match, now)
    return Line(raw)


def _kmsg(match: re.Match[str], now: float) -> Line:
    # The kernel writes a line break inside of a message so.
    return Line(match.group(3).replace("\\x0a", "\n"), mono=int(match.group(2)) / 1e6, seq=int(match.group(1)))


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


class NoMessage(ValueError):
    """An entry that does not hold the message that was logged."""


_MICROSECONDS = re.compile(r"[0-9]{1,18}")


def _seconds_of(told: Any) -> Optional[float]:
    """A time of the journal, which tells microseconds; None for what is no such time."""
    if isinstance(told, bool) or not _MICROSECONDS.fullmatch(str(told)):
        return None
    return int(told) / 1e6


def journal_line(raw: str) -> tuple[Line, str, bool]:
    """One entry of ``journalctl -o json``, the boot it belongs to, and whether each time that it tells is one.

    :raises ValueError: where it is none.
    """
    entry: Any = json.loads(raw, object_pairs_hook=once)
    if not isinstance(entry, dict):
        raise ValueError("a journal entry is an object")
    message = entry.get("MESSAGE")
    if isinstance(message, list):  # journald's way with bytes that are no UTF-8
        message = bytes(message).decode("utf-8", "replace")
    if not isinstance(message, str):
        raise NoMessage("the message is null, or not there")
    mono = entry.get("_SOURCE_MONOTONIC_TIMESTAMP") or entry.get("__MONOTONIC_TIMESTAMP")
    wall = entry.get("__REALTIME_TIMESTAMP")
    line = Line(message, mono=_seconds_of(mono), wall=_seconds_of(wall))
    timed = all(told is None or time is not None for told, time in ((mono, line.mono), (wall, line.wall)))
    return line, str(entry.get("_BOOT_ID", "")), timed


# -- NVIDIA's messages ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Incident:
    """One error in the log.

    kind: xid | sxid | off_bus | message | machine. number: of the Xid or SXid. where: PCI address, or another name of
    the part, empty where none is known. at: seconds since boot or since the epoch, whatever the line had. fatal: what
    the line itself says. link: NVLink number. previous: the Xid from which, as the driver says, it only
    follows. odd: in a form that nobody has seen.
    """

    kind: str
    number: int
    where: str
    text: str
    at: Optional[float] = None
    fatal: Optional[bool] = None
    link: Optional[int] = None
    unit: str = ""
    previous: Optional[int] = None
    switch: str = ""
    odd: bool = False
    #: Set by whoever judges: the error from which it follows is not in the log.
    orphan: bool = False


_ADDRESS = r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
_XID = re.compile(r"NVRM: Xid \(" + _ADDRESS + r"\):\s*(\d{1,9})\b,?\s*(.*)", re.S)
_SXID = re.compile(r"nvidia-nvswitch(\d+): SXid \(" + _ADDRESS + r"\):\s*(\d{1,9})\b,?\s*(.*)", re.S)
#: The word in any spelling, with the number that follows it and what stands in brackets between.
_MENTION = re.compile(
    r"(?<![A-Za-z])(S?)Xid(?:s|[ _-]?error)?(?![A-Za-z])[\s_]*(?:[(\[{<][^)\]}>]*[)\]}>])?[\W_]*(\d+)?", re.I
)
#: Where it is NVIDIA's; others have an xid as well (NFS, DHCP), in small letters, and none has an SXid.
_NVIDIA = re.compile(r"NVRM|nvidia|nvswitch|\bGPU\b|\bPCI:", re.I)
_CAPITAL = re.compile(r"\bS?Xid(?![A-Za-z])[\W_]*\d|\bS?Xid \(|(?i:\bSXid(?![A-Za-z])[\W_]*\d)")
#: One message may hold several errors.
_NEXT = re.compile(r"(?=NVRM: Xid|nvidia-nvswitch\d+: SXid)")
_PLACE = re.compile(_ADDRESS)
_OFF_BUS = re.compile(r"fallen off the bus", re.I)
_GPU_NAMED = re.compile(r"NVRM: (?:The NVIDIA )?GPU(?: at)? " + _ADDRESS)
_UUID = re.compile(r"NVRM: GPU at " + _ADDRESS + r": (GPU-[0-9a-fA-F-]{8,})")
_SERIAL = re.compile(r"NVRM: GPU Board Serial Number: (\S+)")
_LINK5 = re.compile(r"\b([A-Z][A-Z0-9_]+)\s+(?:Link )?(Fatal|Nonfatal|Non-fatal)\s+XC", re.I)
_LINK = re.compile(r"\bLink (-?\d{1,9})\b")
_AFTER = re.compile(r"caused by previous Xid (\d+)")

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
        re.compile(r"RmInitAdapter failed|NVRM: .*\brm_init_adapter failed"),
        "init_failed",
        "the driver could not initialise the GPU",
        "power_cycle",
        "NVIDIA driver, RmInitAdapter, nv_start_device",
    ),
    (
        re.compile(r"NV_ERR_GPU_IS_LOST|NVRM: .*\bGPU is lost\b"),
        "gpu_lost",
        "the driver lost the GPU from the bus",
        "power_cycle",
        "NVIDIA driver, NV_ERR_GPU_IS_LOST",
    ),
    (
        re.compile(r"NVRM: .*mem_multicast_fabric\.c"),
        "multicast",
        "multicast memory of the NVLink fabric was not found",
        "retest",
        "scitix/sichek dmesg rules: set-up noise, or a fault of the fabric's state",
    ),
    (
        re.compile(r"nvidia[-_]peermem\b.*\binvalid context"),
        "peermem_context",
        "nvidia-peermem met memory of a context that is gone: RDMA of the GPU's memory may be broken",
        "retest",
        "leptonai/gpud and scitix/sichek kernel log rules; nvidia-peermem nv_get_p2p_free_callback",
    ),
    (
        re.compile(
            r"Kernel panic - not syncing|\bOops: [0-9a-f]{4}|BUG: unable to handle|general protection fault|"
            r"\bkernel BUG at \S+:\d+!|\bInternal error: .*: [0-9a-f]{1,16} \[#\d"
        ),
        "kernel_crash",
        "the kernel crashed",
        "reboot",
        "own rule: a kernel that crashed in the window proves nothing about the node",
    ),
)


#: Each of these messages, and each Xid, has one of these words.
SIGNS = (
    "xid", "nvrm", "fallen off", "nv_err", "rminit", "peermem", "panic", "oops", "bug: ", "bug at",
    "general protection", "internal error: ",
)  # fmt: skip


def address(text: str) -> str:
    """One spelling a PCI address: lower case, four digits of domain, no function."""
    domain, bus, device = text.lower().split(":")
    return f"{domain[-4:]}:{bus}:{device.split('.')[0]}"


#: The halves of one message of an NVSwitch are written at once.
_HALVES_SECONDS = 5.0


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
    leaders = Times(_HALVES_SECONDS)
    kept = list(lines)
    for number in worth([line.text for line in kept], (*SIGNS, *machine.SIGNS)):
        line, text = kept[number], kernels_own(kept[number].text)
        at = line.mono if line.mono is not None else line.wall
        told = machine.told(text)
        if told is not None:
            yield line, Incident("machine", 0, told[1], text, at, unit=told[0])
        mapped, serial = _UUID.search(text), _SERIAL.search(text)
        if mapped:
            uuid_of = address(mapped.group(1))
            names.uuids[uuid_of] = mapped.group(2)
        elif serial and uuid_of:
            names.serials[uuid_of] = serial.group(1)
        named = _GPU_NAMED.search(text)
        if named:
            spoken_of = address(named.group(1))
        for piece in _NEXT.split(text):
            for found in _incidents(piece, at, spoken_of):
                if found.kind != "sxid" or not _is_second_half(found, leaders):
                    yield line, found


def _is_second_half(one: Incident, leaders: Times) -> bool:
    """``Data {...}`` belongs to the line before it. Without that line it is all that is left of the error."""
    key = (one.switch, one.number)
    if not one.text.startswith("Data {"):
        leaders.note(key, one.at)
        return False
    return leaders.near(key, one.at)


def _incidents(text: str, at: Optional[float], spoken_of: str) -> Iterator[Incident]:
    """All errors that one piece of a message tells."""
    rest, off_bus = text, _OFF_BUS.search(text)
    match = _XID.search(text)
    if match:
        one = _xid(int(match.group(2)), address(match.group(1)), match.group(3), at)
        yield one
        rest, off_bus = match.group(3), None
    else:
        match = _SXID.search(text)
        if match:
            yield _sxid(match, at)
            rest = match.group(4)
    odd = _odd(rest, text, at)
    if odd is not None:
        yield odd
        off_bus = None if odd.number == 79 else off_bus
    if off_bus:
        yield Incident("off_bus", 79, spoken_of, text, at)
    for pattern, name, _words, _remedy, _source in MESSAGES:
        if pattern.search(text):
            named = _GPU_NAMED.search(text)
            yield Incident("message", 0, address(named.group(1)) if named else "", text, at, unit=name)
            break


def _odd(rest: str, whole: str, at: Optional[float]) -> Optional[Incident]:
    """An Xid in a form that nobody has seen is an Xid all the same."""
    rest = _AFTER.sub("", rest)
    mention = _MENTION.search(rest)
    if mention is None or not (_NVIDIA.search(whole) or _CAPITAL.search(rest)):
        return None
    place = _PLACE.search(rest)
    where = address(place.group(1)) if place else ""
    kind = "sxid" if mention.group(1) else "xid"
    return Incident(kind, int((mention.group(2) or "0")[:9]), where if kind == "xid" else "", rest, at, odd=True)


def _xid(number: int, where: str, detail: str, at: Optional[float]) -> Incident:
    word, link, after = _LINK5.search(detail), _LINK.search(detail), _AFTER.search(detail)
    return Incident(
        "xid",
        number,
        where,
        detail,
        at,
        fatal=word.group(2).lower() == "fatal" if word else None,
        link=int(link.group(1)) if link and int(link.group(1)) >= 0 else None,
        unit=word.group(1) if word else "",
        previous=int(after.group(1)[:9]) if after else None,
    )


def _sxid(match: re.Match[str], at: Optional[float]) -> Incident:
    switch, where, number, detail = match.groups()
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
