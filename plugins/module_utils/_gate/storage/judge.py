# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges drives by what the kernel and they themselves tell, and says which cells must be filled. PRIVATE.

PRIVATE to the collection. Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import ENDED
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.required import Required, demand
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.drives import Drive
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.errors import UNKNOWN_WARNING, WARNINGS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.health import (
    ERRORS,
    SPARE,
    THRESHOLD,
    WARNING,
    WORN,
    Health,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import Drives, Section
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    INCONCLUSIVE,
    NODE,
    PASS,
    Check,
    Sheet,
)

COUNT, DRIVE = "drive_count", "drive"
#: Makers round the sizes of drives by less, and the next smaller kind is a third away.
_ALIKE = 0.02
_LIVE = "live"
#: States from which no drive comes back by itself (Linux v6.12 drivers/nvme/host/core.c).
_GONE = ("dead", "deleting", "deleting (no IO)")
_OWN = "own rule: two drives are not one"
_SPARE = "NVM Express Base Specification 2.0, log page 02h"


def required(section: Section) -> Iterator[Required]:
    yield Required(ENDED, NODE, "exit [0]", "", "own rule: an unknown end is none")
    for group in section.drives:
        yield Required(COUNT, group.name, group.count, "", group.source)
        for entity in group.entities:
            yield Required(DRIVE, entity, "a name and a serial of its own", "", _OWN)
            yield Required(WARNING, entity, 0, "", _SPARE)
            yield Required(SPARE, entity, "the drive's own threshold, and more than nothing", "%", _SPARE)
            yield Required(WORN, entity, group.worn, "%", group.source)
            yield Required(ERRORS, entity, group.media_errors, "", group.source)
    for speed in section.speeds:
        for entity in section.entities(speed):
            yield Required(speed.cell, entity, speed.minimum, speed.unit, speed.source)


def begin(section: Section) -> Sheet:
    sheet = Sheet()
    demand(sheet, required(section))
    return sheet


# -- which drives there are --------------------------------------------------------------------------------------------


def grouped(section: Section, drives: Iterable[Drive]) -> dict[str, list[Drive]]:
    """By kind the drives of it, and under an empty name those of none."""
    found: dict[str, list[Drive]] = {group.name: [] for group in section.drives}
    for drive in drives:
        kind = next((group.name for group in section.drives if _is_of(drive, group)), "")
        found.setdefault(kind, []).append(drive)
    return found


def _is_of(drive: Drive, group: Drives) -> bool:
    return abs(drive.size / 1e9 / group.size - 1) <= _ALIKE and group.model in ("", drive.model)


def present(sheet: Sheet, section: Section, groups: Mapping[str, Sequence[Drive]]) -> None:
    """Are they as many as the profile wants, of its kinds, alive, and each of them another one?"""
    for drive in groups.get("", ()):
        what = f"{drive.model or 'of no model'}, {drive.size / 1e9:.0f} GB"
        text = f"{_named(drive)}, {what}: the profile knows none like it"
        sheet.unsettled("drive_unknown", drive.name, text, "remediate_config")
    serials = Counter(drive.serial for drives in groups.values() for drive in drives)
    for group in section.drives:
        _count(sheet, group, groups[group.name])
        for entity, drive in zip(group.entities, groups[group.name]):
            _drive(sheet, entity, drive, serials)


def _count(sheet: Sheet, group: Drives, drives: Sequence[Drive]) -> None:
    found = len(drives)
    verdict = PASS if found == group.count else FAIL if found < group.count else INCONCLUSIVE
    text = f"{found} of {group.count} drives {group.name} of {group.size:g} GB"
    if verdict != PASS:
        sheet.find(COUNT, group.name, text, "power_cycle" if verdict == FAIL else "remediate_config")
    sheet.record(Check(COUNT, group.name, verdict, found, group.count, "", group.source))


