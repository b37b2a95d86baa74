# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what nvbandwidth prints: JSON since 0.5 (``-j``), text before and without it. PRIVATE to the collection.

Nothing is filled in. The tool's own ``min`` counts cells that are none, and its ``Passed`` means that a case ran
(NVIDIA/nvbandwidth 66746a3b), so that the matrix alone is read.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._once import once

RAN, WAIVED, UNKNOWN_CASE, BROKE = "ran", "waived", "not found", "error"
_STATUS = {"passed": RAN, "waived": WAIVED, "not found": UNKNOWN_CASE, "error": BROKE, "running": BROKE}
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?\Z")
_VERSION = re.compile(r"^nvbandwidth Version: v?(\S{1,40})\s*$", re.M)
_RUNNING = re.compile(r"^Running (\w+)\.\s*$")
_SUM = re.compile(r"^SUM (\w+) (\S+)\s*$")
_DEVICE = re.compile(r"^Device (\d{1,4}: .*)")
#: Where a device of its list stands; earlier than 0.5 nowhere.
_PLACE = re.compile(r"\(([0-9a-fA-F]{4,8}:[0-9a-fA-F:.]{4,12})\)\s*$")
_UNIT = "(GB/s)"
_WHOLE = 256
_NO_UNIT = "does not say that its bandwidths are in GB/s"
Cell = Optional[float]


@dataclass
class Case:
    """status: what became of it; empty where nobody knows the word. rows: None where a cell is none."""

    status: str
    rows: list[list[Cell]] = field(default_factory=list)
    word: str = ""
    #: What is wrong with its matrix.
    problem: str = ""


@dataclass
class Seen:
    version: str = ""
    #: How many GPUs it lists; None where it lists none.
    devices: Optional[int] = None
    cases: dict[str, Case] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def tell(self, name: str, case: Case) -> None:
        """A case that broke is told twice, as running and as an error (0.8); one that ran is told once."""
        known = self.cases.get(name)
        if known is not None:
            case = known if known.status == BROKE else case
            case = case if case.status == BROKE else Case("", word="told twice", problem="it is told twice")
        self.cases[name] = case


def read(text: str) -> Seen:
    if '"nvbandwidth"' in text:
        return _json(text)
    if _VERSION.search(text):
        return _text(text)
    return Seen(problems=["it says nothing of any bandwidth" if text.strip() else "it printed nothing"])


# -- JSON --------------------------------------------------------------------------------------------------------------


def _json(text: str) -> Seen:
    """One document, with lines around it that are no part of one: it warns of its log's lock before."""
    start = text.find("{")
    try:
        decoder = json.JSONDecoder(object_pairs_hook=once)
        found, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError) as exc:
        return Seen(problems=[f"its JSON cannot be read: {short(exc, 100)}"])
    if any(mark in text[end:] for mark in "{}[]"):
        return Seen(problems=["it printed more than one document"])
    body = found.get("nvbandwidth") if isinstance(found, dict) else None
    if not isinstance(body, dict):
        return Seen(problems=["its document is of another shape"])
    seen = Seen(str(body.get("version") or "").lstrip("v"))
    listed = body.get("GPU Device list")
    _list(seen, [str(device) for device in listed] if isinstance(listed, list) else None)
    if body.get("error"):
        seen.problems.append(f"it says: {short(body['error'], 200)}")
    cases = body.get("testcases")
    for case in cases if isinstance(cases, list) else []:
        if not isinstance(case, dict) or not isinstance(case.get("name"), str):
            seen.problems.append("a case is of another shape")
            continue
        seen.tell(case["name"], _case(case))
    return seen


def _list(seen: Seen, devices: Optional[list[str]]) -> None:
    """Its list of devices, in which each stands once: by its number, and by its place where that is told."""
    if devices is None:
        return
    seen.devices = len(devices)
    numbers = [device.partition(":")[0].strip() for device in devices]
    places = [match.group(1).lower() for match in map(_PLACE.search, devices) if match]
    if any(len(set(some)) != len(some) for some in (numbers, places)):
        seen.problems.append("its list of devices names one of them twice")


def _case(told: Mapping[str, Any]) -> Case:
    word = str(told.get("status", ""))
    status = _STATUS.get(word.strip().lower(), "")
    rows = told.get("bandwidth_matrix")
    if status != RAN:
        return Case(status, word=word)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        return Case(status, word=word, problem="it has no matrix")
    if _UNIT not in str(told.get("bandwidth_description") or ""):
        return Case(status, word=word, problem=_NO_UNIT)
    return _matrix(status, word, [[str(cell) for cell in row] for row in rows])


def _matrix(status: str, word: str, rows: list[list[str]]) -> Case:
    if len({len(row) for row in rows}) != 1 or max(len(rows), len(rows[0])) > _WHOLE:
        return Case(status, word=word, problem="its matrix is cut")
    cells = [[_cell(cell) for cell in row] for row in rows]
    bad = [cell for row in rows for cell in row if cell != "N/A" and _cell(cell) is None]
    return Case(status, cells, word, f"its matrix holds {short(bad[0], 40)}" if bad else "")


def _cell(word: str) -> Cell:
    return float(word) if _NUMBER.match(word) else None


# -- text --------------------------------------------------------------------------------------------------------------


def _text(text: str) -> Seen:
    """A case begins with ``Running``, shows its matrix below a row of numbers, and is whole with its ``SUM``."""
    version = _VERSION.search(text)
    seen = Seen(version.group(1).lstrip("v") if version else "")
    lines = text.splitlines()
    _list(seen, [match.group(1) for match in map(_DEVICE.match, lines) if match] or None)
    name = ""
    rows: list[list[str]] = []
    for line in lines:
        begun, ended = _RUNNING.match(line), _SUM.match(line)
        if begun:
            if name:
                seen.tell(name, Case(BROKE, word="it has no end"))
            name, rows = begun.group(1), []
        elif ended:
            seen.tell(ended.group(1), _ended(name, ended.group(1), rows))
            name, rows = "", []
        elif name:
            rows.append(line.split())
    if name:
        seen.tell(name, Case(BROKE, word="it has no end"))
    return seen


def _ended(begun: str, ended: str, lines: list[list[str]]) -> Case:
    if begun != ended:
        return Case(BROKE, word="it has no begin")
    if any(word.strip(".:").lower() == "waived" for line in lines for word in line):
        return Case(WAIVED, word="Waived")
    at = next((at for at, line in enumerate(lines) if line and line == [str(n) for n in range(len(line))]), None)
    if at is None:
        return Case(RAN, word="SUM", problem="it has no matrix")
    if not any(_UNIT in line for line in lines[:at]):
        return Case(RAN, word="SUM", problem=_NO_UNIT)
    width, body = len(lines[at]), [line for line in lines[at + 1 :] if line]
    if any(len(line) != width + 1 or line[0] != str(number) for number, line in enumerate(body)) or not body:
        return Case(RAN, word="SUM", problem="its matrix is cut")
    return _matrix(RAN, "SUM", [line[1:] for line in body])
