# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet by cause: what holds two hundred nodes for one reason is one row. PRIVATE to the collection.

The reasons of two nodes with one trouble differ in what is each node's own: its name, the address of its BMC, the slot
of its GPU. These are no part of a cause. Any other number is: Xid 79 is not Xid 63.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._folded import folded, in_order, limit
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.served import UNKNOWN, UNSERVED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.summary import (
    counts,
    headline,
    remedy_due,
    standing,
    wrapped,
)

#: What a node has of its own, by what it is; a word is one where it is the host's name.
_OWN = re.compile(
    r"(?P<url>https?://[^\s,;()'\"]*[^\s,;()'\".:])"
    r"|(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"
    r"|(?P<uuid>(?:GPU-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
    r"|(?P<mac>[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5})"
    r"|(?P<slot>\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\b)"
    r"|(?P<address>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b)"
    r"|(?P<event>\bevent \d+)"
    r"|(?P<word>[A-Za-z0-9](?:[\w-]|\.(?=\w))*)"
)
_TIME, _WORD = "time", "word"
#: First what nobody can tell, then what is out of service and why, then what is on its way, and last what needs nobody.
_RANKS = (
    *(UNKNOWN, "quarantined", UNSERVED, "drained", "draining", "wiping", "validating", "imaging"),
    *("enrolled", "discovered", "admitted", "retired"),
)
#: A command, whom it is for, and what stands behind that.
_LIMITED = re.compile(r"(.*?) --limit ('[^']*'|\S+)(.*)", re.DOTALL)
#: Lines that the hosts of one row may fill; the command below them names all.
_HOST_LINES = 3


@dataclass
class _Row:
    """Hosts of one cause. slots: what each has of its own in the words of the cause, in their order."""

    state: str
    words: Sequence[str]
    kinds: Sequence[str]
    remedy: str
    left: str
    command: str
    groups: Mapping[str, Sequence[str]]
    hosts: list[str] = field(default_factory=list)
    slots: list[Sequence[str]] = field(default_factory=list)

    def cause(self) -> str:
        own = [*map(_of_all, self.kinds, zip(*self.slots)), ""]
        return "".join(text + value for text, value in zip(self.words, own))

    def as_dict(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "cause": self.cause(),
            "count": len(self.hosts),
            "hosts": self.hosts,
            "folded": folded(self.hosts),
            "remedy": self.remedy,
            "left": self.left,
            "next": self.command.replace("\0", limit(self.hosts, self.groups)),
        }


