# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several looks in a row say together. PRIVATE to the collection.

Some values cannot be read for a moment, and some slowdowns are over at once, so a gate looks again. What another look
takes back it takes back alone: a part that failed for good ends the looking, and a slowdown that went away is told.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.judge import Look
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.values import Reading
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Check,
    Sheet,
)

Looked = tuple[Sheet, Look]
_Cell = tuple[str, str]


def settled(looked: Looked) -> bool:
    """Would another look say nothing else? Nothing may pass away, or something has failed that does not."""
    sheet, look = looked
    lasting = (row for row in sheet.rows() if (row.id, row.entity) not in look.passing)
    return not look.passing or any(row.verdict == FAIL for row in lasting)


def together(looks: Sequence[Looked]) -> Looked:
    """The last look, with what earlier ones saw fail."""
    sheet, look = looks[-1]
    for earlier, before in looks[:-1]:
        for cell, reading in _failed(before):
            if _is_over(sheet, cell):
                _went_away(sheet, earlier.checks[cell], reading)
            else:
                _still_there(sheet, earlier, cell)
    return sheet, look


def _failed(look: Look) -> Iterator[tuple[_Cell, Reading]]:
    return ((cell, reading) for cell, reading in look.passing.items() if reading.verdict == FAIL)


def _is_over(sheet: Sheet, cell: _Cell) -> bool:
    """A cell that the profile does not demand is there only where it fails."""
    now = sheet.checks.get(cell)
    return now.verdict == PASS if now else not sheet.wants(*cell)


def _went_away(sheet: Sheet, seen: Check, reading: Reading) -> None:
    text = f"{seen.entity}: for a moment: {reading.text}"
    sheet.find(f"gpu.{seen.id}.passed", seen.entity, text, "retest" if reading.trace else "none")
    if reading.trace:
        sheet.record(Check(seen.id, seen.entity, INCONCLUSIVE, seen.measured, seen.wanted, seen.unit, seen.source))


def _still_there(sheet: Sheet, earlier: Sheet, cell: _Cell) -> None:
    """Nobody has seen that it is over."""
    sheet.record(earlier.checks[cell])
    for finding in earlier.findings:
        if (finding.id, finding.entity) == (f"gpu.{cell[0]}", cell[1]):
            sheet.findings = [one for one in sheet.findings if (one.id, one.entity) != (finding.id, finding.entity)]
            sheet.findings.append(finding)
