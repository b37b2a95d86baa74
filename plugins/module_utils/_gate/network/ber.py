# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of how many bits one arrives wrong at a port, as mlxlink tells it. PRIVATE to the collection.

The kernel counts symbols and packets that were lost; what FEC has mended, and how often it could not, the port alone
knows. A rate of errors is one of the bits since its counters were cleared: of too few it says nothing.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.section import Links
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import FAIL, PASS, Check, Sheet

TOOL = "mlxlink"
EFFECTIVE, SYMBOL = "effective_ber", "symbol_ber"
#: Each by what mlxlink calls it (mlxlink of MFT 4.26 and mstlink). A name that begins alike, such as that of a figure
#: for each lane, is another one.
KEYS: Mapping[str, str] = {EFFECTIVE: "Effective Physical BER", SYMBOL: "Symbol BER"}
_SECTION, _CLEARED = "Physical Counters and BER Info", "Time Since Last Clear [Min]"
#: ``15E-255`` stands for no error at all.
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)[eE]-(\d{1,3})\Z")
_MINUTES = re.compile(r"\d{1,9}(?:\.\d{1,6})?\Z")
#: No error in so many times the bits of which one may be wrong shows, at 95 per cent, that it is met (rule of three).
_ENOUGH = 3.0
_REMEDY = "reseat"


@dataclass(frozen=True)
class Seen:
    """rates: by cell, None where it is not told or no number. minutes: since the counters were cleared."""

    rates: Mapping[str, Optional[float]] = field(default_factory=dict)
    minutes: Optional[float] = None
    version: str = ""
    problem: str = ""


def limits_of(links: Links) -> dict[str, float]:
    """By cell the most of these links."""
    told = {EFFECTIVE: links.effective_ber, SYMBOL: links.symbol_ber}
    return {cell: limit for cell, limit in told.items() if limit is not None}


def command(program: str, port: str) -> list[str]:
    """A port beside the first is named: most devices have one, and need no such option."""
    device, _slash, which = port.partition("/")
    return [program, "-d", device, *(["-p", which] if which != "1" else []), "-c", "--json"]


def read(text: str) -> Seen:
    start = text.find("{")
    try:
        document = json.loads(text[max(0, start) :], object_pairs_hook=once)
        return _read(document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Seen(problem="its document is cut, or cannot be read")


def _read(document: Mapping[str, Any]) -> Seen:
    status = document.get("status")
    if isinstance(status, Mapping) and status.get("code") not in (0, "0"):
        return Seen(problem=short(str(status.get("message") or "it failed"), 200))
    told = document["result"]["output"][_SECTION]
    word = str(told.get(_CLEARED))
    minutes = float(word) if _MINUTES.match(word) else None
    return Seen({cell: _number(told.get(key)) for cell, key in KEYS.items()}, minutes)


def _number(value: Any) -> Optional[float]:
    if value in ("0", 0) and not isinstance(value, bool):
        return 0.0
    match = _RATE.match(value) if isinstance(value, str) else None
    return float(f"{match.group(1)}e-{match.group(2)}") if match else None


# -- what it proves ----------------------------------------------------------------------------------------------------


def unit(cell: str) -> str:
    return f"of {KEYS[cell].rpartition(' ')[0].lower()} bits"


def look(sheet: Sheet, asked: Sequence[Links], program: str, timeout: float) -> Iterator[Run]:
    """Each port of links that have a limit."""
    for links in asked:
        for port in links.ports if limits_of(links) else ():
            done = run(command(program, port), timeout=timeout)
            record_end(sheet, done)
            judge(sheet, links, port, read(done.text))
            yield done


def judge(sheet: Sheet, links: Links, port: str, seen: Seen) -> None:
    for cell, limit in limits_of(links).items():
        rate = seen.rates.get(cell)
        if seen.problem or rate is None:
            why = seen.problem or f"it does not tell the {KEYS[cell]}"
            sheet.unsettled(cell, port, f"{port}: {TOOL}: {why}")
        elif rate > limit:
            sheet.find(cell, port, f"{port}: {KEYS[cell]} {rate:.3g}, and the profile allows {limit:g}", _REMEDY)
            sheet.record(Check(cell, port, FAIL, rate, limit, unit(cell), links.source))
        elif not _long_enough(links, seen.minutes, limit):
            told = "at an unknown time" if seen.minutes is None else f"{seen.minutes:g} minutes ago"
            text = f"{port}: {TOOL}: its counters were cleared {told}, which is too few bits to tell {limit:g} of them"
            sheet.unsettled(cell, port, text)
        else:
            sheet.record(Check(cell, port, PASS, rate, limit, unit(cell), links.source))


def _long_enough(links: Links, minutes: Optional[float], limit: float) -> bool:
    return minutes is not None and math.isfinite(minutes) and minutes * 60 * links.rate * 1e9 * limit >= _ENOUGH