def _drive(sheet: Sheet, entity: str, drive: Drive, serials: Mapping[str, int]) -> None:
    if drive.state in _GONE:
        sheet.find(DRIVE, entity, f"{_named(drive)} is {drive.state}", "power_cycle")
        sheet.record(Check(DRIVE, entity, FAIL, drive.state, _LIVE, "", _OWN))
    elif drive.state != _LIVE or not drive.transport:
        how = "" if drive.transport else ", and how it is connected the kernel does not tell"
        state = drive.state or "in a state that the kernel does not tell"
        sheet.unsettled(DRIVE, entity, f"{_named(drive)} is {state}{how}")
    elif not drive.serial or serials[drive.serial] != 1:
        sheet.unsettled(DRIVE, entity, f"{drive.name} has no serial of its own: {drive.serial or 'none'}")
    else:
        sheet.record(Check(DRIVE, entity, PASS, identity(drive), "a name and a serial of its own", "", _OWN))


def identity(drive: Drive) -> str:
    return f"{drive.name} {drive.serial}"


def _named(drive: Drive) -> str:
    return f"{drive.name} (serial {short(drive.serial, 40) or 'unknown'})"


# -- how they are ------------------------------------------------------------------------------------------------------


def health(sheet: Sheet, group: Drives, entity: str, drive: Drive, told: Health) -> None:
    """What one drive says of itself. A second look can make a cell worse, never better."""
    for problem in told.problems:
        sheet.unsettled("smart_log", entity, f"{_named(drive)}: {problem}")
    values = told.values
    if WARNING in values:
        _warning(sheet, entity, drive, values[WARNING])
    if SPARE in values and THRESHOLD in values:
        _spare(sheet, entity, drive, values[SPARE], values[THRESHOLD])
    for counter, limit, words in (
        (WORN, group.worn, " % of its endurance are used"),
        (ERRORS, group.media_errors, " media errors"),
    ):
        if counter in values:
            said = f"{_named(drive)}: {values[counter]}{words}, and the profile allows {limit}"
            _limited(sheet, Check(counter, entity, PASS, values[counter], limit, source=group.source), said)


def _warning(sheet: Sheet, entity: str, drive: Drive, value: int) -> None:
    for bit in range(8):
        if value & (1 << bit):
            row = WARNINGS.get(bit, UNKNOWN_WARNING)
            sheet.find(f"nvme:{bit}", entity, f"{_named(drive)}: {row.text}", row.remedy)
    sheet.record(Check(WARNING, entity, FAIL if value else PASS, value, 0, "", _SPARE))


def _spare(sheet: Sheet, entity: str, drive: Drive, value: int, threshold: int) -> None:
    if not value and not threshold:
        sheet.unsettled(SPARE, entity, f"{_named(drive)} tells neither a spare nor a threshold", "field_diag")
        return
    verdict = FAIL if value < max(threshold, 1) else PASS
    if verdict == FAIL:
        text = f"{_named(drive)}: {value} % of its spare are left, below its threshold of {threshold} %"
        sheet.find(SPARE, entity, text, "rma")
    sheet.record(Check(SPARE, entity, verdict, value, threshold, "%", _SPARE))


def _limited(sheet: Sheet, check: Check, text: str) -> None:
    if check.measured > check.wanted:
        sheet.find(check.id, check.entity, text, "rma")
        check = replace(check, verdict=FAIL)
    sheet.record(replace(check, unit="%" if check.id == WORN else ""))


def grown(sheet: Sheet, entity: str, drive: Drive, before: Health, after: Health) -> None:
    """A drive that loses data while it is measured fails, however many losses it may have had."""
    values = before.values.get(ERRORS), after.values.get(ERRORS)
    if values[0] is not None and values[1] is not None and values[1] != values[0]:
        text = f"{_named(drive)}: media errors went from {values[0]} to {values[1]} while it was measured"
        sheet.find(f"{ERRORS}.grown", entity, text, "rma")
        sheet.record(Check(ERRORS, entity, FAIL, values[1], values[0], "", _SPARE))
