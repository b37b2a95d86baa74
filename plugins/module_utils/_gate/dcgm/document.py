# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what ``dcgmi diag -j`` printed, in every shape from 2.x to 4.x. PRIVATE to the collection.

Nothing is judged here. What cannot be read is never repaired: it is a line in ``problems``, and a document with a
problem never passes. One run was asked for, so one diagnosis is looked for, at the root of one document. What stands
there besides, in another document or in ``iterations``, is read as well, for a fault is a fault wherever it stands; but
it is a problem.

Standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import canonical
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE

ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
#: How many errors one response of DCGM can carry, all tests together; the rest is dropped without a word.
ERROR_LIMIT = 32
#: Places in noise where a document might begin; more is no output of dcgmi.
_ATTEMPTS = 500
#: Above this a document nests deeper than any of DCGM's.
_DEPTH = 60
#: What no noise holds: the begin of an object, or a key.
_OF_JSON = re.compile(r'\{\s*"|"\s*:')
_PCI_DEVICE = re.compile(r"(?:0x)?([0-9a-f]{4})\Z")


@dataclass(frozen=True)
class Fault:
    """One error object."""

    text: str
    error_id: Optional[int] = None
    severity: Optional[int] = None


@dataclass(frozen=True)
class Cell:
    """One result: a test on an entity. entity is ``GPU 3``, ``CPU 0`` or ``node``. notes: what it tells beside it."""

    test: str
    entity: str
    word: str
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class Diagnosis:
    """Everything on one output."""

    cells: list[Cell] = field(default_factory=list)
    summaries: list[Cell] = field(default_factory=list)
    gpus: dict[int, dict[str, str]] = field(default_factory=dict)
    version: str = ""
    shape: int = 0
    documents: int = 0
    overall: list[str] = field(default_factory=list)
    runtime_errors: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    diagnoses: int = 0
    #: Device ids of GPUs that the document lists without numbering them (3.2.6 to 3.3).
    listed: Optional[list[str]] = None
    #: Tests that have been read, to see one that stands there twice.
    tests: set[str] = field(default_factory=set)

    def tested(self) -> set[int]:
        """The GPUs that have results."""
        return {int(cell.entity[4:]) for cell in self.cells if cell.entity.startswith("GPU ")}

    def gpu_ids(self) -> set[int]:
        return self.tested() | set(self.gpus)

    def devices(self) -> dict[int, str]:
        """The device ids that the document tells, by GPU; a list without numbers is in the order of the GPUs."""
        told = {number: gpu["device_id"] for number, gpu in self.gpus.items() if gpu["device_id"]}
        listed = self.listed or []
        in_order = sorted(self.gpu_ids()) or list(range(len(listed)))
        if len(in_order) < len(listed):  # some GPUs have no result: of which number they are, nobody says
            in_order = list(range(len(listed)))
        return {**dict(zip(in_order, listed)), **told}

    def truncated(self) -> bool:
        in_cells = sum(len(cell.faults) for cell in self.cells)
        return max(in_cells, sum(len(cell.faults) for cell in self.summaries)) >= ERROR_LIMIT


