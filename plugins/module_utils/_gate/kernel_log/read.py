# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gets the kernel log of this boot, and says from when on it is whole. PRIVATE to the collection.

A log that begins too late, lost records, or belongs to another boot is no empty log: what is wrong with it stands in
``problems``. Its lines are looked at all the same, for a fault that shows in half a log is a fault.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import (
    Line,
    NoMessage,
    iso_time,
    journal_line,
    parse,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.records import (
    Records,
    records_of,
    times_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._proc import BOOT_ID, boot_id
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import run

#: A log that is larger is no log of one boot.
SIZE_LIMIT = 128 * 1024 * 1024
#: The time between the controller's look at its clock and ours; a little of the old is better than a gap.
SLACK_SECONDS = 5.0
#: A record cannot be of this boot when it is that much younger than the boot is old.
_BOOT_TOLERANCE = 60.0
#: No machine has run for thirty years.
_LONGEST_UPTIME = 1e9
#: The kernel's first message carries a zero.
_BOOT_BEGIN = 0.01
#: The same for a log that only tells the time of day, in whole seconds.
_BOOT_BEGIN_WALL = 1.0
#: Times of one boot go on; those of several processors may differ a little.
_BACKWARDS = 1.0
_CHUNK = 65536
_NO_JSON = "an entry of the journal is no JSON"
#: What a file is filled with where a machine lost power while it was written.
_NULL = "null bytes stand where lines were"
_JOURNAL_FIELDS = "MESSAGE,_SOURCE_MONOTONIC_TIMESTAMP,_BOOT_ID"


@dataclass(frozen=True)
class Clock:
    """This boot: its id, how old it is, and when that was read."""

    now: float
    uptime: float
    boot_id: str

    @property
    def booted(self) -> float:
        return self.now - self.uptime


def read_clock(params: Mapping[str, Any]) -> Clock:
    """:raises ConfigError: where this kernel does not tell its uptime."""
    path = str(params.get("uptime_path") or "/proc/uptime")
    try:
        with open(path, encoding="ascii") as file:
            uptime = float(file.read().split()[0])
    except (OSError, ValueError, IndexError) as exc:
        raise ConfigError(f"the uptime cannot be read: {exc}", seen=path) from exc
    if not 0 <= uptime <= _LONGEST_UPTIME:
        raise ConfigError("the uptime is no time", seen=f"{path}: {uptime}")
    boot = boot_id(str(params.get("boot_id_path") or BOOT_ID)).replace("-", "")
    return Clock(time.time(), uptime, boot)


def window_start(since: str, clock: Clock) -> float:
    """Where the window begins, in seconds since boot; negative where it was asked for before this boot.

    :raises ConfigError: where it is no time, or lies in the future.
    """
    since = since.strip()
    if since in ("", "boot"):
        return 0.0
    try:
        ago: Optional[float] = float(since)
    except ValueError:
        ago = None
    if ago is not None:
        start = clock.uptime - ago - SLACK_SECONDS if 0 <= ago < float("inf") else float("nan")
    else:
        wall = iso_time(since)
        start = wall - clock.booted if wall is not None else float("nan")
    if not start <= clock.uptime:
        raise ConfigError(
            "the start of the window is no time in the past",
            wanted="boot, a time in ISO 8601, or a number of seconds before now",
            seen=since,
            do="correct the option since; where it comes from the ledger, compare the clocks of node and controller",
        )
    return start


@dataclass
class Log:
    """What was read. whole_from: seconds since boot from which on nothing is missing; None where nobody knows.

    ends_now: it was read up to what the kernel had to say last, without a gap.
    """

    source: str
    place: str
    lines: Sequence[Line] = ()
    raw: bytes = b""
    problems: list[str] = field(default_factory=list)
    whole_from: Optional[float] = None
    ends_now: bool = False

    def object(self, problem: str) -> None:
        """The same problem of many lines is told once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def in_window(self, line: Line, start: float, clock: Clock) -> bool:
        """Is it of the time since the start? A line without any time may be, and so it is."""
        return start == 0.0 or (self.age_of(line, clock) or float("inf")) >= start

    @staticmethod
    def age_of(line: Line, clock: Clock) -> Optional[float]:
        """When a line was written, in seconds since boot."""
        if line.mono is not None:
            return line.mono
        return line.wall - clock.booted if line.wall is not None else None

    def ages(self, clock: Clock) -> list[float]:
        """When its lines were written, as far as they tell it."""
        told = times_of(self.lines)
        if None not in told:
            return told  # type: ignore[return-value]
        booted = clock.booted
        return [
            line.mono if line.mono is not None else (line.wall or 0.0) - booted
            for line in self.lines
            if line.mono is not None or line.wall is not None
        ]

    def settle(self, start: float, clock: Clock) -> None:
        """Look whether the log covers the window, and belongs to this boot."""
        if self.problems:
            return
        if not self.lines:
            self.problems.append("the kernel log is empty")
        elif self.whole_from is None:
            self.problems.append("the lines of the log carry no time: nobody knows where it begins")
        elif self.whole_from > start:
            self.problems.append(
                f"the log begins {self.whole_from:.0f} s after the boot, and the window {start:.0f} s after it"
            )
        times = self.ages(clock)
        if times and max(times) > clock.uptime + _BOOT_TOLERANCE:
            self.problems.append("the log is of another boot: it is younger than this one is old")
        if times and max(times) < 0:
            self.problems.append("the log is of another boot: it ends before this one begins")
        told = [one for one in times_of(self.lines) if one is not None]
        if told != sorted(told) and any(later < earlier - _BACKWARDS for earlier, later in zip(told, told[1:])):
            self.problems.append("the log is of several boots: its times go backwards")


def read_kmsg(path: str, start: float) -> Log:
    """All records that the kernel still has, without waiting for more."""
    log = Log("kmsg", path)
    raw, problem = _drain(path, log)
    log.raw = raw
    if problem:
        log.problems.append(problem)
        return log
    _whole_bytes(log)
    now = time.time()
    # A record's further lines hold its device, indented by a blank.
    whole = raw.decode("utf-8", "replace")
    texts = [t for t in whole.split("\n") if t and t[0] != " " and not t.isspace()]
    log.lines = records_of(whole, texts) or [parse(text, now) for text in texts]
    if isinstance(log.lines, Records):
        numbers, times = log.lines.numbers, log.lines.times
    else:
        numbered = [line for line in log.lines if line.seq is not None]
        if numbered and len(numbered) != len(log.lines):
            log.problems.append("a record of the kernel log cannot be read")
        numbers, times = [line.seq or 0 for line in numbered], [line.mono or 0.0 for line in numbered]
    if numbers:
        log.whole_from = 0.0 if numbers[0] == 0 else times[0]
        _in_a_row(log, numbers, times, start)
    log.ends_now = bool(numbers) and not log.problems
    return log


def _in_a_row(log: Log, numbers: list[int], times: list[float], start: float) -> None:
    """Does each record since the start carry the number after that of the one before it?"""
    if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        return
    for before, number, time_of_it in zip(numbers, numbers[1:], times[1:]):
        if number != before + 1 and time_of_it >= start:
            log.problems.append(f"the kernel log lost records between number {before} and {number}")
            return


def _whole_bytes(log: Log) -> None:
    """The kernel spells a null byte of a message out; one that stands in a log is a hole."""
    if b"\0" in log.raw:
        log.object(_NULL)


def _drain(path: str, log: Log) -> tuple[bytes, str]:
    """Read until there is no more; a record that is overwritten under us is no end."""
    kept = bytearray()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError as exc:
        return b"", f"{path} cannot be read: {exc.strerror}"
    try:
        while len(kept) <= SIZE_LIMIT:
            try:
                chunk = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return bytes(kept), ""
            except OSError as exc:
                if exc.errno == errno.EPIPE:  # the ring went on; the numbers of the records show what is missing
                    continue
                return bytes(kept), f"{path} cannot be read: {exc.strerror}"
            if not chunk:
                return bytes(kept), ""
            kept += chunk
    finally:
        os.close(descriptor)
    return bytes(kept), f"{path} is larger than any kernel log"


def read_journal(program: str, clock: Clock, timeout: float, *, boot: str = "") -> Log:
    """The kernel's messages of this boot in the journal, or of another one, which is then that of the clock as well."""
    # Without --all a long message is shown as null. Of a boot's id journalctl takes the form without dashes alone.
    which = f"--boot={boot.replace('-', '')}" if boot else "-b"
    argv = [program, "-k", which, "-o", "json", "--all", "--no-pager", "-q", f"--output-fields={_JOURNAL_FIELDS}"]
    log = Log("journal", " ".join(argv))
    done = run(argv, timeout=timeout, limit=SIZE_LIMIT)
    log.raw = done.stdout
    if done.ended != "exit" or done.rc != 0:
        said = cut(done.stderr.strip(), 200)
        how = f"ended with {done.rc}" if done.ended == "exit" else done.ended
        log.problems.append(f"{program}: {how}" + (f": {said}" if said else ""))
    lines: list[Line] = []
    for raw in done.text.split("\n"):
        if raw.strip():
            _journal_entry(log, lines, raw, clock)
    log.lines = lines
    _begins(log, clock)
    return log


def _journal_entry(log: Log, lines: list[Line], raw: str, clock: Clock) -> None:
    try:
        line, boot, timed = journal_line(raw)
    except (ValueError, TypeError, RecursionError) as exc:
        log.object("an entry of the journal has no message" if isinstance(exc, NoMessage) else _NO_JSON)
        return
    if not clock.boot_id or boot.replace("-", "") != clock.boot_id:
        log.object("the journal shows another boot" if clock.boot_id else "which boot this is cannot be read")
    if not timed:
        log.object("a time of the journal is none")
    if "\0" in line.text:
        log.object(_NULL)
    lines.append(line)


def _begins(log: Log, clock: Clock) -> None:
    """From when on the log is whole: from the boot where its first line is the kernel's first."""
    begin = Log.age_of(log.lines[0], clock) if log.lines else None
    if begin is not None:
        limit = _BOOT_BEGIN_WALL if log.lines[0].mono is None else _BOOT_BEGIN
        log.whole_from = 0.0 if begin <= limit else begin


def read_file(path: str, clock: Clock) -> Log:
    """A kernel log as text, in any of the usual forms."""
    log = Log("file", path)
    log.raw, problem = _drain(path, log)
    if problem:
        log.problems.append(problem)
    _whole_bytes(log)
    lines: list[Line] = []
    for text in log.raw.decode("utf-8", "replace").split("\n"):
        if not text.strip():
            continue
        if text.startswith("{"):
            _journal_entry(log, lines, text, clock)
        else:
            lines.append(parse(text.rstrip("\r"), clock.now))
    log.lines = lines
    _begins(log, clock)
    return log