def by_cause(
    nodes: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """The rows, as the module fleet_status documents them under ``groups``: the most urgent first.

    :param nodes: by host name, as ``report.status`` tells them.
    :param groups: of the inventory, with their hosts.
    """
    rows: dict[tuple[Any, ...], _Row] = {}
    for host in in_order(nodes):
        one = nodes[host]
        words, kinds, slots = _taken_apart(standing(one), host)
        told = (str(one["state"]), words, kinds, remedy_due(one), str(one["left"]), _command_of(one, host))
        row = rows.setdefault(told, _Row(*told, groups or {}))
        row.hosts.append(host)
        row.slots.append(slots)
    return [row.as_dict() for row in sorted(rows.values(), key=_urgency)]


def document(title: str, nodes: Mapping[str, Mapping[str, Any]], groups: Sequence[Any], at: float) -> dict[str, Any]:
    """The same for programs."""
    return {
        "title": title,
        "at": utc(at),
        "states": counts(nodes),
        "not_told": in_order(host for host, one in nodes.items() if one["state"] == UNKNOWN),
        "groups": list(groups),
        "nodes": {host: dict(one) for host, one in nodes.items()},
    }


def table(
    title: str, nodes: Mapping[str, Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], width: int = 100
) -> list[str]:
    """The same for people."""
    lines = wrapped("", headline(title, nodes), width)
    states = max((len(group["state"]) for group in groups), default=0)
    numbers = max((len(str(group["count"])) for group in groups), default=0)
    for group in groups:
        head = f"  {group['state']:<{states}}  {group['count']:>{numbers}}  "
        lines += ["", *wrapped(head, group["cause"], width), *_hosts(" " * len(head), group, width)]
        for name in ("remedy", "left"):
            lines += wrapped(f"{' ' * len(head)}{name}: ", group[name], width) if group[name] else []
        lines += _command(group["next"], width) if group["next"] else []
    return lines


# -- causes ------------------------------------------------------------------------------------------------------------


def _urgency(row: _Row) -> tuple[int, bool, int]:
    """Of one state first those that somebody has to do something about, and then the most."""
    rank = _RANKS.index(row.state) if row.state in _RANKS else len(_RANKS)
    return rank, not row.command, -len(row.hosts)


def _taken_apart(text: str, host: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """What stands between what is the node's own, of which kinds that is, and what it is."""
    words: list[str] = []
    kinds: list[str] = []
    own: list[str] = []
    end = 0
    for found in _OWN.finditer(text):
        kind = str(found.lastgroup)
        if kind == _WORD and found[0] != host:
            continue
        words.append(text[end : found.start()])
        kinds.append(kind)
        own.append(found[0])
        end = found.end()
    return (*words, text[end:]), tuple(kinds), tuple(own)


def _of_all(kind: str, values: Sequence[str]) -> str:
    """What is one for all is told; else the span of times, or one example."""
    several = list(dict.fromkeys(values))
    if len(several) == 1:
        return several[0]
    if kind == _TIME:
        return f"{min(several)} to {max(several)}"
    return f"{several[0]} (and {len(several) - 1} more)"


def _command_of(one: Mapping[str, Any], host: str) -> str:
    """The next command with a mark in the place of the host."""
    return re.sub(rf"(?<= --limit ){re.escape(host)}(?=\s|$)", "\0", str(one["next"]))


# -- lines -------------------------------------------------------------------------------------------------------------


def _hosts(indent: str, group: Mapping[str, Any], width: int) -> list[str]:
    lines = _filled(indent, group["folded"], width)
    if len(lines) <= _HOST_LINES:
        return lines
    return [*lines[: _HOST_LINES - 1], f"{indent}... {group['count']} hosts in all"]


def _filled(head: str, listed: str, width: int) -> list[str]:
    """A folded list, broken at its commas."""
    lines, line = [], head
    for part in re.findall(r"[^,]+,?", listed):
        if len(line) + len(part) > width and line.strip() and line != head:
            lines.append(line)
            line = " " * len(head)
        line += part
    return [*lines, line]


def _command(command: str, width: int) -> list[str]:
    """On as many lines as it needs, which a shell takes as one."""
    if not command.startswith("ansible"):
        return wrapped("    next: ", command, width)
    head, parts = f"    next: {command}", _LIMITED.fullmatch(command)
    if len(head) <= width or parts is None:
        return [head]
    start, chosen, more = parts.groups()
    if len(f"      --limit {chosen} \\") > width:
        return [f"    next: {start} \\", "      --limit \\", *_in_pieces(chosen, more, width)]
    if len(f"      --limit {chosen}{more}") <= width:
        return [f"    next: {start} \\", f"      --limit {chosen}{more}"]
    return [f"    next: {start} \\", f"      --limit {chosen} \\", f"      {more.strip()}"]


def _in_pieces(word: str, more: str, width: int) -> Iterator[str]:
    """One word of a shell on several lines: each begins where its line begins, and has quotes of its own."""
    quote = "'" if word.startswith("'") else ""
    bare, size = word.strip("'"), width - 2 * len(quote) - 1
    parts = [f"{quote}{bare[at : at + size]}{quote}" for at in range(0, len(bare), size)]
    yield from (f"{part}\\" for part in parts[:-1])
    yield from [f"{parts[-1]}\\", more] if more else parts[-1:]