class _Twice(ValueError):
    """A key stands twice in one object: which of the two was meant is anybody's guess."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Twice("a key stands twice")
    return made


def _documents(text: str, problems: list[str]) -> Iterator[dict[str, Any]]:
    """Every JSON object on the output that holds a diagnosis; what is between them is noise."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    place, attempts, roots, read_to = text.find("{"), 0, 0, 0
    noise = []
    while place != -1 and attempts < _ATTEMPTS:
        attempts += 1
        try:
            value, place_after = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        if isinstance(value, dict) and _holds_root(value):
            roots += _count_roots(value)
            noise.append(text[read_to:place])
            read_to = place_after
            yield value
        place = text.find("{", place_after)
    promised = sum(text.count(f'"{root}"') for root in ROOTS)
    if promised != roots or (roots and any(_is_torn(part) for part in (*noise, text[read_to:]))):
        problems.append("the output holds a diagnosis that is cut off or is no valid JSON")
    elif place != -1:
        problems.append("the output is mostly noise")
    elif not roots:
        problems.append("the output holds no diagnosis")


def _is_torn(noise: str) -> bool:
    """Is this what is left of a document that was cut? Words around one hold no keys, and close what they open."""
    return bool(_OF_JSON.search(noise)) or any(noise.count(one) != noise.count(other) for one, other in ("{}", "[]"))


def _holds_root(value: Mapping[str, Any]) -> bool:
    marks = (*ROOTS, "iterations", "runtime_error")
    inner = [item for item in value.values() if isinstance(item, dict)]
    return any(mark in item for item in (value, *inner) for mark in marks)


def _count_roots(value: Any, depth: int = 0) -> int:
    if depth > _DEPTH:
        return 0
    if isinstance(value, dict):
        return sum((key in ROOTS) + _count_roots(item, depth + 1) for key, item in value.items())
    if isinstance(value, list):
        return sum(_count_roots(item, depth + 1) for item in value)
    return 0


def read(text: str) -> Diagnosis:
    """Read all documents on the standard output of one run."""
    seen = Diagnosis()
    for document in _documents(text, seen.problems):
        seen.documents += 1
        _walk(document, seen, 0)
    if seen.documents > 1 or seen.diagnoses > 1:
        seen.problems.append("the output holds several diagnoses, and one was asked for")
    return seen


def _walk(value: Any, seen: Diagnosis, depth: int) -> None:
    """Find the diagnoses: at the root of a document; anywhere deeper is not where dcgmi puts the one asked for."""
    if depth > _DEPTH or not isinstance(value, (dict, list)):
        return
    if isinstance(value, list):
        for item in value:
            _walk(item, seen, depth + 1)
        return
    _surroundings(value, seen)
    for key, item in value.items():
        if key in ROOTS:
            if depth:
                seen.problems.append("the diagnosis is wrapped in another document, or in iterations")
            seen.diagnoses += 1
            seen.shape = 4 if key == ROOTS[0] else max(seen.shape, 3)
            _diagnosis(item, seen)
        else:
            _walk(item, seen, depth + 1)


def _surroundings(value: Mapping[str, Any], seen: Diagnosis) -> None:
    """What stands beside a diagnosis: the overall result, the version, the list of GPUs."""
    if "Overall Result" in value:
        seen.overall.append(str(value["Overall Result"]))
    if "runtime_error" in value:
        seen.runtime_errors.append(str(value["runtime_error"]))
    for key in ("warning", "error"):
        if isinstance(value.get(key), str) and "iterations" in value:
            seen.problems.append(str(value[key]))
    if "iterations" in value:
        seen.problems.append("the output holds iterations, and one run was asked for")
    metadata = value.get("metadata")
    version = metadata.get("version") if isinstance(metadata, dict) else value.get("version")
    if isinstance(version, str):
        seen.version = version
    ids = value.get("GPU Device IDs")
    if isinstance(ids, list):
        seen.listed = [_device(item) for item in ids]
    groups = value.get("entity_groups")
    for group in groups if isinstance(groups, list) else []:
        _entities(group, seen)


def _entities(group: Any, seen: Diagnosis) -> None:
    if not isinstance(group, dict) or str(group.get("entity_group", "")).upper() != "GPU":
        return
    entities = group.get("entities")
    for item in entities if isinstance(entities, list) else []:
        number = _number(item.get("entity_id")) if isinstance(item, dict) else None
        if number is None:
            seen.problems.append("a GPU is listed without its number")
            continue
        if number in seen.gpus:
            seen.problems.append(f"GPU {number} is listed twice")
        seen.gpus[number] = {"device_id": _device(item.get("device_id")), "serial": str(item.get("serial_num", ""))}


def _device(value: Any) -> str:
    """A PCI device id as four small hexadecimal digits; empty where it is none."""
    match = _PCI_DEVICE.match(value.strip().lower()) if isinstance(value, str) else None
    return match.group(1) if match else ""


def _diagnosis(root: Any, seen: Diagnosis) -> None:
    if not isinstance(root, dict):
        seen.problems.append("the diagnosis is no object")
        return
    if isinstance(root.get("version"), str):
        seen.version = seen.version or root["version"]
    if root.get("runtime_error"):
        seen.runtime_errors.append(str(root["runtime_error"]))
    categories = root.get("test_categories")
    if not isinstance(categories, list):
        if not root.get("runtime_error"):
            seen.problems.append("the diagnosis has no tests")
        return
    # 3.x leaves holes: null where a test was not run.
    for category in filter(_is_there, categories):
        tests = category.get("tests") if isinstance(category, dict) else None
        if not isinstance(tests, list):
            seen.problems.append("a category has no tests")
            continue
        for test in filter(_is_there, tests):
            if isinstance(test, dict):
                _test(test, seen)
            else:
                seen.problems.append("a test is no object")


def _is_there(item: Any) -> bool:
    return item is not None


def _test(test: Mapping[str, Any], seen: Diagnosis) -> None:
    name = canonical(str(test.get("name", "")))
    if not name or name in seen.tests:
        seen.problems.append(f"the test {name} stands there twice" if name else "a test has no name")
    if not name:
        return
    seen.tests.add(name)
    results = test.get("results")
    if results is not None and not isinstance(results, list):
        seen.problems.append(f"the results of {name} are no list")
        return
    told: set[str] = {cell.entity for cell in seen.cells if cell.test == name and cell.entity != NODE}
    for result in filter(_is_there, results or []):
        if not isinstance(result, dict):
            seen.problems.append(f"a result of {name} is no object")
            continue
        cells = _cells(name, result, seen)
        for entity in sorted(told & {cell.entity for cell in cells}):
            seen.problems.append(f"{entity} stands twice in the test {name}")
        told |= {cell.entity for cell in cells} - {NODE}
        seen.cells.extend(cells)
    summary = test.get("test_summary")
    if isinstance(summary, dict):
        seen.summaries.append(Cell(name, NODE, _word(summary), _faults(summary)))


def _cells(name: str, result: Mapping[str, Any], seen: Diagnosis) -> list[Cell]:
    word, faults, notes = _word(result), _faults(result), _notes(result)
    if "entity_id" in result:
        number, group = _number(result.get("entity_id")), str(result.get("entity_group", "")).upper()
        if number is None or not group:
            seen.problems.append(f"a result of {name} does not say which entity it is about")
            return [Cell(name, NODE, "", faults)]
        # 4.x puts what belongs to no entity in the group "None".
        return [Cell(name, NODE if group == "NONE" else f"{group} {number}", word, faults, notes)]
    raw = result.get("gpu_id", result.get("gpu_ids"))
    if raw is None:
        return [Cell(name, NODE, word, faults)]
    numbers = [_number(part) for part in str(raw).split(",")]
    if None in numbers:
        seen.problems.append(f"a result of {name} does not say which GPU it is about")
        return [Cell(name, NODE, "", faults)]
    return [Cell(name, f"GPU {number}", word, faults, notes) for number in numbers]


def _word(result: Mapping[str, Any]) -> str:
    status = result.get("status")
    return " ".join(status.split()).lower() if isinstance(status, str) else ""


def _notes(result: Mapping[str, Any]) -> tuple[str, ...]:
    """One string (to 3.2), or a list."""
    raw = result.get("info")
    return tuple(str(note) for note in (raw if isinstance(raw, list) else [raw]) if note is not None)


def _faults(result: Mapping[str, Any]) -> tuple[Fault, ...]:
    """The errors of one result: one string (to 3.2), a list of objects (3.3 and on), with two spellings inside."""
    raw = result.get("warnings")
    if raw is None or raw == "":
        return ()
    if isinstance(raw, str):
        return (Fault(raw, _number(result.get("error_id"))),)
    found = []
    for item in raw if isinstance(raw, list) else [raw]:
        if isinstance(item, dict):
            text = str(item.get("warning", item.get("warnings", "")))
            found.append(Fault(text, _number(item.get("error_id")), _number(item.get("error_severity"))))
        elif item is not None:
            found.append(Fault(str(item)))
    return tuple(found)


def _number(value: Any) -> Optional[int]:
    """A small whole number, as a number or in a string; DCGM's blanks for "no value" are huge, and are none."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    try:
        number = int(str(value).strip())
    except ValueError:
        return None
    return number if 0 <= number < 1_000_000 else None
