# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures that may be compared, out of the verdicts in the ledger. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import ALL_GATES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.measured import number
from ansible_collections.gpufleet.baremetal.plugins.module_utils._moment import Moment
from ansible_collections.gpufleet.baremetal.plugins.module_utils._outliers.rule import HIGH, LOW
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE, PASS

#: What a figure is, stands in the first word of its unit: of these less is worse, or more. Any other is no speed, and
#: has a limit of its own.
_SPEEDS = frozenset({"GB/s", "Gb/s", "MB/s", "MiB/s", "Gflop/s", "Tflop/s", "IOPS", "bogo", "samples/s", "tokens/s"})
_TIMES = frozenset({"s", "ms", "us", "seconds"})
#: The verdicts that tell which driver runs, and which GPUs are where.
_TELLERS = frozenset({"gpu_state_gate", "image_verify"})
#: By whose cells the parts of a node are known: those of a GPU's place, and those of a drive's.
_UUID, _DRIVE, _DRIVER = "uuid", "drive", "driver"
#: Of which parts of a node the figures of a gate are, by the cells that tell these; of no other gate a part is swapped.
_PARTS: Mapping[str, str] = {
    "gpu_bandwidth_gate": _UUID,
    "gpu_burn_gate": _UUID,
    "collective_gate": _UUID,
    "training_gate": _UUID,
    "storage_gate": _DRIVE,
}

#: A soak's seconds are those that somebody asked for, and those between two looks: nobody is slower by them.
_OF_NO_SPEED = frozenset({"soak_gate"})
#: Whose verdicts are read.
GATES = tuple(sorted({*ALL_GATES, *_TELLERS} - _OF_NO_SPEED))


class Cell(NamedTuple):
    """What is measured, by which gate, at which place of a node."""

    gate: str
    check: str
    entity: str

    @property
    def id(self) -> str:
        """As the verdict on it names it."""
        return f"{self.gate.rpartition('_gate')[0] or self.gate}.{self.check}"


class Figure(NamedTuple):
    """One look at a cell. value: None where it was no number. part: which GPUs or drives were there, empty where nobody
    has told."""

    cell: Cell
    value: Optional[float]
    unit: str
    event: int
    moment: Moment
    sku: str
    profile: str
    tool: str
    driver: str
    part: str

    @property
    def bad(self) -> str:
        return direction(self.unit)

    @property
    def kind(self) -> tuple[str, ...]:
        """What must be the same for two of them to be compared."""
        return (self.sku, self.driver, self.tool, *self.cell, self.unit)


@dataclass
class Measured:
    """One node: its figures by cell, oldest first, and what it is now. since: the newest event after which whatever was
    measured before is of another system or of another machine."""

    figures: dict[Cell, list[Figure]] = field(default_factory=dict)
    driver: str = ""
    gpus: dict[str, str] = field(default_factory=dict)
    since: int = 0

    def part_now(self, figure: Figure) -> str:
        """What is in the place now of which a figure is; that of a drive its own verdict tells."""
        return _gpus(self.gpus, figure.cell.entity) if _PARTS.get(figure.cell.gate) == _UUID else figure.part


def direction(unit: str) -> str:
    """In which direction a figure of this unit is bad; empty where it is none to compare."""
    word = unit.replace(",", " ").split()[:1]
    return LOW if _SPEEDS.intersection(word) else HIGH if _TIMES.intersection(word) else ""


def measured(verdicts: Iterable[Mapping[str, Any]], since: int = 0) -> Measured:
    """:param verdicts: of one node, of the gates in GATES, oldest first."""
    node = Measured(since=since)
    for event in verdicts:
        data = event["data"]
        rows = [row for row in data.get("checks") or [] if isinstance(row, Mapping)]
        if event["name"] in _TELLERS:
            _told(node, rows)
        for figure in _figures(node, event, data, rows):
            node.figures.setdefault(figure.cell, []).append(figure)
    return node


def _told(node: Measured, rows: Iterable[Mapping[str, Any]]) -> None:
    gpus = {}
    for row in rows:
        if row.get("id") == _DRIVER and isinstance(row.get("measured"), str):
            node.driver = row["measured"]
        if row.get("id") == _UUID and row.get("verdict") == PASS:
            gpus[str(row.get("entity"))] = str(row.get("measured"))
    node.gpus = gpus or node.gpus


def _figures(
    node: Measured, event: Mapping[str, Any], data: Mapping[str, Any], rows: list[Mapping[str, Any]]
) -> Iterator[Figure]:
    profile, tool = _part_of(data, "profile"), _part_of(data, "tool")
    by = " ".join(filter(None, (str(tool.get(key) or "") for key in ("name", "version"))))
    drives = {str(row.get("entity")): str(row.get("measured")) for row in rows if row.get("id") == _DRIVE}
    for row in rows:
        unit = str(row.get("unit") or "")
        if event["name"] in _TELLERS or not direction(unit):
            continue
        cell = _cell(str(event["name"]), str(row.get("id")), str(row.get("entity")))
        moment = Moment.of(data) if Moment.of(data).at else Moment(int(event["id"]), float(event["at"]))
        words = (str(profile.get("sku") or ""), str(profile.get("digest") or ""), by, node.driver)
        sku, digest, tool_told, driver, part, unit = map(intern, (*words, _part(node, cell, drives), unit))
        value = number(row.get("measured"))
        yield Figure(cell, value, unit, int(event["id"]), moment, sku, digest, tool_told, driver, part)


@lru_cache(maxsize=65536)
def _cell(gate: str, check: str, entity: str) -> Cell:
    """One for all nodes: a big fleet has millions of figures."""
    return Cell(gate, check, entity)


def _part_of(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    told = data.get(key)
    return told if isinstance(told, Mapping) else {}


def _part(node: Measured, cell: Cell, drives: Mapping[str, str]) -> str:
    known_by = _PARTS.get(cell.gate)
    if known_by == _UUID:
        return _gpus(node.gpus, cell.entity)
    if known_by == _DRIVE:
        return ", ".join(sorted(one for place, one in drives.items() if _within(place, cell.entity)))
    return NODE


def _gpus(gpus: Mapping[str, str], entity: str) -> str:
    """The GPU in one place; of what is measured of all, all of them."""
    return ", ".join(sorted(gpus.values())) if entity == NODE else gpus.get(entity, "")


def _within(place: str, entity: str) -> bool:
    """A drive is measured by itself, or with all of its kind."""
    return place == entity or place.rpartition(" ")[0] == entity
