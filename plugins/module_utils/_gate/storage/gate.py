# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage gate: asks the drives of this node how they are, and measures them with fio. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import evidence
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.alone import BUSY, TEXT, alone
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.begun import Begun, begin
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage import judge as judging
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage import speeds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.drives import Drive, local
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.health import Health, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.places import opened
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.section import (
    Drives,
    Section,
    section_of,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run, run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Result
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import (
    FAIL,
    NODE,
    Sheet,
    Tool,
    answer,
    canonical,
    digest,
)

GATE = "storage_gate"
_SYSFS = "/sys"
#: A drive that does not answer holds nobody for longer.
_ANSWER_SECONDS = 60.0
_DRY = "not run in check mode: it would load the drives"


@dataclass
class _Look:
    """One run of the gate, as far as it has come."""

    params: Mapping[str, Any]
    ctx: Context
    section: Section
    end: float
    sheet: Sheet
    groups: Mapping[str, Sequence[Drive]]
    runs: list[Run] = field(default_factory=list)
    version: str = ""

    @property
    def sysfs(self) -> str:
        return str(self.params.get("sysfs_path") or _SYSFS)

    @property
    def left(self) -> float:
        return max(1.0, self.end - time.monotonic())

    def drives(self) -> list[tuple[Drives, str, Drive]]:
        """Each that the profile knows, with its kind and its name in the verdict."""
        return [
            (group, entity, drive)
            for group in self.section.drives
            for entity, drive in zip(group.entities, self.groups[group.name])
        ]


def storage_gate(params: Mapping[str, Any], ctx: Context) -> Result:
    """Look at the drives, measure them, and say what that proves."""
    tests = list(params.get("tests") or [])
    return begin(GATE, params, lambda begun: _look(params, ctx, begun), needs=lambda wanted: section_of(wanted, tests))


def _look(params: Mapping[str, Any], ctx: Context, begun: Begun) -> Result:
    section = section_of(begun.wanted, list(params.get("tests") or []))
    names = ", ".join(speed.name for speed in section.speeds)
    if section.speeds and not ctx.may_write(f"measure {names} with fio", destructive=True):
        return answer(begun.unmeasured(_DRY, "check_mode"))
    found = local(str(params.get("sysfs_path") or _SYSFS))
    end = time.monotonic() + float(params.get("timeout") or 1800)
    look = _Look(params, ctx, section, end, judging.begin(section), judging.grouped(section, found))
    judging.present(look.sheet, section, look.groups)
    before = _health(look)
    # What is broken needs no measurement, and a drive that dies is not worn any further.
    if section.speeds and look.sheet.verdict != FAIL:
        _speeds(look)
        _again(look, before)
    return _told(look, begun, found)


def _health(look: _Look) -> dict[str, Health]:
    """By drive what it says of itself."""
    told = {}
    for group, entity, drive in look.drives():
        argv = [str(look.params.get("nvme") or "nvme"), "smart-log", f"/dev/{drive.name}", "--output-format=json"]
        done = run(argv, timeout=min(_ANSWER_SECONDS, look.left))
        look.runs.append(done)
        record_end(look.sheet, done)
        told[entity] = read(done.text)
        if done.rc and done.stderr:
            look.sheet.unsettled("smart_log", entity, f"{drive.name}: nvme says: {short(done.stderr, 200)}")
        judging.health(look.sheet, group, entity, drive, told[entity])
    return told


def _again(look: _Look, before: Mapping[str, Health]) -> None:
    """What the load has shown."""
    after = _health(look)
    for _group, entity, drive in look.drives():
        judging.grown(look.sheet, entity, drive, before[entity], after[entity])


def _speeds(look: _Look) -> None:
    pci = {"pci_path": os.path.join(look.sysfs, "bus", "pci", "devices")}
    with alone(pci, look.ctx, timeout=look.left) as free:
        if not free:
            look.sheet.unsettled(BUSY, NODE, TEXT)
            return
        _measured(look)


def _measured(look: _Look) -> None:
    wishes = speeds.wishes(look.section, look.groups)
    with opened([str(path) for path in look.params.get("places") or []], look.sysfs) as places:
        for path, problem in places.problems.items():
            look.sheet.unsettled(
                f"place.{path}", NODE, f"{path} is no place to measure at: {problem}", "remediate_config"
            )
        for taken in speeds.measure(wishes, places, str(look.params.get("fio") or "fio"), look.end):
            speeds.judge(look.sheet, taken)
            look.version = look.version or taken.seen.version
            look.runs += [taken.run] if taken.run else []


def _told(look: _Look, begun: Begun, found: Sequence[Drive]) -> Result:
    drives = [drive.as_dict() for drive in found]
    kept = evidence.save(
        look.sheet,
        look.params,
        look.ctx,
        lambda: {"gate": GATE, "drives": drives, "runs": [one.as_evidence() for one in look.runs]},
    )
    parts = [part for one in look.runs for part in one.parts()]
    argv = list(look.runs[0].argv) if look.runs else []
    tool = Tool("fio and nvme" if look.section.speeds else "nvme", look.version, argv)
    return answer(begun.verdict(look.sheet, tool, digest(canonical(drives), *parts)), evidence_path=kept)
