# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A series of samples that takes no more room however long it lasts. PRIVATE to the collection.

When there are too many rows, each two neighbours become one that says from where to where the figures went in it. So
no peak is lost, only its minute.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Rows that are kept; a sample of eight GPUs takes some 500 bytes.
MOST = 480
#: What is kept of a figure: of how many samples, the lowest, their sum, the highest.
Figure = list[float]
Row = dict[str, Any]


def figure(value: float) -> Figure:
    return [1, value, value, value]


def merged(one: Sequence[float], other: Sequence[float]) -> Figure:
    return [one[0] + other[0], min(one[1], other[1]), round(one[2] + other[2], 3), max(one[3], other[3])]


def mean(figure: Sequence[float]) -> float:
    return figure[2] / figure[0]


def add(totals: dict[str, Figure], readings: Mapping[str, float]) -> None:
    """Count one sample of a GPU into what is known of all of them."""
    for name, value in readings.items():
        totals[name] = merged(totals[name], figure(value)) if name in totals else figure(value)


def peak(totals: dict[str, Figure], readings: Mapping[str, float]) -> None:
    """Of a sample without load only that it is higher than what was seen under load counts."""
    for name in totals.keys() & readings.keys():
        totals[name] = [*totals[name][:3], max(totals[name][3], readings[name])]


def row(at: str, gpus: Iterable[tuple[Mapping[str, float], Mapping[str, int]]]) -> Row:
    """One sample. gpus: readings and counters of each."""
    told = [
        {"figures": {name: figure(value) for name, value in shown.items()}, "counted": dict(c)} for shown, c in gpus
    ]
    return {"at": at, "samples": 1, "gpus": told}


def extended(rows: list[Row], new: Row) -> list[Row]:
    """The series with one more sample, thinned where it is too long.

    A series that was thinned is long and short rows mixed: the last of them grows until it is as long as the others.
    """
    size = max((known["samples"] for known in rows), default=1)
    if rows and rows[-1]["samples"] < size:
        return [*rows[:-1], _joined(rows[-1], new)]
    rows = [*rows, new]
    if len(rows) <= MOST:
        return rows
    pairs = [rows[at : at + 2] for at in range(0, len(rows), 2)]
    return [_joined(*pair) if len(pair) == 2 else pair[0] for pair in pairs]


def _joined(one: Row, other: Row) -> Row:
    gpus = [_gpu(first, second) for first, second in zip(one["gpus"], other["gpus"])]
    return {"at": one["at"], "samples": one["samples"] + other["samples"], "gpus": gpus}


def _gpu(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    figures = dict(one["figures"])
    for name, later in other["figures"].items():
        figures[name] = merged(figures[name], later) if name in figures else later
    # A counter only grows: the later one tells of both.
    return {"figures": figures, "counted": {**one["counted"], **other["counted"]}}
