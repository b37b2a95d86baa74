# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the table that nccl-tests, of 2020 to 2.19, and rccl-tests print. PRIVATE to the collection.

Three generations are known: with a column ``error``, with ``root`` and ``#wrong`` (2.13), and with ``#iters`` (2.17);
each may carry the rank's name before each line, as mpirun and srun put it there.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short

_TAG = re.compile(r"^\[\d+(?:,\d+)?\](?:<std(?:out|err)>)?:?\s?")
_RANK = re.compile(
    r"^#\s+Rank\s+(\d{1,6})\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d{1,4})\s"
    r"(?:\s*\[(?:0x)?([0-9a-fA-F:.]{2,16})\])?"
)
#: RCCL calls itself so, each rank once, and says what it was built of on the lines after it.
_VERSION = re.compile(r"^[NR]CCL version\s*:?\s+(?=\S)")
_HEADER = re.compile(r"^#\s+size\s+count\s+type\s")
#: The line below the header, of sizes, numbers, times and bandwidths.
_UNITS = re.compile(r"^#\s+\(B\)\s+\(elements\)\s")
_UNIT = "(GB/s)"
_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d+)\s+(\w+)")
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)(?:\s+(\w+))?")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?\Z")
_COUNT = re.compile(r"[0-9]{1,18}\Z")
_SMALL = re.compile(r"\d(?:\.\d+)?(?:e[-+]\d+)?\Z")
_TYPES = frozenset(
    {"float", "double", "half", "bfloat16", "int8", "uint8", "int32", "uint32", "int64", "uint64", "f8e4m3", "f8e5m2"}
)
#: Time, bandwidths and errors of a direction.
_OF_EACH = 4


@dataclass(frozen=True)
class Row:
    """One size. busbw: GB/s out of place and in place, None where it is no number. wrong: values that arrived otherwise
    than they were sent, None where nobody looked."""

    size: int
    busbw: tuple[Optional[float], ...]
    wrong: Optional[int]


@dataclass
class Seen:
    version: str = ""
    #: Host and device by rank.
    ranks: dict[int, tuple[str, int]] = field(default_factory=dict)
    #: Host and PCI address by rank, where it tells one: whole (2.16), or the bus alone.
    places: dict[int, tuple[str, str]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    #: The two lines at its end: what they say, empty where they are not there.
    bounds: str = ""
    average: str = ""
    problems: list[str] = field(default_factory=list)


def read(text: str) -> Seen:
    seen = Seen()
    headers: list[list[str]] = []
    units: list[int] = []
    checked = not re.search(r"\bvalidation: 0\b", text)
    for tagged in text.splitlines():
        line = _TAG.sub("", tagged).rstrip()
        rank = _RANK.match(line)
        if rank:
            _rank(seen, int(rank.group(1)), (rank.group(2), int(rank.group(3))), (rank.group(4) or "").lower())
        elif _HEADER.match(line):
            headers.append(line.lstrip("#").split())
        elif _UNITS.match(line):
            units.append(line.split().count(_UNIT))
        elif _VERSION.match(line):
            seen.version = seen.version or short(_VERSION.sub("", line).partition("+")[0], 40)
        elif line.startswith("#"):
            _footer(seen, line)
        elif headers and _tabular(line.split()):
            _row(seen, line.split(), headers[-1], checked)
    if len(headers) != 1:
        seen.problems.append("it printed no table" if not headers else "it printed several tables")
    elif units != [_OF_EACH]:
        seen.problems.append(f"it does not say that its bandwidths are in {_UNIT[1:-1]}")
    return seen


def _rank(seen: Seen, number: int, place: tuple[str, int], address: str) -> None:
    # The bus alone is that of several GPUs, in domains of their own.
    twice = ":" in address and (place[0], address) in seen.places.values()
    if twice or number in seen.ranks or place in seen.ranks.values():
        seen.problems.append(f"rank {number} is told twice, or stands on another's GPU")
    seen.ranks[number] = place
    if address:
        seen.places[number] = place[0], address


def _footer(seen: Seen, line: str) -> None:
    bounds, average = _BOUNDS.match(line), _AVERAGE.match(line)
    if bounds:
        seen.problems += ["it ends twice"] if seen.bounds else []
        seen.bounds = f"{bounds.group(1)} {bounds.group(2)}"
    elif average:
        seen.problems += ["it ends twice"] if seen.average else []
        seen.average = f"{average.group(1)} {average.group(2) or ''}".strip()


def _row(seen: Seen, words: list[str], header: list[str], checked: bool) -> None:
    end = -1 if header[-1].lower() == "#iters" else None
    tail, names = words[:end][-2 * _OF_EACH :], [name.lower() for name in header[:end][-2 * _OF_EACH :]]
    if (
        len(words) != len(header)
        or len(words) < 11
        or words[2] not in _TYPES
        or not (words[0].isdigit() and words[1].isdigit())
        or len(words[0]) > 15
    ):
        seen.problems.append(f"a line of its table cannot be read: {short(' '.join(words), 80)}")
        return
    told = _WRONG.get((names[3], names[7]), _unknown)((tail[3], tail[7])) if checked else None
    named = names[2] == names[6] == "busbw"
    values = tuple(float(word) if named and _NUMBER.match(word) else None for word in (tail[2], tail[6]))
    seen.rows.append(Row(int(words[0]), values, told))


def _tabular(words: list[str]) -> bool:
    """Is it a line of the table, whole or broken? What a library logs in between is words, without a type of data."""
    if not words or words[0].isdigit() or not _TYPES.isdisjoint(words):
        return bool(words)
    return sum(bool(_NUMBER.match(word)) for word in words) >= max(_OF_EACH, len(words) / 2)


def _counted(words: Sequence[str]) -> Optional[int]:
    return sum(map(int, words)) if all(_COUNT.match(word) for word in words) else None


def _differing(words: Sequence[str]) -> Optional[int]:
    """An error of older releases is the greatest difference; what is too much of it the line on bounds says."""
    return 0 if all(_SMALL.match(word) for word in words) else None


def _unknown(_words: Sequence[str]) -> Optional[int]:
    """Under a header that no release prints, a count could be taken for a difference, or for something else."""
    return None


#: How many values arrived wrong, by what both directions call their last column.
_WRONG: Mapping[tuple[str, str], Callable[[Sequence[str]], Optional[int]]] = {
    ("#wrong", "#wrong"): _counted,
    ("error", "error"): _differing,
}
