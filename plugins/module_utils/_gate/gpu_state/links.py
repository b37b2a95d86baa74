# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLinks, as ``nvidia-smi nvlink`` tells them: which are up and how fast, and what they counted. PRIVATE.

PRIVATE to the collection. The tool ends with 0 whatever it says.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.cells import Wants
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.values import Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

_GPU = re.compile(r"^GPU (\d{1,4}): .*?(?:\(UUID: (GPU-[0-9A-Za-z-]+)\))?\s*$")
_LINK = re.compile(r"^\s*Link (\d{1,3}): (.+?)\s*$")
_SPEED = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) (GB|MB)/s\Z")
_DOWN = re.compile(r"<?(inactive|disabled|down)>?\Z", re.I)
_NONE_UP = re.compile(r"all links are inactive", re.I)
_COUNTER = re.compile(r"([A-Za-z][\w ()/-]*?): (\d{1,18})\Z")
#: A link tells its speed with three digits behind the point.
_NEAR = 0.999
#: What a link counts that a healthy one does not. CRC errors are repaired by a replay.
#: Source: NVIDIA/DCGM v4.6.0 health watches: any error of NVLink but CRC counts from the first one on, CRC from 100.
_UP_TO_4: Mapping[str, int] = {"replay errors": 0, "recovery errors": 0, "crc errors": 99}
#: NVLink 5; errors that its codes repair (FEC, raw) are none of these.
_FROM_5: Mapping[str, int] = {
    "malformed packet errors": 0,
    "buffer overrun errors": 0,
    "rx errors": 0,
    "rx remote errors": 0,
    "rx general errors": 0,
    "local link integrity errors": 0,
    "total link recovery events": 0,
    "link recovery failed events": 0,
    "effective errors": 0,
    "symbol errors": 0,
}
HARMFUL: Mapping[str, int] = {**_UP_TO_4, **_FROM_5}
#: What a link must tell of itself, by its generation: one that tells less has hidden the rest.
_WHOLE = (frozenset(_UP_TO_4), frozenset(_FROM_5))


@dataclass
class Links:
    """The links of one GPU. up: its speed in GB/s by link, None where it is down. counts: by link, and by the counter's
    name; a line that names no link is of the one before it, or of none."""

    up: dict[int, Optional[float]] = field(default_factory=dict)
    counts: dict[Optional[int], dict[str, int]] = field(default_factory=dict)
    at: Optional[int] = None
    strange: list[str] = field(default_factory=list)
    none_up: bool = False

    @property
    def counted(self) -> dict[str, int]:
        """By the counter's name, over all links."""
        found: dict[str, int] = {}
        for counts in self.counts.values():
            for name, count in counts.items():
                found[name] = found.get(name, 0) + count
        return found

    def whole(self, need: int) -> bool:
        """Does it tell of so many links, and of each all that is harmful? What was cut does not."""
        told = [frozenset(HARMFUL).intersection(counts) for link, counts in self.counts.items() if link is not None]
        return len(told) >= need and len(set(told)) == 1 and any(form <= told[0] for form in _WHOLE)


@dataclass
class Table:
    """What one call says, by the GPU's UUID and by its number."""

    by_uuid: dict[str, Links] = field(default_factory=dict)
    by_number: dict[int, Links] = field(default_factory=dict)
    #: Words before the first GPU.
    strange: list[str] = field(default_factory=list)
    twice: bool = False

    def of(self, number: int, uuid: str) -> Optional[Links]:
        """A GPU's links; None where the call does not tell of it, or of two by that name."""
        if self.twice:
            return None
        return self.by_uuid.get(uuid) if self.by_uuid else self.by_number.get(number)


def read(text: str) -> Table:
    table = Table()
    for links, line in _lines(text, table):
        if links is None:
            table.strange.append(line)
        else:
            _link(links, line)
    return table


def _lines(text: str, table: Table) -> Iterator[tuple[Optional[Links], str]]:
    """Each line with the GPU that it is of."""
    links: Optional[Links] = None
    for line in text.splitlines():
        match = _GPU.match(line)
        if match:
            number, uuid, links = int(match.group(1)), match.group(2) or "", Links()
            table.twice = table.twice or number in table.by_number or (uuid != "" and uuid in table.by_uuid)
            table.by_number[number] = links
            if uuid:
                table.by_uuid[uuid] = links
        elif line.strip():
            yield links, line


def _link(links: Links, line: str) -> None:
    match = _LINK.match(line)
    links.at = int(match.group(1)) if match else links.at
    counter = _COUNTER.match(match.group(2)) if match else _COUNTER.match(line.strip())
    if counter:
        name, counts = counter.group(1).lower(), links.counts.setdefault(links.at, {})
        counts[name] = counts.get(name, 0) + int(counter.group(2))
        return
    if match is None:
        links.none_up = links.none_up or bool(_NONE_UP.search(line))
        links.strange.append(short(line, 100))
        return
    number, said = int(match.group(1)), match.group(2)
    speed = _SPEED.match(said)
    if number in links.up or not (speed or _DOWN.match(said)):
        links.strange.append(short(line, 100))
        links.up[number] = None
    else:
        links.up[number] = None if speed is None else float(speed.group(1)) / (1000 if speed.group(2) == "MB" else 1)


def judge_state(links: Optional[Links], wanted: Wants) -> Reading:
    """How many links are up, and each at its speed."""
    need, speed = int(wanted.figure("nvlink_links")), wanted.figure("nvlink_speed")
    if links is None:
        return Reading(INCONCLUSIVE, None, "nvidia-smi does not tell of its NVLinks", "retest")
    if links.strange and not links.none_up:
        return Reading(INCONCLUSIVE, links.strange[0], f"of its NVLinks it is said: {links.strange[0]}", "retest")
    up = [one for one in links.up.values() if one is not None]
    if len(up) < need:
        down = sorted(number for number, one in links.up.items() if one is None)
        named = f": link {', '.join(map(str, down[:8]))} is down" if down else ""
        return Reading(FAIL, len(up), f"{len(up)} of {need} NVLinks are up{named}", "reboot")
    slow = [one for one in up if one < speed * _NEAR]
    if slow:
        return Reading(FAIL, min(slow), f"{len(slow)} NVLinks run at {min(slow):g} GB/s, wanted {speed:g}", "reboot")
    if len(up) > need:
        return Reading(INCONCLUSIVE, len(up), f"{len(up)} NVLinks, and the profile knows {need}", "remediate_config")
    return Reading(PASS, f"{len(up)} at {min(up):g} GB/s")


def judge_errors(links: Optional[Links], wanted: Wants) -> Reading:
    """What the links counted since the driver was loaded. Counters that nobody knows are no error."""
    counted = links.counted if links else {}
    known = {name: counted[name] for name in HARMFUL if name in counted}
    unread = [line for line in (links.strange if links else ()) if any(name in line.lower() for name in HARMFUL)]
    if not known or unread:
        said = unread[0] if unread else None
        return Reading(INCONCLUSIVE, said, "nvidia-smi does not tell the errors of its NVLinks", "retest")
    bad = [name for name, count in known.items() if count > HARMFUL[name]]
    if bad:
        told = ", ".join(f"{known[name]} {name}" for name in bad)
        return Reading(FAIL, told, f"its NVLinks counted {told}", "reset_gpu")
    need = int(wanted.figure("nvlink_links"))
    if links is None or not links.whole(need):
        return Reading(INCONCLUSIVE, None, f"nvidia-smi does not tell the same errors of {need} NVLinks", "retest")
    return Reading(PASS, sum(known.values()))
