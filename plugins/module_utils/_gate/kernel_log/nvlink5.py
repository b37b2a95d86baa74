# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the numbers in an NVLink 5 error (Xid 144 to 150) say: a table. PRIVATE to the collection.

The driver writes ``UNIT Fatal|Nonfatal XC0 i0 Link 08 (INTRINFO STATUS ...)``. The low bits of INTRINFO name the unit
once more, in one of two forms, and its bits 20 to 25 are a code; STATUS says which error of the unit it is, a bit each.
A rule counts only where name, number and code agree, and it never makes lighter what the driver calls fatal.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

SOURCE = "NVIDIA Xid catalogue 2025-10-29, NVLink5 rules"
#: What the catalogue wants at once: nothing; a reset; what Xid 154 of the same GPU asks for.
IGNORE, RESET, ASK = "ignore", "reset", "ask"
_HEAVIEST = (IGNORE, ASK, RESET)
#: What it wants looked into, for a person; of what it wants nothing looked into, nothing.
_NOTHING = ""
_SUPPORT = "for NVIDIA's support if it comes again"
_FLOW = "follow NVIDIA's flow for failures of NVLink"
_SOLO = "follows from another end of the link, unless it comes alone"
_DAILY = "report it if it comes more than once a day"
_SIGNAL = "look at the signal of the link"
_CABLES = "look at the signal of the link and at its cables"
_USER = "look at who set the link, and at its software"
_USER_SIGNAL = "look at who set the link, at its software, and at its signal"
_PEER = "began at the other end of the link: look there"
_HOST = "look at the host"


class Rule(NamedTuple):
    action: str
    look: str


#: What the catalogue wants neither mended nor looked into.
HARMLESS = Rule(IGNORE, _NOTHING)


class _Unit(NamedTuple):
    """forms: the low bits of INTRINFO, ten of the one form and seven of the other. rules: by code and status."""

    number: int
    names: tuple[str, ...]
    forms: tuple[int, int]
    rules: Mapping[tuple[int, int], Rule]


def _unit(
    number: int,
    names: tuple[str, ...],
    forms: tuple[int, int],
    *rules: tuple[str, str, Sequence[int]],
    by_code: bool = False,
) -> _Unit:
    """by_code: the numbers of a rule are codes, under which STATUS is 0."""
    known = {
        ((one, 0) if by_code else (0, one)): Rule(action, look) for action, look, numbers in rules for one in numbers
    }
    return _Unit(number, names, forms, known)


UNITS: tuple[_Unit, ...] = (
    _unit(
        144,
        ("SAW_MVB",),
        (0x021, 0x01),
        (IGNORE, _SUPPORT, (0x1, 0x8)),
        (RESET, _SUPPORT, (0x2, 0x10)),
        (IGNORE, _NOTHING, (0x4, 0x20)),
    ),
    _unit(
        145,
        ("RLW_CTRL",),
        (0x062, 0x03),
        (IGNORE, _SUPPORT, (0x80000000,)),
    ),
    _unit(
        145,
        ("RLW_REMAP",),
        (0x082, 0x04),
        (ASK, _SUPPORT, (0x1, 0x2)),
        (ASK, _FLOW, (0x4, 0x8, 0x10, 0x20)),
        (RESET, _SUPPORT, (0x40, 0x80)),
        (IGNORE, _NOTHING, (0x100, 0x200)),
        (IGNORE, _SUPPORT, (0x80000000,)),
    ),
    _unit(
        145,
        ("RLW_RSPCOL",),
        (0x0A2, 0x05),
        (IGNORE, _NOTHING, (0x1,)),
        (RESET, _SUPPORT, (0x2,)),
        (IGNORE, _SUPPORT, (0x80000000,)),
    ),
    _unit(
        145,
        ("RLW_RXPIPE",),
        (0x0C2, 0x06),
        (IGNORE, _SUPPORT, (0x8, 0x80000000)),
    ),
    _unit(
        145,
        ("RLW_SRC_TRACK",),
        (0x0E2, 0x07),
        (RESET, _SUPPORT, (0x1, 0x10, 0x20)),
        (IGNORE, _NOTHING, (0x2,)),
        (ASK, _NOTHING, (0x4, 0x8)),
        (IGNORE, _SUPPORT, (0x80000000,)),
    ),
    _unit(
        145,
        ("RLW_TAGSTATE",),
        (0x102, 0x08),
        (IGNORE, _NOTHING, (0x1, 0x10000)),
        (RESET, _SUPPORT, (0x2, 0x20000, 0x100000)),
        (IGNORE, _SUPPORT, (0x80000000,)),
    ),
    _unit(
        146,
        ("TLW_CTRL",),
        (0x123, 0x09),
        (IGNORE, _NOTHING, (0x1,)),
        (IGNORE, _SUPPORT, (0x2, 0x80000000)),
        (RESET, _SUPPORT, (0x4,)),
    ),
    _unit(
        146,
        ("TLW_RX", "TLW_RX_PIPE0"),
        (0x143, 0x0A),
        (IGNORE, _NOTHING, (0x1,)),
        (IGNORE, _SUPPORT, (0x2, 0x80000000)),
        (RESET, _SUPPORT, (0x4,)),
    ),
    _unit(
        146,
        ("TLW_RX", "TLW_RX_PIPE1"),
        (0x143, 0x0B),
        (IGNORE, _NOTHING, (0x1,)),
        (IGNORE, _SUPPORT, (0x2, 0x80000000)),
        (RESET, _SUPPORT, (0x4,)),
    ),
    _unit(
        146,
        ("TLW_TX", "TLW_TX_PIPE0"),
        (0x163, 0x0C),
        (IGNORE, _NOTHING, (0x1,)),
        (IGNORE, _SUPPORT, (0x2, 0x80000000)),
        (RESET, _SUPPORT, (0x4,)),
    ),
    _unit(
        146,
        ("TLW_TX", "TLW_TX_PIPE1"),
        (0x163, 0x0D),
        (IGNORE, _NOTHING, (0x1,)),
        (IGNORE, _SUPPORT, (0x2, 0x80000000)),
        (RESET, _SUPPORT, (0x4,)),
    ),
    _unit(
        147,
        ("TREX",),
        (0x184, 0x0E),
        (IGNORE, _SUPPORT, (0x1, 0x80000000)),
    ),
    _unit(
        148,
        ("NVLPW_CTRL", "NVLPW"),
        (0x005, 0x0F),
        (IGNORE, _SUPPORT, (0x80000000,)),
    ),
    _unit(
        149,
        ("NETIR", "NETIR_INT"),
        (0x006, 0x18),
        (RESET, _SOLO, (0x0,)),
    ),
    _unit(
        149,
        ("NETIR_BER_EVENT",),
        (0x226, 0x13),
        (IGNORE, _CABLES, (0x0, 0x1, 0x2, 0x3)),
    ),
    _unit(
        149,
        ("NETIR_LINK_EVT", "NETIR_LINK_DOWN"),
        (0x1C6, 0x11),
        (RESET, _SOLO, (0x00,)),
        (RESET, _DAILY, (0x01,)),
        (RESET, _SIGNAL, (0x02, 0x04, 0x0A)),
        (RESET, _USER, (0x0F, 0x11, 0x16)),
        (RESET, _USER_SIGNAL, (0x10, 0x12)),
        (RESET, _PEER, (0x15, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25)),
        (IGNORE, _USER, (0x26,)),
        (IGNORE, _HOST, (0x28,)),
        (RESET, _CABLES, (0x2A, 0x2B)),
        by_code=True,
    ),
    _unit(
        149,
        ("NETIR_MFDE_EVENT",),
        (0x246, 0x14),
        (RESET, _SUPPORT, (0x1, 0x4, 0x5, 0x7)),
        (IGNORE, _NOTHING, (0x3,)),
    ),
    _unit(
        150,
        ("MSE_WATCHDOG",),
        (0x000, 0x00),
        (RESET, _SUPPORT, (0x0,)),
    ),
)
_NUMBERS = re.compile(r"\((0x[0-9a-fA-F]{8}) (0x[0-9a-fA-F]{8})(?=[ )])")
_TEN, _SEVEN, _CODE, _CODE_AT = 0x3FF, 0x7F, 0x3F, 20
#: Of these STATUS is a number of its own; of the others several errors may be told at once.
_NUMBERED = frozenset({149, 150})


def rule_of(number: int, name: str, text: str) -> Optional[Rule]:
    """The rule of one message; None where the table has none, or the message does not agree with itself.

    Of several errors in one status the heaviest counts, and each of them must be known.
    """
    told = _NUMBERS.search(text)
    if told is None:
        return None
    info, status = (int(part, 16) for part in told.groups())
    code = info >> _CODE_AT & _CODE
    for unit in UNITS:
        if unit.number == number and name in unit.names and _fits(unit, info):
            return _looked_up(unit, code, status)
    return None


def _fits(unit: _Unit, info: int) -> bool:
    return info & _TEN == unit.forms[0] or info & _SEVEN == unit.forms[1]


def _looked_up(unit: _Unit, code: int, status: int) -> Optional[Rule]:
    whole = unit.rules.get((code, status))
    if whole is not None or unit.number in _NUMBERED or not status:
        return whole
    parts = [unit.rules.get((code, 1 << at)) for at in range(32) if status >> at & 1]
    known = [one for one in parts if one is not None]
    return max(known, key=lambda one: _HEAVIEST.index(one.action)) if len(known) == len(parts) else None
